"""Figures of classes, and the error of calibration, by hand."""

import numpy as np
import pytest

from keras_selfattn.metrics.classes import calibration_error, classification_report


def test_figures_by_hand():
    """Two of three right; class b is never right; class c occurs nowhere."""
    figures = classification_report(["a", "b", "c"], ["a", "a", "b"], ["a", "a", "a"])
    assert figures.accuracy == pytest.approx(2 / 3)
    assert figures.classes[0].precision == pytest.approx(2 / 3)
    assert figures.classes[0].recall == 1
    assert figures.macro_f1 == pytest.approx((0.8 + 0) / 2)
    assert figures.confusion.tolist() == [[2, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert figures.most_confused(5) == [("b", "a", 1)]
    assert figures.rows == 3


def test_the_calibration_error_by_hand():
    """Two of confidence 0.7, one of which is right, and one of 1.0, which is: gaps of 0.4 and 0 in all."""
    error = calibration_error(["a", "a", "b"], ["a", "b", "b"], np.array([0.7, 0.7, 1.0]))
    assert error == pytest.approx((2 * 0.7 - 1) / 3)
