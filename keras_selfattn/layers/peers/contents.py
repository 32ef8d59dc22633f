"""The settings and weights that are exchanged, in our form; those of a layer of ours; the refusals.

Axes: D (features), M (features of the memory), H (heads), G (key-value heads), d (features of one head), F
    (features of the hidden layer).
"""

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.encoder_block import BlockBase
from keras_selfattn.layers.norm import EPSILON
from keras_selfattn.layers.weights.low_rank import LowRankUpdates

FLOATS = ("float16", "bfloat16", "float32", "float64")
CROSS = "cross_attention"

_ATTENTION = ("num_heads", "dropout", "use_bias", "qk_norm", "logit_cap")
_SELF_ATTENTION = ("causal", "window", "position")  # attention to a memory has none of them
_BLOCK = ("activation", "feed_forward_dropout", "stochastic_depth", "norm", "norm_first", "attention_norm")
# They change no output after training.
_OF_TRAINING = (
    "dropout",
    "attention_dropout",
    "feed_forward_dropout",
    "stochastic_depth",
    "kernel_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "bias_constraint",
)


@dataclass(frozen=True)
class Contents:
    """Settings and weights that a layer passes on.

    Args:
        settings: arguments of our layer, without defaults that depend on others.
        weights: by their path in our layer, without "attention/" in a block: `query_key_value_kernel`
            `[D, (H + 2 G) d]` and `query_key_value_bias`, `output_kernel` `[H d, D]` and `output_bias`; of a
            block also `feed_forward/hidden/kernel` `[D, F]`, `feed_forward/output/kernel` `[F, D]`, each
            `…/bias`, and `gamma` and `beta` of `attention_norm/…` and `feed_forward_norm/…`, `[D]`. Attention
            to a memory of width M has `query_kernel` `[D, H d]` and `key_value_kernel` `[M, 2 G d]`, each
            `…_bias`, and the output's; in a block of a decoder below "cross_attention/", beside `gamma` and
            `beta` of `cross_attention_norm/…`.
    """

    settings: Mapping[str, Any]
    weights: Mapping[str, np.ndarray]

    @property
    def features(self) -> int:
        """The width D of inputs and outputs."""
        return self.weights["output_kernel"].shape[1]

    @property
    def memory_features(self) -> int | None:
        """The width M of the memory; None of a layer without one."""
        for path in ("key_value_kernel", f"{CROSS}/key_value_kernel"):
            if path in self.weights:
                return self.weights[path].shape[0]
        return None

    @property
    def shapes(self) -> list[tuple[int | None, ...]]:
        """The shapes of inputs, and of a memory if there is one, by which a layer is built."""
        widths = [self.features, self.memory_features]
        return [(None, None, width) for width in widths if width is not None]

    def need(self, peer: str, needed: Mapping[str, Any]) -> None:
        """Raise ConfigError for the first setting that is another one than the peer can have."""
        for name, value in needed.items():
            received = self.settings[name]
            if received != value:
                raise ConfigError(
                    f"`{name}` must be {value!r} in a layer that becomes a {peer}. Received {received!r}. "
                    f"{_next_step(name, value)}"
                )

    def need_plain_attention(self, peer: str) -> None:
        """Raise ConfigError if the attention is another than that of the paper."""
        scale = 1 / math.sqrt(self.settings["head_dim"])
        self.need(peer, {"scale": scale, "position": None, "qk_norm": False, "logit_cap": None})


def contents_of(layer: Any) -> Contents:
    """Return the settings of a layer of ours, and its weights with low-rank updates added."""
    if not layer.built:
        raise ConfigError(
            f"`layer` has no weights yet: call it on inputs, or `build` it. Received {layer.name}, not built."
        )
    weights = _weights(layer)
    settings = {name: getattr(layer, name) for name in _ATTENTION}
    settings |= {name: getattr(layer, name, None) for name in _SELF_ATTENTION}
    head_dim = weights["output_kernel"].shape[0] // layer.num_heads
    usual = 1 / math.sqrt(head_dim)
    settings |= {
        "head_dim": head_dim,
        "num_kv_heads": layer.num_kv_heads or layer.num_heads,
        "scale": usual if layer.scale is None or math.isclose(layer.scale, usual) else layer.scale,
        "dtype": layer.dtype_policy,
        "trainable": layer.trainable,
        **layer.weight_settings.arguments(),
    }
    if isinstance(layer, BlockBase):
        settings |= {name: getattr(layer, name) for name in _BLOCK}
        dropout = layer.dropout if layer.attention_dropout is None else layer.attention_dropout
        settings |= {
            "feed_forward_dim": weights["feed_forward/hidden/kernel"].shape[1],
            "attention_dropout": dropout,
            "norm_epsilon": EPSILON[layer.norm] if layer.norm_epsilon is None else layer.norm_epsilon,
            "gated": layer.gated,
        }
    return Contents(settings, weights)


def assign(layer: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Give a new layer of ours its weights."""
    for path, variable in _variables(layer).items():
        variable.assign(weights[path])


def below(name: str, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights of a part of a layer, by their paths in the part."""
    start = f"{name}/"
    return {path.removeprefix(start): each for path, each in weights.items() if path.startswith(start)}


def within(name: str, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights of a part by their paths in the layer that has it."""
    return {f"{name}/{path}": each for path, each in weights.items()}


def numbers(tensor: Any) -> np.ndarray:
    """Return a copy of the numbers of a tensor or variable of Keras."""
    return np.array(ops.convert_to_numpy(tensor))


def _weights(layer: Any) -> dict[str, np.ndarray]:
    updates = [each for each in layer._flatten_layers() if isinstance(each, LowRankUpdates)]
    factors = {id(factor) for each in updates for factor in each.weights}
    variables = {path: each for path, each in _variables(layer).items() if id(each) not in factors}
    for path, variable in variables.items():
        if variable.dtype not in FLOATS:
            raise ConfigError(
                f"`layer` must have weights of floats. Received {path} of {variable.dtype}: pass the layer "
                "on before it is quantized."
            )
    with ExitStack() as merged:
        for each in updates:
            merged.enter_context(each.merged())
        return {path: numbers(each) for path, each in variables.items()}


def _variables(layer: Any) -> dict[str, Any]:
    start = f"{layer.path}/"
    return {each.path.removeprefix(start).removeprefix("attention/"): each for each in layer.weights}


def _next_step(name: str, value: Any) -> str:
    if name in _OF_TRAINING:
        return f"It acts in training alone: copy the weights to a layer with {name}={value!r}."
    return f"The peer cannot compute the same: export the model instead, or train one with {name}={value!r}."
