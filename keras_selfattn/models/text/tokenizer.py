"""Raw text to token ids, as TensorFlow string ops: the same ones in training and in the exported graph.

Axes: B (texts), T (tokens).
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.core.both_orders import in_one_order
from keras_selfattn.models.subwords.ragged_rows import first_of_rows, merged, pair_shares, ragged, ranges
from keras_selfattn.models.vocabulary import (
    FIRST_ID,
    PADDING_ID,
    as_strings,
    chunks,
    lookup_table,
    lowercased,
    most_frequent,
)
from keras_selfattn.rows.text_pairs import TextPair

Tensor = Any

# Separate tokens: punctuation and symbols, and each sign of the scripts without spaces (otherwise a whole
# sentence would be one word). RE2 syntax.
_SINGLE = (
    r"([^\p{L}\p{M}\p{N}_'\s]|\p{Han}|\p{Hiragana}|\p{Katakana}|\p{Thai}|\p{Lao}|\p{Khmer}|\p{Myanmar}"
    r"|\p{Tibetan})"
)
SPACE = r"[\p{Z}\s]+"
"""A run of spaces, those of Unicode included: RE2's `\\s` knows ASCII only."""

FIRST, SECOND, BETWEEN, IN_BOTH = 0, 1, 2, 3
"""Types of tokens of two texts; that of a word in both is `IN_BOTH` more."""
TYPES = 5
"""The number of types."""
# No text has it as one token, so its id is that of an unknown one.
SEPARATOR = "[SEP]"

# Texts and characters tokenised at once, to bound the memory of the intermediate ragged tensors.
_CHUNK, _CHARACTERS = 4096, 2**24


class Tokenizer:
    """Split texts into tokens and look up their ids.

    Args:
        config: sets the kind of tokens, the folding of case, and the cut.
        vocabulary: tokens in the order of their ids, which start at 2; 0 is padding, 1 the unknown token.

    Example:

        >>> tokenizer = Tokenizer(TextConfig(), ["good", "film"])
        >>> tokenizer(tf.constant(["Good film!"])).to_list()
        [[2, 3, 1]]
    """

    def __init__(self, config: TextConfig, vocabulary: Sequence[str]) -> None:
        self.config = config
        self.vocabulary = list(vocabulary)
        self.table = lookup_table(vocabulary)

    @property
    def size(self) -> int:
        """Number of ids, padding and unknown included."""
        return FIRST_ID + len(self.vocabulary)

    def __call__(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]` as int32 ragged `[B, T]`."""
        tokens = split(self.config, texts)
        return tokens.with_flat_values(self.table.lookup(tokens.flat_values))

    def pairs(self, first: Tensor, second: Tensor, *, both_orders: bool = False) -> Tensor:
        """Return ids and types of two texts a row, string `[B]` each, as int32 ragged `[B, T, 2]`.

        Those of both orders are `[B, T, 4]`; which one is first is the same for a pair and its reverse.
        """
        return self._pairs(first, second, both_orders=both_orders)[0]

    def _pairs(self, first: Tensor, second: Tensor, *, both_orders: bool) -> tuple[Tensor, Tensor]:
        """Return the rows of `pairs`, and bool `[B]`, True for those that were cut."""
        if not both_orders:
            found = split_pairs(self.config, first, second)
            return self.with_types(found), found.cut
        orders = split_both_orders(self.config, *in_one_order(first, second))
        columns = [self.with_types(each) for each in orders]
        values = tf.concat([each.flat_values for each in columns], axis=-1)
        return columns[0].with_flat_values(values), orders[0].cut

    def with_types(self, tokens: "PairTokens") -> Tensor:
        """Return the ids of tokens beside their types, int32 ragged `[B, T, 2]`."""
        ids = self.table.lookup(tokens.tokens.flat_values)
        return tokens.tokens.with_flat_values(tf.stack([ids, tokens.types], axis=-1))

    def rows_of_pairs(
        self, pairs: Sequence[TextPair], *, both_orders: bool = False
    ) -> tuple[list[np.ndarray], int]:
        """Return ids and types of each pair, int32 `[T, 2]`, and the number of pairs that were cut.

        Those of both orders are `[T, 4]`, as of `pairs`.
        """
        found: list[np.ndarray] = []
        cut = 0
        for chunk in chunks(pairs, _CHUNK, _CHARACTERS):
            texts = map(as_strings, zip(*chunk, strict=True))
            ids, shortened = self._pairs(*texts, both_orders=both_orders)
            found += np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])
            cut += int(tf.math.count_nonzero(shortened))
        return found, cut

    def padded(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]`, int32 `[B, T]`, padded with 0 to the longest row."""
        return self(texts).to_tensor(PADDING_ID)

    def rows(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        found: list[np.ndarray] = []
        for chunk in chunks(texts, _CHUNK, _CHARACTERS):
            ids = self(as_strings(chunk))
            found += np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])
        return found


def split(config: TextConfig, texts: Tensor) -> Tensor:
    """Return the tokens of a string tensor `[B]` as string ragged `[B, T]`, T at most `max_tokens`.

    Bytes that are not UTF-8, and NUL where letters are lowered, become the replacement character U+FFFD.
    """
    texts = clipped(config, texts)
    if config.lowercase:
        texts = lowercased(texts)
    if config.tokens == "characters":
        return tf.strings.unicode_split(texts, "UTF-8")[:, : config.max_tokens]
    spaced = tf.strings.regex_replace(tf.strings.regex_replace(texts, SPACE, " "), _SINGLE, r" \1 ")
    return tf.strings.split(spaced)[:, : config.max_tokens]


class PairTokens(NamedTuple):
    """The tokens of two texts a row.

    Args:
        tokens: string ragged `[B, T]`: those of the first text, `SEPARATOR`, those of the second.
        types: int32 `[tokens]`: `FIRST`, `BETWEEN` or `SECOND`; for words that both texts have, `IN_BOTH`
            more.
        cut: bool `[B]`, True for pairs of more than `max_tokens`.
    """

    tokens: Tensor
    types: Tensor
    cut: Tensor


def split_pairs(config: TextConfig, first: Tensor, second: Tensor) -> PairTokens:
    """Return the tokens of two texts a row, string `[B]` each, `max_tokens` a row with the separator.

    Of more the longer text is cut at its end down to the other's length, then both alike.
    """
    return _joined(*_parts_of_pairs(config, first, second))


def split_both_orders(config: TextConfig, first: Tensor, second: Tensor) -> tuple[PairTokens, PairTokens]:
    """Return the same of both orders, of the same tokens of each text; rows are equally long in both."""
    parts, cut = _parts_of_pairs(config, first, second)
    return _joined(parts, cut), _joined(parts[::-1], cut)


class _Part(NamedTuple):
    """One text of each pair: tokens, string `[tokens]`, where rows begin, `[B + 1]`, and `IN_BOTH` or 0."""

    tokens: Tensor
    starts: Tensor
    in_both: Tensor


def _parts_of_pairs(config: TextConfig, first: Tensor, second: Tensor) -> tuple[list[_Part], Tensor]:
    """Return both texts of pairs, cut, and bool `[B]`, True for pairs that were."""
    read = [split(config, texts) for texts in (first, second)]
    counts = [each.row_lengths() for each in read]  # [B] each
    most = config.max_tokens - 1
    kept = pair_shares(counts[0], counts[1], most)
    parts = [
        first_of_rows(each.flat_values, each.row_splits, some) for each, some in zip(read, kept, strict=True)
    ]
    if config.tokens == "words":
        marks = [IN_BOTH * each for each in _in_both(*parts)]
    else:
        marks = [tf.zeros([tf.size(tokens)], tf.int32) for tokens, _ in parts]
    found = [_Part(*part, mark) for part, mark in zip(parts, marks, strict=True)]
    return found, counts[0] + counts[1] > most


def _joined(parts: Sequence[_Part], cut: Tensor) -> PairTokens:
    """Return the tokens of pairs, the first part before the second."""
    one, other = parts
    splits = one.starts + other.starts + tf.range(tf.size(one.starts, tf.int64))
    between = splits[:-1] + one.starts[1:] - one.starts[:-1]
    places = [ranges(splits[:-1], between)[0], between, ranges(between + 1, splits[1:])[0]]
    types = [FIRST, BETWEEN, SECOND]
    types = [tf.fill(tf.shape(place), kind) for place, kind in zip(places, types, strict=True)]
    types = [types[0] + one.in_both, types[1], types[2] + other.in_both]
    found = merged(places, [one.tokens, tf.fill(tf.shape(between), SEPARATOR), other.tokens])
    return PairTokens(ragged(found, splits), merged(places, types), cut)


def _in_both(*parts: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Return 1 for each token that its row has in both texts, else 0: int32 `[tokens]` each.

    Args:
        parts: of each text, its tokens, string `[tokens]`, and where each row's begin, `[B + 1]`.

    Reference: Chen et al. 2017, "Reading Wikipedia to Answer Open-Domain Questions", section 3.2, exact
    match.
    """
    rows = [tf.repeat(tf.range(tf.size(starts) - 1), starts[1:] - starts[:-1]) for _, starts in parts]
    found = tokens_of_pairs(*zip(rows, [tokens for tokens, _ in parts], strict=True))
    both = tf.cast(found.has[0] & found.has[1], tf.int32)
    return [tf.gather(both, each) for each in found.places]


class PairWords(NamedTuple):
    """The different tokens of two texts a row, each once a row, `[D]`.

    Args:
        rows: int32 `[D]`.
        names: string `[D]`.
        has: bool `[D]` for each of both texts.
        places: of each text's tokens, their places among these, int32.
    """

    rows: Tensor
    names: Tensor
    has: list[Tensor]
    places: list[Tensor]


def tokens_of_pairs(*texts: tuple[Tensor, Tensor]) -> PairWords:
    """Return the different tokens of pairs, from rows, int, and names, string, of each text's tokens."""
    rows = [tf.cast(row, tf.int32) for row, _ in texts]
    names = [name for _, name in texts]
    keys = [
        tf.strings.join([tf.strings.as_string(row), name], " ") for row, name in zip(rows, names, strict=True)
    ]
    different, places = tf.unique(tf.concat(keys, axis=0))
    size = tf.size(different)
    of_texts = tf.split(places, [tf.size(each) for each in keys])
    has = [tf.math.unsorted_segment_max(tf.ones_like(each), each, size) > 0 for each in of_texts]
    first = tf.math.unsorted_segment_min(tf.range(tf.size(places)), places, size)
    row, name = (tf.gather(tf.concat(each, axis=0), first) for each in (rows, names))
    return PairWords(row, name, has, of_texts)


def clipped(config: TextConfig, texts: Tensor) -> Tensor:
    """Return texts `[B]` in valid UTF-8, cut at `max_tokens` characters if characters are the tokens.

    The cut is before any split, so a megabyte of text costs no more than so many characters.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    if config.tokens == "characters":
        texts = tf.strings.substr(texts, 0, config.max_tokens, unit="UTF8_CHAR")
    return texts


def learn_vocabulary(config: TextConfig, texts: Sequence[str]) -> tuple[list[str], int]:
    """Return the tokens of the vocabulary, most frequent first, and the number of texts over `max_tokens`."""
    counts: Counter[bytes] = Counter()
    cut = 0
    one_more = dataclasses.replace(config, max_tokens=config.max_tokens + 1)
    for chunk in chunks(texts, _CHUNK, _CHARACTERS):
        tokens = split(one_more, as_strings(chunk))
        cut += int((tokens.row_lengths().numpy() > config.max_tokens).sum())
        counts.update(tokens[:, : config.max_tokens].flat_values.numpy().tolist())
    return most_frequent(counts, config.min_count, config.vocabulary_size), cut
