"""Embedding of tokens and of the hashed n-grams around them.

Axes: B (batch), T (positions), D (features).
"""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any

# Odd constants that spread neighbouring ids over the buckets; int32 overflow is part of the hash.
_BEFORE, _AFTER, _MIX = 40_503, 69_069, -1_640_531_527


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NGramEmbedding(keras.layers.Layer):
    """Sums the vectors of a token, of the pair it ends and of the triple it is the middle of.

    Pairs and triples are hashed into tables of a fixed size. Outputs are scaled by `sqrt(width)`, so that
    they are not drowned by position encodings added to them (Vaswani et al. 2017, section 3.4).

    Args:
        vocabulary_size: number of token ids, padding (0) included.
        width: features D of the output.
        max_ngram: 1, 2 or 3: tokens, pairs too, triples too.
        ngram_buckets: rows of the pair and of the triple table.

    Call arguments:
        inputs: int32 `[batch, length]`; 0 is padding, and masked.

    Returns:
        float `[batch, length, width]`.

    Example:

        >>> import numpy as np
        >>> NGramEmbedding(10, 4, max_ngram=3, ngram_buckets=32)(np.array([[2, 5, 0]])).shape
        TensorShape([1, 3, 4])

    Reference: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification", section 2.2.
    """

    def __init__(
        self, vocabulary_size: int, width: int, max_ngram: int, ngram_buckets: int, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.width = width
        self.max_ngram = max_ngram
        self.ngram_buckets = ngram_buckets
        sizes = [vocabulary_size] + [ngram_buckets] * (max_ngram - 1)
        # An n-gram never seen in training must add nothing, so those tables start at zero.
        self._tables = [
            keras.layers.Embedding(
                size, width, "uniform" if n == 1 else "zeros", dtype=self.dtype_policy, name=f"table_{n}"
            )
            for n, size in enumerate(sizes, start=1)
        ]

    def build(self, input_shape: tuple) -> None:
        for table in self._tables:
            table.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        ngrams = zip(self._tables, self._ngrams(inputs), strict=True)
        vectors = [table(ids) for table, ids in ngrams]  # each [B, T, D]
        return sum(vectors[1:], vectors[0]) * math.sqrt(self.width)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, 0)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "width", "max_ngram", "ngram_buckets")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _ngrams(self, ids: Tensor) -> list[Tensor]:
        """Returns ids of tokens, pairs and triples, each int32 `[B, T]`. Off either end stands padding."""
        ids = ops.cast(ids, "int32")
        before = ops.pad(ids, [[0, 0], [1, 0]])[:, :-1]
        after = ops.pad(ids, [[0, 0], [0, 1]])[:, 1:]
        pairs = ids + _BEFORE * before
        triples = pairs * _AFTER + after
        return [ids, self._bucket(pairs), self._bucket(triples)][: self.max_ngram]

    def _bucket(self, hashed: Tensor) -> Tensor:
        mixed = hashed * _MIX
        mixed = ops.bitwise_xor(mixed, ops.right_shift(mixed, 15))
        return ops.mod(mixed, self.ngram_buckets)
