"""Cross-entropies for integer targets and for 0-or-1 targets, both with label smoothing.

Axes: B (batch), T (positions), C (classes).
"""

from typing import Any

import keras
from keras import ops

Tensor = Any


class _Smoothed(keras.losses.Loss):
    """A loss with label smoothing."""

    def __init__(
        self,
        label_smoothing: float = 0.0,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SmoothedCrossentropy(_Smoothed):
    """Cross-entropy of integer targets `[...]`, or a column `[..., 1]`, and probabilities `[..., C]`.

    Args:
        label_smoothing: share in [0, 1) of each target that is spread evenly over all classes.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Example:

        >>> import numpy as np
        >>> float(SmoothedCrossentropy()(np.array([0]), np.array([[0.5, 0.5]], "float32")))
        0.6931471824645996

    Reference: Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7.
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) == len(y_pred.shape):  # a column of labels
            y_true = ops.squeeze(y_true, axis=-1)
        if not self.label_smoothing:
            return keras.losses.sparse_categorical_crossentropy(y_true, y_pred)  # [B] or [B, T]
        borne = ops.one_hot(y_true, y_pred.shape[-1], dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(borne, y_pred, label_smoothing=self.label_smoothing)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SmoothedBinaryCrossentropy(_Smoothed):
    """Cross-entropy of targets 0 or 1 and probabilities, both `[B, C]`, mean over the classes.

    Args:
        label_smoothing: share in [0, 1) of each target that is moved to one half.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Example:

        >>> import numpy as np
        >>> one, half = np.ones((1, 2), "float32"), np.full((1, 2), 0.5, "float32")
        >>> float(SmoothedBinaryCrossentropy()(one, half))
        0.6931471824645996
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return keras.losses.binary_crossentropy(y_true, y_pred, label_smoothing=self.label_smoothing)
