"""Embed the features of tokens: words, hashed spellings and shapes.

Axes: B (batch), T (positions), K (features), D (features of a vector).
"""

import math
from typing import Any

import keras
from keras import ops

from keras_selfattn.models.vocabulary import PADDING_ID, UNKNOWN_ID

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FeatureEmbedding(keras.layers.Layer):
    """Sum the vector of a word and those of its hashed features, scaled by `sqrt(width)`.

    Args:
        vocabulary_size: number of word ids, padding (0) and unknown (1) included.
        hash_buckets: rows of the table of the other features; the first is for none.
        width: features D of the output.
        word_dropout: share in [0, 1) of the words that training replaces by unknown ones, with their whole
            spelling, so that the model learns to use beginning, end and shape.

    Call arguments:
        inputs: int32 `[batch, length, features]`: word id, hashed features, the whole spelling last; a
            word of 0 is padding, which is masked.
        training: True drops words.

    Returns:
        float `[batch, length, width]`; zeros at padding.

    Example:

        >>> import numpy as np
        >>> FeatureEmbedding(10, 32, 4)(np.array([[[2, 5, 7], [0, 0, 0]]])).shape
        TensorShape([1, 2, 4])

    Reference: Gal and Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural
    Networks", section 4.2, for dropped words.
    """

    def __init__(
        self, vocabulary_size: int, hash_buckets: int, width: int, word_dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hash_buckets = hash_buckets
        self.width = width
        self.word_dropout = word_dropout
        self._seeds = keras.random.SeedGenerator()
        policy = self.dtype_policy
        self._words = keras.layers.Embedding(vocabulary_size, width, "uniform", dtype=policy, name="words")
        # A spelling that is not in the training rows must add nothing.
        self._hashed = keras.layers.Embedding(hash_buckets, width, "zeros", dtype=policy, name="hashed")

    def build(self, input_shape: tuple) -> None:
        for table in (self._words, self._hashed):
            table.build(input_shape[:-1])

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        words, *hashed = ops.unstack(ops.cast(inputs, "int32"), axis=-1)  # each [B, T]
        real = ops.not_equal(words, PADDING_ID)
        if training and self.word_dropout:
            dropped = keras.random.uniform(ops.shape(words), seed=self._seeds) < self.word_dropout
            words = ops.where(ops.logical_and(dropped, real), UNKNOWN_ID, words)
            hashed[-1] = ops.where(dropped, 0, hashed[-1])
        # One at a time: all at once would take K times the memory.
        x = self._words(words)  # [B, T, D]
        for feature in hashed:
            x = x + self._hashed(feature)
        return x * ops.cast(real[..., None], x.dtype) * math.sqrt(self.width)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs[..., 0], PADDING_ID)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "hash_buckets", "width", "word_dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
