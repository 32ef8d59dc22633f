"""PyTorch's modules of attention: their settings and weights in our form, and new ones. Nothing is imported.

Axes: D (features), H (heads), d (features of one head), F (features of the hidden layer).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.feed_forward import gelu_tanh
from keras_selfattn.layers.peers.contents import CROSS, FLOATS, Contents, below, within
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

ATTENTION = "torch.nn.MultiheadAttention"
BLOCK = "torch.nn.TransformerEncoderLayer"
DECODER_BLOCK = "torch.nn.TransformerDecoderLayer"

_Weights = Mapping[str, np.ndarray]

# Their names of parameters, by the path of the weight in ours. A matrix of theirs is [outputs, inputs], and
# the rows of `in_proj_weight` are query | key | value, each head-major.
_ATTENTION = {
    "query_key_value_kernel": "in_proj_weight",
    "query_key_value_bias": "in_proj_bias",
    "output_kernel": "out_proj.weight",
    "output_bias": "out_proj.bias",
}
# Keys and values of another width than queries have matrices of their own.
_APART = {
    "query_kernel": "q_proj_weight",
    "key_kernel": "k_proj_weight",
    "value_kernel": "v_proj_weight",
    **{path: name for path, name in _ATTENTION.items() if path != "query_key_value_kernel"},
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
_DECODER_BLOCK = {
    **_BLOCK,
    **{f"{CROSS}/{path}": f"multihead_attn.{name}" for path, name in _ATTENTION.items()},
    f"{CROSS}_norm/gamma": "norm2.weight",
    f"{CROSS}_norm/beta": "norm2.bias",
    "feed_forward_norm/gamma": "norm3.weight",
    "feed_forward_norm/beta": "norm3.bias",
}
_DECODER_CLASSES = {
    **_CLASSES,
    "multihead_attn": "MultiheadAttention",
    "multihead_attn.out_proj": "NonDynamicallyQuantizableLinear",
    "norm3": "LayerNorm",
}
# Functions by the name that they have in Keras and in `torch.nn.functional`, and the class of their module.
_ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def read_attention(peer: Any, of_memory: bool = False) -> Contents:
    """Return the contents of a `torch.nn.MultiheadAttention`, with `of_memory` of one to a memory."""
    _check_attention(peer, of_memory)
    dtype, weights = _read(peer, _names(peer))
    weights = _of_memory(weights) if of_memory else weights
    return Contents({**_attention_settings(peer), "dropout": peer.dropout, "dtype": dtype}, weights)


def read_block(peer: Any) -> Contents:
    """Return the contents of a `torch.nn.TransformerEncoderLayer`."""
    return _read_block(peer, _BLOCK, _CLASSES)


def read_decoder_block(peer: Any) -> Contents:
    """Return the contents of a `torch.nn.TransformerDecoderLayer`."""
    found = _read_block(peer, _DECODER_BLOCK, _DECODER_CLASSES)
    return replace(found, weights=_with_memory(found.weights, _of_memory))


def _read_block(peer: Any, names: Mapping[str, str], classes: Mapping[str, str]) -> Contents:
    _check_parts(peer, classes)
    attentions = [name for name, kind in classes.items() if kind == "MultiheadAttention"]
    for name in attentions:
        _check_attention(getattr(peer, name))
    for name in ("num_heads", "dropout"):
        _check_equal(peer, [f"{attention}.{name}" for attention in attentions])
    norms = [name for name, kind in classes.items() if kind == "LayerNorm"]
    _check_equal(peer, [f"{name}.eps" for name in norms])
    _check_equal(peer, [f"{name.replace('norm', 'dropout')}.p" for name in norms])
    activation = _activation_of(peer.activation)
    dtype, weights = _read(peer, names)
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
    settings, memory = contents.settings, contents.memory_features
    _need(contents, ATTENTION)
    peer = kind(
        contents.features,
        settings["num_heads"],
        dropout=settings["dropout"],
        bias=settings["use_bias"],
        kdim=memory,
        vdim=memory,
        batch_first=True,
        dtype=_dtype(contents),
    )
    weights = contents.weights if memory is None else _as_theirs(contents.weights)
    _assign(peer, _names(peer), weights)
    return peer


def make_block(kind: Any, contents: Contents) -> Any:
    """Return a new `torch.nn.TransformerEncoderLayer` of these contents, with `batch_first=True`."""
    peer = _make_block(kind, contents, BLOCK)
    _assign(peer, _BLOCK, contents.weights)
    return peer


def make_decoder_block(kind: Any, contents: Contents) -> Any:
    """Return a new `torch.nn.TransformerDecoderLayer` of these contents, with `batch_first=True`."""
    memory, width = contents.memory_features, contents.features
    if memory != width:
        raise ConfigError(
            f"`layer` must be built with a memory of its own width, {width}, to become a {DECODER_BLOCK}. "
            f"Received {'none' if memory is None else f'one of width {memory}'}. Give "
            "keras_hub.layers.TransformerDecoder instead."
        )
    peer = _make_block(kind, contents, DECODER_BLOCK)
    peer.multihead_attn.dropout = contents.settings["attention_dropout"]
    _assign(peer, _DECODER_BLOCK, _with_memory(contents.weights, _as_theirs))
    return peer


def _make_block(kind: Any, contents: Contents, name: str) -> Any:
    settings = contents.settings
    _need(contents, name)
    norm = "layer" if settings["use_bias"] else "layer_no_shift"  # biases everywhere there, or nowhere
    contents.need(name, {"norm": norm, "attention_norm": True, "gated": False, "stochastic_depth": 0.0})
    peer = kind(
        contents.features,
        settings["num_heads"],
        settings["feed_forward_dim"],
        settings["dropout"],
        _torch_activation(settings["activation"], name),
        layer_norm_eps=settings["norm_epsilon"],
        batch_first=True,
        norm_first=settings["norm_first"],
        bias=settings["use_bias"],
        dtype=_dtype(contents),
    )
    peer.self_attn.dropout = settings["attention_dropout"]
    peer.dropout.p = settings["feed_forward_dropout"]
    return peer


def _check_parts(peer: Any, classes: Mapping[str, str]) -> None:
    for name, kind in classes.items():
        received = type(peer.get_submodule(name))
        if received.__name__ != kind or not received.__module__.startswith("torch.nn."):
            raise ConfigError(
                f"`{name}` of `peer` must be a {kind} of torch.nn, as the layer makes it. Received "
                f"{received.__module__}.{received.__name__}: merge what was added to it first."
            )


def _check_attention(attention: Any, of_memory: bool = False) -> None:
    if of_memory:
        _check_equal(attention, ["kdim", "vdim"])
    for name, received in (("kdim", attention.kdim), ("vdim", attention.vdim)):
        if received != attention.embed_dim and not of_memory:
            raise ConfigError(
                f"`{name}` of `peer` must be its `embed_dim`, {attention.embed_dim}, in self-attention and "
                f"in blocks. Received {received}. A module for attention to another sequence is read with "
                "`kind=layers.MultiHeadCrossAttention`."
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


def _check_equal(peer: Any, names: Sequence[str]) -> None:
    """Raise ConfigError for the first of these settings that is another one than the first."""
    first, *others = ((name, attrgetter(name)(peer)) for name in names)
    for name, received in others:
        if received != first[1]:
            raise ConfigError(
                f"`{first[0]}` and `{name}` of `peer` must be equal: here one setting is for both. "
                f"Received {first[1]} and {received}."
            )


def _attention_settings(attention: Any) -> dict[str, Any]:
    return {
        "num_heads": attention.num_heads,
        "head_dim": attention.head_dim,
        "use_bias": attention.in_proj_bias is not None,
    }


def _names(attention: Any) -> dict[str, str]:
    return _APART if attention.in_proj_weight is None else _ATTENTION


def _with_memory(weights: _Weights, convert: Callable[[_Weights], _Weights]) -> dict[str, np.ndarray]:
    """Return the weights of a block with those of its attention to a memory converted."""
    others = {path: each for path, each in weights.items() if not path.startswith(f"{CROSS}/")}
    return {**others, **within(CROSS, convert(below(CROSS, weights)))}


def _of_memory(weights: _Weights) -> dict[str, np.ndarray]:
    """Return the weights of attention to a memory as ours are: query, and key | value."""
    found, width = dict(weights), weights["output_kernel"].shape[0]
    if "key_kernel" in found:
        found["key_value_kernel"] = np.concatenate(
            [found.pop("key_kernel"), found.pop("value_kernel")], axis=1
        )
    for of in ("kernel", "bias"):
        fused = found.pop(f"query_key_value_{of}", None)
        if fused is not None:
            found |= {f"query_{of}": fused[..., :width], f"key_value_{of}": fused[..., width:]}
    return found


def _as_theirs(weights: _Weights) -> dict[str, np.ndarray]:
    """Return the weights of attention to a memory as PyTorch's are: one matrix, if widths are equal."""
    found = dict(weights)
    if "query_bias" in found:
        biases = [found.pop("query_bias"), found.pop("key_value_bias")]
        found["query_key_value_bias"] = np.concatenate(biases)
    if found["query_kernel"].shape[0] != found["key_value_kernel"].shape[0]:
        found["key_kernel"], found["value_kernel"] = np.split(found.pop("key_value_kernel"), 2, axis=1)
        return found
    kernels = [found.pop("query_kernel"), found.pop("key_value_kernel")]
    return {**found, "query_key_value_kernel": np.concatenate(kernels, axis=1)}


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
        "Make a block of ours with an activation of your own, and copy the weights into it."
    )


def _torch_activation(activation: Any, peer: str) -> Any:
    torch = sys.modules["torch"]
    if activation is gelu_tanh:
        return torch.nn.GELU(approximate="tanh")
    for name, module in _ACTIVATIONS.items():
        if activation is getattr(keras.activations, name):
            # With the functions of these two the module takes its fast path.
            return name if name in ("relu", "gelu") else getattr(torch.nn, module)()
    raise ConfigError(
        f"`activation` must be {', '.join(map(repr, _ACTIVATIONS))} in a layer that becomes a {peer}. "
        f"Received {activation!r}. Export the model instead, or write the module yourself."
    )
