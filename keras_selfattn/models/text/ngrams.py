"""Words, pairs of words and pieces of words as hashed ids, by the same TensorFlow ops in training and served.

Axes: B (texts), D (distinct words), G (n-grams of a text or word), N (n-grams of all texts).
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.text.tokenizer import clipped, split

Tensor = Any

# Number of ids of each of the two kinds: words are below it, pieces of words from it on.
BUCKETS = 2**20
# Characters of a word that make pieces, so that a megabyte without a space costs as much as a long word.
_WORD_PIECES = 64
_PIECES = (2, 3, 4, 5)  # characters
_BEGIN, _END, _GAP = "<s>", "</s>", "_"


class NGrams(NamedTuple):
    """The n-grams of texts, with one entry for each occurrence, in any order.

    Args:
        rows: the text's index for each n-gram, int32 `[N]`.
        ids: int32 `[N]`.
        texts: the number of texts, int32 `[]`.
    """

    rows: Tensor
    ids: Tensor
    texts: Tensor


KINDS = ("word", "pair", "gap", "piece")


class NamedNGrams(NamedTuple):
    """The n-grams of texts with their names.

    Args:
        ngrams: their texts and ids.
        names: string `[N]`. A pair is two words with a blank between them, "<s>" and "</s>" for the ends of
            the text; a gap has "_" for the word between. A piece has a blank for an end of its word.
        kinds: indices into `KINDS`, int32 `[N]`.
    """

    ngrams: NGrams
    names: Tensor
    kinds: Tensor


def ngram_ids(config: TextConfig, texts: Tensor) -> NGrams:
    """Return the n-grams of a string tensor `[B]`.

    Words, pairs of neighbours with the text's ends among them, and pairs with one word between, have ids
    below `BUCKETS`; runs of 2 to 5 characters within a word and its ends have ids from there on. The config
    sets the split into words, the folding of case, and the cut of long texts. N-grams are of words even if
    the config's tokens are characters.
    """
    words = split(dataclasses.replace(config, tokens="words"), clipped(config, texts))
    parts = [(grams.value_rowids(), _hashed(grams, 0)) for grams in _word_grams(words)] + _pieces(words)
    # Concatenated flat, not row by row: TensorFlow transposes joined ragged tensors, for which oneDNN logs an
    # error on processors without AVX-512.
    rows = tf.concat([tf.cast(rows, tf.int32) for rows, _ in parts], axis=0)
    return NGrams(rows, tf.concat([ids for _, ids in parts], axis=0), tf.shape(texts)[0])


def named_ngrams(config: TextConfig, texts: Tensor) -> NamedNGrams:
    """Return the n-grams of a string tensor `[B]`, those of `ngram_ids`, with their names."""
    words = split(dataclasses.replace(config, tokens="words"), clipped(config, texts))
    rows = words.value_rowids()
    parts = [(grams.value_rowids(), grams.flat_values, kind) for kind, grams in enumerate(_word_grams(words))]
    sizes, place = _piece_grams(words)
    for grams in sizes:
        of_words = tf.gather(grams, place)  # [words, G]
        parts.append((tf.gather(rows, of_words.value_rowids()), of_words.flat_values, KINDS.index("piece")))
    names = tf.concat([names for _, names, _ in parts], axis=0)
    kinds = tf.concat([tf.fill(tf.shape(names), kind) for _, names, kind in parts], axis=0)
    ids = tf.cast(tf.strings.to_hash_bucket_fast(names, BUCKETS), tf.int32)
    ids += tf.where(kinds == KINDS.index("piece"), BUCKETS, 0)
    rows = tf.concat([tf.cast(rows, tf.int32) for rows, _, _ in parts], axis=0)
    return NamedNGrams(NGrams(rows, ids, tf.shape(texts)[0]), names, kinds)


def _word_grams(words: Tensor) -> list[Tensor]:
    """Return words, pairs and pairs with a gap, string ragged `[B, G]` each."""
    ends: Any = {"separator": " ", "pad_values": (_BEGIN, _END), "padding_width": 1}
    threes = tf.strings.ngrams(words, 3, **ends)
    # No word holds a blank, so the second of three is between two blanks.
    gaps = tf.strings.regex_replace(threes.flat_values, " [^ ]* ", f" {_GAP} ")
    return [words, tf.strings.ngrams(words, 2, **ends), threes.with_flat_values(gaps)]


def _pieces(words: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return rows and ids of the pieces of all words, by their size."""
    sizes, place = _piece_grams(words)
    found = []
    for grams in sizes:
        of_words = tf.gather(grams.with_flat_values(_hashed(grams, BUCKETS)), place)  # [words, G]
        found.append((tf.gather(words.value_rowids(), of_words.value_rowids()), of_words.flat_values))
    return found


def _piece_grams(words: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the pieces of distinct words, by size, string ragged `[D, G]`, and each word's place there.

    Each distinct word is cut once.
    """
    different, place = tf.unique(words.flat_values)
    cut = tf.strings.substr(different, 0, _WORD_PIECES, unit="UTF8_CHAR")
    characters = tf.strings.unicode_split(tf.strings.join([" ", cut, " "]), "UTF-8")
    return [tf.strings.ngrams(characters, size, separator="") for size in _PIECES], place


def trigrams_of_words(words: Tensor) -> tuple[Tensor, Tensor]:
    """Return the runs of three characters of words, string ragged `[B, T]`: text indices, and runs."""
    sizes, place = _piece_grams(words)
    of_words = tf.gather(sizes[_PIECES.index(3)], place)  # [words, G]
    return tf.gather(words.value_rowids(), of_words.value_rowids()), of_words.flat_values


def _hashed(grams: Tensor, first: int) -> Tensor:
    """Return the ids of n-grams, int32 `[N]`."""
    return tf.cast(tf.strings.to_hash_bucket_fast(grams.flat_values, BUCKETS), tf.int32) + first
