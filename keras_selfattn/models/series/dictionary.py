"""Competing kernels: the number of frames at which a kernel is the best, or the worst, of its group.

Axes: B (batch), T (frames), F (features of a frame), G (groups), K (kernels of a group).

Reference: Dempster et al. 2023, "Hydra: Competing convolutional kernels for fast and accurate time series
classification", section 3.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_selfattn.models.series.kernel_pooling import LARGE, STEEP
from keras_selfattn.models.series.random_kernels import TAPS

Tensor = Any

# Kernels of a group, and the most features that a kernel sees.
RIVALS = 8
_SEEN = 8


def draw_groups(groups: int, features: int, random: np.random.Generator) -> np.ndarray:
    """Return kernels of mean 0 and absolute sum 1, float32 `[9 F, 8 G]`; a group shares its features."""
    drawn = random.normal(size=(TAPS, groups, RIVALS))
    drawn -= drawn.mean(axis=0)
    drawn /= np.abs(drawn).sum(axis=0)
    seen = max(1, min(_SEEN, features // 2))
    used = np.stack(
        [np.isin(np.arange(features), random.choice(features, seen, False)) for _ in range(groups)]
    )
    kernels = drawn[:, None] * used.T[None, :, :, None]  # [9, F, G, K]
    return kernels.reshape(TAPS * features, groups * RIVALS).astype(np.float32)


def wins(found: Tensor, real: Tensor) -> Tensor:
    """Return what each kernel wins: its outputs where it is largest, and frames where it is smallest.

    The roots of both are returned, so that common winners do not drown rare ones. A kernel within 0.01 of the
    winner wins in part: rounding must not decide.

    Args:
        found: outputs, float `[B, T, 8 G]`.
        real: 1 or 0, `[B, T, 1]`.

    Returns:
        float `[B, 16 G]`.
    """
    rows, length = ops.shape(found)[0], ops.shape(found)[1]
    groups = found.shape[-1] // RIVALS
    found = ops.reshape(found, (rows, length, groups, RIVALS))
    real = real[:, :, :, None]
    # With a first value, an empty batch has an answer.
    top = ops.max(found, axis=-1, keepdims=True, initial=-LARGE)  # [B, T, G, 1]
    low = ops.min(found, axis=-1, keepdims=True, initial=LARGE)
    largest = ops.relu(1.0 - STEEP * (top - found)) * ops.relu(found) * real
    smallest = ops.relu(1.0 - STEEP * (found - low)) * real
    sums = ops.concatenate([ops.sum(each, axis=1) for each in (largest, smallest)], axis=1)  # [B, 2 G, K]
    return ops.sqrt(ops.reshape(sums, (rows, 2 * groups * RIVALS)))
