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


class Sums(NamedTuple):
    """What is added up over the frames that count for a kernel, float `[B, K]` each.

    Args:
        above: frames with a positive output; one barely above 0 is a part of a frame.
        places: places of these frames, from -1 at the first frame of the row to 1 at the last.
        positive: positive outputs.
        largest: output; -1e9 if no frame counts.
        count: frames that count.
    """

    above: Tensor
    places: Tensor
    positive: Tensor
    largest: Tensor
    count: Tensor


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


def summed(found: Tensor, anywhere: Tensor, real: Tensor, within: Tensor) -> Sums:
    """Add up the outputs of kernels.

    Every pass over the outputs is time, and every operation, for short rows.

    Args:
        found: outputs, float `[B, T, K]`.
        anywhere: above 0 for a kernel for which all real frames count, else 0, `[K]`.
        real: 1 for a frame of the row, else 0, `[B, T, 1]`.
        within: 1 for a frame that counts for the other kernels, each of them real, else 0, `[B, T, 1]`.
    """
    counts = ops.logical_or(within > 0, ops.logical_and(real > 0, anywhere > 0))  # [B, T, K]
    found = ops.where(counts, found, -LARGE)
    positive = ops.relu(found)
    above = ops.minimum(positive * STEEP, 1.0)
    # Both sums in one product.
    sums = ops.matmul(ops.stack([ops.ones_like(real[:, :, 0]), places(real)], axis=1), above)  # [B, 2, K]
    return Sums(
        above=sums[:, 0],
        places=sums[:, 1],
        positive=ops.sum(positive, axis=1),
        largest=ops.max(found, axis=1, initial=-LARGE),
        count=ops.where(anywhere > 0, ops.sum(real, axis=1), ops.sum(within, axis=1)),
    )


def pooled(sums: Sums) -> Pooled:
    """Return the features of sums."""
    frames = ops.maximum(sums.above, 1.0)
    return Pooled(
        share=sums.above / ops.maximum(sums.count, 1.0),
        largest=ops.where(sums.count > 0, sums.largest, 0.0),
        mean=sums.positive / frames,
        place=sums.places / frames,
    )


def places(real: Tensor) -> Tensor:
    """Return the place of each real frame of `[B, T, 1]` in its row, from -1 to 1, else 0, `[B, T]`."""
    real = real[:, :, 0]
    last = ops.maximum(ops.sum(real, axis=1, keepdims=True) - 1, 1.0)
    return (2 * (ops.cumsum(real, axis=1) - 1) / last - 1) * real
