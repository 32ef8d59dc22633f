"""The fit of a text classifier's wide path: three linear models are weighted, and the layer is their sum.

In a module of its own, because scikit-learn takes half a second to import, and only a training needs it.

Axes: B (texts), F (features), C (columns: classes, or 1 for two that exclude each other).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import LinearSVC
from sklearn.utils.parallel import Parallel, delayed

from keras_selfattn.models.batches.subsampling import stratified_subsample
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.text.ngram_counts import Counts
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.ngrams import BUCKETS
from keras_selfattn.models.vocabulary import characters_of

# The most characters of all texts for the fit: a character makes about four n-grams of some 50 bytes each.
_MOST_CHARACTERS = 50_000_000
# Share of the rows on which the models' weights are fitted, before each model is fitted on all rows; and the
# most of the others on which the models are fitted for that.
_HELD_OUT, _MOST_FOR_WEIGHTS = 0.2, 30_000
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


def fitted(
    config: TextConfig,
    texts: Sequence[Any],
    targets: np.ndarray,
    classes: int,
    weights: np.ndarray | None = None,
) -> NGramLogits:
    """Return the fitted wide path for labelled texts, or pairs of texts.

    It is a weighted sum of linear models: support vector machines on tf-idf of all n-grams and, unless tokens
    are characters, of words alone; with few classes, the same machines on features scaled by naive-Bayes
    log-count ratios; and those ratios themselves. The weights maximise the likelihood of held-out rows. The
    sum is again one linear model.

    Args:
        config: sets the tokens and the cut of texts.
        texts: the training rows: texts, or pairs of them.
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
    counts = Counts.of(config, texts)
    columns = borne[:, 1:] if exclusive and classes == 2 else borne
    features = counts.features(columns.shape[1])
    values = counts.values(features)  # [B, F]
    held = np.random.default_rng(0).random(len(texts)) < _HELD_OUT
    if held.all() or not held.any():
        held[:] = np.arange(len(texts)) == 0
    words = None if config.tokens == "characters" else features.keys < BUCKETS
    others = np.flatnonzero(~held)
    some = stratified_subsample(borne[others], np.ones(len(others)), _MOST_FOR_WEIGHTS)
    others = others[np.sort(some)]
    tried = _models(values[others], columns[others], weights[others], classes, words)
    logits = [values[held] @ each.kernel + each.bias for each in tried]
    scales = _scales(logits, columns[held], weights[held], exclusive)
    models = _models(values, columns, weights, classes, words)
    layer = NGramLogits(len(features.keys), classes, exclusive, name="wide")
    kernel = sum(scale * each.kernel for scale, each in zip(scales, models, strict=True))
    bias = sum(scale * each.bias for scale, each in zip(scales, models, strict=True))
    layer.set_weights([features.keys, features.idf, kernel, bias])
    return layer


def _chosen(texts: Sequence[Any], borne: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rows to fit on, in their order: those with a positive weight, as far as memory allows."""
    told = np.flatnonzero(weights)
    costs = np.array([characters_of(texts[int(row)]) for row in told])
    return np.sort(told[stratified_subsample(borne[told], costs, _MOST_CHARACTERS)])


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
