"""Pooling of the outputs of kernels over the frames of a row.

Axes: B (batch), T (frames), K (kernels).

Reference: Tan et al. 2022, "MultiRocket: Multiple pooling operators and transformations for fast and
effective time series classification", section 3.2. Its longest run of positive outputs is left out: it
takes a pass over the outputs for each doubling of the length, and added nothing beside the others.
"""

from typing import Any, NamedTuple

from keras import ops

Tensor = Any

# A steep slope instead of a step: rounding must not decide.
STEEP = 100.0
# Larger than any output.
LARGE = 1e9


class Pooled(NamedTuple):
    """Features of the outputs of kernels over a row, float `[B, K]` each; 0 if no frame counts.

    Args:
        share: of the frames with a positive output.
        largest: output.
        mean: of the positive outputs.
        place: mean place of the positive outputs, from -1 at the first frame of the row to 1 at the last.
    """

    share: Tensor
    largest: Tensor
    mean: Tensor
    place: Tensor


def pooled(found: Tensor, counted: Tensor, real: Tensor) -> Pooled:
    """Pool the outputs of kernels over the frames that count.

    Args:
        found: outputs, float `[B, T, K]`.
        counted: 1 for a frame that counts for a kernel, else 0, `[B, T, K]`.
        real: 1 for a frame of the row, else 0, `[B, T, 1]`.
    """
    above = ops.clip(found * STEEP, 0.0, 1.0) * counted
    count = ops.sum(counted, axis=1)  # [B, K]
    # Both sums in one product. Outputs barely above 0 count as a part of a frame.
    sums = ops.matmul(ops.stack([ops.ones_like(real[:, :, 0]), places(real)], axis=1), above)  # [B, 2, K]
    frames = ops.maximum(sums[:, 0], 1.0)
    top = ops.max(found + (counted - 1.0) * LARGE, axis=1, initial=-LARGE)
    return Pooled(
        share=sums[:, 0] / ops.maximum(count, 1.0),
        largest=ops.where(count > 0, top, 0.0),
        mean=ops.sum(ops.relu(found) * counted, axis=1) / frames,
        place=sums[:, 1] / frames,
    )


def places(real: Tensor) -> Tensor:
    """Return the place of each real frame of `[B, T, 1]` in its row, from -1 to 1, else 0, `[B, T]`."""
    real = real[:, :, 0]
    last = ops.maximum(ops.sum(real, axis=1, keepdims=True) - 1, 1.0)
    return (2 * (ops.cumsum(real, axis=1) - 1) / last - 1) * real
