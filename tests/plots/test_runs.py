"""Plots of runs: curves, confusion and reliability."""

import io

import keras
import numpy as np

from keras_selfattn.plots import (
    confusion_matrix,
    reliability,
    training_curves,
)

PNG = b"\x89PNG\r\n\x1a\n"


def words(count):
    return [f"word{number}" for number in range(count)]


def texts(labels):
    return [label.get_text() for label in labels]


def image(axes):
    (only,) = axes.images
    return only


def saved(figure, form="png"):
    content = io.BytesIO()
    figure.savefig(content, format=form)
    return content.getvalue()


def test_training_curves_have_a_chart_for_each_metric_and_mark_the_best_epoch():
    history = {"loss": [0.9, 0.5], "val_loss": [0.8, 0.6], "accuracy": [0.25, 0.75]}
    figure = training_curves(history, best_epoch=2, title="What it shows")
    loss, accuracy = figure.axes
    assert [line.get_label() for line in loss.lines[:2]] == ["training", "validation"]
    np.testing.assert_array_equal(loss.lines[1].get_xydata(), [[1, 0.8], [2, 0.6]])
    np.testing.assert_array_equal(accuracy.lines[0].get_ydata(), [0.25, 0.75])
    assert loss.lines[2].get_xdata()[0] == 2
    assert figure.get_suptitle() == "What it shows"
    fitted = keras.callbacks.History()
    fitted.history = {**history, "learning_rate": [0.1, 0.0]}  # no metric
    assert [axes.get_ylabel() for axes in training_curves(fitted).axes] == ["loss", "accuracy"]


def test_a_confusion_matrix_has_the_shares_of_its_rows_and_its_counts():
    figure = confusion_matrix([[6, 2], [0, 4]], ["$a$", "b"])
    axes = figure.axes[0]
    np.testing.assert_array_equal(image(axes).get_array().filled(-1), [[0.75, 0.25], [-1, 1]])
    assert texts(axes.texts) == ["6", "2", "4"]
    assert texts(axes.get_yticklabels()) == ["$a$", "b"]
    assert saved(figure).startswith(PNG)
    many = confusion_matrix(np.eye(150, dtype=int), words(150)).axes[0]
    assert texts(many.texts) == []


def test_reliability_has_a_point_for_each_bin_with_answers():
    figure = reliability([True, False, True], [0.99, 0.98, 0.5])
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.5, 1], [0.985, 0.5]])
    assert figure.get_suptitle() == "Calibration error 49.0%"
