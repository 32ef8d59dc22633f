"""Features of a token's spelling, by the same string ops in training and in exported graphs; their embedding.

Axes: B (rows), T (positions), N (tokens of all rows), K (features), D (features of a vector).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.models.config import TokenConfig
from keras_selfattn.models.vocabulary import (
    FIRST_ID,
    PADDING_ID,
    UNKNOWN_ID,
    as_strings,
    chunks,
    lookup_table,
    lowercased,
    most_frequent,
)

Tensor = Any

# Characters of beginnings and ends, which show the inflection and formation of unseen words.
AFFIXES = (1, 2, 3, 4)
# Beginnings and ends; the shape; the whole spelling, for words that the vocabulary lacks.
PIECES = 2 * len(AFFIXES) + 2
FEATURES = 1 + PIECES  # and the word

# Tokens and characters at once, to bound the memory of the intermediate strings.
_CHUNK, _CHARACTERS = 65_536, 2**22


class TokenFeatures:
    """Look up words, and hash the spelling of each token.

    Case and digits are folded in all features except the shape: "Apollo-11" has the shape "Xx-0".

    Args:
        config: the size of the hash table.
        vocabulary: words, lower-cased, in the order of their ids, which start at 2; 0 is padding, 1 an
            unknown word.

    Example:

        >>> features = TokenFeatures(TokenConfig(), ["good", "film"])
        >>> found = features(tf.constant([["Good", "films", ""]]))
        >>> found.shape, found[0, :, 0].numpy().tolist()
        (TensorShape([1, 3, 11]), [2, 1, 0])

    Reference: Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning".
    """

    def __init__(self, config: TokenConfig, vocabulary: Sequence[str]) -> None:
        self.config = config
        self.vocabulary = list(vocabulary)
        self.table = lookup_table(vocabulary)

    @property
    def size(self) -> int:
        """Number of word ids, padding and unknown included."""
        return FIRST_ID + len(self.vocabulary)

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return [self.table]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the features of a string tensor `[...]`, int32 `[..., K]`; all 0 for "", which is padding.

        The first is the word's id, the others are rows of one table, from 1 on. Bytes that are not UTF-8
        become the replacement character U+FFFD.
        """
        flat = tf.strings.unicode_transcode(tf.reshape(tokens, [-1]), "UTF-8", "UTF-8", errors="replace")
        words = lowercased(flat)
        places = spelled(flat, words, self.config.hash_buckets)
        found = tf.concat([self.table.lookup(words)[:, None], places], axis=-1)  # [N, K]
        found = tf.where((flat == "")[:, None], PADDING_ID, found)
        return tf.reshape(found, tf.concat([tf.shape(tokens), [FEATURES]], axis=0))

    def rows(self, rows: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return the features of the tokens of each row, int32 `[T, K]`."""
        places: dict[str, int] = {}
        index = [places.setdefault(token, len(places)) for row in rows for token in row]
        parts = [np.zeros((0, FEATURES), np.int32)]
        parts += [self(as_strings(chunk)).numpy() for chunk in chunks(list(places), _CHUNK, _CHARACTERS)]
        found = np.concatenate(parts)[np.array(index, dtype=np.int64)]  # [N, K]
        return np.split(found, np.cumsum([len(row) for row in rows])[:-1])


def learn_words(config: TokenConfig, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the words of the vocabulary, most frequent first."""
    written = Counter(token for row in rows for token in row)
    counts: Counter[bytes] = Counter()
    for chunk in chunks(list(written), _CHUNK, _CHARACTERS):
        for token, word in zip(chunk, lowercased(as_strings(chunk)).numpy().tolist(), strict=True):
            counts[word] += written[token]
    return most_frequent(counts, config.min_count, config.vocabulary_size)


def spelled(tokens: Tensor, words: Tensor, buckets: int) -> Tensor:
    """Return the table's rows for the spelling of tokens `[N]`, in lower case `words`, int32 `[N, PIECES]`.

    They are in one table of `buckets` rows, from 1 on.
    """
    parts = [tf.strings.join([f"{name}:", part]) for name, part in _spelling(tokens, words)]
    return tf.stack(
        [tf.cast(tf.strings.to_hash_bucket_fast(part, buckets - 1), tf.int32) + 1 for part in parts], axis=-1
    )


def spellings(words: Sequence[str], buckets: int) -> np.ndarray:
    """Return `spelled` for words in their original case, int32 `[words, PIECES]`."""
    parts = [np.zeros((0, PIECES), np.int32)]
    for chunk in chunks(list(words), _CHUNK, _CHARACTERS):
        tokens = as_strings(chunk)
        parts.append(spelled(tokens, lowercased(tokens), buckets).numpy())
    return np.concatenate(parts)


def _spelling(tokens: Tensor, words: Tensor) -> list[tuple[str, Tensor]]:
    """Return the strings to hash for tokens `[N]` and their lower case, each `[N]`, the whole word last."""
    whole = tf.strings.regex_replace(words, r"\p{N}", "0")
    length = tf.strings.length(whole, unit="UTF8_CHAR")
    parts = []
    for count in AFFIXES:
        start = tf.maximum(length - count, 0)
        parts += [
            (f"prefix{count}", tf.strings.substr(whole, 0, count, unit="UTF8_CHAR")),
            (f"suffix{count}", tf.strings.substr(whole, start, tf.fill(tf.shape(start), count), "UTF8_CHAR")),
        ]
    return [*parts, ("shape", _shape(tokens)), ("whole", whole)]


def _shape(tokens: Tensor) -> Tensor:
    """Return the shapes of tokens: each run of capitals, of other letters and of digits becomes one sign."""
    for pattern, sign in ((r"\p{Lu}+", "X"), (r"[^\P{L}X]+", "x"), (r"\p{N}+", "0")):
        tokens = tf.strings.regex_replace(tokens, pattern, sign)
    return tokens


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
            x = x + ops.cast(self._hashed(feature), x.dtype)  # a map of policies has two
        return x * ops.cast(real[..., None], x.dtype) * math.sqrt(self.width)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs[..., 0], PADDING_ID)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "hash_buckets", "width", "word_dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
