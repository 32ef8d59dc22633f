"""Position angles, exact at any position, and the sinusoids made of them.

Axes: T (positions), F (frequencies), D (features).
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from keras import ops

from keras_selfattn.layers.tensorflow import builds_portable_graph

Tensor = Any

_DIGIT_BITS = 8
_DIGITS = 4  # four digits of eight bits hold every int32 position
_RADIANS_PER_STEP = 2 * math.pi / 2**32


def frequencies(width: int, base: float) -> np.ndarray:
    """Return the angles per position, `base**(-2i / width)`, float64 `[ceil(width / 2)]`."""
    return float(base) ** (-np.arange(0, width, 2, dtype=np.float64) / width)


def angles(positions: Tensor, radians_per_position: np.ndarray, dtype: str = "float32") -> Tensor:
    """Return `positions * radians_per_position`: in float32 reduced to [-pi, pi), within 1e-6 absolute.

    In float64 this is the plain product, with a relative error of 2.3e-16: 1e-12 up to position 4,000. In
    float32 the plain product would be wrong by 0.02 at position 1,000,000. So an int32 counts fractions of a
    turn, 2**32 to the turn, and its overflow drops whole turns exactly. Positions are split into digits of
    eight bits: the rounding of a frequency, 2**-33 turns, is then multiplied by 255 at most, not by the
    position.

    Args:
        positions: int32 of any shape.
        radians_per_position: float64 `[F]`.
        dtype: "float64"; any narrower dtype means float32.

    Returns:
        `[..., F]`, radians.
    """
    if dtype == "float64":
        each = ops.convert_to_tensor(radians_per_position, dtype=dtype)  # [F]
        return ops.cast(positions, dtype)[..., None] * each
    turns = radians_per_position / (2 * math.pi)
    total = None
    for digit in range(_DIGITS):
        values = _digit(positions, digit)
        steps = ops.convert_to_tensor(_steps(turns * 2.0 ** (_DIGIT_BITS * digit)), dtype="int32")  # [F]
        part = values[..., None] * steps  # [..., F]
        total = part if total is None else total + part
    return ops.cast(total, "float32") * _RADIANS_PER_STEP


def _digit(positions: Tensor, digit: int) -> Tensor:
    """Return one of the digits of whole numbers, from the lowest on; the last one keeps the sign."""
    last = digit == _DIGITS - 1
    if builds_portable_graph():  # for runtimes without operations on bits
        values = ops.floor_divide(positions, 2 ** (_DIGIT_BITS * digit))
        return values if last else ops.mod(values, 2**_DIGIT_BITS)
    values = ops.right_shift(positions, _DIGIT_BITS * digit)
    return values if last else ops.bitwise_and(values, 2**_DIGIT_BITS - 1)


def sinusoids(positions: Tensor, width: int, base: float, dtype: str = "float32") -> Tensor:
    """Return the sinusoidal encoding of each position, `[..., width]`, as exact as its `angles`.

    Column 2i is `sin(position / base**(2i / width))`, column 2i + 1 the cosine of the same angle; an odd
    width ends with a lone sine.

    Args:
        positions: int32 of any shape.
        width: number of columns D.
        base: ratio of the longest wavelength to the shortest (as D grows).
        dtype: "float64"; any narrower dtype means float32.
    """
    angle = angles(positions, frequencies(width, base), dtype)  # [..., ceil(D / 2)]
    pairs = ops.stack([ops.sin(angle), ops.cos(angle)], axis=-1)  # [..., ceil(D / 2), 2]
    shape: Any = ops.shape(positions)
    table = ops.reshape(pairs, (*shape, 2 * angle.shape[-1]))
    return table[..., :width]


def _steps(turns: np.ndarray) -> np.ndarray:
    """Return turns `[F]` as int32 steps of 2**-32 turns, without whole turns."""
    steps = [round(Fraction(turn) * 2**32) % 2**32 for turn in turns.tolist()]
    return np.array(steps, dtype=np.uint32).view(np.int32)
