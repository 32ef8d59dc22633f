"""The report of a model counts unknown labels as missed."""

import numpy as np
import pytest

from keras_selfattn.metrics import report_of
from keras_selfattn.models.heads.class_heads import MultiLabelHead
from keras_selfattn.models.tokens.position_head import PositionHead

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


def test_unknown_labels_of_several_a_row_and_of_tokens_count_as_missed():
    targets = [["x"], ["x", "new"]]
    outputs = np.array([[0.9, 0.1], [0.9, 0.1]], "float32")
    figures = report_of(MultiLabelHead(["x", "y"]), targets, outputs).summary()
    assert (figures["accuracy"], figures["micro_f1"]) == (0.5, pytest.approx(2 * 2 / (2 + 3)))
    head, outputs = PositionHead(["B-X", "O"], spans=True), [np.array([[0.9, 0.1], [0.9, 0.1]], "float32")]
    figures = report_of(head, [["B-X", "B-NEW"]], outputs).summary()
    assert (figures["accuracy"], figures["span_recall"], figures["span_precision"]) == (0.5, 0.5, 0.5)
