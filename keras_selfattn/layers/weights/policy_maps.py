"""Policies by the path of a layer, `keras.dtype_policies.DTypePolicyMap`, in layers that call parts directly.

A block gives tokens `[N, features]` to `call_tokens` of its attention, past Keras' `__call__`, which casts
inputs and weights to the policy of that path.

Axes: N (tokens).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras
from keras import ops
from keras.src.backend import AutocastScope  # Keras exports no way to read weights in another dtype

Tensor = Any
PolicyMap = keras.dtype_policies.DTypePolicyMap


def has_policy_map(layer: keras.layers.Layer) -> bool:
    """Return True if the layer's policy depends on its path."""
    return isinstance(layer.dtype_policy, PolicyMap)


def own_policy(layer: keras.layers.Layer) -> Any:
    """Return the policy of a layer, which a map has under its path."""
    policy: Any = layer.dtype_policy
    if not has_policy_map(layer):
        return policy
    return policy[layer.path] if layer.path else policy.default_policy


def settle_policy(layer: keras.layers.Layer) -> None:
    """Give a layer its own policy in place of a map: Keras can quantize no layer that has a map."""
    if has_policy_map(layer):
        layer._dtype_policy = own_policy(layer)


def settle_leaves(layer: keras.layers.Layer) -> None:
    """Settle the policies of a layer's innermost parts: of Keras' own, before `quantize`."""
    for each in layer._flatten_layers():
        if not each._layers:
            settle_policy(each)


def call_tokens(layer: Any, x: Tensor, *args: Any) -> Any:
    """Return `layer.call_tokens(x, *args)`, computed in the dtype of the layer's own policy."""
    return call_in_policy(layer, layer.call_tokens, x, *args)


def call_in_policy(layer: Any, method: Callable[..., Any], x: Tensor, *args: Any) -> Any:
    """Return `method(x, *args)` of a layer, computed in the dtype of the layer's own policy."""
    if not has_policy_map(layer):
        return method(x, *args)
    with AutocastScope(layer.compute_dtype):
        return method(ops.cast(x, layer.compute_dtype), *args)


def computing(layer: keras.layers.Layer) -> AbstractContextManager[Any]:
    """Return a context in which weights are read in the dtype of the layer, as in Keras' `__call__`."""
    return AutocastScope(layer.compute_dtype)
