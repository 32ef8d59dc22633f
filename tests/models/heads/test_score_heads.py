"""The heads of scores: what they refuse, and how attention and the wide path are one number."""

import keras
import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.heads.score_heads import BoundedScoreHead, ScoreHead
from keras_selfattn.rows.containers import TableRows

X, WIDE = np.ones((1, 2), "float32"), np.array([[3.0]], "float32")


def answer_of(head):
    """The answer of a head whose attention says 1 and whose wide path says 3, of 1 to 3 parts."""
    x, wide = keras.Input((2,)), keras.Input((1,))
    model = keras.Model([x, wide], head.outputs(x, wide, Shares(deep=0.5, wide=1.5)))
    model.get_layer("logits").set_weights([np.zeros((2, 1)), np.ones(1)])
    return float(np.asarray(model([X, WIDE]))[0, 0])


def test_the_answer_is_the_weighted_mean_of_both_paths_in_the_units_of_the_targets():
    assert answer_of(ScoreHead([10.0], [2.0])) == pytest.approx(10 + 2 * (0.25 * 1 + 0.75 * 3))


def test_a_bounded_answer_is_the_probability_of_the_mean_of_both_logits():
    assert answer_of(BoundedScoreHead([0.5], [0.5])) == pytest.approx(1 / (1 + np.exp(-2.5)))


def test_a_score_of_one_value_is_refused_and_named():
    with pytest.raises(DataError, match="The score has one value only: it is 3 in all 2 rows"):
        ScoreHead.from_targets(ScoreHead.read([3, 3.0]))
    with pytest.raises(DataError, match="The score 2 of 2 has one value only: it is 0.5 in all 3 rows"):
        ScoreHead.from_targets(ScoreHead.read([[1, 0.5], [2, 0.5], [2, 0.5]]))


def test_scores_of_mean_0_and_deviation_1_are_in_the_units_of_a_training():
    targets = ScoreHead.read([1, -1.0, 1, -1])
    head = ScoreHead.from_targets(targets)
    assert (head.mean, head.deviation) == ([0.0], [1.0])
    assert not head.unscaled
    assert not ScoreHead(**head.state).unscaled
    # A file of an earlier version does not say it.
    assert ScoreHead([0.0], [1.0]).unscaled
    assert not ScoreHead([0.0, 0.5], [1.0, 1.0]).unscaled


@pytest.mark.parametrize("outside", [-0.001, 1.5])
def test_a_score_outside_of_the_bounds_is_refused_with_its_place(outside):
    said = rf"Target 1 \(counted from 0\) must be in \[0, 1\], .*--bounded.*Received {outside}"
    with pytest.raises(DataError, match=said):
        BoundedScoreHead.read([0.5, outside])
    assert [each.tolist() for each in BoundedScoreHead.read([0, 1])] == [[0.0], [1.0]]


def test_the_loss_of_bounded_scores_is_least_at_the_score_itself():
    loss = BoundedScoreHead([0.5], [0.5]).loss()
    found = [float(loss(np.array([[0.3]], "float32"), np.array([[p]], "float32"))) for p in (0.2, 0.3, 0.4)]
    assert found[1] == pytest.approx(-(0.3 * np.log(0.3) + 0.7 * np.log(0.7)), rel=1e-5)
    assert found[1] < min(found[0], found[2])


@pytest.mark.parametrize("columns", [["grade_1", "grade_2", "grade_1"], [1, "1", "2"], ["a", "", "b"]])
def test_names_that_do_not_tell_scores_apart_are_refused(columns):
    """A column of lists, `grade`, gives `grade_1`, …; beside it there may be a column of that name."""
    table = TableRows(np.eye(3), columns)
    with pytest.raises(DataError, match="because answers are told by their names"):
        ScoreHead.from_targets(table)
