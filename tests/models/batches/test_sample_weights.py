"""Sample weights of rows and of tokens, beside NumPy and beside rows given several times."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import estimators, models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.tokens.position_head import PositionAccuracy

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
TOKENS = {**SMALL, "hash_buckets": 64, "word_dropout": 0.0}
# As many rows as a row has tokens: weights of rows can then be taken for weights of positions.
SQUARE = [list("abcd"), list("dcba"), list("aabb"), list("cdcd")]
SQUARE_LABELS = [list("xyxy"), list("yyxx"), list("xxxx"), list("zyxz")]
RAGGED = [list("abcde"), list("da"), list("aab"), list("cdcdabc")]
RAGGED_LABELS = [list("xyxyz"), list("yx"), list("xxy"), list("zyxzzyx")]
WEIGHTS = [1.0, 4.0, 0.0, 2.0]
OF_TOKENS = [[0.5, 0.0, 3.0, 1.0, 0.0], [2.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0, 1.0, 4.0, 0.0, 0.25]]


def labeller(rows, labels, **given):
    keras.utils.set_random_seed(4)
    model = models.TokenClassifier(models.TokenConfig(**TOKENS))
    model.adapt(rows, labels)
    weighted = [PositionAccuracy(name="own"), keras.metrics.SparseCategoricalAccuracy(name="keras")]
    model.compile(**{"weighted_metrics": weighted, **given})
    return model


@pytest.fixture(scope="module")
def square():
    return labeller(SQUARE, SQUARE_LABELS)


@pytest.fixture(scope="module")
def ragged():
    return labeller(RAGGED, RAGGED_LABELS)


def by_hand(model, rows, labels, weights):
    """Return what `evaluate` of one batch is to return, from the outputs: loops over rows and tokens."""
    losses, right, known = [], [], []
    for found, names, weight in zip(model.predict(rows, verbose=0), labels, weights, strict=True):
        for place, (probabilities, name) in enumerate(zip(found, names, strict=True)):
            losses.append(-np.log(probabilities[model.labels.index(name)]))
            right.append(model.labels[probabilities.argmax()] == name)
            known.append(weight[place] if isinstance(weight, list) else weight)
    known = np.array(known)
    own = float((known * right).sum() / known.sum())
    return {"loss": (known * losses).mean(), "accuracy": np.mean(right), "own": own, "keras": own}


def measured(model, *given, **settings):
    return model.evaluate(*given, batch_size=4, return_dict=True, verbose=0, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("form", [list, np.array, lambda weights: np.array(weights)[:, None]])
def test_a_row_weight_counts_for_each_token_of_the_row_and_for_no_position(square, form):
    """With as many rows as tokens, weight k must not be that of token k of all rows."""
    wanted = by_hand(square, SQUARE, SQUARE_LABELS, WEIGHTS)
    other = by_hand(square, SQUARE, SQUARE_LABELS, [WEIGHTS] * 4)
    assert abs(wanted["loss"] - other["loss"]) > 0.1, "else the axes could be swapped unseen"
    found = measured(square, SQUARE, SQUARE_LABELS, sample_weight=form(WEIGHTS))
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_padding_neither_weighs_nor_counts(ragged):
    found = measured(ragged, RAGGED, RAGGED_LABELS, sample_weight=WEIGHTS)
    assert found == pytest.approx(by_hand(ragged, RAGGED, RAGGED_LABELS, WEIGHTS), rel=1e-5)
    wanted = by_hand(ragged, RAGGED, RAGGED_LABELS, OF_TOKENS)
    assert measured(ragged, RAGGED, RAGGED_LABELS, sample_weight=OF_TOKENS) == pytest.approx(wanted, rel=1e-5)
    arrays = [np.array(row) for row in OF_TOKENS]
    assert measured(ragged, RAGGED, RAGGED_LABELS, sample_weight=arrays) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_a_weight_of_2_equals_the_row_given_twice_and_0_the_row_left_out(ragged):
    """The loss divides by all tokens, those of weight 0 too, as Keras does; weighted metrics by weights."""
    counts = [1, 3, 0, 2]
    rows, labels = (
        [row for row, n in zip(all_of, counts, strict=True) for _ in range(n)]
        for all_of in (RAGGED, RAGGED_LABELS)
    )
    found = measured(ragged, RAGGED, RAGGED_LABELS, sample_weight=counts)
    wanted = ragged.evaluate(rows, labels, batch_size=6, return_dict=True, verbose=0)
    tokens, given = (sum(map(len, each)) for each in (RAGGED, rows))
    assert found["loss"] * tokens == pytest.approx(wanted["loss"] * given, rel=1e-6)
    assert [found["own"], found["keras"]] == pytest.approx([wanted["accuracy"]] * 2, rel=1e-6)
    assert tokens != given


@pytest.mark.slow
def test_a_step_of_training_equals_one_on_the_rows_given_several_times():
    rows, labels = ([each[0], *[each[1]] * 4, *[each[3]] * 2] for each in (SQUARE, SQUARE_LABELS))
    steps = []
    for rate, given in ((0.5, (SQUARE, SQUARE_LABELS)), (0.5 * len(rows) / 4, (rows, labels))):
        model = labeller(SQUARE, SQUARE_LABELS, optimizer=keras.optimizers.SGD(rate), run_eagerly=True)
        before = model.get_weights()
        weights = None if given[0] is rows else WEIGHTS
        model.fit(*given, batch_size=8, sample_weight=weights, shuffle=False, epochs=1, verbose=0)
        steps.append([after - old for after, old in zip(model.get_weights(), before, strict=True)])
    assert max(np.abs(step).max() for step in steps[0]) > 0.01
    for found, wanted in zip(*steps, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def core_inputs(model):
    features = np.stack(model.tokenizer.rows(SQUARE))
    return features, np.stack(model.head.encoded(SQUARE_LABELS))


@pytest.mark.slow
def test_weights_beside_tensors_have_the_same_meaning(square):
    """In `evaluate`, `test_on_batch` and data sets of the core's inputs, as Keras takes them."""
    features, targets = core_inputs(square)
    wanted = by_hand(square, SQUARE, SQUARE_LABELS, WEIGHTS)
    rows = np.array(WEIGHTS, "float32")
    forms = {"rows": rows, "column": rows[:, None], "positions": np.repeat(rows[:, None], 4, axis=1)}
    forms["positions of one"] = forms["positions"][..., None]
    for name, weights in forms.items():
        found = square.test_on_batch(features, targets, weights, return_dict=True)
        assert found == pytest.approx(wanted, rel=1e-5), name
        square.reset_metrics()
    assert measured(square, features, targets, sample_weight=rows) == pytest.approx(wanted, rel=1e-5)
    batches = tf.data.Dataset.from_tensor_slices((features, targets, rows)).batch(4)
    found = square.evaluate(batches, return_dict=True, verbose=0)
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"shape \(3,\) .* 4 rows and 4 tokens"),
        (np.ones(1), r"one number a row.* shape \(1,\) .* 4 rows and 4 tokens"),
        (np.ones((4, 3)), r"or one a token, .* shape \(4, 3\) .* 4 rows and 4 tokens"),
        (np.ones((4, 4, 2)), r"shape \(4, 4, 2\)"),
    ],
)
def test_weights_beside_tensors_that_fit_neither_rows_nor_positions_are_refused(square, weights, message):
    features, targets = core_inputs(square)
    outputs = tf.constant(square.predict(features, verbose=0))
    for of_batch in (square.compute_loss, square.compute_metrics):
        with pytest.raises(DataError, match=message):
            of_batch(None, targets, outputs, weights.astype("float32"))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 3, "Rows and sample weights differ in number. Received 4 and 3"),
        (
            [[1.0] * 5, [1.0] * 2, [1.0] * 2, [1.0] * 7],
            "Row 2 .* 3 tokens and 2 sample weights. Give one",
        ),
        (np.ones((4, 7)), "Row 0 .* 5 tokens and 7 sample weights"),
        (
            [*OF_TOKENS[:2], 1.0, OF_TOKENS[3]],
            "Row 2 .* must be a list with a number for each token",
        ),
        ([*OF_TOKENS[:2], ["a", 1, 2], OF_TOKENS[3]], r"Row 2 .* Received \['a', 1, 2\]"),
        ([*OF_TOKENS[:2], [1.0, np.nan, 1.0], OF_TOKENS[3]], r"Token 1 of row 2 \(counted from 0\) has nan"),
        ([*OF_TOKENS[:2], [1.0, 1.0, -2.0], OF_TOKENS[3]], r"Token 2 of row 2 \(counted from 0\) has -2"),
        ([1.0, 1.0, np.inf, 1.0], r"Row 2 \(counted from 0\) has inf"),
        ([[0.0] * len(row) for row in RAGGED], "All rows weigh 0"),
        (np.zeros((4, 1)), "All rows weigh 0"),
        ({"x": 2.0}, "those of classes are `class_weight`"),
    ],
)
def test_wrong_weights_of_rows_or_tokens_are_refused_with_their_place(ragged, weights, message):
    kept = ragged.get_weights()
    for call in (ragged.fit, ragged.evaluate):
        with pytest.raises(DataError, match=message):
            call(RAGGED, RAGGED_LABELS, sample_weight=weights, verbose=0)
    with pytest.raises(DataError, match=message):
        ragged.fit(RAGGED, RAGGED_LABELS, validation_data=(RAGGED, RAGGED_LABELS, weights), verbose=0)
    untrained = models.TokenClassifier(models.TokenConfig(**TOKENS))
    with pytest.raises(DataError, match=message):
        untrained.adapt(RAGGED, RAGGED_LABELS, weights)
    assert untrained.labels == []
    for now, before in zip(ragged.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(now, before)


def test_weights_of_classes_of_a_labeller_are_refused_with_what_to_give(ragged):
    with pytest.raises(ConfigError, match="Give `sample_weight`: for each row a list with"):
        ragged.fit(RAGGED, RAGGED_LABELS, class_weight={"x": 2.0}, verbose=0)


class Batches(keras.utils.PyDataset):
    def __init__(self, *columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return 2

    def __getitem__(self, place):
        return tuple(column[2 * place : 2 * place + 2] for column in self.columns)


def generated(*columns):
    yield from (Batches(*columns)[place] for place in range(2))


def padded_dataset(*columns):
    """As `padded_batch` makes it: weights of tokens are padded like the tokens."""
    tensors = [tf.ragged.constant(column) for column in columns]
    padded = [each.to_tensor() if isinstance(each, tf.RaggedTensor) else each for each in tensors]
    return tf.data.Dataset.from_tensor_slices(tuple(padded)).batch(2)


def ragged_dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(tuple(map(tf.ragged.constant, columns))).batch(2)


SOURCES = [Batches, generated, padded_dataset, ragged_dataset]


@pytest.fixture(scope="module")
def idle():
    return labeller(RAGGED, RAGGED_LABELS)


@pytest.fixture
def seen(monkeypatch, idle):
    """The weights of each step of a training or measurement, which computes nothing, with their tokens."""
    found = []

    def step(self, data):
        found.extend(zip(np.asarray(data[0])[:, :, 0] > 0, np.asarray(data[2]), strict=True))
        return {"loss": 0.0}

    monkeypatch.setattr(keras.Model, "train_step", step)
    monkeypatch.setattr(keras.Model, "test_step", step)
    idle.compile(run_eagerly=True)
    return found


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("weights", [WEIGHTS, OF_TOKENS])
def test_weights_in_batches_reach_the_steps_by_token(seen, idle, make, weights):
    """Both as training and as validation data; with tokens of weight 0 only, a batch is no error."""
    of_rows = [[weight] * len(row) for weight, row in zip(WEIGHTS, RAGGED, strict=True)]
    wanted = sorted(of_rows if weights is WEIGHTS else weights)
    columns = (RAGGED, RAGGED_LABELS, weights)
    for calls in (
        lambda: idle.fit(make(*columns), validation_data=make(*columns), verbose=0),
        lambda: idle.fit(make(*columns), validation_data=columns, verbose=0),
    ):
        seen.clear()
        calls()
        given = [weights[real].tolist() for real, weights in seen]
        assert [sorted(given[:4]), sorted(given[4:])] == [wanted, wanted]
        assert all(not weights[~real].any() for real, weights in seen)
    seen.clear()
    idle.evaluate(make(*columns), verbose=0)
    assert sorted(weights[real].tolist() for real, weights in seen) == wanted


@pytest.mark.parametrize("weights", [WEIGHTS, OF_TOKENS])
def test_a_share_for_validation_takes_its_weights_along(seen, idle, weights):
    idle.fit(RAGGED, RAGGED_LABELS, sample_weight=weights, validation_split=0.25, shuffle=False, verbose=0)
    last = seen[-1][1].tolist()
    assert len(seen) == 4
    assert last == (OF_TOKENS[3] if weights is OF_TOKENS else [2.0] * 7)


def test_some_weight_must_be_left_for_training_beside_the_share_for_validation(ragged):
    with pytest.raises(DataError, match="All rows weigh 0"):
        ragged.fit(RAGGED, RAGGED_LABELS, sample_weight=[0, 0, 0, 1.0], validation_split=0.25, verbose=0)


SERIES = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("float32")
NUMBERS = np.random.default_rng(1).normal(size=(3, 3))
TEXT = models.TextConfig(**SMALL, ngram_buckets=64, wide=False)
TEXTS, TEXT_LABELS = ["good film", "a bad film", "film"], [["+"], ["-"], ["+", "?"]]


def squared(model, outputs):
    return (((outputs - NUMBERS) / model.head.deviation) ** 2).mean(-1)


def crossed(model, outputs):
    truth = np.array([[label in row for label in model.labels] for row in TEXT_LABELS])
    return -np.log(np.where(truth, outputs, 1 - outputs)).mean(-1)


def absolute(truth, outputs):
    return keras.ops.mean(keras.ops.abs(truth - outputs), axis=-1)


# Three rows with three outputs each, and the loss of each row, in NumPy.
SEVERAL = {
    "numbers": (lambda: models.SeriesRegressor(models.SeriesConfig(**SMALL)), SERIES, NUMBERS, squared),
    "forecast": (lambda: models.SeriesForecaster(models.ForecastConfig(**SMALL)), SERIES, NUMBERS, squared),
    "labels": (lambda: models.TextClassifier(TEXT), TEXTS, TEXT_LABELS, crossed),
}


@pytest.mark.usefixtures("eager_steps")
@pytest.mark.parametrize("kind", SEVERAL)
def test_weights_of_rows_with_as_many_outputs_as_there_are_rows(kind):
    """With the model's own loss and metric, and with a user's loss of each output."""
    make, rows, targets, losses = SEVERAL[kind]
    keras.utils.set_random_seed(1)
    model = make()
    model.adapt(rows, targets if kind == "labels" else targets[::-1] * 2)
    own = keras.metrics.MeanMetricWrapper(absolute, name="own")
    model.compile(weighted_metrics=[own, keras.metrics.MeanSquaredError(name="square")])
    outputs = model.predict(rows, verbose=0)
    truth = np.asarray(model.head.encoded(model.head.read(targets)))
    weights = np.array([3.0, 0.0, 0.5])
    found = model.evaluate(rows, targets, sample_weight=weights, return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx((weights * losses(model, outputs)).mean(), rel=1e-5)
    error = (np.abs(truth - outputs).mean(-1), ((truth - outputs) ** 2).mean(-1))
    wanted = [(weights * each).sum() / weights.sum() for each in error]
    assert [found["own"], found["square"]] == pytest.approx(wanted, rel=1e-5)
    model.compile(loss=lambda y, p: keras.ops.square(y - p), weighted_metrics=["mse"])
    for form in (weights, weights[:, None]):
        found = model.evaluate(rows, targets, sample_weight=form, return_dict=True, verbose=0)
        assert found["loss"] == pytest.approx((weights[:, None] * (truth - outputs) ** 2).mean(), rel=1e-5)
    with pytest.raises(DataError, match=r"one number a row. Received shape \(3, 3\)"):
        model.evaluate(rows, targets, sample_weight=np.ones((3, 3)), verbose=0)
    with pytest.raises(DataError, match=r"one number a row, .* shape \(3, 3\) for a batch of 3"):
        model.compute_loss(None, truth, outputs, np.ones((3, 3), "float32"))


@pytest.mark.usefixtures("idle_steps")
def test_the_estimator_of_tokens_takes_weights_of_rows_and_of_tokens():
    estimator = estimators.TokenClassifierEstimator(**SMALL, epochs=1, settings={"hash_buckets": 64})
    for weights in (WEIGHTS, OF_TOKENS, None):
        estimator.fit(RAGGED, RAGGED_LABELS, sample_weight=weights)
    estimator.model_.label = lambda rows: [["x"] * len(row) for row in rows]
    right = [[name == "x" for name in row] for row in RAGGED_LABELS]
    flat = np.concatenate(OF_TOKENS)
    wanted = (flat * np.concatenate(right)).sum() / flat.sum()
    assert estimator.score(RAGGED, RAGGED_LABELS, sample_weight=OF_TOKENS) == pytest.approx(wanted)
    wanted = sum(w * sum(row) for w, row in zip(WEIGHTS, right, strict=True)) / (5 + 8 + 14)
    assert estimator.score(RAGGED, RAGGED_LABELS, sample_weight=WEIGHTS) == pytest.approx(wanted)
    for wrong, message in (
        ([1.0], "differ in number. Received 4 and 1"),
        ([1.0, np.nan, 1, 1], "Row 1 .*has nan"),
    ):
        with pytest.raises(DataError, match=message):
            estimator.score(RAGGED, RAGGED_LABELS, sample_weight=wrong)
    with pytest.raises(DataError, match="no token with a weight"):
        estimator.score(RAGGED, RAGGED_LABELS, sample_weight=[0.0] * 4)
