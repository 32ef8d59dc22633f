"""PyTorch's modules of attention: their settings and weights in our form, and new ones. Nothing is imported.

Axes: D (features), H (heads), d (features of one head), F (features of the hidden layer).
"""

import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.feed_forward import gelu_tanh
from keras_selfattn.layers.peers.contents import FLOATS, Contents
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

ATTENTION = "torch.nn.MultiheadAttention"
BLOCK = "torch.nn.TransformerEncoderLayer"

# Their names of parameters, by the path of the weight in ours. A matrix of theirs is [outputs, inputs], and
# the rows of `in_proj_weight` are query | key | value, each head-major.
_ATTENTION = {
    "query_key_value_kernel": "in_proj_weight",
    "query_key_value_bias": "in_proj_bias",
    "output_kernel": "out_proj.weight",
    "output_bias": "out_proj.bias",
}
_BLOCK = {
    **{path: f"self_attn.{name}" for path, name in _ATTENTION.items()},
    "feed_forward/hidden/kernel": "linear1.weight",
    "feed_forward/hidden/bias": "linear1.bias",
    "feed_forward/output/kernel": "linear2.weight",
    "feed_forward/output/bias": "linear2.bias",
    "attention_norm/gamma": "norm1.weight",
    "attention_norm/beta": "norm1.bias",
    "feed_forward_norm/gamma": "norm2.weight",
    "feed_forward_norm/beta": "norm2.bias",
}
_CLASSES = {
    "self_attn": "MultiheadAttention",
    "self_attn.out_proj": "NonDynamicallyQuantizableLinear",
    "linear1": "Linear",
    "linear2": "Linear",
    "norm1": "LayerNorm",
    "norm2": "LayerNorm",
}
# Functions by the name that they have in Keras and in `torch.nn.functional`, and the class of their module.
_ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def read_attention(peer: Any) -> Contents:
    """Return the contents of a `torch.nn.MultiheadAttention`."""
    _check_attention(peer)
    dtype, weights = _read(peer, _ATTENTION)
    return Contents({**_attention_settings(peer), "dropout": peer.dropout, "dtype": dtype}, weights)


def read_block(peer: Any) -> Contents:
    """Return the contents of a `torch.nn.TransformerEncoderLayer`."""
    _check_parts(peer)
    _check_attention(peer.self_attn)
    _check_equal("norm1.eps", peer.norm1.eps, "norm2.eps", peer.norm2.eps)
    _check_equal("dropout1.p", peer.dropout1.p, "dropout2.p", peer.dropout2.p)
    activation = _activation_of(peer.activation)
    dtype, weights = _read(peer, _BLOCK)
    return Contents(
        {
            **_attention_settings(peer.self_attn),
            "feed_forward_dim": peer.linear1.out_features,
            "dropout": peer.dropout1.p,
            "attention_dropout": peer.self_attn.dropout,
            "feed_forward_dropout": peer.dropout.p,
            "activation": activation,
            "norm": "layer" if "attention_norm/beta" in weights else "layer_no_shift",
            "norm_first": peer.norm_first,
            "norm_epsilon": peer.norm1.eps,
            "dtype": dtype,
        },
        weights,
    )


def make_attention(kind: Any, contents: Contents) -> Any:
    """Return a new `torch.nn.MultiheadAttention` of these contents, with `batch_first=True`."""
    settings = contents.settings
    _need(contents, ATTENTION)
    peer = kind(
        contents.features,
        settings["num_heads"],
        dropout=settings["dropout"],
        bias=settings["use_bias"],
        batch_first=True,
        dtype=_dtype(contents),
    )
    _assign(peer, _ATTENTION, contents.weights)
    return peer


def make_block(kind: Any, contents: Contents) -> Any:
    """Return a new `torch.nn.TransformerEncoderLayer` of these contents, with `batch_first=True`."""
    settings = contents.settings
    _need(contents, BLOCK)
    norm = "layer" if settings["use_bias"] else "layer_no_shift"  # biases everywhere there, or nowhere
    contents.need(BLOCK, {"norm": norm, "attention_norm": True, "gated": False, "stochastic_depth": 0.0})
    peer = kind(
        contents.features,
        settings["num_heads"],
        settings["feed_forward_dim"],
        settings["dropout"],
        _torch_activation(settings["activation"]),
        layer_norm_eps=settings["norm_epsilon"],
        batch_first=True,
        norm_first=settings["norm_first"],
        bias=settings["use_bias"],
        dtype=_dtype(contents),
    )
    peer.self_attn.dropout = settings["attention_dropout"]
    peer.dropout.p = settings["feed_forward_dropout"]
    _assign(peer, _BLOCK, contents.weights)
    return peer


def _check_parts(peer: Any) -> None:
    for name, kind in _CLASSES.items():
        received = type(peer.get_submodule(name))
        if received.__name__ != kind or not received.__module__.startswith("torch.nn."):
            raise ConfigError(
                f"`{name}` of `peer` must be a {kind} of torch.nn, as the layer makes it. Received "
                f"{received.__module__}.{received.__name__}: merge what was added to it first."
            )


def _check_attention(attention: Any) -> None:
    for name, received in (("kdim", attention.kdim), ("vdim", attention.vdim)):
        if received != attention.embed_dim:
            raise ConfigError(
                f"`{name}` of `peer` must be its `embed_dim`, {attention.embed_dim}: queries, keys and "
                f"values are of one sequence here. Received {received}. Keep PyTorch's module."
            )
    for name, received in (
        ("add_bias_kv", attention.bias_k is not None),
        ("add_zero_attn", attention.add_zero_attn),
    ):
        if received:
            raise ConfigError(
                f"`{name}` of `peer` must be False: here keys are those of tokens alone. Received True. Keep "
                "PyTorch's module."
            )


def _check_equal(name: str, received: float, other_name: str, other: float) -> None:
    if received != other:
        raise ConfigError(
            f"`{name}` and `{other_name}` of `peer` must be equal: a block has one for both. "
            f"Received {received} and {other}."
        )


def _attention_settings(attention: Any) -> dict[str, Any]:
    return {
        "num_heads": attention.num_heads,
        "head_dim": attention.head_dim,
        "use_bias": attention.in_proj_bias is not None,
    }


def _read(peer: Any, names: Mapping[str, str]) -> tuple[str, dict[str, np.ndarray]]:
    """Return the dtype of a module's parameters, and the weights by their path in ours."""
    parameters = dict(peer.named_parameters())
    allowed = [set(names.values()), {name for name in names.values() if not name.endswith("bias")}]
    if set(parameters) not in allowed:
        odd = sorted(set(parameters) ^ allowed["bias" not in "".join(parameters)])
        raise ConfigError(
            "`peer` must have the parameters that its class makes, with all biases or none: merge what was "
            f"added to it first. Received others, or not these: {', '.join(odd)}."
        )
    dtypes = sorted({str(each.dtype).removeprefix("torch.") for each in parameters.values()})
    if len(dtypes) > 1 or dtypes[0] not in FLOATS:
        raise ConfigError(
            f"`peer` must have parameters of one dtype, {', '.join(FLOATS)}: convert it first, for example "
            f"by `peer.float()`. Received {', '.join(dtypes)}."
        )
    found = {path: _numbers(parameters[name]).T for path, name in names.items() if name in parameters}
    return dtypes[0], found


def _numbers(parameter: Any) -> np.ndarray:
    tensor = parameter.detach().cpu()
    is_bfloat16 = str(tensor.dtype) == "torch.bfloat16"  # unknown to NumPy
    return np.array((tensor.float() if is_bfloat16 else tensor).numpy())


def _assign(peer: Any, names: Mapping[str, str], weights: Mapping[str, np.ndarray]) -> None:
    parameters = dict(peer.named_parameters())
    for path, value in weights.items():
        parameter = parameters[names[path]]
        known = value.astype("float32") if value.dtype.name == "bfloat16" else value
        parameter.data.copy_(parameter.new_tensor(np.ascontiguousarray(known.T)))


def _need(contents: Contents, peer: str) -> None:
    """Raise ConfigError if the attention is none that PyTorch has."""
    heads, features = contents.settings["num_heads"], contents.features
    contents.need_plain_attention(peer)
    head_dim = features / heads if features % heads else features // heads
    contents.need(peer, {"num_kv_heads": heads, "head_dim": head_dim, "window": None})
    contents.need(peer, {name: None for name in WEIGHT_SETTINGS if not name.endswith("initializer")})


def _dtype(contents: Contents) -> Any:
    return getattr(sys.modules["torch"], contents.settings["dtype"].variable_dtype)


def _activation_of(activation: Any) -> Any:
    """Return the function of Keras, or ours, that computes as one of PyTorch does."""
    torch = sys.modules["torch"]
    for name, module in _ACTIVATIONS.items():
        functions = (getattr(place, name, None) for place in (torch.nn.functional, torch))
        if any(activation is function for function in functions):
            return getattr(keras.activations, name)
        if type(activation) is getattr(torch.nn, module):
            approximate = getattr(activation, "approximate", "none") == "tanh"
            return gelu_tanh if approximate else getattr(keras.activations, name)
    known = ", ".join(f"torch.nn.{module}" for module in _ACTIVATIONS.values())
    raise ConfigError(
        f"`activation` of `peer` must be one of {known}, or their functions. Received {activation!r}. "
        "Make an EncoderBlock with an activation of your own, and copy the weights into it."
    )


def _torch_activation(activation: Any) -> Any:
    torch = sys.modules["torch"]
    if activation is gelu_tanh:
        return torch.nn.GELU(approximate="tanh")
    for name, module in _ACTIVATIONS.items():
        if activation is getattr(keras.activations, name):
            # With the functions of these two the module takes its fast path.
            return name if name in ("relu", "gelu") else getattr(torch.nn, module)()
    raise ConfigError(
        f"`activation` must be {', '.join(map(repr, _ACTIVATIONS))} in a layer that becomes a {BLOCK}. "
        f"Received {activation!r}. Export the model instead, or write the module yourself."
    )
