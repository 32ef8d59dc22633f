"""Mistakes of every kind of targets, the surest or largest first."""

import numpy as np
import pytest

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.mistakes import mistakes_of
from keras_selfattn.models.heads.class_heads import ClassHead, MultiLabelHead
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.tokens.position_head import PositionHead

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


def test_the_mistakes_of_labels_come_the_surest_first():
    rows = LabelledRows(["a", "b", "c"], ["+", "+", "new"], "t.csv", [2, 3, 5])
    outputs = np.array([[0.9, 0.1], [0.4, 0.6], [0.1, 0.9]], "float32")
    found = mistakes_of(ClassHead(["+", "-"]), rows, outputs)
    assert list(found.header) == ["line", "text", "label", "predicted", "probability"]
    assert found.rows == [(5, "c", "new", "-", 0.9), (3, "b", "+", "-", 0.6)]


def test_the_mistakes_of_several_labels_a_row_tell_the_surest_wrong_decision():
    rows = LabelledRows(["a", "b", "c"], [["x"], ["x", "y"], ["new"]], "made up")
    outputs = np.array([[0.9, 0.1], [0.75, 0.2], [0.2, 0.3]], "float32")
    found = mistakes_of(MultiLabelHead(["x", "y"]), rows, outputs)
    assert list(found.header) == ["where", "text", "label", "predicted", "probability"]
    assert found.rows == [("row 2", "c", ["new"], [], 1.0), ("row 1", "b", ["x", "y"], ["x"], 0.8)]


def test_a_label_of_probability_one_half_is_predicted_in_mistakes_too():
    """The same threshold as in the figures and in the answers of a server."""
    rows = LabelledRows(["a", "b"], [["x"], ["x"]], "made up")
    outputs = np.array([[0.5, 0.25], [0.75, 0.5]], "float32")
    found = mistakes_of(MultiLabelHead(["x", "y"]), rows, outputs)
    assert found.rows == [("row 1", "b", ["x"], ["x", "y"], 0.5)]


def test_the_mistakes_of_tokens_are_a_line_each():
    rows = LabelledRows([["a", "film"], ["she"]], [["DET", "NOUN"], ["PRON"]], "t.conll", [1, 4])
    outputs = [np.array([[0.9, 0.1], [0.7, 0.3]], "float32"), np.array([[0.2, 0.8]], "float32")]
    found = mistakes_of(PositionHead(["DET", "NOUN"]), rows, outputs)
    assert list(found.header) == ["line", "position", "token", "text", "label", "predicted", "probability"]
    assert found.rows == [
        (4, 0, "she", "she", "PRON", "NOUN", 0.8),
        (1, 1, "film", "a film", "NOUN", "DET", 0.7),
    ]


def test_numbers_come_the_largest_error_first_and_images_by_the_name_of_their_file():
    rows = LabelledRows(list(np.zeros((2, 3, 1))), [np.array([1.0]), np.array([5.0])], "t.ts", [7, 8])
    found = mistakes_of(NumbersHead([0.0], [1.0]), rows, np.array([[1.5], [2.0]], "float32"))
    assert list(found.header) == ["line", "label", "predicted", "error"]
    assert found.rows == [(8, 5.0, 2.0, 3.0), (7, 1.0, 1.5, 0.5)]
    images = LabelledRows(list(np.zeros((1, 2, 2))), ["cat"], "photos", ["cat/1.png"])
    found = mistakes_of(ClassHead(["cat", "dog"]), images, np.array([[0.25, 0.75]]))
    assert found.rows == [("cat/1.png", "cat", "dog", 0.75)]
