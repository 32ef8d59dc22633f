"""TokenClassifier: a label for every token of rows of any lengths; padding has no effect."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.core.encoder_core import Neighbours
from keras_selfattn.models.tokens.position_head import PositionAccuracy
from keras_selfattn.training.calibration import calibrate

SMALL = models.TokenConfig(
    width=8, num_layers=1, num_heads=2, hash_buckets=512, dropout=0.0, word_dropout=0.0
)
ROWS = [
    ["Ada", "wrote", "it"],
    ["she", "saw", "Berlin", "in", "May"],
    ["yes"],
    ["the", "best", "of", "it"],
] * 8
LABELS = [["N", "V", "P"], ["P", "V", "N", "A", "N"], ["X"], ["D", "J", "A", "P"]] * 8


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.TokenClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(ROWS, LABELS, epochs=15, verbose=0)
    return model


def named(model, found):
    return [[model.labels[place] for place in row.argmax(-1)] for row in found]


@pytest.mark.slow
def test_fit_and_predict_take_rows_of_tokens_and_keep_their_order_and_lengths(trained):
    found = trained.predict(ROWS[:4], batch_size=3, verbose=0)
    assert [row.shape for row in found] == [(3, 7), (5, 7), (1, 7), (4, 7)]
    assert named(trained, found) == LABELS[:4]
    for row, wanted in zip(ROWS[:4], found, strict=True):
        np.testing.assert_allclose(trained.predict([row], verbose=0)[0], wanted, atol=1e-5)


@pytest.mark.slow
def test_loss_and_accuracy_are_of_the_tokens_alone_however_much_padding_a_batch_has():
    """By hand: the mean of -log p(label) over all tokens, and the share of them whose label is likeliest."""
    keras.utils.set_random_seed(3)
    model = models.TokenClassifier(SMALL)
    model.compile()
    rows, labels = [["a"], ["b"] * 11, ["c", "d"]], [["y"], ["x"] * 5 + ["y"] * 6, ["y", "z"]]
    model.adapt(rows, labels)
    model.compile()
    losses, right = [], []
    for row, names in zip(model.predict(rows, verbose=0), labels, strict=True):
        for probabilities, name in zip(row, names, strict=True):
            losses.append(-np.log(probabilities[["x", "y", "z"].index(name)]))
            right.append("xyz"[probabilities.argmax()] == name)
    found = model.evaluate(rows, labels, batch_size=3, return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert 0 < np.mean(right) < 1, "else padding could not be told from tokens"
    smoothed = model.head.loss(label_smoothing=0.3)
    outputs = model(tf.constant([row + [""] * (11 - len(row)) for row in rows]))
    targets = np.array(
        [[model.labels.index(name) for name in names] + [0] * (11 - len(names)) for names in labels]
    )
    flat = np.concatenate(model.predict(rows, verbose=0))
    truth = np.concatenate([[model.labels.index(name) for name in names] for names in labels])
    exact, spread = -np.log(flat[np.arange(len(flat)), truth]), -np.log(flat).mean(-1)
    assert float(smoothed(targets, outputs)) == pytest.approx(np.mean(0.7 * exact + 0.3 * spread), rel=1e-5)


def test_accuracy_counts_each_token_alike_whatever_batch_it_is_in(trained):
    """Rows of one length share a batch: of two of 1 token both are right, of two of 5 tokens 3 in all."""
    rows, labels = (
        [["yes"], ["yes"], ROWS[1], ROWS[1]],
        [["X"], ["X"], ["P", "V", "V", "V", "V"], ["P", *"JJJJ"]],
    )
    found = trained.evaluate(rows, labels, batch_size=2, return_dict=True, verbose=0)
    assert found["accuracy"] == pytest.approx(5 / 12)
    accuracy = PositionAccuracy()
    accuracy.update_state(
        np.array([[0, 1], [0, 0]]), np.eye(2)[[[0, 1], [1, 1]]], sample_weight=np.array([3.0, 1.0])
    )
    assert float(accuracy.result()) == pytest.approx(6 / 8)


def test_a_string_tensor_can_be_called_and_padding_changes_nothing(trained):
    alone = np.asarray(trained(tf.constant([ROWS[0]])))[0]
    padded = np.asarray(trained(tf.constant([[*ROWS[0], "", "", ""]])))[0]
    np.testing.assert_allclose(padded[:3], alone, atol=1e-5)


@pytest.mark.parametrize(
    "container",
    [
        list,
        tuple,
        pd.Series,
        lambda rows: [tuple(row) for row in rows],
        lambda rows: [map(str, r) for r in rows],
    ],
)
def test_rows_come_in_any_container(trained, container):
    wanted = trained.predict(ROWS[:2], verbose=0)
    for found, row in zip(trained.predict(container(ROWS[:2]), verbose=0), wanted, strict=True):
        np.testing.assert_array_equal(found, row)


def test_rows_of_one_length_may_be_an_array(trained):
    wanted = trained.predict([["a", "film"], ["the", "film"]], verbose=0)
    np.testing.assert_array_equal(
        trained.predict(np.array([["a", "film"], ["the", "film"]]), verbose=0), wanted
    )


def test_empty_strange_and_long_rows_are_answered(trained):
    rows = [
        [],
        ["\x00", "\u202e"],
        ["🙂", "日本語", "ſ"],
        ["\ud800"],
        ["x" * 1_000_000],
        [" "],
        [b"\xff"],
        ["it"] * 5000,
    ]
    found = trained.predict(rows, verbose=0)
    assert [len(row) for row in found] == [0, 2, 3, 1, 1, 1, 1, 5000]
    assert all(np.isfinite(row).all() for row in found)
    assert trained.predict([], verbose=0) == []
    assert [row.shape for row in trained.predict([[]], verbose=0)] == [(0, 7)]


@pytest.mark.slow
def test_rows_without_tokens_may_be_among_those_of_training():
    model = models.TokenClassifier(SMALL)
    model.compile()
    model.fit([[], ["a", "b"], []], [[], ["x", "y"], []], batch_size=1, epochs=2, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_a_token_attends_as_far_as_the_window_reaches():
    keras.utils.set_random_seed(0)
    model = models.TokenClassifier(models.TokenConfig(width=8, num_layers=1, num_heads=2, window=2))
    model.adapt(ROWS, LABELS)
    one, other = model.predict([["it"] * 12, ["it"] * 11 + ["Berlin"]], verbose=0)
    differs = np.abs(one - other).max(-1) > 1e-7
    # Two positions of attention and, before it, one of the convolution.
    assert differs.tolist() == [False] * 8 + [True] * 4


@pytest.mark.slow
def test_a_saved_file_carries_vocabulary_labels_and_the_compiled_state(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    assert (again.labels, again.config) == (trained.labels, SMALL)
    assert again.tokenizer.vocabulary == trained.tokenizer.vocabulary
    for found, wanted in zip(
        again.predict(ROWS[:4], verbose=0), trained.predict(ROWS[:4], verbose=0), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    again.fit(ROWS, LABELS, epochs=1, verbose=0)


def test_neighbours_are_a_convolution_of_width_three_beside_the_input():
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 7, 5)).astype("float32")
    layer = Neighbours()
    layer.build(x.shape)
    kernel, bias = random.normal(size=(15, 5)).astype("float32"), random.normal(size=5).astype("float32")
    layer._dense.set_weights([kernel, bias])
    convolution = keras.layers.Conv1D(5, 3, padding="same", activation="gelu")
    convolution.build(x.shape)
    convolution.set_weights([kernel.reshape(3, 5, 5), bias])
    np.testing.assert_allclose(layer(x), x + np.asarray(convolution(x)), atol=1e-5)
    mask = np.array([[True] * 7, [True] * 3 + [False] * 4])
    assert (np.asarray(layer(x, mask=mask))[1, 3:] == 0).all()


@pytest.mark.parametrize(
    ("rows", "labels", "said"),
    [
        ([], [], "There are no rows"),
        ([["a"], ["b"]], [["x"]], "Rows and labels differ in number. Received 2 and 1"),
        ([["a"], ["b", "c"]], [["x"], ["y"]], "Row 1 .* has 2 tokens and 1 labels"),
        ([["a"], ["b"]], [["x"], ["x"]], "only 'x'"),
        ([[], []], [[], []], "hold only none"),
        ([["a", ""]], [["x", "y"]], 'Token 1 of row 0 .* is "", which stands for padding'),
        ([["a"], ["b", 3]], [["x"], ["y", "z"]], "Token 1 of row 1 .* is not a string. Received 3"),
        (["a b", "c"], [["x", "y"], ["z"]], "Row 0 .* must be a list of tokens. Received 'a b'"),
        ([["a"], None], [["x"], ["y"]], "Row 1 .* must be a list of tokens. Received None"),
        ([["a"], ["b"]], [["x"], [None]], "A label of row 1 .* is missing"),
        ([["a"], ["b"]], ["x", "y"], "The labels of row 0 .* must be a list"),
        ([["a"], ["b"]], None, "Labels are needed"),
        ("a b", [["x", "y"]], "Received one string"),
    ],
)
def test_rows_that_cannot_train_are_refused(rows, labels, said):
    model = models.TokenClassifier(SMALL)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(rows, labels, verbose=0)


def test_labels_of_zeros_and_ones_are_names_like_others():
    model = models.TokenClassifier(SMALL)
    model.adapt([["a", "b"], ["c", "d"]], [[0, 1], [1, 0]])
    assert model.labels == ["0", "1"]


def test_an_unknown_label_is_named(trained):
    with pytest.raises(DataError, match="no label 'new'"):
        trained.evaluate([["a"]], [["new"]], verbose=0)


def test_before_training_a_model_says_what_to_call():
    with pytest.raises(DataError, match="Call `fit` or `adapt`"):
        models.TokenClassifier(SMALL).predict([["a"]], verbose=0)
    with pytest.raises(ConfigError, match="go together"):
        models.TokenClassifier(vocabulary=["good"])


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"hash_buckets": 1}, "`hash_buckets` must be at least 2. Received 1"),
        ({"word_dropout": 1.0}, "`word_dropout`.*1.0"),
        ({"window": 0}, "`window`.*0"),
        ({"min_count": True}, "`min_count`.*True"),
    ],
)
def test_bad_settings_are_named_with_their_value(field, said):
    with pytest.raises(ConfigError, match=said):
        models.TokenConfig(**field)


def test_callbacks_see_each_batch_that_is_answered(trained):
    class Seen(keras.callbacks.Callback):
        steps = 0

        def on_predict_batch_end(self, batch, logs=None):
            self.steps += 1
            assert logs["outputs"].ndim == 3

    seen = Seen()
    trained.predict(ROWS, batch_size=8, verbose=0, callbacks=[seen])
    assert seen.steps == 4


@pytest.mark.parametrize("name", ["validation", "test"])
def test_rows_without_a_token_to_measure_on_are_an_error_before_training(tmp_path, name):
    rows = LabelledRows([["good", f"film{n}"] for n in range(16)], [["+", "O"]] * 16, "made up")
    empty = LabelledRows([[]] * 20, [[]] * 20, "empty.jsonl")
    model = models.TokenClassifier(SMALL)
    with pytest.raises(DataError, match=f"empty.jsonl: all 20 {name} rows are empty"):
        training.train(rows, tmp_path / "run", model=model, verbose=0, **{name: empty})
    assert not (tmp_path / "run").exists()


def test_rows_without_a_token_leave_the_temperature_as_it_is(trained):
    assert calibrate(trained, LabelledRows([[]] * 20, [[]] * 20, "made up")) is None
