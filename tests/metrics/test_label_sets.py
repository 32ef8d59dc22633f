"""Figures of sets of labels by hand, and those of scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support

from keras_selfattn.metrics.label_sets import label_set_report


def test_figures_of_label_sets_by_hand():
    """Three of four true labels are predicted, and one wrong label; c occurs nowhere."""
    true = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], bool)
    predicted = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], bool)
    figures = label_set_report(["a", "b", "c"], true, predicted)
    assert figures.accuracy == pytest.approx(1 / 3)
    assert figures.micro_f1 == pytest.approx(2 * 3 / (4 + 4))
    assert figures.macro_f1 == pytest.approx((1 + 0.5) / 2)
    assert [c.rows for c in figures.classes] == [2, 2, 0]
    assert figures.rows == 3


def test_figures_of_label_sets_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for labels in (1, 2, 5):
        true, predicted = random.random((2, 40, labels)) < 0.4
        figures = label_set_report([f"label{n}" for n in range(labels)], true, predicted)
        # A column that is never borne nor predicted, for scikit-learn takes a single one for two classes.
        padded = [np.pad(each, ((0, 0), (0, 1))) for each in (true, predicted)]
        wanted = precision_recall_fscore_support(*padded, zero_division=0.0)
        found = [(c.precision, c.recall, c.f1, c.rows) for c in figures.classes]
        np.testing.assert_allclose(found, np.transpose(wanted)[:-1])
        assert figures.micro_f1 == pytest.approx(f1_score(*padded, average="micro"))
        assert figures.macro_f1 == pytest.approx(np.mean(wanted[2][:-1]))
