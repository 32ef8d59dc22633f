"""Building blocks of all models: the encoder between front end and head, pooling, sums, neighbours.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn import layers
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.models.config import EncoderConfig

Tensor = Any


def encoded(
    x: Tensor,
    config: EncoderConfig,
    policy: Any,
    window: int | None = None,
    dropout: float | None = None,
    kind: type[layers.Encoder] = layers.Encoder,
) -> Tensor:
    """Return masked features `[B, T, D]` with positions added and the encoder applied, `[B, T, D]`.

    With `window`, each position attends only to so many on either side. `dropout` is the rate at the
    encoder's input, by default the config's; `kind` is the encoder's class.
    """
    dropout = config.dropout if dropout is None else dropout
    x = layers.SinusoidalPositionEncoding(dropout=dropout, dtype=policy, name="positions")(x)
    return encoder(config, policy, window, kind)(x)


def encoder(
    config: EncoderConfig,
    policy: Any,
    window: int | None = None,
    kind: type[layers.Encoder] = layers.Encoder,
) -> keras.layers.Layer:
    """Return the encoder of a config."""
    return kind(
        config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        window=window,
        dtype=policy,
        name="encoder",
    )


def pooled(x: Tensor, dropout: float, policy: Any) -> Tensor:
    """Return the average of the real positions of `[B, T, D]`, with dropout, `[B, D]`."""
    x = layers.AveragePooling(dtype=policy, name="pooling")(x)
    return keras.layers.Dropout(dropout, dtype=policy, name="head_dropout")(x)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Sum(keras.layers.Layer):
    """Add two tensors of one shape; keep the first one's mask.

    `keras.layers.Add` reads the second as a bias if its shape without sizes of 0 and 1 is that of a bias. It
    then fails for a single row without tokens, or for no rows.

    Call arguments:
        inputs: two tensors.

    Returns:
        A tensor of the same shape.

    Example:

        >>> import numpy as np
        >>> Sum()([np.ones((1, 0, 8)), np.ones((1, 0, 8))]).shape
        TensorShape([1, 0, 8])
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Tensor:
        first, second = inputs
        return first + second

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Tensor | None:
        return None if previous_mask is None else previous_mask[0]

    def compute_output_shape(self, input_shape: Any) -> tuple:
        return input_shape[0]


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
        self._dense = Dense(width, "gelu", dtype=self.dtype_policy, name="dense")
        self._dense.build((*input_shape[:-1], 3 * width))

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = ops.cast(mask[..., None], inputs.dtype)  # [B, T, 1]
            inputs = inputs * mask
        before = ops.pad(inputs, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        after = ops.pad(inputs, [[0, 0], [0, 1], [0, 0]])[:, 1:]
        around: Tensor = ops.concatenate([before, inputs, after], axis=-1)
        # As a matrix: TensorFlow fuses product, bias and GELU in two dimensions, not in three.
        found = self._dense(ops.reshape(around, (-1, around.shape[-1])))
        found = ops.cast(found, inputs.dtype)  # that of its path, if the policy is a map
        x = inputs + ops.reshape(found, ops.shape(inputs))  # [B, T, D]
        return x if mask is None else x * mask

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape
