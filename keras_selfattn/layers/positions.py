"""Absolute position encodings: sinusoidal and learned.

Axes: B (batch), T (positions), D (features).
"""

import math
from fractions import Fraction
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.checks import checked_count, checked_seed, checked_sequence
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.seeds import split_seed

Tensor = Any

_DIGIT_BITS = 8
_DIGITS = 4  # four digits of eight bits hold every int32 position
_RADIANS_PER_STEP = 2 * math.pi / 2**32


def angles(positions: Tensor, turns_per_position: np.ndarray) -> Tensor:
    """Returns `2 pi * positions * turns_per_position`, reduced to [-pi, pi), within 1e-6 absolute.

    In float32 the plain product is wrong by 0.02 at position 1,000,000. Here an int32 counts fractions of a
    turn, 2**32 to the turn, and overflow drops the whole turns exactly. A position is taken in digits of
    eight bits, so that rounding a frequency to 2**-33 turns is multiplied by 255 at most, not by a position.

    Args:
        positions: int32 `[T]`, not negative.
        turns_per_position: float64 `[F]`, frequencies over 2 pi.

    Returns:
        float32 `[T, F]`, radians.
    """
    steps = [_steps(turns_per_position * 2.0 ** (_DIGIT_BITS * digit)) for digit in range(_DIGITS)]
    total = None
    for digit, table in enumerate(steps):
        values = ops.bitwise_and(ops.right_shift(positions, _DIGIT_BITS * digit), 2**_DIGIT_BITS - 1)  # [T]
        part = values[:, None] * ops.convert_to_tensor(table, dtype="int32")  # [T, F]
        total = part if total is None else total + part
    return ops.cast(total, "float32") * _RADIANS_PER_STEP


def _steps(turns: np.ndarray) -> np.ndarray:
    """Turns `[F]` to int32 steps of 2**-32 turns, whole turns dropped."""
    steps = [round(Fraction(turn) * 2**32) % 2**32 for turn in turns.tolist()]
    return np.array(steps, dtype=np.uint32).view(np.int32)


def sinusoids(positions: Tensor, width: int, base: float) -> Tensor:
    """Returns the sinusoidal encoding of each position, float32 `[T, width]`, exact to 1e-6.

    Column 2i is `sin(position / base**(2i / width))`, column 2i + 1 the cosine of the same angle; an odd
    width ends with a lone sine.

    Args:
        positions: int32 `[T]`, not negative.
        width: number of columns D.
        base: ratio of the longest wavelength to the shortest (as D grows).
    """
    exponents = np.arange(0, width, 2, dtype=np.float64) / width
    angle = angles(positions, float(base) ** -exponents / (2 * math.pi))  # [T, ceil(D / 2)]
    pairs = ops.stack([ops.sin(angle), ops.cos(angle)], axis=-1)  # [T, ceil(D / 2), 2]
    columns = 2 * len(exponents)
    table = ops.reshape(pairs, (ops.shape(positions)[0], columns))
    return table if columns == width else table[:, :width]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Adds the sinusoidal encoding of each position to its features. Keeps the mask.

    Any length and any width; the encoding is exact to 1e-6 up to position 1,000,000 under every dtype policy,
    before the one cast to the compute dtype.

    Args:
        dropout: share in [0, 1] of the sum's elements dropped in training, as the paper does (section 5.4).
        base: ratio of the longest wavelength to the shortest; 10,000 is the paper's.
        seed: int for dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`.
        training: dropout acts only if True.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: for an argument out of range or inputs of another rank.

    Example:

        >>> import numpy as np
        >>> encoded = SinusoidalPositionEncoding()(np.zeros((1, 60, 32), "float32"))
        >>> round(float(encoded[0, 3, 0]), 4)  # sin(3)
        0.1411

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """

    def __init__(
        self, dropout: float = 0.0, base: float = 10000.0, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not base > 1:
            raise ValueError(f"`base` must be greater than 1. Received {base!r}.")
        self.dropout = dropout
        self.base = base
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        self._width = checked_sequence(input_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = ops.cast(inputs, self.compute_dtype)  # integers would cut the encoding to -1, 0 and 1
        positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        encoding = ops.cast(sinusoids(positions, self._width, self.base), inputs.dtype)  # [T, D]
        return self._dropout(inputs + encoding, training=training)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dropout": self.dropout, "base": self.base, "seed": self.seed}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class LearnedPositionEncoding(keras.layers.Layer):
    """Adds a learned vector per position to its features. Keeps the mask.

    Args:
        max_length: number of positions that have a vector; a longer input is an error.
        dropout: share in [0, 1] of the sum's elements dropped in training.
        seed: int for initial weights and dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`, length at most `max_length`.
        training: dropout acts only if True.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: for an argument out of range, or a known length past `max_length`. A length that a
            compiled graph learns only when it runs raises the backend's error with both numbers.

    Weights: position table `[max_length, features]`, normal with deviation 0.02 as in BERT.

    Example:

        >>> import numpy as np
        >>> LearnedPositionEncoding(max_length=7)(np.zeros((2, 5, 3), "float32")).shape
        TensorShape([2, 5, 3])

    Reference: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1.
    """

    def __init__(
        self, max_length: int, dropout: float = 0.0, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = checked_count("max_length", max_length)
        self.dropout = dropout
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        self._table = self.add_weight(
            name="positions",
            shape=(self.max_length, checked_sequence(input_shape)),
            initializer=keras.initializers.RandomNormal(stddev=0.02, seed=split_seed(self.seed, 1)[0]),
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        known = inputs.shape[1]
        if known is not None and known > self.max_length:
            raise ValueError(
                f"The input is longer than `max_length`. Received length {known}, "
                f"max_length={self.max_length}; cut the input or build the layer with a larger max_length."
            )
        inputs = ops.cast(inputs, self.compute_dtype)
        length, width = ops.shape(inputs)[1], self._table.shape[1]
        rows = ops.slice(self._table, (0, 0), (length, width))  # [T, D]
        return self._dropout(inputs + ops.cast(rows, inputs.dtype), training=training)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        config = {"max_length": self.max_length, "dropout": self.dropout, "seed": self.seed}
        return {**super().get_config(), **config}
