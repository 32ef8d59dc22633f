"""Weighted n-gram counts of many texts as matrices, for the fit of the wide path and for predictions.

Axes: B (texts), F (features), C (columns: classes, or 1 for two that exclude each other).
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.ngrams import BUCKETS, ngram_ids
from keras_selfattn.models.text.pair_ngrams import pair_ngram_ids
from keras_selfattn.models.vocabulary import as_strings, chunks

# The most bytes of the weights: rarer n-grams are left out.
_MOST_BYTES = 32_000_000
_CHUNK, _CHARACTERS = 512, 2**20  # rows and characters counted at once
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 2**13, 2**22  # predicted at once


class Features(NamedTuple):
    """N-grams with a weight: ids in order, int32 `[F]`, and their inverse document frequency."""

    keys: np.ndarray
    idf: np.ndarray


class Counts(NamedTuple):
    """Counts of each n-gram in each text: rows and ids int32, counts float32; `texts` is their number."""

    rows: np.ndarray
    ids: np.ndarray
    counts: np.ndarray
    texts: int

    @classmethod
    def of(cls, config: TextConfig, texts: Sequence[Any]) -> "Counts":
        rows, ids, counts = (np.concatenate(each) for each in zip(*counted(config, texts), strict=True))
        return cls(rows, ids, counts, len(texts))

    def features(self, columns: int) -> Features:
        """Return the n-grams that get weights: all, or the more frequent ones if there are too many."""
        ids, documents = np.unique(self.ids, return_counts=True)
        chosen = np.sort(np.argsort(-documents, kind="stable")[: max(1, _MOST_BYTES // (4 * columns))])
        idf = np.log((1 + self.texts) / (1 + documents[chosen])) + 1
        return Features(ids[chosen], idf.astype(np.float32))

    def values(self, features: Features) -> sp.csr_matrix:
        """Return the features of `NGramLogits` from the counts, float32 `[B, F]`."""
        places = np.minimum(np.searchsorted(features.keys, self.ids), len(features.keys) - 1)
        known = features.keys[places] == self.ids
        rows, ids, places = self.rows[known], self.ids[known], places[known]
        values = (1 + np.log(self.counts[known])) * features.idf[places]
        group = 2 * rows + (ids >= BUCKETS)
        values /= np.sqrt(np.bincount(group, values**2, 2 * self.texts))[group]
        shape = (self.texts, len(features.keys))
        return sp.csr_matrix((values.astype(np.float32), (rows, places)), shape=shape)


def counted(config: TextConfig, texts: Sequence[Any]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, for rows in chunks, rows (from 0), ids and counts of the n-grams in each, once each."""
    start = 0
    for chunk in chunks(texts, _CHUNK, _CHARACTERS):
        columns = list(zip(*chunk, strict=True)) if isinstance(chunk[0], tuple) else [chunk]
        found = _traced(config, len(columns))(*map(as_strings, columns))
        keys = found.rows.numpy().astype(np.int64) * (2 * BUCKETS) + found.ids.numpy()
        keys, counts = np.unique(keys, return_counts=True)
        rows, places = np.divmod(keys, 2 * BUCKETS)
        yield (rows + start).astype(np.int32), places.astype(np.int32), counts.astype(np.float32)
        start += len(chunk)


@functools.cache
def _traced(config: TextConfig, texts: int) -> Any:
    """Return `ngram_ids`, or `pair_ngram_ids` for two texts, as a graph, built once for a config."""
    ids = ngram_ids if texts == 1 else pair_ngram_ids
    specs = [tf.TensorSpec([None], tf.string)] * texts
    return tf.function(lambda *strings: ids(config, *strings), input_signature=specs, autograph=False)


def wide_logits(layer: NGramLogits, config: TextConfig, texts: Sequence[Any]) -> np.ndarray:
    """Return the layer's logits for texts, or pairs, float32 `[B, classes]`, many at a time."""
    features = Features(np.asarray(layer.keys), np.asarray(layer.idf))
    kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
    found = [
        Counts.of(config, chunk).values(features) @ kernel + bias
        for chunk in chunks(texts, _ROWS_AT_ONCE, _CHARACTERS_AT_ONCE)
    ]
    logits = np.concatenate(found)
    if layer.columns < layer.classes:
        logits = np.concatenate([-logits / 2, logits / 2], axis=1)
    return logits.astype(np.float32)
