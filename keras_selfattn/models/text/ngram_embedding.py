"""Embedding of tokens, of the hashed n-grams around them and of their spelling.

Axes: B (batch), T (positions), K (pieces of a spelling), V (token ids), D (features).
"""

import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_selfattn.models.vocabulary import PADDING_ID, UNKNOWN_ID

Tensor = Any

# Odd constants that spread neighbouring ids over the buckets; int32 overflow is part of the hash.
_BEFORE, _AFTER, _MIX = 40_503, 69_069, -1_640_531_527


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NGramEmbedding(keras.layers.Layer):
    """Sum the vectors of a token, of the pair that it ends and of the triple around it.

    Pairs and triples are hashed into tables of a fixed size. Outputs are scaled by `sqrt(width)`, so that
    added position encodings do not dominate them (Vaswani et al. 2017, section 3.4).

    Args:
        vocabulary_size: number of token ids, padding (0) included.
        width: features D of the output.
        max_ngram: 1 for tokens, 2 for pairs too, 3 for triples too.
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
        # An n-gram that is not in the training rows must add nothing, so these tables start at zero.
        self._tables = [
            keras.layers.Embedding(
                size, width, "uniform" if n == 1 else "zeros", dtype=self.dtype_policy, name=f"table_{n}"
            )
            for n, size in enumerate(sizes, start=1)
        ]

    @property
    def vectors(self) -> Tensor:
        """The tokens' own vectors, `[vocabulary_size, width]`, without the scale of the outputs."""
        table = self._tables[0]
        if table.quantization_mode is None:
            return table.embeddings
        return ops.cast(table.embeddings, self.compute_dtype) / ops.expand_dims(table.embeddings_scale, -1)

    def build(self, input_shape: tuple) -> None:
        for table in self._tables:
            table.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        ngrams = zip(self._tables, self._ngrams(inputs), strict=True)
        found = [_looked_up(table, ids) for table, ids in ngrams]
        vectors: list[Any] = [ops.cast(each, self.compute_dtype) for each in found]  # each [B, T, D]
        return sum(vectors[1:], vectors[0]) * math.sqrt(self.width)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, 0)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "width", "max_ngram", "ngram_buckets")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _ngrams(self, ids: Tensor) -> list[Tensor]:
        """Return ids of tokens, pairs and triples, each int32 `[B, T]`, with padding beyond either end."""
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


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SpellingEmbedding(keras.layers.Layer):
    """Sum the vectors of a token's spelling, scaled by `sqrt(width)`: rare words share those of others.

    The weight `places`, int32 `[vocabulary_size, pieces]`, holds the table's rows for each token. It is not
    trainable; until it is assigned, all tokens share the first row.

    Args:
        vocabulary_size: number of token ids, padding (0) included.
        pieces: rows of the table that make up a spelling.
        buckets: rows of that table; the first is for tokens with unknown spelling.
        width: features D of the output.

    Call arguments:
        inputs: int32 `[batch, length]`; 0 is padding, and masked.

    Returns:
        float `[batch, length, width]`.

    Example:

        >>> import numpy as np
        >>> layer = SpellingEmbedding(vocabulary_size=3, pieces=2, buckets=8, width=4)
        >>> layer.build((None, None))
        >>> _ = layer.places.assign([[0, 0], [0, 0], [7, 5]])
        >>> layer(np.array([[2, 1, 0]])).shape
        TensorShape([1, 3, 4])

    Reference: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2.
    """

    def __init__(self, vocabulary_size: int, pieces: int, buckets: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.pieces = pieces
        self.buckets = buckets
        self.width = width
        # Pieces that are in no token of the training rows must add nothing.
        self._table = keras.layers.Embedding(
            buckets, width, "zeros", dtype=self.dtype_policy, name="spellings"
        )

    def build(self, input_shape: tuple) -> None:
        shape = (self.vocabulary_size, self.pieces)
        self.places = self.add_weight(
            shape=shape, dtype="int32", initializer="zeros", trainable=False, name="places"
        )
        self._table.build(input_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        places = _rows(self.places, ops.cast(inputs, "int32"))  # [B, T, K]
        if training and keras.backend.backend() != "tensorflow":
            # Elsewhere each look-up would have a gradient of the size of the table.
            return ops.sum(self._table(places), axis=-2) * math.sqrt(self.width)  # [B, T, D]
        # One at a time: all at once would take K times the memory.
        pieces: Any = ops.unstack(places, self.pieces, axis=-1)  # each [B, T]
        vectors = [_looked_up(self._table, piece) for piece in pieces]
        return sum(vectors[1:], vectors[0]) * math.sqrt(self.width)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, PADDING_ID)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "pieces", "buckets", "width")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AddedTypes(keras.layers.Layer):
    """Add to each position the vector of its type, scaled by `sqrt(width)` as the vectors of tokens are.

    Args:
        types: number of types.

    Call arguments:
        inputs: float `[batch, length, width]`; its mask is passed on.
        types: int32 `[batch, length]`.

    Returns:
        float `[batch, length, width]`.

    Example:

        >>> import numpy as np
        >>> AddedTypes(3)(np.zeros((1, 2, 4), "float32"), np.array([[0, 2]])).shape
        TensorShape([1, 2, 4])

    Reference: Devlin et al. 2019, "BERT", section 3, segment embeddings.
    """

    def __init__(self, types: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.types = types
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        self._table = keras.layers.Embedding(
            self.types, input_shape[-1], dtype=self.dtype_policy, name="vectors"
        )
        self._table.build(None)

    def call(self, inputs: Tensor, types: Tensor) -> Tensor:
        found = ops.cast(_looked_up(self._table, ops.cast(types, "int32")), inputs.dtype)
        return inputs + found * math.sqrt(inputs.shape[-1])  # [B, T, D]

    def compute_output_shape(self, input_shape: tuple, *_: Any) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "types": self.types}


def _looked_up(table: keras.layers.Embedding, ids: Tensor) -> Tensor:
    """Return `table(ids)`, for ids that are not negative."""
    plain = table.quantization_mode is None and table.compute_dtype == table.variable_dtype
    return _rows(table.embeddings, ids) if plain else table(ids)


def _rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Return rows of a weight; on TensorFlow by one step, where Keras takes four for negative ids."""
    if keras.backend.backend() != "tensorflow":
        return ops.take(weight, ids, axis=0)
    return tf.gather(tf.convert_to_tensor(weight), ids)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class HiddenTokens(keras.layers.Layer):
    """Replace a share of the tokens by the unknown token in training, so that no single one decides.

    Args:
        rate: the share, in [0, 1).

    Call arguments:
        inputs: int32 `[batch, length]`; padding (0) does not change.
        training: True hides tokens.

    Returns:
        int32 `[batch, length]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(HiddenTokens(0.5)(np.array([[3, 4, 0]]), training=False)).tolist()
        [[3, 4, 0]]

    Reference: Gal and Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural
    Networks", section 4.2.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self._seeds = keras.random.SeedGenerator()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training or not self.rate:
            return inputs
        drawn = keras.random.uniform(ops.shape(inputs), seed=self._seeds) < self.rate
        return ops.where(ops.logical_and(drawn, ops.not_equal(inputs, PADDING_ID)), UNKNOWN_ID, inputs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
