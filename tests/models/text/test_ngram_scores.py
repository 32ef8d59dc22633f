"""The wide path of a regressor: its fit is the solution of the equations of each regression."""

import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.models.text import ngram_scores
from keras_selfattn.models.text.ngram_counts import Counts, wide_logits

CONFIG = models.ScoreConfig()
RANDOM = np.random.default_rng(0)
WORDS = ["good", "bad", "film", "plot", "so", "fine", "dull", "warm"]
TEXTS = [" ".join(RANDOM.choice(WORDS, 4)) for _ in range(30)]
SCORES = np.array([[text.count("good") - text.count("bad"), text.count("film")] for text in TEXTS], float)
WEIGHTS = RANDOM.integers(0, 3, 30).astype(float)


@pytest.fixture
def values(monkeypatch):
    """The features of the rows that weigh something, with one penalty instead of a choice."""
    monkeypatch.setattr(ngram_scores, "_PENALTIES", (2.0,))
    counts = Counts.of(CONFIG, [text for text, weight in zip(TEXTS, WEIGHTS, strict=True) if weight])
    return counts.values(counts.features(2)).toarray().astype(float)


def test_the_ridge_solves_its_normal_equations_with_weights_and_an_intercept(values):
    layer = ngram_scores.fitted(CONFIG, TEXTS, SCORES, WEIGHTS)
    kept = WEIGHTS > 0
    root = np.sqrt(WEIGHTS[kept])[:, None]
    columns = np.hstack([values, np.ones((len(values), 1))]) * root
    penalty = np.diag([2.0] * values.shape[1] + [0.0])  # the intercept has none
    wanted = np.linalg.solve(columns.T @ columns + penalty, columns.T @ (SCORES[kept] * root))
    found = wide_logits(layer, CONFIG, TEXTS)[kept]
    np.testing.assert_allclose(found, values @ wanted[:-1] + wanted[-1], atol=2e-3)


def test_the_logistic_regression_of_shares_is_where_its_gradient_is_zero(values):
    shares = (SCORES - SCORES.min(axis=0)) / np.ptp(SCORES, axis=0)
    layer = ngram_scores.fitted(CONFIG, TEXTS, shares, WEIGHTS, bounded=True)
    kernel, kept = np.asarray(layer.kernel, float), WEIGHTS > 0
    likely = 1 / (1 + np.exp(-(values @ kernel + np.asarray(layer.bias))))
    over = WEIGHTS[kept][:, None] * (likely - shares[kept])
    np.testing.assert_allclose(over.sum(axis=0), 0, atol=2e-2)
    np.testing.assert_allclose(values.T @ over + 2.0 * kernel, 0, atol=2e-2)


def test_the_penalty_is_that_with_the_least_error_on_held_out_rows(monkeypatch):
    tried = []

    def fit(values, targets, weights, penalty):
        tried.append((len(targets), penalty))
        return np.zeros((values.shape[1], 1)), np.array([penalty])

    held = np.random.default_rng(0).random(30) < 0.2
    values, targets = np.zeros((30, 3)), np.full((30, 1), 8.0)
    chosen = ngram_scores._penalty(values, targets, np.ones(30), fit, ngram_scores._squared_error)
    assert chosen == 10.0  # of .3, 1, 3, 10 and 30 the nearest to 8
    assert {rows for rows, _ in tried} == {30 - held.sum()}


def test_scores_that_are_all_at_a_bound_have_a_bias_alone():
    layer = ngram_scores.fitted(CONFIG, TEXTS[:9], np.repeat([[1.0, 0.0]], 9, axis=0), bounded=True)
    assert not np.asarray(layer.kernel).any()
    np.testing.assert_allclose(layer.bias, [16.1, -16.1], atol=0.1)
