"""Losses and choices of heads whose logits are of a whole vocabulary, on every backend.

Axes: V (vocabulary).
"""

from typing import Any

from keras import ops

from keras_selfattn.layers.tensorflow import runs_kernels
from keras_selfattn.layers.tensorflow.many_logits import first_highest, smoothed_crossentropy

Tensor = Any


def crossentropy(labels: Tensor, logits: Tensor, smoothing: float = 0.0, share: Any = None) -> Tensor:
    """Return the cross-entropy of each label and the probabilities of its logits, `[...]`.

    Args:
        labels: int32 `[...]`.
        logits: float `[..., V]`.
        smoothing: part in [0, 1) of a label that `share` has.
        share: float `[V]`, non-negative numbers whose sum is 1; None without smoothing.
    """
    if runs_kernels(logits):
        flat = ops.reshape(labels, [-1]), ops.reshape(logits, [-1, logits.shape[-1]])
        return ops.reshape(smoothed_crossentropy(*flat, smoothing, share), ops.shape(labels))
    found: Any = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    if not smoothing:
        return found
    # Of the labels' logits and of the mean logit: no second tensor of the size of the logits.
    of_labels: Any = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    mean: Any = ops.matmul(logits, ops.convert_to_tensor(share[:, None], logits.dtype))[..., 0]
    return found + smoothing * (of_labels - mean)


def highest(logits: Tensor) -> Tensor:
    """Return the place of the highest of logits `[..., V]`, int32 `[...]`; of equal ones the first."""
    return first_highest(logits) if runs_kernels(logits) else ops.argmax(logits, axis=-1)
