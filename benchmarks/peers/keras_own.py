"""A Transformer block built from Keras' own layers, for any backend; KERAS_BACKEND chooses it.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any

import keras
import numpy as np

from benchmarks.case import EPSILON, FEED_FORWARD, Array, Case
from benchmarks.peers.keras_blocks import Stack

_PARTS = {"query": "query", "key": "key", "value": "value", "attention_output": "context"}


class OwnBlock(keras.layers.Layer):
    """Post-norm: `keras.layers.MultiHeadAttention`, then two `Dense`, as in Keras' own examples.

    Args:
        case: the sizes.

    Call arguments:
        inputs: `[B, T, D]`.
        mask: bool `[B, T]`, True for real tokens.
        training: dropout acts only if True.
    """

    def __init__(self, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        # With a rate, even an unused one, Keras' attention takes no fused kernel.
        rate = case.dropout if case.training else 0.0
        policy = self.dtype_policy
        self._attention = keras.layers.MultiHeadAttention(
            case.heads, case.width // case.heads, dropout=rate, dtype=policy, name="attention"
        )
        self._hidden = keras.layers.Dense(
            FEED_FORWARD * case.width, case.activation, dtype=policy, name="hidden"
        )
        self._back = keras.layers.Dense(case.width, dtype=policy, name="back")
        self._norms = [
            keras.layers.LayerNormalization(epsilon=EPSILON, dtype=policy, name=name)
            for name in ("attention_norm", "feed_forward_norm")
        ]
        self._dropouts = [keras.layers.Dropout(rate, dtype=policy) for _ in self._norms]

    def build(self, input_shape: tuple) -> None:
        self._attention.build(input_shape, input_shape)
        for layer in (self._norms[0], self._hidden, self._norms[1]):
            layer.build(input_shape)
        self._back.build((*input_shape[:-1], self._hidden.units))

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        pairs = None if mask is None else mask[:, None, :]  # [B, 1, T]
        x = self._attention(inputs, inputs, attention_mask=pairs, training=training)
        x = self._norms[0](inputs + self._dropouts[0](x, training=training))
        transformed = self._back(self._hidden(x))
        return self._norms[1](x + self._dropouts[1](transformed, training=training))


def own(case: Case) -> Stack:
    """Return the blocks of a case with its weights."""
    blocks = [OwnBlock(case, dtype=case.dtype, name=f"block_{index}") for index in range(case.layers)]
    return Stack(case, blocks, "mask", _arrays)


def _arrays(blocks: list[dict[str, Array]]) -> dict[str, Array]:
    (block,) = blocks
    found = {
        f"attention/{theirs}/{part}": np.asarray(block[f"{name}_{part}"])
        for theirs, name in _PARTS.items()
        for part in ("kernel", "bias")
    }
    for name in ("hidden", "back"):
        found |= {f"{name}/{part}": block[f"{name}_{part}"] for part in ("kernel", "bias")}
    for name in ("attention", "feed_forward"):
        found |= {f"{name}_norm/{part}": block[f"{name}_{part}"] for part in ("gamma", "beta")}
    return found
