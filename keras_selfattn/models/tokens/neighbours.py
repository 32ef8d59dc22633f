"""Convolve the vector of each position with those of its neighbours.

Axes: B (batch), T (positions), D (features of a vector).
"""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Neighbours(keras.layers.Layer):
    """Add to each position a convolution of width 3, with GELU, over it and its neighbours.

    Call arguments:
        inputs: float `[batch, length, features]`; padding counts as zeros.
        mask: bool `[batch, length]`, True for a real position; passed on.

    Returns:
        float `[batch, length, features]`; zeros at padding.

    Example:

        >>> import numpy as np
        >>> Neighbours()(np.ones((1, 5, 4), "float32")).shape
        TensorShape([1, 5, 4])
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        width = input_shape[-1]
        self._dense = keras.layers.Dense(width, "gelu", dtype=self.dtype_policy, name="dense")
        self._dense.build((*input_shape[:-1], 3 * width))

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = ops.cast(mask[..., None], inputs.dtype)  # [B, T, 1]
            inputs = inputs * mask
        before = ops.pad(inputs, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        after = ops.pad(inputs, [[0, 0], [0, 1], [0, 0]])[:, 1:]
        x = inputs + self._dense(ops.concatenate([before, inputs, after], axis=-1))  # [B, T, D]
        return x if mask is None else x * mask

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape
