"""Correlations are those of SciPy, ties included; equal numbers have none."""

import numpy as np
import pytest
from scipy import stats

from keras_selfattn.metrics.correlations import pearson, ranks, spearman

RANDOM = np.random.default_rng(0)
TIED, SPREAD = RANDOM.integers(0, 6, 40), RANDOM.standard_normal(40)


@pytest.mark.parametrize("first", [TIED, SPREAD, SPREAD.astype("float32")])
def test_correlations_are_scipy_s(first):
    second = np.round(first + RANDOM.standard_normal(40), 0)
    assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second).statistic)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    np.testing.assert_array_equal(ranks(second), stats.rankdata(second))


def test_equal_numbers_have_no_correlation_though_their_mean_is_rounded():
    alike = np.full(3, 0.1)
    assert alike.mean() != 0.1
    assert np.isnan(pearson(alike, np.arange(3)))
    assert np.isnan(spearman(np.arange(3), alike))


def test_a_correlation_is_1_at_most():
    for factor in RANDOM.standard_normal(20):
        assert -1 <= pearson(SPREAD, factor * SPREAD) <= 1
