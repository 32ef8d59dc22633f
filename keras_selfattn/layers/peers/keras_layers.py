"""Keras' layers of attention and KerasHub's block: their settings and weights in our form, and new ones.

Axes: D (features), H (heads), G (key-value heads), d (features of one head).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.feed_forward import gelu_tanh
from keras_selfattn.layers.peers.contents import Contents, numbers
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

MULTI_HEAD = "keras.layers.MultiHeadAttention"
GROUPED = "keras.layers.GroupQueryAttention"
BLOCK = "keras_hub.layers.TransformerEncoder"

_PROJECTIONS = ("query", "key", "value", "output")
# Layers of KerasHub's block, by their path in ours, and the names of their weights.
_PARTS = {
    "feed_forward/hidden": ("_feedforward_intermediate_dense", ("kernel", "bias")),
    "feed_forward/output": ("_feedforward_output_dense", ("kernel", "bias")),
    "attention_norm": ("_self_attention_layer_norm", ("gamma", "beta")),
    "feed_forward_norm": ("_feedforward_layer_norm", ("gamma", "beta")),
}
_INITIALIZERS = ("kernel_initializer", "bias_initializer")
_UNKNOWN_TO_BLOCK = [name for name in WEIGHT_SETTINGS if name not in _INITIALIZERS]


def read_multi_head(peer: Any) -> Contents:
    """Return the contents of a `keras.layers.MultiHeadAttention`."""
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
            "window": _window(getattr(peer, "_sliding_window", None)),
            **_settings(peer, lambda name: getattr(peer, f"_{name}")),
        },
        _read_attention(peer, getattr(peer, "_use_gate", False)),
    )


def read_grouped(peer: Any) -> Contents:
    """Return the contents of a `keras.layers.GroupQueryAttention`."""
    _check_built(peer)
    return Contents(
        {
            "num_heads": peer.num_query_heads,
            "num_kv_heads": peer.num_key_value_heads,
            "head_dim": peer.head_dim,
            "dropout": peer.dropout,
            "use_bias": peer.use_bias,
            "window": _window(getattr(peer, "sliding_window", None)),
            **_settings(peer, lambda name: getattr(peer, name)),
        },
        _read_attention(peer, getattr(peer, "use_gate", False)),
    )


def read_block(peer: Any) -> Contents:
    """Return the contents of a `keras_hub.layers.TransformerEncoder`."""
    _check_built(peer)
    attention = read_multi_head(peer._self_attention_layer)
    weights = dict(attention.weights)
    for path, (name, parts) in _PARTS.items():
        layer = getattr(peer, name)
        _check_floats(layer)
        weights |= {f"{path}/{part}": numbers(getattr(layer, part)) for part in parts}
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
    settings = contents.settings
    contents.need_plain_attention(BLOCK)
    needed = {"num_kv_heads": settings["num_heads"], "head_dim": contents.features // settings["num_heads"]}
    needed |= {"window": None, "use_bias": True, "norm": "layer", "attention_norm": True, "gated": False}
    needed |= {"attention_dropout": settings["dropout"], "feed_forward_dropout": 0.0, "stochastic_depth": 0.0}
    contents.need(BLOCK, needed | dict.fromkeys(_UNKNOWN_TO_BLOCK))
    peer = kind(
        settings["feed_forward_dim"],
        settings["num_heads"],
        dropout=settings["dropout"],
        activation=settings["activation"],
        layer_norm_epsilon=settings["norm_epsilon"],
        normalize_first=settings["norm_first"],
        dtype=settings["dtype"],
        trainable=settings["trainable"],
        **{name: settings[name] for name in _INITIALIZERS},
    )
    peer.build((None, None, contents.features))
    _assign_attention(peer._self_attention_layer, contents.weights)
    for path, (name, parts) in _PARTS.items():
        getattr(peer, name).set_weights([contents.weights[f"{path}/{part}"] for part in parts])
    return peer


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


def _window(sliding_window: int | None) -> int | None:
    return None if sliding_window is None else sliding_window - 1


def _read_attention(peer: Any, use_gate: bool) -> dict[str, np.ndarray]:
    _check("use_gate", use_gate, [False], "attention has no gate here; keep Keras' layer")
    query, key, value, output = (_read_dense(dense) for dense in _projections(peer))
    widths = [each["kernel"].shape[0] for each in (query, key, value)]  # each kernel is [D, H or G, d]
    if len(set(widths)) > 1:
        raise ConfigError(
            "`peer` must make queries, keys and values of one sequence: attention to another one is Keras' "
            f"own layer. Received kernels for widths {', '.join(map(str, widths))}."
        )
    flat = [each["kernel"].reshape(widths[0], -1) for each in (query, key, value)]
    weights = {
        "query_key_value_kernel": np.concatenate(flat, axis=1),
        "output_kernel": output["kernel"].reshape(-1, output["kernel"].shape[-1]),
    }
    if "bias" in query:
        biases = [each["bias"].reshape(-1) for each in (query, key, value)]
        weights |= {"query_key_value_bias": np.concatenate(biases), "output_bias": output["bias"]}
    return weights


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
    shape = (None, None, contents.features)
    peer.build(shape, shape)
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
    fused = weights[f"query_key_value_{of}"]
    return [*np.split(fused, np.cumsum(widths)[:-1], axis=-1), weights[f"output_{of}"]]
