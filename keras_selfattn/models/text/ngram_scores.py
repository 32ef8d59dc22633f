"""The fit of a text regressor's wide path: a ridge regression of n-grams, or a logistic one for [0, 1].

In a module of its own, because scikit-learn takes half a second to import, and only a training needs it.

Axes: B (texts), F (features), N (numbers of a row).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from keras_selfattn.models.batches.subsampling import stratified_subsample
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.text.ngram_counts import Counts
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.vocabulary import characters_of

# As for labels: a character makes about four n-grams of some 50 bytes each.
_MOST_CHARACTERS = 50_000_000
# Share of the rows by which the penalty is chosen, before the model is fitted on all rows.
_HELD_OUT = 0.2
# Tried penalties of features of length 1 for words and for pieces; those of the logistic one are 1 / C.
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
_LEAST = 1e-7

Fit = Callable[[Any, np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""From features `[B, F]`, targets `[B, N]`, weights `[B]` and a penalty to kernel `[F, N]` and bias `[N]`."""


def fitted(
    config: TextConfig,
    texts: Sequence[Any],
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    bounded: bool = False,
) -> NGramLogits:
    """Return the fitted wide path for scored texts.

    Args:
        config: sets the tokens and the cut of texts.
        texts: the training rows: texts, or pairs of them.
        targets: float `[rows, N]`: deviations from the mean or, if `bounded`, scores in [0, 1].
        weights: of the rows, float `[rows]`; by default all the same.
        bounded: True fits logits by cross-entropy, False numbers by squared error.
    """
    weights = np.ones(len(texts)) if weights is None else weights.astype(np.float64)
    chosen = _chosen(texts, weights)
    rows: Any = [texts[int(row)] for row in chosen]
    targets, weights = targets[chosen], weights[chosen]
    counts = Counts.of(config, rows)
    features = counts.features(targets.shape[1])
    values = counts.values(features)  # [B, F]
    fit, error = (_logistic, _cross_entropy) if bounded else (_ridge, _squared_error)
    kernel, bias = fit(values, targets, weights, _penalty(values, targets, weights, fit, error))
    layer = NGramLogits(len(features.keys), targets.shape[1], False, name="wide")
    layer.set_weights([features.keys, features.idf, kernel, bias])
    return layer


def _chosen(texts: Sequence[Any], weights: np.ndarray) -> np.ndarray:
    """Return the rows to fit on, in their order: those with a positive weight, as far as memory allows."""
    told = np.flatnonzero(weights)
    costs = np.array([characters_of(texts[int(row)]) for row in told])
    alike = np.ones((len(told), 1), dtype=bool)
    return np.sort(told[stratified_subsample(alike, costs, _MOST_CHARACTERS)])


def _penalty(values: Any, targets: np.ndarray, weights: np.ndarray, fit: Fit, error: Any) -> float:
    """Return the penalty with the smallest error on held-out rows."""
    held = np.random.default_rng(0).random(len(targets)) < _HELD_OUT
    if held.all() or not held.any():
        return 1.0
    errors = []
    for penalty in _PENALTIES:
        kernel, bias = fit(values[~held], targets[~held], weights[~held], penalty)
        errors.append(np.average(error(values[held] @ kernel + bias, targets[held]), weights=weights[held]))
    return _PENALTIES[int(np.argmin(errors))]


def _ridge(
    values: Any, targets: np.ndarray, weights: np.ndarray, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    model = Ridge(alpha=penalty, solver="sparse_cg", tol=1e-4)
    model.fit(values.astype(np.float64), targets, sample_weight=weights)
    return np.reshape(model.coef_, (targets.shape[1], -1)).T, np.ravel(model.intercept_)


def _squared_error(found: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return ((found - targets) ** 2).mean(axis=1)


def _logistic(
    values: Any, targets: np.ndarray, weights: np.ndarray, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Fit each score as a row that is 1 with its own weight, and 0 with the rest: the same likelihood."""
    kernel, bias = np.zeros((values.shape[1], targets.shape[1])), np.zeros(targets.shape[1])
    twice = sp.vstack([values, values], format="csr")
    for place, column in enumerate(targets.T):
        likely = np.concatenate([column, 1 - column]) * np.tile(weights, 2)
        answers = np.repeat([1, 0], len(column))
        if not (likely[: len(column)].any() and likely[len(column) :].any()):  # all 1, or all 0
            share = np.clip(column.mean(), _LEAST, 1 - _LEAST)
            bias[place] = np.log(share / (1 - share))
            continue
        model = LogisticRegression(C=1 / penalty, max_iter=300).fit(twice, answers, sample_weight=likely)
        kernel[:, place], bias[place] = model.coef_[0], model.intercept_[0]
    return kernel, bias


def _cross_entropy(found: np.ndarray, targets: np.ndarray) -> np.ndarray:
    likely = np.clip(expit(found), _LEAST, 1 - _LEAST)
    return -(targets * np.log(likely) + (1 - targets) * np.log1p(-likely)).mean(axis=1)
