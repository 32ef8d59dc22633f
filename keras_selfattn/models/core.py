"""From token ids to class probabilities: embedding, positions, encoder, pooling, head.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any

import keras

from keras_selfattn import layers
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.embedding import NGramEmbedding


def build_core(config: TextConfig, vocabulary_size: int, classes: int, policy: Any) -> keras.Model:
    """Returns the untrained model from int32 ids `[batch, length]` to float32 `[batch, classes]`.

    Args:
        config: widths, depth and dropout.
        vocabulary_size: number of token ids, padding (0) and unknown (1) included.
        classes: number of classes.
        policy: dtype policy of all layers but the softmax, which is float32.
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = NGramEmbedding(
        vocabulary_size, config.width, config.max_ngram, config.ngram_buckets, dtype=policy, name="embedding"
    )(ids)  # [B, T, D]
    x = layers.SinusoidalPositionEncoding(dropout=config.dropout, dtype=policy, name="positions")(x)
    x = layers.Encoder(
        config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        dtype=policy,
        name="encoder",
    )(x)
    x = layers.AveragePooling(dtype=policy, name="pooling")(x)  # [B, D]
    x = keras.layers.Dropout(config.dropout, dtype=policy, name="head_dropout")(x)
    outputs = keras.layers.Dense(classes, activation="softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(ids, outputs, name="core")
