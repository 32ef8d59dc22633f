"""Keras' layers of attention and KerasHub's blocks: their settings and weights in our form, and new ones.

Axes: D (features), H (heads), G (key-value heads), d (features of one head).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.feed_forward import gelu_tanh
from keras_selfattn.layers.peers.contents import CROSS, Contents, below, numbers, within
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

MULTI_HEAD = "keras.layers.MultiHeadAttention"
GROUPED = "keras.layers.GroupQueryAttention"
BLOCK = "keras_hub.layers.TransformerEncoder"
DECODER_BLOCK = "keras_hub.layers.TransformerDecoder"

_Parts = Mapping[str, tuple[str, tuple[str, ...]]]
_PROJECTIONS = ("query", "key", "value", "output")
# Layers of KerasHub's blocks, by their path in ours, and the names of their weights.
_PARTS = {
    "feed_forward/hidden": ("_feedforward_intermediate_dense", ("kernel", "bias")),
    "feed_forward/output": ("_feedforward_output_dense", ("kernel", "bias")),
    "attention_norm": ("_self_attention_layer_norm", ("gamma", "beta")),
    "feed_forward_norm": ("_feedforward_layer_norm", ("gamma", "beta")),
}
_CROSS_PARTS = {f"{CROSS}_norm": ("_cross_attention_layer_norm", ("gamma", "beta"))}
_INITIALIZERS = ("kernel_initializer", "bias_initializer")
_UNKNOWN_TO_BLOCK = [name for name in WEIGHT_SETTINGS if name not in _INITIALIZERS]


def read_multi_head(peer: Any, of_memory: bool = False) -> Contents:
    """Return the contents of a `keras.layers.MultiHeadAttention`, with `of_memory` of one to a memory."""
    _check_built(peer)
    key_dim, axes, features = peer.key_dim, peer.attention_axes, peer.query_dense.kernel.shape[0]
    _check("value_dim", peer.value_dim, [key_dim], f"here queries, keys and values have one width, {key_dim}")
    _check("attention_axes", axes, [(1,)], "make the layer for inputs [batch, length, features]")
    _check(
        "output_shape", peer._output_shape, [None, (features,)], "a Dense layer after it changes the width"
    )
    return Contents(
        {
            "num_heads": peer.num_heads,
            "head_dim": peer.key_dim,
            "dropout": peer.dropout,
            "use_bias": peer.use_bias,
            **_window(getattr(peer, "_sliding_window", None), of_memory),
            **_settings(peer, lambda name: getattr(peer, f"_{name}")),
        },
        _read_attention(peer, getattr(peer, "_use_gate", False), of_memory),
    )


def read_grouped(peer: Any, of_memory: bool = False) -> Contents:
    """Return the contents of a `keras.layers.GroupQueryAttention`."""
    _check_built(peer)
    return Contents(
        {
            "num_heads": peer.num_query_heads,
            "num_kv_heads": peer.num_key_value_heads,
            "head_dim": peer.head_dim,
            "dropout": peer.dropout,
            "use_bias": peer.use_bias,
            **_window(getattr(peer, "sliding_window", None), of_memory),
            **_settings(peer, lambda name: getattr(peer, name)),
        },
        _read_attention(peer, getattr(peer, "use_gate", False), of_memory),
    )


def read_block(peer: Any) -> Contents:
    """Return the contents of a `keras_hub.layers.TransformerEncoder`."""
    _check_built(peer)
    attention = read_multi_head(peer._self_attention_layer)
    weights = {**attention.weights, **_read_parts(peer, _PARTS)}
    return Contents(
        {
            "num_heads": peer.num_heads,
            "head_dim": attention.settings["head_dim"],
            "feed_forward_dim": peer.intermediate_dim,
            "dropout": float(peer.dropout),
            "activation": _activation(peer.activation),
            "norm_first": peer.normalize_first,
            "norm_epsilon": peer.layer_norm_epsilon,
            **{name: getattr(peer, name) for name in _INITIALIZERS},
            "dtype": peer.dtype_policy,
            "trainable": peer.trainable,
        },
        weights,
    )


def read_decoder_block(peer: Any) -> Contents:
    """Return the contents of a `keras_hub.layers.TransformerDecoder`, built with a memory or without."""
    found, attention = read_block(peer), peer._cross_attention_layer
    if attention is None:
        return found
    of_memory = within(CROSS, read_multi_head(attention, of_memory=True).weights)
    return replace(found, weights={**found.weights, **of_memory, **_read_parts(peer, _CROSS_PARTS)})


def make_multi_head(kind: Any, contents: Contents) -> Any:
    """Return a new `keras.layers.MultiHeadAttention` of these contents."""
    settings = contents.settings
    if settings["num_kv_heads"] != settings["num_heads"]:
        raise ConfigError(
            f"`num_kv_heads` must be `num_heads`, {settings['num_heads']}, in a layer that becomes a "
            f"{MULTI_HEAD}. Received {settings['num_kv_heads']}. Give {GROUPED} instead."
        )
    contents.need_plain_attention(MULTI_HEAD)
    heads = {"num_heads": settings["num_heads"], "key_dim": settings["head_dim"]}
    return _make_attention(kind, contents, heads, MULTI_HEAD)


def make_grouped(kind: Any, contents: Contents) -> Any:
    """Return a new `keras.layers.GroupQueryAttention` of these contents."""
    settings = contents.settings
    contents.need_plain_attention(GROUPED)
    heads = {
        "num_query_heads": settings["num_heads"],
        "num_key_value_heads": settings["num_kv_heads"],
        "head_dim": settings["head_dim"],
    }
    return _make_attention(kind, contents, heads, GROUPED)


def make_block(kind: Any, contents: Contents) -> Any:
    """Return a new `keras_hub.layers.TransformerEncoder` of these contents."""
    return _make_block(kind, contents, BLOCK)


def make_decoder_block(kind: Any, contents: Contents) -> Any:
    """Return a new `keras_hub.layers.TransformerDecoder` of these contents, with a memory or without."""
    peer = _make_block(kind, contents, DECODER_BLOCK)
    if contents.memory_features is not None:
        _assign_attention(peer._cross_attention_layer, below(CROSS, contents.weights))
        _assign_parts(peer, _CROSS_PARTS, contents.weights)
    return peer


def _make_block(kind: Any, contents: Contents, name: str) -> Any:
    settings = contents.settings
    contents.need_plain_attention(name)
    needed = {"num_kv_heads": settings["num_heads"], "head_dim": contents.features // settings["num_heads"]}
    needed |= {"window": None, "use_bias": True, "norm": "layer", "attention_norm": True, "gated": False}
    needed |= {"attention_dropout": settings["dropout"], "feed_forward_dropout": 0.0, "stochastic_depth": 0.0}
    contents.need(name, needed | dict.fromkeys(_UNKNOWN_TO_BLOCK))
    peer = kind(
        settings["feed_forward_dim"],
        settings["num_heads"],
        dropout=settings["dropout"],
        activation=settings["activation"],
        layer_norm_epsilon=settings["norm_epsilon"],
        normalize_first=settings["norm_first"],
        dtype=settings["dtype"],
        trainable=settings["trainable"],
        **{each: settings[each] for each in _INITIALIZERS},
    )
    peer.build(*contents.shapes)
    _assign_attention(peer._self_attention_layer, contents.weights)
    _assign_parts(peer, _PARTS, contents.weights)
    return peer


def _read_parts(peer: Any, parts: _Parts) -> dict[str, np.ndarray]:
    weights = {}
    for path, (name, of_part) in parts.items():
        layer = getattr(peer, name)
        _check_floats(layer)
        weights |= {f"{path}/{each}": numbers(getattr(layer, each)) for each in of_part}
    return weights


def _assign_parts(peer: Any, parts: _Parts, weights: Mapping[str, np.ndarray]) -> None:
    for path, (name, of_part) in parts.items():
        getattr(peer, name).set_weights([weights[f"{path}/{each}"] for each in of_part])


def _check_built(peer: Any) -> None:
    if not peer.built:
        raise ConfigError(
            f"`peer` has no weights yet: call it on inputs, or `build` it. Received {peer.name}, not built."
        )


def _check(name: str, received: Any, allowed: list[Any], step: str) -> None:
    if received not in allowed:
        raise ConfigError(
            f"`{name}` of `peer` must be {' or '.join(map(repr, allowed))}: {step}. Received {received!r}."
        )


def _check_floats(layer: Any) -> None:
    mode = getattr(layer, "quantization_mode", None)
    _check("quantization_mode", mode, [None], f"read {layer.name} before it is quantized")


def _activation(activation: Any) -> Any:
    """Return ours for KerasHub's approximation of GELU: a file with it loads without KerasHub."""
    named = getattr(activation, "__name__", "") == "gelu_approximate"
    of_hub = getattr(activation, "__module__", "").startswith("keras_hub.")
    return gelu_tanh if named and of_hub else activation


def _settings(peer: Any, of: Callable[[str], Any]) -> dict[str, Any]:
    own = {name: of(name) for name in WEIGHT_SETTINGS}
    return {**own, "dtype": peer.dtype_policy, "trainable": peer.trainable}


def _window(sliding_window: int | None, of_memory: bool) -> dict[str, Any]:
    if not of_memory:
        return {"window": None if sliding_window is None else sliding_window - 1}
    step = "here a query has no distance to tokens of another sequence"
    _check("sliding_window", sliding_window, [None], step)
    return {}


def _read_attention(peer: Any, use_gate: bool, of_memory: bool) -> dict[str, np.ndarray]:
    _check("use_gate", use_gate, [False], "attention has no gate here; keep Keras' layer")
    query, key, value, output = (_read_dense(dense) for dense in _projections(peer))
    widths = [each["kernel"].shape[0] for each in (query, key, value)]  # each kernel is [D, H or G, d]
    _check_widths(widths, of_memory)
    flat = [each["kernel"].reshape(each["kernel"].shape[0], -1) for each in (query, key, value)]
    weights = _joined("kernel", flat, of_memory)
    weights["output_kernel"] = output["kernel"].reshape(-1, output["kernel"].shape[-1])
    if "bias" in query:
        biases = [each["bias"].reshape(-1) for each in (query, key, value)]
        weights |= _joined("bias", biases, of_memory) | {"output_bias": output["bias"]}
    return weights


def _check_widths(widths: list[int], of_memory: bool) -> None:
    """Raise ConfigError unless the sequences are one, or with `of_memory` keys and values are of one."""
    if len(set(widths[1:] if of_memory else widths)) > 1:
        whose, step = "queries, keys and values", "Give `kind=layers.MultiHeadCrossAttention` to `from_peer`"
        if of_memory:
            whose, step = "keys and values", "Keep Keras' layer"
        raise ConfigError(
            f"`peer` must make {whose} of one sequence. Received kernels for widths "
            f"{', '.join(map(str, widths))}. {step}."
        )


def _joined(of: str, parts: list[np.ndarray], of_memory: bool) -> dict[str, np.ndarray]:
    """Return the kernels, or biases, of query, key and value as ours are."""
    if not of_memory:
        return {f"query_key_value_{of}": np.concatenate(parts, axis=-1)}
    return {f"query_{of}": parts[0], f"key_value_{of}": np.concatenate(parts[1:], axis=-1)}


def _read_dense(dense: Any) -> dict[str, np.ndarray]:
    """Return kernel and bias; a kernel with Keras' LoRA has its update added."""
    _check_floats(dense)
    kernel = {"kernel": numbers(dense.kernel)}
    return kernel if dense.bias is None else {**kernel, "bias": numbers(dense.bias)}


def _projections(peer: Any) -> list[Any]:
    return [getattr(peer, f"_{name}_dense") for name in _PROJECTIONS]


def _make_attention(kind: Any, contents: Contents, heads: Mapping[str, int], name: str) -> Any:
    settings = contents.settings
    reach = _sliding_window(settings, name)
    peer = kind(
        **heads,
        dropout=settings["dropout"],
        use_bias=settings["use_bias"],
        dtype=settings["dtype"],
        trainable=settings["trainable"],
        **({} if reach is None else {"sliding_window": reach}),  # which Keras has of late
        **{name: settings[name] for name in WEIGHT_SETTINGS},
    )
    peer.build(contents.shapes[0], contents.shapes[-1])
    _assign_attention(peer, contents.weights)
    return peer


def _sliding_window(settings: Mapping[str, Any], peer: str) -> int | None:
    window = settings["window"]
    if window is None:
        return None
    left, right = window if isinstance(window, tuple) else (window, window)
    if left != right and not settings["causal"]:
        raise ConfigError(
            f"`window` must reach as far to the left as to the right in a layer that becomes a {peer}. "
            f"Received {window!r}. Keep this layer, or train one with such a window."
        )
    return left + 1


def _assign_attention(peer: Any, weights: Mapping[str, np.ndarray]) -> None:
    projections = _projections(peer)
    kernels, biases = _parts(weights, "kernel", projections), []
    if "output_bias" in weights:
        biases = _parts(weights, "bias", projections)
    for place, projection in enumerate(projections):
        values = [part[place] for part in (kernels, biases) if part]
        shapes = [variable.shape for variable in projection.weights]
        reshaped = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
        projection.set_weights(reshaped)


def _parts(weights: Mapping[str, np.ndarray], of: str, projections: list[Any]) -> list[np.ndarray]:
    """Return the kernel, or bias, of each projection."""
    widths = [int(np.prod(projection.kernel.shape[1:])) for projection in projections[:-1]]
    first, fused = [], weights.get(f"query_key_value_{of}")
    if fused is None:  # of a memory
        first, widths, fused = [weights[f"query_{of}"]], widths[1:], weights[f"key_value_{of}"]
    return [*first, *np.split(fused, np.cumsum(widths)[:-1], axis=-1), weights[f"output_{of}"]]
