"""Steps of a training in slices: what a step of the whole batch does, with fewer tokens at a time."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pretrained_folders import BERT, write_folder

from keras_selfattn import models
from keras_selfattn.models import sliced_step
from keras_selfattn.models.word_model import WordModel

UNDROPPED = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}
TEXTS = ["a good film .", "the good film", "good", "a bad film .", "the bad film bad bad", "badly bad"] * 2
PAIRS = [(text, TEXTS[-place]) for place, text in enumerate(TEXTS)]
WORDS = [text.split() for text in TEXTS]
MODELS = {
    "labels": (models.TextClassifier, TEXTS, ["+", "+", "+", "-", "-", "-"] * 2),
    "labels of pairs": (models.TextClassifier, PAIRS, ["+", "+", "+", "-", "-", "-"] * 2),
    "sets of labels": (models.TextClassifier, TEXTS, [["a"], ["a", "b"], [], ["b"], ["c"], []] * 2),
    "scores": (models.TextRegressor, TEXTS, [1.0, 2.5, 0.0, 4.0, -3.0, 0.5] * 2),
    "a label at each word": (models.TokenClassifier, WORDS, [["x", *row[1:]] for row in WORDS]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pretrained") / "tiny", BERT)


@pytest.fixture
def most(monkeypatch):
    """The most positions that a model is called with in a training; negative where it is not called."""
    seen = tf.Variable(-1)

    def counted(call):
        def call_of(self, inputs, training=None):
            if training:
                ids = tf.nest.flatten(inputs)[0]
                seen.assign(tf.maximum(seen, tf.shape(ids)[0] * tf.shape(ids)[1]))
            return call(self, inputs, training=training)

        return call_of

    for kind in (models.TextClassifier, models.TextRegressor, models.TokenClassifier):
        monkeypatch.setattr(kind, "call", counted(kind.call))
    return seen


def trained(name, folder, positions, monkeypatch, config=None, **settings):
    """Return the losses and figures of two epochs, and the weights after them."""
    monkeypatch.setattr(WordModel, "_positions_at_once", positions)
    kind, rows, targets = MODELS[name]
    given = UNDROPPED | ({} if kind is models.TokenClassifier else {"wide": False}) | (config or {})
    keras.utils.set_random_seed(0)
    model = kind(given, start=folder)
    # Adam's first steps would make as much of a gradient of rounding as of any other.
    optimizer = keras.optimizers.SGD(0.02, momentum=0.5)
    model.compile(optimizer, **settings.pop("compile", {}))
    history = model.fit(rows, targets, batch_size=5, epochs=2, verbose=0, **settings)
    return history.history, [np.array(weight) for weight in model.weights]


# Two of all cases have what the others have: rows and positions, without weights and with them.
QUICK = [("labels", None), ("a label at each word", "weighted")]
CASES = [(name, weights) for name in MODELS for weights in (None, "weighted")]


@pytest.mark.parametrize(
    ("name", "weights"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_a_step_in_slices_is_a_step_of_the_batch(name, weights, folder, most, monkeypatch):
    weights = weights and np.linspace(0, 2, len(TEXTS))
    config = {"frozen_layers": 1} if name == "scores" else {}
    given = {"config": config, "sample_weight": weights}
    figures, wanted = trained(name, folder, None, monkeypatch, **given)
    whole = int(most)
    most.assign(-1)
    in_slices, found = trained(name, folder, 16, monkeypatch, **given)
    assert 0 < int(most) <= 16 < whole
    assert in_slices.keys() == figures.keys()
    for each, values in figures.items():
        np.testing.assert_allclose(in_slices[each], values, rtol=1e-5)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_row_that_is_longer_than_a_slice_is_one(folder, most, monkeypatch):
    trained("labels", folder, 1, monkeypatch)
    assert int(most) == 7  # the longest text, with the pieces at both ends


def fitted(kind, folder, compiled=None, rows=TEXTS, **settings):
    """Return a classifier after a step on all rows."""
    model = kind(UNDROPPED | {"wide": False}, start=folder, **settings)
    model.compile(keras.optimizers.SGD(0.02), **(compiled or {}))
    model.fit(rows, ["+", "-"] * (len(rows) // 2), batch_size=len(rows), verbose=0)
    return model


class OwnLoss(models.TextClassifier):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, y_pred, sample_weight, training) + keras.ops.std(y_pred)


SUM = keras.losses.SparseCategoricalCrossentropy(reduction="sum")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(models.TextClassifier, {"compiled": {"loss": SUM}}, marks=pytest.mark.slow),
        (models.TextClassifier, {"compiled": {"loss": lambda y, found: found[:, 0]}}),
        (OwnLoss, {}),
        (models.TextClassifier, {"dtype": "float64"}),
        pytest.param(models.TextClassifier, {"dtype": "bfloat16"}, marks=pytest.mark.slow),
    ],
)
def test_what_slices_would_change_sees_the_whole_batch(kind, settings, folder, most, monkeypatch):
    """A user's loss may compare rows with each other, or add them up; half precision would round the sums."""
    monkeypatch.setattr(WordModel, "_positions_at_once", 16)
    fitted(kind, folder, **settings)
    assert int(most) > 16


@pytest.mark.slow
def test_penalties_of_activities_see_the_whole_batch(folder, most, monkeypatch):
    monkeypatch.setattr(WordModel, "_positions_at_once", 16)
    model = models.TextClassifier({"wide": False}, start=folder)
    model.compile()
    model.adapt(TEXTS, ["+", "-"] * 6)
    model.core.get_layer("logits").activity_regularizer = keras.regularizers.L2(0.1)
    model.fit(TEXTS, ["+", "-"] * 6, batch_size=12, verbose=0)
    assert int(most) > 16


@pytest.mark.slow
def test_half_precision_overflows_no_sooner_than_in_a_whole_batch(folder, most):
    model = fitted(models.TextClassifier, folder, rows=TEXTS * 32, dtype="mixed_float16")
    assert 0 < int(most) <= 1024
    assert (int(model.optimizer.inner_optimizer.iterations), float(model.optimizer.dynamic_scale)) == (
        1,
        2**15,
    )


def test_a_step_of_ones_own_loop_takes_texts(folder):
    model = models.TextClassifier({"wide": False}, start=folder)
    model.compile()
    model.adapt(TEXTS, ["+", "-"] * 6)
    assert model.train_step((tf.constant(TEXTS), tf.constant([0, 1] * 6)))["loss"] > 0


@pytest.mark.slow
def test_the_default_optimizer_moves_by_the_same_gradients(folder, monkeypatch):
    """Of a table it moves rows; the first moments are a tenth of the gradients of the only step."""
    found = []
    for positions in (None, 16):
        monkeypatch.setattr(WordModel, "_positions_at_once", positions)
        keras.utils.set_random_seed(0)
        model = models.TextClassifier(UNDROPPED | {"wide": False}, start=folder)
        model.compile()
        model.fit(TEXTS, ["+", "-"] * 6, batch_size=12, verbose=0)
        found.append(
            [array for array in map(np.array, model.optimizer.variables[2:]) if array.dtype == "float32"]
        )
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


def test_a_training_in_slices_is_traced_once(folder, monkeypatch):
    traces, step = [], sliced_step.train_in_slices
    monkeypatch.setattr(
        "keras_selfattn.models.raw_model.train_in_slices", lambda *args: traces.append(1) or step(*args)
    )
    trained("labels", folder, 16, monkeypatch)
    assert len(traces) == 1
