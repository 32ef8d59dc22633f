"""Figures of scores are those of SciPy and scikit-learn, ties and constants included."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from keras_selfattn.metrics.scores import score_report
from keras_selfattn.report.figure_names import name_in_words

RANDOM = np.random.default_rng(0)
# Each with ties, which ranks must average.
TRUE = RANDOM.integers(0, 5, (60, 2)).astype(float)
PREDICTED = np.round(TRUE + RANDOM.normal(size=TRUE.shape), 0)


def test_the_figures_are_those_of_scipy_and_scikit_learn():
    found = score_report(TRUE, PREDICTED, {"ridge": TRUE + 1}).scores["model"]
    for place, figures in enumerate(found):
        true, predicted = TRUE[:, place], PREDICTED[:, place]
        wanted = (
            r2_score(true, predicted),
            mean_absolute_error(true, predicted),
            root_mean_squared_error(true, predicted),
            stats.pearsonr(true, predicted)[0],
            stats.spearmanr(true, predicted)[0],
        )
        assert figures == pytest.approx(wanted)


def test_the_summary_has_means_each_score_and_the_baselines():
    report = score_report(TRUE, PREDICTED, {"mean of training": np.full_like(TRUE, 2), "ridge": TRUE})
    summary, (first, second) = report.summary(), report.scores["model"]
    assert next(iter(summary)) == "r_squared"
    assert summary["spearman"] == pytest.approx((first.spearman + second.spearman) / 2)
    assert summary["pearson_2"] == second.pearson
    assert summary["r_squared_of_ridge"] == summary["spearman_of_ridge"] == pytest.approx(1)
    assert summary["mean_absolute_error_of_mean_of_training"] == pytest.approx(np.abs(TRUE - 2).mean())
    # A constant has no correlation with anything.
    assert "spearman_of_mean_of_training" not in summary
    assert {line[:2] for line in report.tables()["errors"].rows} >= {("model", 1), ("ridge", 2)}


def test_scores_with_names_have_their_figures_by_name():
    names = ["ease_of_use", "content"]
    report = score_report(TRUE, PREDICTED, {"mean of training": np.full_like(TRUE, 2)}, names)
    summary = report.summary()
    assert summary["pearson_content"] == report.scores["model"][1].pearson
    assert [line[:2] for line in report.lines()[:2]] == [("model", "ease_of_use"), ("model", "content")]
    # A figure that is not defined is told, whatever the name; those of baselines begin with "of".
    alike = score_report(np.ones((3, 2)), PREDICTED[:3], {}, names).summary()
    assert math.isnan(alike["pearson_ease_of_use"])
    assert "pearson_1" in score_report(TRUE, PREDICTED, {}, ["of_ridge", "content"]).summary()


def test_figures_that_are_not_defined_are_none_and_warn_of_nothing():
    for score in (2.0, 0.1):  # the mean of three times 0.1 is not 0.1
        alike = score_report(np.full((3, 1), score), np.array([[1.0], [2.0], [3.0]]), {}).summary()
        assert math.isnan(alike["r_squared"])
        assert math.isnan(alike["pearson"])
    assert alike["mean_absolute_error"] == pytest.approx(1.9)
    broken = score_report(np.array([[1.0], [2.0], [3.0]]), np.array([[np.nan], [2.0], [3.0]]), {})
    assert all(map(math.isnan, broken.summary().values()))


def test_figures_of_scores_have_names_for_people():
    assert name_in_words("spearman_of_ridge") == "Spearman of ridge"
