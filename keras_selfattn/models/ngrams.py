"""Words, pairs of words and pieces of words as hashed ids, by the same TensorFlow ops in training and served.

Axes: B (texts), G (n-grams).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.tokenizer import as_strings, split

Tensor = Any
_ragged: Any = tf.RaggedTensor

# Ids of each of the two kinds: of words below it, of pieces of words from it on.
BUCKETS = 2**20
# Characters of a word that are cut into pieces: a megabyte without a space costs no more than a long word.
_WORD_PIECES = 64
_PIECES = (2, 3, 4, 5)  # characters
_CHUNK = 512  # texts counted at once
_BEGIN, _END, _GAP = "<s>", "</s>", "_"


def ngram_ids(config: TextConfig, texts: Tensor) -> Tensor:
    """Returns the n-grams of a string tensor `[B]`, int32 ragged `[B, G]`, each as often as it occurs.

    Words, pairs of neighbours with the text's ends among them, and pairs with one word between, have ids
    below `BUCKETS`; runs of 2 to 5 characters within a word and its ends have ids from there on. What a word
    is, and whether case is folded, the config says; where its tokens are characters, words are still meant.
    """
    words = split(dataclasses.replace(config, tokens="words"), texts)
    return tf.concat([_hashed(_word_grams(words), 0), _piece_ids(words)], axis=1)


def counted(config: TextConfig, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields, for texts in chunks, rows (from 0), ids and counts of the n-grams in each text, once each."""
    spec = [tf.TensorSpec([None], tf.string)]
    ids = tf.function(lambda strings: ngram_ids(config, strings), input_signature=spec, autograph=False)
    for start in range(0, len(texts), _CHUNK):
        found = ids(as_strings(texts[start : start + _CHUNK]))
        keys = found.value_rowids().numpy() * (2 * BUCKETS) + found.values.numpy()
        keys, counts = np.unique(keys, return_counts=True)
        rows, places = np.divmod(keys, 2 * BUCKETS)
        yield (rows + start).astype(np.int32), places.astype(np.int32), counts.astype(np.float32)


def _word_grams(words: Tensor) -> Tensor:
    """Returns words, pairs and pairs with a gap, string ragged `[B, G]`."""
    ends = (_repeated(mark, words.nrows()) for mark in (_BEGIN, _END))
    begin, end = ends
    whole = tf.concat([begin, words, end], axis=1)
    pairs = tf.strings.ngrams(whole, 2, separator=" ")
    gaps = tf.strings.join([whole[:, :-2], whole[:, 2:]], separator=f" {_GAP} ")
    return tf.concat([words, pairs, gaps], axis=1)


def _piece_ids(words: Tensor) -> Tensor:
    """Returns the ids of the pieces of all words of a text; each different word is cut up once."""
    different, place = tf.unique(words.flat_values)
    cut = tf.strings.substr(different, 0, _WORD_PIECES, unit="UTF8_CHAR")
    characters = tf.strings.unicode_split(tf.strings.join([" ", cut, " "]), "UTF-8")
    grams = tf.concat([tf.strings.ngrams(characters, size, separator="") for size in _PIECES], axis=1)
    per_word = tf.gather(_hashed(grams, BUCKETS), place)
    return _ragged.from_row_splits(per_word.values, tf.gather(per_word.row_splits, words.row_splits))


def _hashed(grams: Tensor, first: int) -> Tensor:
    # In int32: without AVX-512, oneDNN says of sums of int64 that it leaves them to others.
    return grams.with_values(tf.cast(tf.strings.to_hash_bucket_fast(grams.values, BUCKETS), tf.int32) + first)


def _repeated(mark: str, rows: Tensor) -> Tensor:
    return _ragged.from_uniform_row_length(tf.fill([rows], mark), 1)
