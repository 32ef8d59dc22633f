"""Sample weights of rows and of tokens, beside NumPy and beside rows given several times."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import DataError
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
        model = labeller(SQUARE, SQUARE_LABELS, optimizer=keras.optimizers.SGD(rate))
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
