"""The encoder under all models: positions and blocks, between the front end of a task and its head.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any

import keras

from keras_selfattn import layers
from keras_selfattn.models.config import EncoderConfig

Tensor = Any


def encoded(
    x: Tensor, config: EncoderConfig, policy: Any, window: int | None = None, dropout: float | None = None
) -> Tensor:
    """Returns masked features `[B, T, D]` with positions added and the encoder applied, `[B, T, D]`.

    With `window`, each position attends to so many on either side alone. `dropout` is of what goes into the
    encoder, by default the config's.
    """
    dropout = config.dropout if dropout is None else dropout
    x = layers.SinusoidalPositionEncoding(dropout=dropout, dtype=policy, name="positions")(x)
    return encoder(config, policy, window)(x)


def encoder(config: EncoderConfig, policy: Any, window: int | None = None) -> keras.layers.Layer:
    """Returns the encoder that a config describes."""
    return layers.Encoder(
        config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        window=window,
        dtype=policy,
        name="encoder",
    )


def pooled(x: Tensor, dropout: float, policy: Any) -> Tensor:
    """Returns the average of the real positions of `[B, T, D]`, with dropout, `[B, D]`."""
    x = layers.AveragePooling(dtype=policy, name="pooling")(x)
    return keras.layers.Dropout(dropout, dtype=policy, name="head_dropout")(x)
