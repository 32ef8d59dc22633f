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
LABELS = ["+", "+", "-", "+"] * 2
WEIGHTS = np.linspace(0.5, 2, 8)
RANDOM = np.random.default_rng(0)
SERIES = [RANDOM.normal(size=(length, 3)).astype("float32") for length in (5, 4, 7, 3)] * 2
SUMS = [float(series.sum()) for series in SERIES]
IMAGES = RANDOM.integers(0, 255, size=(8, 8, 8)).astype("uint8")
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
TAGS = [["D", "N"], ["D", "A", "N"]] * 4
OF_TOKENS = [RANDOM.random(len(row)).tolist() for row in TOKENS]

# kind: (the model, its rows, its targets)
KINDS = {
    "text": (lambda: models.TextClassifier({**SMALL, "ngram_buckets": 64}), TEXTS, LABELS),
    "several": (
        lambda: models.TextClassifier({**SMALL, "wide": False}),
        TEXTS,
        [["+"], ["+", "-"], [], ["-"]] * 2,
    ),
    "tokens": (lambda: models.TokenClassifier({**SMALL, "hash_buckets": 64}), TOKENS, TAGS),
    "images": (lambda: models.ImageClassifier(SMALL), IMAGES, LABELS),
    "numbers": (lambda: models.SeriesRegressor(SMALL), SERIES, SUMS),
    "masked": (lambda: models.MaskedTokenModel(SMALL), TEXTS, None),
    "answers": (
        lambda: models.SequenceToSequence({**SMALL, "tokens": "characters", "max_new_tokens": 8}),
        [text[:6] for text in TEXTS],
        ["film", "fine", "bad", "poor"] * 2,  # several right answers of a row are several rows of a batch
    ),
}
# A kind, weights of its rows or tokens, and weights of its classes: all forms of a batch.
STEPS = [
    ("text", WEIGHTS, "balanced"),
    ("tokens", WEIGHTS, None),
    ("tokens", OF_TOKENS, None),
    ("numbers", WEIGHTS, None),
    ("masked", None, None),
    ("answers", WEIGHTS, None),
]
each_step = pytest.mark.parametrize(
    ("kind", "weights", "of_classes"),
    STEPS,
    ids=["text", "tokens by row", "tokens", "numbers", "masked", "answers"],
)

pytestmark = pytest.mark.usefixtures("eager_steps")


@functools.cache
def adapted(kind):
    make, rows, targets = KINDS[kind]
    keras.utils.set_random_seed(1)
    model = make()
    model.adapt(rows, targets)
    model.compile(keras.optimizers.SGD(0.1))
    return model


def state(model):
    """The values of all variables: also those of the optimizer, and of dropout's random numbers."""
    return [(each, np.array(each)) for each in (*model.variables, *model.optimizer.variables)]


def restore(values):
    for variable, value in values:
        variable.assign(value)


@pytest.fixture
def known():
    """Return the adapted model of a kind, which all tests share: each gives it back as it was."""
    taken = []

    def take(kind):
        model = adapted(kind)
        taken.append(state(model))
        return model

    yield take
    for values in taken:
        restore(values)


@pytest.mark.slow
@each_step
def test_a_step_on_a_batch_is_that_of_fit_where_the_rows_are_one_batch(known, kind, weights, of_classes):
    _, rows, targets = KINDS[kind]
    model, both = known(kind), {"sample_weight": weights, "class_weight": of_classes}
    before = state(model)
    history = model.fit(rows, targets, batch_size=8, shuffle=False, verbose=0, **both).history
    wanted = [np.array(each) for each in model.trainable_variables]
    restore(before)
    start = [np.array(each) for each in model.trainable_variables]
    found = model.train_on_batch(rows, targets, return_dict=True, **both)
    assert found == {name: pytest.approx(value, rel=1e-5) for name, (value,) in history.items()}
    assert any(np.abs(was - now).max() > 1e-6 for was, now in zip(start, wanted, strict=True))
    for one, other in zip(model.trainable_variables, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
@each_step
def test_a_batch_is_measured_and_answered_as_its_rows_are(known, kind, weights, of_classes):
    _, rows, targets = KINDS[kind]
    model = known(kind)
    wanted = model.evaluate(rows, targets, sample_weight=weights, verbose=0, return_dict=True)
    for _ in range(2):  # metrics begin anew with each batch
        found = model.test_on_batch(rows, targets, weights, return_dict=True)
        assert found == pytest.approx(wanted, rel=1e-5)
    loss, *_ = np.atleast_1d(model.test_on_batch(rows, targets, weights))
    assert loss == pytest.approx(wanted["loss"], rel=1e-5)
    asked = ["a [mask] film", "poor", "[mask] [mask]"] if kind == "masked" else rows
    found, wanted = model.predict_on_batch(asked), model.predict(asked, verbose=0)
    assert type(found) is type(wanted)
    for one, other in zip(found, wanted, strict=True):
        if kind == "answers":
            assert one == other
        else:
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_weights_of_rows_and_of_tokens_weigh_the_tokens_of_a_batch(known):
    """Beside the losses of the tokens, from the probabilities in plain loops."""
    model = known("tokens")
    losses = [
        [-np.log(found[model.labels.index(tag)]) for found, tag in zip(*row, strict=True)]
        for row in zip(model.predict_on_batch(TOKENS), TAGS, strict=True)
    ]
    each = np.concatenate(losses)
    by_row = np.repeat(WEIGHTS, [len(row) for row in TOKENS])
    for weights, of_each in ((WEIGHTS, by_row), (OF_TOKENS, np.concatenate(OF_TOKENS))):
        found = model.test_on_batch(TOKENS, TAGS, weights, return_dict=True)["loss"]
        assert found == pytest.approx((of_each * each).mean(), rel=1e-5)
        assert found != pytest.approx(each.mean(), rel=1e-2)
    for method in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(DataError, match=r"Row 0 .* has 2 tokens and 3 sample weights"):
            method(TOKENS, TAGS, OF_TOKENS[::-1])
        with pytest.raises(DataError, match="differ in number. Received 8 and 7"):
            method(TOKENS, TAGS, WEIGHTS[1:])
    with pytest.raises(ConfigError, match="Give `sample_weight`: for each row a list with"):
        model.train_on_batch(TOKENS, TAGS, class_weight={"N": 2.0})


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_have_no_answers_and_nothing_to_learn_from(known, kind):
    *_, targets = KINDS[kind]
    model = known(kind)
    for empty in ([], np.array([]), (), np.empty(0, object)):
        for found in (model.predict(empty, verbose=0), model.predict_on_batch(empty)):
            if model.head.per_position or kind == "answers":
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


@pytest.mark.parametrize(
    ("kind", "weights"),
    [("text", np.zeros(8)), ("tokens", [[0.0] * len(row) for row in TOKENS])],
    ids=["rows", "tokens"],
)
def test_a_batch_may_weigh_nothing_and_then_teaches_nothing(known, kind, weights):
    model, (_, rows, targets) = known(kind), KINDS[kind]
    before = [np.array(each) for each in model.trainable_variables]
    model.train_on_batch(rows, targets, weights)
    for was, now in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(was, now)


def test_a_batch_is_one_step_however_long_its_rows_are(monkeypatch, known):
    """Elsewhere batches of long rows are divided, to bound memory; here the batch is the caller's."""
    monkeypatch.setattr("keras_selfattn.models.batches.length_sorted._MAX_PAIRS", 4)
    model = known("tokens")
    assert len(model.batches(model.read_rows(TOKENS, TAGS, None, type(model.head)), 8)) > 1
    model.train_on_batch(TOKENS, TAGS)
    assert int(model.optimizer.iterations) == 1


def test_each_step_reads_other_spans_of_long_rows(monkeypatch):
    """As the epochs of `fit` do; the first step reads those of the first."""
    model = models.TextClassifier({**SMALL, "ngram_buckets": 64, "training_span": 2})
    long = [" ".join(f"w{place}" for place in range(40))] * 2 + ["short one"] * 2
    model.adapt(long, ["+", "-"] * 2)
    model.compile()
    steps = []

    def step(data):
        steps.append(np.asarray(data[0][0]))
        model.optimizer.iterations.assign_add(1)
        return {"loss": 0.0}

    monkeypatch.setattr(model, "train_step", step)
    for _ in range(2):
        model.train_on_batch(long, ["+", "-"] * 2)
    assert steps[0].shape[1] == 2
    assert not np.array_equal(*steps)


def test_tensors_stay_those_of_keras(known):
    model = known("text")
    ids = np.array([[2, 3], [3, 0]], "int32")
    inputs = [ids, np.zeros((2, 2), "float32")]
    wanted = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(model.predict_on_batch(inputs), wanted, atol=1e-6)
    found = model.test_on_batch(inputs, np.array([0, 1]))
    assert found == pytest.approx(model.evaluate(inputs, np.array([0, 1]), verbose=0), rel=1e-5)
    model.train_on_batch(inputs, np.array([0, 1]), class_weight={"+": 0.0, "-": 1.0})
    assert int(model.optimizer.iterations) == 1
    assert np.shape(model.predict_on_batch(tf.constant(TEXTS))) == (8, 2)


def test_an_encoder_answers_a_batch_and_learns_from_groups_alone():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]
    sizes = {"width": 8, "num_layers": 1, "num_heads": 2, "positions": 16, "max_tokens": 16}
    model = models.TextEncoder({**sizes, "vocabulary_size": 7}, vocabulary=vocabulary)
    texts = ["good film", "film", "good good film"]
    np.testing.assert_allclose(model.predict_on_batch(texts), model.predict(texts, verbose=0), atol=1e-6)
    assert model.predict_on_batch([]).shape == model.predict(np.array([]), verbose=0).shape == (0, 8)
    for method in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(DataError, match=r"Received texts alone; the first is 'good film'"):
            method(texts, [1, 2, 3])
