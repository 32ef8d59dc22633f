"""Absolute position encoding of the cells of a grid, such as the patches of an image.

Axes: B (batch), R (rows), C (columns), D (features).
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.angles import sinusoids
from keras_selfattn.layers.constructor_checks import checked_base, checked_seed
from keras_selfattn.layers.dropout import Dropout

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SinusoidalPositionEncoding2D(keras.layers.Layer):
    """Adds the sinusoidal encoding of each cell's row and column to its features.

    The first half of the features takes the encoding of the row, the second half that of the column, each
    like a `SinusoidalPositionEncoding` of that width. If the number of features is odd, the row's part has
    one more. Height, width and number of features are free. The encoding is exact to 1e-6 under every dtype
    policy, before its one cast to the compute dtype.

    Args:
        dropout: share in [0, 1] of the sum's elements dropped in training.
        base: ratio of the longest wavelength to the shortest; 10,000 is the 1-D paper's.
        seed: int for dropout; None draws one.

    Call arguments:
        inputs: float `[batch, height, width, features]`; reshape to `[batch, height * width, features]` after
            the layer, for attention.
        training: dropout acts only if True.

    Returns:
        float `[batch, height, width, features]`.

    Raises:
        ValueError: for an argument out of range, or inputs of another rank.

    Example:

        >>> import numpy as np
        >>> encoded = SinusoidalPositionEncoding2D()(np.zeros((1, 5, 7, 4), "float32"))
        >>> print(np.asarray(encoded)[0, 2, 3].round(4))  # sin and cos of 2, then of 3
        [ 0.9093 -0.4161  0.1411 -0.99  ]

    Reference: Parmar et al. 2018, "Image Transformer", section 3.1; Vaswani et al. 2017, "Attention Is All
    You Need", section 3.5.
    """

    def __init__(
        self, dropout: float = 0.0, base: float = 10000.0, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dropout = dropout
        self.base = checked_base(base)
        self.seed = checked_seed(seed)
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        if len(input_shape) != 4 or input_shape[-1] is None:
            raise ValueError(
                "The inputs must have shape [batch, height, width, features] with the number of features "
                f"known. Received shape {tuple(input_shape)}."
            )
        self._features = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: self._features})

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = ops.cast(inputs, self.compute_dtype)
        _, height, width, _ = ops.shape(inputs)
        encoding = ops.cast(self._encoding(height, width), inputs.dtype)  # [R, C, D]
        return self._dropout(inputs + encoding, training=training)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dropout": self.dropout, "base": self.base, "seed": self.seed}

    def _encoding(self, height: Tensor, width: Tensor) -> Tensor:
        """Return the encoding of each cell, float32 or float64 `[R, C, D]`."""
        second = self._features // 2
        first = self._features - second
        row, column = (ops.arange(size, dtype="int32") for size in (height, width))
        rows = sinusoids(row, first, self.base, self.compute_dtype)  # [R, ceil(D / 2)]
        rows = ops.pad(rows, [[0, 0], [0, second]])  # [R, D]
        if not second:
            return ops.broadcast_to(rows[:, None], (height, width, self._features))
        columns = sinusoids(column, second, self.base, self.compute_dtype)  # [C, floor(D / 2)]
        return rows[:, None] + ops.pad(columns, [[0, 0], [first, 0]])  # a sum with zeros, so exact
