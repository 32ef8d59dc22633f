"""The wide path of a text classifier: a linear model of n-grams beside attention, and how it is fitted.

It learns from few rows which words and pieces of words indicate a class; attention learns from their order.
Three linear models are fitted and weighted; the layer is their sum.

Axes: B (texts), G (n-grams), F (features), C (columns: classes, or 1 for two that exclude each other),
N (n-grams of all texts), K (known ones, once in each text).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import scipy.sparse as sp
import tensorflow as tf
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import LinearSVC
from sklearn.utils.parallel import Parallel, delayed

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.subsampling import stratified_subsample
from keras_selfattn.models.text.ngrams import BUCKETS, NGrams, counted
from keras_selfattn.models.vocabulary import chunks

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NGramLogits(keras.layers.Layer):
    """Logits of a linear model of weighted n-gram counts, fitted by `fitted`.

    A feature's value is `(1 + ln(count)) idf`. The values of words, and those of pieces of words, are each
    scaled to length 1. Features that training did not see add nothing.

    Args:
        features: number of n-grams with a weight, F.
        classes: number of classes, C.
        exclusive: True if a row has one label: two classes then share one column of weights.

    Call arguments:
        inputs: the n-grams of a batch of texts, as `ngrams.ngram_ids` returns them.

    Returns:
        float32 `[batch, classes]`.
    """

    def __init__(self, features: int, classes: int, exclusive: bool, **kwargs: Any) -> None:
        super().__init__(trainable=False, dtype="float32", **kwargs)
        self.features = features
        self.classes = classes
        self.exclusive = exclusive
        self.columns = 1 if exclusive and classes == 2 else classes
        fixed: Any = {"trainable": False}  # of the layer alone, integers on PyTorch would ask for gradients
        columns = self.columns
        self.keys = self.add_weight(
            shape=(features,), dtype="int32", initializer="zeros", name="keys", **fixed
        )
        self.idf = self.add_weight(shape=(features,), initializer="ones", name="idf", **fixed)
        self.kernel = self.add_weight(shape=(features, columns), initializer="zeros", name="kernel", **fixed)
        self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias", **fixed)
        self.built = True

    def call(self, inputs: NGrams) -> Tensor:
        found = self._valued(inputs)
        indices = tf.cast(tf.stack([found.rows, found.places], axis=1), tf.int64)
        shape = tf.cast(tf.stack([inputs.texts, self.features]), tf.int64)
        counted = tf.SparseTensor(indices, found.values, shape)  # [B, F]
        return self._of_classes(
            tf.sparse.sparse_dense_matmul(counted, tf.convert_to_tensor(self.kernel)) + self.bias
        )

    def parts(self, inputs: NGrams) -> tuple[Tensor, Tensor, Tensor]:
        """Return what each known n-gram adds to the logits of its text.

        Returns:
            The text's index, int32 `[K]`; the index of the n-gram's first occurrence in `inputs`, `[K]`;
            the addends, float32 `[K, classes]`. A text's addends and `bias_logits` sum to its logits.
        """
        found = self._valued(inputs)
        occurrences = tf.range(tf.size(inputs.ids))
        first = tf.math.unsorted_segment_min(occurrences, found.place_of_each, tf.size(found.known))
        kernel = tf.gather(tf.convert_to_tensor(self.kernel), found.places)
        logits = self._of_classes(found.values[:, None] * kernel)
        return found.rows, tf.boolean_mask(first, found.known), logits

    @property
    def bias_logits(self) -> Tensor:
        """The logits of a text without known n-grams, float32 `[classes]`."""
        return self._of_classes(tf.convert_to_tensor(self.bias)[None])[0]

    def _valued(self, inputs: NGrams) -> "_Valued":
        # A row and an id, bit-cast to one int64, without int64 arithmetic.
        pairs = tf.stack([inputs.ids, inputs.rows], axis=1)
        different, place_of_each, counts = tf.unique_with_counts(tf.bitcast(pairs, tf.int64))
        ids, rows = tf.unstack(tf.bitcast(different, tf.int32), axis=1, num=2)
        places = tf.minimum(tf.searchsorted(self.keys, ids), self.features - 1)
        known = tf.gather(self.keys, places) == ids
        rows, ids, places = (tf.boolean_mask(each, known) for each in (rows, ids, places))
        values = 1 + tf.math.log(tf.cast(tf.boolean_mask(counts, known), tf.float32))
        values = _unit(values * tf.gather(self.idf, places), rows, ids, inputs.texts)
        return _Valued(rows, places, values, place_of_each, known)

    def _of_classes(self, logits: Tensor) -> Tensor:
        """Return the logits of all classes: two that exclude each other share one column."""
        return tf.concat([-logits / 2, logits / 2], axis=1) if self.columns < self.classes else logits

    def get_config(self) -> dict[str, Any]:
        names = ("features", "classes", "exclusive")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class _Valued(NamedTuple):
    """The known n-grams of texts, once in each text: rows and places int32 `[K]`, values float32 `[K]`.

    `known` is bool, with unknown ones; `place_of_each`, int32 `[N]`, leads from an n-gram to its place there.
    """

    rows: Tensor
    places: Tensor
    values: Tensor
    place_of_each: Tensor
    known: Tensor


def _unit(values: Tensor, rows: Tensor, ids: Tensor, texts: Tensor) -> Tensor:
    """Return values scaled so that those of a row's words, and those of its pieces, have length 1."""
    group = 2 * rows + tf.cast(ids >= BUCKETS, tf.int32)
    squares = tf.math.unsorted_segment_sum(values**2, group, 2 * texts)
    return values * tf.math.rsqrt(tf.gather(squares, group))


# The most bytes of the weights: rarer n-grams are left out.
_MOST_BYTES = 32_000_000
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 2**13, 2**22  # predicted at once
# The most characters of all texts for the fit: a character makes about four n-grams of some 50 bytes each.
_MOST_CHARACTERS = 50_000_000
# Share of the rows on which the models' weights are fitted, before each model is fitted on all rows.
_HELD_OUT = 0.2
# A support vector machine for each class is fitted on all rows; beyond so many classes this takes too long.
_SVM_CLASSES = 300
# Machines scaled by log-count ratios of each class help only with few classes.
_SCALED_CLASSES = 10
_C, _SCALED_C = 1.0, 0.3  # of the machines; best on six data sets of texts
# The most values times machines for a fit in this process: some three seconds of work. A second process takes
# one second to start.
_ALONE = 20_000_000


class _Linear(NamedTuple):
    """A linear model: float64 `[F, C]` and `[C]`."""

    kernel: np.ndarray
    bias: np.ndarray


class _Features(NamedTuple):
    """N-grams with a weight: ids in order, int32 `[F]`, and their inverse document frequency."""

    keys: np.ndarray
    idf: np.ndarray


def fitted(
    config: TextConfig,
    texts: Sequence[str],
    targets: np.ndarray,
    classes: int,
    weights: np.ndarray | None = None,
) -> NGramLogits:
    """Return the fitted wide path for labelled texts.

    It is a weighted sum of linear models: support vector machines on tf-idf of all n-grams and, unless tokens
    are characters, of words alone; with few classes, the same machines on features scaled by naive-Bayes
    log-count ratios; and those ratios themselves. The weights maximise the likelihood of held-out rows. The
    sum is again one linear model.

    Args:
        config: sets the tokens and the cut of texts.
        texts: the training rows.
        targets: int `[rows]`, or 0 or 1 `[rows, labels]` if a row can have several.
        classes: number of classes or labels.
        weights: of the rows, float `[rows]`; by default all the same.

    Reference: Wang & Manning 2012, "Baselines and Bigrams", section 2.
    """
    exclusive = targets.ndim == 1
    borne = np.eye(classes, dtype=bool)[targets] if exclusive else targets.astype(bool)  # [B, C]
    weights = np.ones(len(texts)) if weights is None else weights.astype(np.float64)
    chosen = _chosen(texts, borne, weights)
    texts, borne, weights = [texts[int(row)] for row in chosen], borne[chosen], weights[chosen]
    counts = _Counts.of(config, texts)
    columns = borne[:, 1:] if exclusive and classes == 2 else borne
    features = counts.features(columns.shape[1])
    values = counts.values(features)  # [B, F]
    held = np.random.default_rng(0).random(len(texts)) < _HELD_OUT
    if held.all() or not held.any():
        held[:] = np.arange(len(texts)) == 0
    words = features.keys < BUCKETS if config.tokens == "words" else None
    tried = _models(values[~held], columns[~held], weights[~held], classes, words)
    logits = [values[held] @ each.kernel + each.bias for each in tried]
    scales = _scales(logits, columns[held], weights[held], exclusive)
    models = _models(values, columns, weights, classes, words)
    layer = NGramLogits(len(features.keys), classes, exclusive, name="wide")
    kernel = sum(scale * each.kernel for scale, each in zip(scales, models, strict=True))
    bias = sum(scale * each.bias for scale, each in zip(scales, models, strict=True))
    layer.set_weights([features.keys, features.idf, kernel, bias])
    return layer


def _chosen(texts: Sequence[str], borne: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rows to fit on, in their order: those with a positive weight, as far as memory allows."""
    told = np.flatnonzero(weights)
    costs = np.array([len(texts[int(row)]) for row in told])
    return np.sort(told[stratified_subsample(borne[told], costs, _MOST_CHARACTERS)])


def wide_logits(layer: NGramLogits, config: TextConfig, texts: Sequence[str]) -> np.ndarray:
    """Return the layer's logits for texts, float32 `[B, classes]`, many at a time."""
    features = _Features(np.asarray(layer.keys), np.asarray(layer.idf))
    kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
    found = [
        _Counts.of(config, chunk).values(features) @ kernel + bias
        for chunk in chunks(texts, _ROWS_AT_ONCE, _CHARACTERS_AT_ONCE)
    ]
    logits = np.concatenate(found)
    if layer.columns < layer.classes:
        logits = np.concatenate([-logits / 2, logits / 2], axis=1)
    return logits.astype(np.float32)


class _Counts(NamedTuple):
    """Counts of each n-gram in each text: rows and ids int32, counts float32; `texts` is their number."""

    rows: np.ndarray
    ids: np.ndarray
    counts: np.ndarray
    texts: int

    @classmethod
    def of(cls, config: TextConfig, texts: Sequence[str]) -> "_Counts":
        rows, ids, counts = (np.concatenate(each) for each in zip(*counted(config, texts), strict=True))
        return cls(rows, ids, counts, len(texts))

    def features(self, columns: int) -> _Features:
        """Return the n-grams that get weights: all, or the more frequent ones if there are too many."""
        ids, documents = np.unique(self.ids, return_counts=True)
        chosen = np.sort(np.argsort(-documents, kind="stable")[: max(1, _MOST_BYTES // (4 * columns))])
        idf = np.log((1 + self.texts) / (1 + documents[chosen])) + 1
        return _Features(ids[chosen], idf.astype(np.float32))

    def values(self, features: _Features) -> sp.csr_matrix:
        """Return the features of `NGramLogits` from the counts, float32 `[B, F]`."""
        places = np.minimum(np.searchsorted(features.keys, self.ids), len(features.keys) - 1)
        known = features.keys[places] == self.ids
        rows, ids, places = self.rows[known], self.ids[known], places[known]
        values = (1 + np.log(self.counts[known])) * features.idf[places]
        group = 2 * rows + (ids >= BUCKETS)
        values /= np.sqrt(np.bincount(group, values**2, 2 * self.texts))[group]
        shape = (self.texts, len(features.keys))
        return sp.csr_matrix((values.astype(np.float32), (rows, places)), shape=shape)


def _models(
    values: Any, columns: np.ndarray, weights: np.ndarray, classes: int, words: np.ndarray | None
) -> list[_Linear]:
    """Return the models of rows; `words`, bool `[F]`, selects the features of models of words alone."""
    ratios = _log_count_ratios(values, columns, weights)
    found = [ratios]
    # The held-out rows decide whether pieces of words help or mislead.
    for kept in [np.ones(values.shape[1])] + ([] if words is None else [words.astype(np.float64)]):
        if classes <= _SVM_CLASSES:
            found.append(_machines(values, columns, weights, _C, kept[:, None]))
        if classes <= _SCALED_CLASSES:
            found.append(_machines(values, columns, weights, _SCALED_C, ratios.kernel * kept[:, None]))
    return found


def _log_count_ratios(values: Any, columns: np.ndarray, weights: np.ndarray) -> _Linear:
    """Return the log-count ratio of each feature with and without the label; Wang & Manning's equation 2."""
    occurs = (values > 0).astype(np.float64)
    borne = columns * weights[:, None]
    with_it = np.asarray(occurs.T @ borne) + 1  # [F, C]
    without = np.asarray(occurs.T @ weights)[:, None] - (with_it - 1) + 1
    kernel = np.log(with_it / with_it.sum(axis=0)) - np.log(without / without.sum(axis=0))
    prior = (borne.sum(axis=0) + 1) / (weights.sum() + 2)
    return _Linear(kernel, np.log(prior / (1 - prior)))


def _machines(values: Any, columns: np.ndarray, weights: np.ndarray, c: float, scales: np.ndarray) -> _Linear:
    """Return a support vector machine for each column, on features times `scales`, `[F, C]` or `[F, 1]`."""
    kernel: Any = np.zeros((values.shape[1], columns.shape[1]))
    bias = np.where(columns.all(axis=0), 1.0, -1.0)
    mixed = np.flatnonzero(columns.any(axis=0) & ~columns.all(axis=0))  # the others have nothing to learn
    shared = values @ sp.diags(scales[:, 0]) if scales.shape[1] == 1 else None
    side_by_side = Parallel(n_jobs=-1 if values.nnz * len(mixed) > _ALONE else 1)
    machines: Any = side_by_side(
        delayed(LinearSVC(C=c, random_state=0).fit)(
            values @ sp.diags(scales[:, place]) if shared is None else shared,
            columns[:, place],
            sample_weight=weights,
        )
        for place in mixed
    )
    for place, machine in zip(mixed, machines, strict=True):
        kernel[:, place] = machine.coef_[0]
        bias[place] = machine.intercept_[0]
    return _Linear(kernel * scales, bias)


def _scales(
    logits: Sequence[np.ndarray], columns: np.ndarray, weights: np.ndarray, exclusive: bool
) -> np.ndarray:
    """Return positive weights of the models that maximise the likelihood of held-out labels `[B, C]`."""
    deviations = np.array([max(each.std(), 1e-6) for each in logits])
    stacked = np.stack([each / deviation for each, deviation in zip(logits, deviations, strict=True)])

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = np.tensordot(np.exp(logs), stacked, 1)  # [B, C]
        if exclusive and columns.shape[1] > 1:
            shifted = mixed - mixed.max(axis=1, keepdims=True)
            likely = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
            found = -(weights * np.log(np.maximum(likely[columns], 1e-300))).sum()
        else:
            likely = expit(mixed)
            found = (weights[:, None] * (np.logaddexp(0, mixed) - columns * mixed)).sum()
        over = weights[:, None] * (likely - columns)
        slopes = np.exp(logs) * np.array([(over * each).sum() for each in stacked])
        return found / weights.sum(), slopes / weights.sum()

    bounds = [(-6, 4)] * len(logits)
    return (
        np.exp(minimize(loss, np.zeros(len(logits)), jac=True, method="L-BFGS-B", bounds=bounds).x)
        / deviations
    )
