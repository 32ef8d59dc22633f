"""Pooling of a sequence into one vector, over its real tokens only.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any, cast

import keras
from keras import ops

from keras_selfattn.layers.checks import checked_sequence
from keras_selfattn.layers.masks import token_mask, zero_masked

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AveragePooling(keras.layers.Layer):
    """Averages the features of the real tokens; a row without any gives zeros.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real token; propagated by Keras.
        valid_lens: int `[batch]`, tokens from there on are padding.

    Returns:
        float `[batch, features]`, summed in float32 under every dtype policy.

    Raises:
        ValueError: for inputs of another rank, or a mask of the wrong dtype or shape.

    Example:

        >>> import numpy as np
        >>> x = np.array([[[1.0], [3.0], [100.0]]], "float32")
        >>> print(np.asarray(AveragePooling()(x, valid_lens=np.array([2]))))
        [[2.]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        checked_sequence(input_shape)

    def call(self, inputs: Tensor, mask: Tensor | None = None, valid_lens: Tensor | None = None) -> Tensor:
        if valid_lens is not None:
            shape = tuple(cast(Any, ops.convert_to_tensor(valid_lens)).shape)
            if len(shape) != 1:
                raise ValueError(f"`valid_lens` of pooling must have shape [batch]. Received {shape}.")
        real = token_mask(inputs, mask, valid_lens)  # [B, T]
        total = ops.sum(ops.cast(zero_masked(inputs, real), "float32"), axis=1)  # [B, D]
        if real is None:
            count = ops.cast(ops.shape(inputs)[1], "float32")
        else:
            count = ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True)  # [B, 1]
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Returns None: the pooled vector has no positions left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], input_shape[2])
