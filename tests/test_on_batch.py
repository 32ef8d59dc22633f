"""`train_on_batch`, `test_on_batch` and `predict_on_batch` on raw rows: one step of `fit`, and its kin."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 2
LABELS = ["+", "+", "-", "-"] * 2
WEIGHTS = np.linspace(0.5, 2, 8)
RANDOM = np.random.default_rng(0)
SERIES = [RANDOM.normal(size=(length, 3)).astype("float32") for length in (5, 4, 7, 3)] * 2
SUMS = [float(series.sum()) for series in SERIES]
IMAGES = RANDOM.integers(0, 255, size=(8, 8, 8)).astype("uint8")
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
TAGS = [["D", "N"], ["D", "A", "N"]] * 4

# kind: (the model, its rows, its targets, weights of its rows, weights of its classes)
KINDS = {
    "text": (
        lambda: models.TextClassifier({**SMALL, "ngram_buckets": 64}),
        TEXTS,
        LABELS,
        WEIGHTS,
        {"+": 2.0},
    ),
    "several": (
        lambda: models.TextClassifier({**SMALL, "wide": False}),
        TEXTS,
        [["+"], ["+", "-"], [], ["-"]] * 2,
        WEIGHTS,
        None,
    ),
    "tokens": (lambda: models.TokenClassifier({**SMALL, "hash_buckets": 64}), TOKENS, TAGS, None, None),
    "series": (
        lambda: models.SeriesClassifier({**SMALL, "kernels": 20}),
        SERIES,
        LABELS,
        WEIGHTS,
        "balanced",
    ),
    "images": (lambda: models.ImageClassifier(SMALL), IMAGES, LABELS, WEIGHTS, {"-": 0.0}),
    "numbers": (lambda: models.SeriesRegressor(SMALL), SERIES, SUMS, WEIGHTS, None),
    "forecast": (
        lambda: models.SeriesForecaster(SMALL),
        SERIES,
        [[value, place] for place, value in enumerate(SUMS)],
        WEIGHTS,
        None,
    ),
    "masked": (lambda: models.MaskedTokenModel(SMALL), TEXTS, None, None, None),
}

pytestmark = pytest.mark.usefixtures("eager_steps")


@functools.cache
def known(kind):
    """An adapted model for tests that change nothing."""
    return adapted(kind)


def adapted(kind):
    make, rows, targets, *_ = KINDS[kind]
    keras.utils.set_random_seed(1)
    model = make()
    model.adapt(rows, targets)
    model.compile(keras.optimizers.SGD(0.1))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "tokens", "series", "images", "numbers", "masked"])
def test_a_step_on_a_batch_is_that_of_fit_where_the_rows_are_one_batch(kind):
    _, rows, targets, weights, of_classes = KINDS[kind]
    fitted, stepped = adapted(kind), adapted(kind)
    for one, other in zip(fitted.variables, stepped.variables, strict=True):  # the states of dropout, too
        other.assign(one)
    before = [np.asarray(each) for each in stepped.trainable_variables]
    both = {"sample_weight": weights, "class_weight": of_classes}
    history = fitted.fit(rows, targets, batch_size=8, shuffle=False, verbose=0, **both).history
    found = stepped.train_on_batch(rows, targets, return_dict=True, **both)
    assert found == {name: pytest.approx(value, rel=1e-5) for name, (value,) in history.items()}
    after = stepped.trainable_variables
    assert any(np.abs(was - np.asarray(now)).max() > 1e-6 for was, now in zip(before, after, strict=True))
    for one, other in zip(fitted.trainable_variables, after, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_measured_and_answered_as_its_rows_are(kind):
    _, rows, targets, weights, _ = KINDS[kind]
    model = known(kind)
    wanted = model.evaluate(rows, targets, sample_weight=weights, verbose=0)
    for _ in range(2):  # metrics begin anew with each batch
        assert model.test_on_batch(rows, targets, weights) == pytest.approx(wanted, rel=1e-5)
    told = model.evaluate(rows, targets, sample_weight=weights, verbose=0, return_dict=True)
    assert model.test_on_batch(rows, targets, weights, return_dict=True) == pytest.approx(told, rel=1e-5)
    asked = ["a [mask] film", "poor", "[mask] [mask]"] if kind == "masked" else rows
    found, wanted = model.predict_on_batch(asked), model.predict(asked, verbose=0)
    assert type(found) is type(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_have_no_answers_and_nothing_to_learn_from(kind):
    _, _, targets, *_ = KINDS[kind]
    model = known(kind)
    for empty in ([], np.array([]), (), np.empty(0, object)):
        for found in (model.predict(empty, verbose=0), model.predict_on_batch(empty)):
            if model.head.per_position:
                assert found == []
            else:
                assert (found.shape, found.dtype) == ((0, model.core.output_shape[1]), np.float32)
        none = None if targets is None else empty
        for method in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
            with pytest.raises(DataError, match=r"There are no (rows|texts).* Give at least one"):
                method(empty, none)


def test_one_batch_is_no_first_lesson():
    """Words and labels of one batch would be too few, and `fit` on all rows could not add to them."""
    model = models.TextClassifier({**SMALL, "ngram_buckets": 64})
    model.compile()
    for method in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(DataError, match="has not seen any rows yet. Call `fit` or `adapt`"):
            method(TEXTS, LABELS)
    with pytest.raises(DataError, match="has not seen any rows yet"):
        model.predict_on_batch(TEXTS)
    assert model.labels == []


def test_a_batch_may_weigh_nothing_and_then_teaches_nothing():
    model = adapted("text")
    before = [np.asarray(each) for each in model.trainable_variables]
    model.train_on_batch(TEXTS, LABELS, np.zeros(8))
    for was, now in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(was, now)


def test_a_batch_is_one_step_however_long_its_rows_are(monkeypatch):
    """Elsewhere batches of long rows are divided, to bound memory; here the batch is the caller's."""
    monkeypatch.setattr("keras_selfattn.models.batches._MAX_PAIRS", 4)
    model = adapted("tokens")
    assert len(model.batches(model.read_rows(TOKENS, TAGS, None, type(model.head)), 8)) > 1
    model.train_on_batch(TOKENS, TAGS)
    assert int(model.optimizer.iterations) == 1


def test_each_step_reads_other_spans_of_long_rows(monkeypatch):
    """As the epochs of `fit` do; the first step reads those of the first."""
    model = models.TextClassifier({**SMALL, "ngram_buckets": 64, "training_span": 2})
    long = [" ".join(f"w{place}" for place in range(40))] * 2 + ["short one"] * 2
    model.adapt(long, ["+", "-"] * 2)
    model.compile()
    steps, train_step = [], model.train_step
    monkeypatch.setattr(
        model, "train_step", lambda data: (steps.append(np.asarray(data[0][0])), train_step(data))[1]
    )
    for _ in range(2):
        model.train_on_batch(long, ["+", "-"] * 2)
    assert steps[0].shape[1] == 2
    assert not np.array_equal(*steps)


def test_tensors_stay_those_of_keras():
    model = adapted("text")
    ids = np.array([[2, 3], [3, 0]], "int32")
    inputs = [ids, np.zeros((2, 2), "float32")]
    wanted = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(model.predict_on_batch(inputs), wanted, atol=1e-6)
    found = model.test_on_batch(inputs, np.array([0, 1]))
    assert found == pytest.approx(model.evaluate(inputs, np.array([0, 1]), verbose=0), rel=1e-5)
    model.train_on_batch(inputs, np.array([0, 1]), class_weight={"+": 0.0, "-": 1.0})
    assert int(model.optimizer.iterations) == 1
    assert np.shape(model.predict_on_batch(tf.constant(TEXTS))) == (8, 2)


def test_an_encoder_answers_a_batch_and_is_not_trained():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]
    sizes = {"width": 8, "num_layers": 1, "num_heads": 2, "positions": 16, "max_tokens": 16}
    model = models.TextEncoder({**sizes, "vocabulary_size": 7}, vocabulary=vocabulary)
    texts = ["good film", "film", "good good film"]
    np.testing.assert_allclose(model.predict_on_batch(texts), model.predict(texts, verbose=0), atol=1e-6)
    assert model.predict_on_batch([]).shape == model.predict(np.array([]), verbose=0).shape == (0, 8)
    for method in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(ConfigError, match="is not trained"):
            method(texts, [1, 2, 3])
