"""Targets of vectors: scores, or none; what is refused."""

import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.pretrained.vector_head import VectorHead
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TextNumbers

GROUPS = [TextNumbers((0, 1, 2)), TextNumbers((3, 4)), TextNumbers((0, 5, -1))]


def test_scores_and_groups_are_encoded():
    assert VectorHead.read(np.array([1, 2])) == [1.0, 2.0]
    assert VectorHead.read([True, np.float32(0.5), 3]) == [1.0, 0.5, 3.0]
    assert VectorHead.read(np.array([[1.0], [2.0]])) == [1.0, 2.0]
    assert VectorHead.read([np.array([1.0]), np.array([2.0])]) == [1.0, 2.0]
    np.testing.assert_array_equal(VectorHead().encoded([1.0, 0.5]), np.array([[1], [0.5]], "float32"))
    found = VectorHead().encoded(GROUPS)
    assert found.dtype == np.int32
    assert found.tolist() == [[0, 1, 2], [3, 4, -1], [0, 5, -1]]


def test_rows_without_scores_have_none():
    assert VectorHead.read([None, float("nan")]) == [None, None]
    assert VectorHead.read(GROUPS) == [None] * 3


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (["high", "low"], r"Score 0 \(counted from 0\) must be a number, finite in float32. Received 'high'"),
        ([1.0, float("inf")], r"Score 1 .*Received inf"),
        ([1.0, 1e39], r"Score 1 .*finite in float32. Received 1e\+39"),
        ([1.0, [2.0]], r"Score 1 .*Received \[2.0\]"),
        ([1.0, None], r"Row 1 \(counted from 0\) has no score, and row 0 has 1.0"),
    ],
)
def test_what_is_no_score_is_named(scores, said):
    with pytest.raises(DataError, match=said):
        VectorHead.read(scores)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([2.0, 2.0], "All 2 scores are 2 in float32, so no pair is more alike"),
        (
            [TextNumbers((0, 1)), TextNumbers((2, 1, -1))],
            "In the 2 groups of texts, each second text belongs",
        ),
        ([TextNumbers((0, 1)), TextNumbers((0, 2, -1))], "In the 2 groups"),
        ([TextNumbers((0, 1, 0))], "In the 1 groups"),
    ],
)
def test_targets_that_say_nothing_are_refused(targets, said):
    with pytest.raises(DataError, match=said):
        VectorHead.from_targets(targets)


def test_a_single_group_with_a_negative_is_enough():
    assert VectorHead.from_targets([TextNumbers((0, 1, 2))]).state == {}


def test_scores_alone_are_numbers_of_a_report():
    assert SIMILARITY.numbers(2.5).tolist() == [2.5]
    assert SIMILARITY.numbers(GROUPS[0]).size == 0
    assert (SIMILARITY.as_json(2.5), SIMILARITY.as_json(GROUPS[0])) == (2.5, None)
