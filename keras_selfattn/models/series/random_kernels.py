"""Random kernels of a convolution, drawn from a seed, by dilation.

Axes: B (batch), T (frames), F (features of a frame), K (kernels of a dilation).
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

Tensor = Any

# Frames of a kernel.
TAPS = 9
# Dilations are rounded down to these, so that kernels of one dilation share their product.
_DILATIONS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024])


class Bank(NamedTuple):
    """Kernels of one dilation.

    Args:
        kernels: float32 `[9 F, K]`, of mean 0 in each feature.
        biases: float32 `[K]`.
        anywhere: True for a kernel that applies at every frame, with zeros before and after the row; False
            for one that applies only where it lies within the row; bool `[K]`.
    """

    kernels: np.ndarray
    biases: np.ndarray
    anywhere: np.ndarray


def dilations_within(longest: int) -> np.ndarray:
    """Return the dilations whose kernels are no longer than a row, and 1."""
    most = max(1, (longest - 1) // (TAPS - 1))
    return _DILATIONS[most >= _DILATIONS]


def draw(kernels: int, features: int, longest: int, random: np.random.Generator) -> dict[int, Bank]:
    """Return kernels for rows up to a length, by dilation; half of them apply only within a row.

    Args:
        kernels: their number.
        features: of a frame.
        longest: frames of the longest row.
        random: draws them.

    Reference: Dempster et al. 2020, "ROCKET: Exceptionally Fast and Accurate Time Series Classification Using
    Random Convolutional Kernels", section 3.1.
    """
    reach = np.log2(max((longest - 1) / (TAPS - 1), 1.0))
    drawn = np.floor(2.0 ** random.uniform(0, reach, kernels)).astype(int)
    drawn = _DILATIONS[np.searchsorted(_DILATIONS, drawn, side="right") - 1]
    found = {}
    for dilation in np.unique(drawn).tolist():
        count = int((drawn == dilation).sum())
        each = np.stack([_kernel(features, random) for _ in range(count)], axis=-1)
        biases = random.uniform(-1, 1, count)
        found[dilation] = Bank(each.astype(np.float32), biases.astype(np.float32), random.random(count) < 0.5)
    return found


def inside(real: Tensor, margin: int) -> Tensor:
    """Return 1 for real frames with real frames at distance `margin` on both sides, else 0, `[B, T, 1]`."""
    length: Any = ops.shape(real)[1]
    before = ops.pad(real, [[0, 0], [margin, 0], [0, 0]])[:, :length]
    behind = ops.pad(real, [[0, 0], [0, margin], [0, 0]])[:, margin:]
    return real * before * behind


def _kernel(features: int, random: np.random.Generator) -> np.ndarray:
    """Return a kernel of mean 0 in each feature it uses, `[9 F]`."""
    drawn = random.normal(size=(TAPS, features))
    used = np.ones(features, bool)
    if features > 1:
        count = int(2 ** random.uniform(0, np.log2(min(features, TAPS) + 1)))
        used = np.isin(np.arange(features), random.choice(features, min(count, features), replace=False))
    return ((drawn - drawn.mean(axis=0)) * used).reshape(-1)
