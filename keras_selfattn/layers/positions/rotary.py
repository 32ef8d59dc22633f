"""Rotary positions: queries and keys rotate by their position.

Axes: B (batch), T (positions), H (heads), G (key-value heads), D (features of one head).
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import checked_base
from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.positions.angles import angles, frequencies
from keras_selfattn.layers.positions.strategy import PositionStrategy

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RotaryPositions(PositionStrategy):
    """Rotary position embedding (RoPE): queries and keys rotate by position; logits depend on distances only.

    Feature i of a head and feature i + D/2 form a pair, as in GPT-NeoX, Llama and KerasHub, that rotates by
    `position / base**(2i / D)`. If D is odd, the first D - 1 features rotate and the last one is unchanged.
    Angles are exact to 1e-6 at any position, under every dtype policy; under float64 to 2.3e-16 of the angle.

    Args:
        base: ratio of the longest wavelength to the shortest; 10,000 is the paper's. Longer texts need more.

    Raises:
        ValueError: if `base` is not greater than 1.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> layer = layers.MultiHeadSelfAttention(2, position=RotaryPositions(base=500_000.0))
        >>> tuple(layer(np.ones((1, 3, 8))).shape)
        (1, 3, 8)

    Reference: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.2.
    """

    def __init__(self, base: float = 10000.0) -> None:
        self.base = checked_base(base)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angle = angles(positions, frequencies(2 * half, self.base), wide_dtype(x.dtype))  # [T, D / 2]
        cos, sin = ops.cast(ops.cos(angle), x.dtype), ops.cast(ops.sin(angle), x.dtype)  # [T, D / 2]
        first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        rotated = first * cos - second * sin, second * cos + first * sin  # [B, H or G, T, D / 2]
        return ops.concatenate([*rotated, rest], axis=-1)  # [B, H or G, T, D]

    def get_config(self) -> dict[str, Any]:
        return {"base": self.base}
