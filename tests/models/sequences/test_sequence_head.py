"""The head of answers: what it reads, the loss and the accuracy, beside loops in NumPy."""

import keras
import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.sequences.sequence_head import (
    AnswerCrossentropy,
    AnswerHead,
    SymbolAccuracy,
    labels_of,
)
from keras_selfattn.models.sequences.symbols import Characters
from keras_selfattn.models.text.masked_prediction import HiddenCrossentropy

RANDOM = np.random.default_rng(0)


def loss_by_loops(labels, logits, smoothing, weights):
    total, count = 0.0, 0
    for row, of_row in enumerate(labels):
        for place, label in enumerate(of_row):
            if label == 0:
                continue
            count += 1
            real = logits[row, place, 3:].astype("float64")
            logs = real - np.log(np.exp(real).sum())
            wanted = np.full(len(real), smoothing / len(real))
            wanted[label - 3] += 1 - smoothing
            total -= weights[row] * (wanted * logs).sum()
    return total / count


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_mean_over_real_symbols(smoothing):
    labels = np.array([[5, 3, 0, 0], [7, 4, 6, 3], [3, 0, 0, 0]])
    logits = RANDOM.normal(size=(3, 4, 9)).astype("float32")
    logits[..., :3] = -1e9
    loss = AnswerCrossentropy(smoothing)
    assert float(loss(labels, logits)) == pytest.approx(
        loss_by_loops(labels, logits, smoothing, [1, 1, 1]), abs=1e-5
    )
    weights = np.array([0.5, 2.0, 1.0], "float32")
    expected = loss_by_loops(labels, logits, smoothing, weights)
    assert float(loss(labels, logits, weights)) == pytest.approx(expected, abs=1e-5)
    assert AnswerCrossentropy.from_config(loss.get_config()).label_smoothing == smoothing


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_of_another_dtype_is_computed_in_it(smoothing):
    labels, logits = np.array([[5, 3, 0, 0]]), RANDOM.normal(size=(1, 4, 9))
    logits[..., :3] = -1e9
    found = AnswerCrossentropy(smoothing, dtype="float64")(labels, logits)
    assert float(found) == pytest.approx(loss_by_loops(labels, logits, smoothing, [1]), abs=1e-5)


def test_the_accuracy_counts_real_symbols_alike():
    accuracy = SymbolAccuracy()
    logits = np.zeros((2, 3, 6), "float32")
    logits[0, :, 4] = logits[1, :, 5] = 1
    accuracy.update_state(np.array([[4, 3, 0], [5, 5, 3]]), logits)
    assert float(accuracy.result()) == pytest.approx(3 / 5)


def test_targets_are_texts_or_several_of_them():
    given = ["a", b"b", ["c", "d", "c"], np.array(["e"])]
    assert AnswerHead.read(given) == [("a",), ("b",), ("c", "d"), ("e",)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "Received None; give a text for each source"),
        ("text", "wrap it in a list"),
        ({"target": ["a"]}, "Give one column"),
        ([3], "Answer 0 .* must be a text"),
        (["a", None], "Answer 1 .*leave the row out"),
        (["a", []], "Answer 1 .* Received \\[\\]"),
        (["a", ["b", 2]], "Answer 1"),
    ],
)
def test_other_targets_are_refused_by_name(given, told):
    with pytest.raises(DataError, match=told):
        AnswerHead.read(given)


def test_answers_that_are_all_blank_are_refused():
    with pytest.raises(DataError, match="all 2 rows are empty"):
        AnswerHead.from_targets([("",), (" ", "")])


def test_what_is_learned_of_an_answer_ends_with_the_end_and_keeps_unknown_symbols():
    head = AnswerHead(Characters(["a", "b"], 9), 4)
    assert [labels.tolist() for labels in head.encoded([("ab",), ("axb", "a")])] == [[4, 5, 3], [4, 1, 5, 3]]
    assert labels_of(np.array([2, 4, 4], np.int32)).tolist() == [4, 4]  # cut: no end is learned


def test_unknown_symbols_are_left_out_of_the_loss_and_wrong_for_the_accuracy():
    logits, labels = np.zeros((1, 3, 6), "float32"), np.array([[5, 1, 0]])
    logits[0, :, 5] = 1
    expected = np.log(np.exp(logits[0, 0]).sum()) - 1
    assert float(AnswerCrossentropy()(labels, logits)) == pytest.approx(expected, abs=1e-5)
    accuracy = SymbolAccuracy()
    accuracy.update_state(labels, logits)
    assert float(accuracy.result()) == 0.5


@pytest.mark.parametrize("loss", [AnswerCrossentropy, HiddenCrossentropy])
def test_labels_are_exact_in_whatever_dtype_keras_computes(loss):
    before, logits = keras.config.floatx(), np.zeros((1, 1, 1000), np.float32)
    logits[..., 301] = 50  # bfloat16 knows 300 and 302
    labels = np.array([[301]])
    keras.config.set_floatx("bfloat16")
    try:
        found = loss()(labels, logits)
    finally:
        keras.config.set_floatx(before)
    assert abs(float(found)) < 1e-6
