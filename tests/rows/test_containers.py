"""Rows, labels and weights come in any ordered container, and mean what the same list means."""

import functools
from array import array
from collections import UserDict, deque
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_selfattn import estimators, models
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.label_names import as_names

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 4
LABELS = ["+", "+", "-", "-"] * 4
WEIGHTS = [1.0, 2.0, 0.5, 3.0] * 4
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
TAGS = [["D", "N"], ["D", "A", "N"]] * 4
OF_TOKENS = [[0.5, 2.0], [1.0, 0.0, 3.0]] * 4
SERIES = [np.arange(length, dtype="float32") for length in (3, 5, 2, 4)] * 4
NUMBERS = [3.0, 10.0, 1.0, 6.0] * 4
IMAGES = [np.full((8, 8), shade, "uint8") for shade in (0, 20, 200, 255)] * 4

pytestmark = pytest.mark.usefixtures("eager_steps")


class Column(Sequence):
    """A column of Hugging Face `datasets` 4 and 5: a sequence that is read when it is asked, and no array."""

    def __init__(self, values):
        self._values, self.reads = values, 0

    def __iter__(self):
        self.reads += 1
        return iter(self._values)

    def __getitem__(self, place):
        return self._values[place]

    def __len__(self):
        return len(self._values)


class Dataset:
    """A table of Hugging Face `datasets`: a column by its name, no sequence, and no array."""

    column_names = ("text", "label")

    def __len__(self):
        return 16

    def __getitem__(self, name):
        return Column(TEXTS)


def in_array(values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


def in_arrow(values):
    rows = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    return pytest.importorskip("pyarrow").chunked_array([rows[:2], rows[2:]])


FORMS = {
    "column": Column,
    "deque": deque,
    "values": lambda values: dict(enumerate(values)).values(),
    "series": lambda values: pd.Series(list(values)),
    "objects": in_array,
    "arrow": in_arrow,
}


# kind: (the model, its rows, its targets, weights of its rows or tokens)
KINDS = {
    "text": (lambda: models.TextClassifier({**SMALL, "ngram_buckets": 64}), TEXTS, LABELS, WEIGHTS),
    "tokens": (lambda: models.TokenClassifier({**SMALL, "hash_buckets": 64}), TOKENS, TAGS, OF_TOKENS),
    "numbers": (lambda: models.SeriesRegressor(SMALL), SERIES, NUMBERS, WEIGHTS),
    "images": (lambda: models.ImageClassifier(SMALL), IMAGES, LABELS, WEIGHTS),
}


@functools.cache
def learned(kind):
    """A model that has learned from lists, its measures and its answers."""
    make, rows, targets, weights = KINDS[kind]
    model = make()
    model.compile()
    model.adapt(rows, targets, weights)
    measures = model.evaluate(rows, targets, sample_weight=weights, verbose=0)
    return model, measures, model.predict(rows, verbose=0)


def check_answers(model, rows, answers):
    for found, known in zip(model.predict(rows, verbose=0), answers, strict=True):
        np.testing.assert_array_equal(found, known)


@pytest.fixture
def trained():
    return learned("text")[0]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kind", ["text", "tokens", "numbers"])
def test_rows_targets_and_weights_of_any_container_are_those_of_a_list(kind, form):
    _, *columns = KINDS[kind]
    model, measures, answers = learned(kind)
    rows, targets, weights = map(form, columns)
    assert model.evaluate(rows, targets, sample_weight=weights, verbose=0) == measures
    check_answers(model, form(columns[0]), answers)


@pytest.mark.parametrize("kind", ["tokens", "numbers", "images"])
def test_columns_are_learned_from_as_lists_are(kind):
    """And each, which may be large, is read once."""
    make, *columns = KINDS[kind]
    known, _, answers = learned(kind)
    rows, targets, weights = map(Column, columns)
    model = make()
    model.adapt(rows, targets, weights)
    assert [each.reads for each in (rows, targets, weights)] == [1, 1, 1]
    assert {**model.get_config(), "name": known.name} == known.get_config()
    check_answers(known, Column(columns[0]), answers)


def test_calls_labels_and_explanations_read_columns(trained):
    answers = learned("text")[2]
    np.testing.assert_allclose(trained(Column(TEXTS)), answers, atol=1e-6)
    assert trained.label(Column(TEXTS)) == trained.label(TEXTS)
    assert trained.explain(Column(TEXTS[:4]))[0].tokens == ["good", "film"]


@pytest.mark.parametrize("kind", ["text", "tokens"])
@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (set(WEIGHTS), "A set has no order"),
        ({}, "those of classes are `class_weight`"),
        (UserDict(enumerate(TEXTS)), "those of classes are `class_weight`"),
        (dict(enumerate(TOKENS)), "those of classes are `class_weight`"),
        (Dataset(), "The sample weights came as a table of the columns 'text', 'label'"),
        (1.0, r"one number a row. Received shape \(\)"),
        (pd.DataFrame(np.ones((8, 8))), r"has 2 tokens and 8 sample weights|Received shape \(8, 8\)"),
    ],
    ids=["set", "empty", "mapping", "dict", "dataset", "number", "frame"],
)
def test_weights_without_rows_in_order_are_refused(kind, weights, said):
    """Never read by their keys or names of columns, of which there may be as many as rows."""
    model, (_, rows, targets, _) = learned(kind)[0], KINDS[kind]
    with pytest.raises(DataError, match=said):
        model.evaluate(rows, targets, sample_weight=weights, verbose=0)


def test_weights_of_tokens_in_a_table_or_a_ragged_tensor_are_those_of_lists():
    model, measures, _ = learned("tokens")
    for weights in (tf.ragged.constant(OF_TOKENS), [deque(row) for row in OF_TOKENS]):
        assert model.evaluate(TOKENS, TAGS, sample_weight=weights, verbose=0) == measures
    padded = [np.array([[*row, *[""] * (3 - len(row))] for row in rows]) for rows in (TOKENS, TAGS)]
    frame = pd.DataFrame([[*row, *[7.0] * (3 - len(row))] for row in OF_TOKENS])
    for rows in (padded[0], tf.constant(padded[0])):
        assert model.evaluate(rows, padded[1], sample_weight=frame, verbose=0) == measures
    wanted = model.evaluate(TOKENS, TAGS, sample_weight=WEIGHTS[:8], verbose=0)
    frame = pd.DataFrame({"weight": WEIGHTS[:8]})
    assert model.evaluate(TOKENS, TAGS, sample_weight=frame, verbose=0) == wanted


@pytest.mark.slow
def test_training_and_validation_read_columns_as_lists():
    """The same weights, losses and metrics; and each column is read once."""
    histories, read = [], []
    for form in (list, Column):
        model, rows = KINDS["text"][0](), [form(TEXTS), form(LABELS), form(WEIGHTS)]
        model.compile()
        tf.keras.utils.set_random_seed(3)
        history = model.fit(
            rows[0],
            rows[1],
            sample_weight=rows[2],
            class_weight=UserDict({"+": 2.0}),
            validation_data=tuple(map(form, (TEXTS, LABELS, WEIGHTS))),
            verbose=0,
        ).history
        histories.append(history)
        read = rows
    assert {name: pytest.approx(values, rel=1e-4) for name, values in histories[0].items()} == histories[1]
    assert [column.reads for column in read] == [1, 1, 1]


def test_batches_of_a_generator_may_be_columns(trained):
    batches = (Column(TEXTS[start : start + 4]) for start in (0, 4, 8, 12))
    np.testing.assert_array_equal(trained.predict(batches, verbose=0), trained.predict(TEXTS, verbose=0))


def test_rows_of_a_ragged_tensor_are_rows_of_tokens():
    model, measures, answers = learned("tokens")
    rows, targets = tf.ragged.constant(TOKENS), tf.ragged.constant(TAGS)
    assert model.evaluate(rows, targets, sample_weight=OF_TOKENS, verbose=0) == measures
    check_answers(model, rows, answers)


def test_labels_may_be_tensors_without_axes():
    """As loaders of PyTorch and `datasets` with a format yield them; their text is no name."""
    assert as_names([tf.constant(7), np.array(3), tf.constant("x")]) == ["7", "3", "x"]
    with pytest.raises(DataError, match="is a fraction, .*2.5.* where others are an integer"):
        as_names([tf.constant(7), tf.constant(2.5)])


@pytest.mark.parametrize("method", ["predict", "evaluate", "fit", "label", "predict_on_batch"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"good", "bad"}, "A set has no order.*sorted"),
        (frozenset({"good"}), "A frozenset has no order"),
        (
            {"text": TEXTS, "label": LABELS},
            r"a table of the columns 'text', 'label' .dict.. .* rows\['text'\]",
        ),
        (Dataset(), r"Texts came as a table of the columns 'text', 'label' .Dataset."),
        (pd.DataFrame({"text": TEXTS}), r"a table of the columns 'text' .DataFrame."),
        ("one text", "Received one string"),
        (b"one text", "Received one string"),
        (None, "Texts are needed. Received None"),
    ],
    ids=["set", "frozenset", "dict", "dataset", "frame", "text", "bytes", "none"],
)
def test_what_has_no_rows_in_order_is_refused_by_name(trained, method, given, said):
    more = {"y": LABELS, "verbose": 0} if method in ("fit", "evaluate") else {}
    with pytest.raises(DataError, match=said):
        getattr(trained, method)(given, **more)


@pytest.mark.parametrize("targets", [{"+", "-"}, {"label": LABELS}], ids=["set", "dict"])
def test_targets_without_an_order_are_refused(trained, targets):
    with pytest.raises(DataError, match=r"A set has no order|labels came as a table of the columns 'label'"):
        trained.evaluate(TEXTS, targets, verbose=0)
    with pytest.raises(DataError, match=r"A set has no order|targets came as a table of the columns 'label'"):
        models.SeriesRegressor(SMALL).adapt(SERIES, targets)


@pytest.mark.parametrize(
    ("rows", "labels", "said"),
    [
        ([{"a", "film"}], [["D", "N"]], "Row 0 .* must be a list of tokens"),
        ([{"tokens": ["a", "film"]}], [["D"]], "Row 0 .* must be a list of tokens"),
        ([["a", "film"]], [{"D", "N"}], "labels of row 0 .* must be a list, one for each token"),
        ([["a", "film"]], iter([["D", "N"]]), r"must be in a list.*list_iterator; give `list\(labels\)`"),
    ],
    ids=["set of tokens", "record", "set of labels", "iterator"],
)
def test_tokens_and_their_labels_without_an_order_are_refused(rows, labels, said):
    with pytest.raises(DataError, match=said):
        models.TokenClassifier(SMALL).adapt(rows, labels)


def test_a_pair_of_columns_for_training_is_read_by_the_same_rule():
    """A set would be paired with labels in an order of its own."""
    rows = LabelledRows(Column(TEXTS), dict(enumerate(LABELS)).values(), "made up")
    assert (rows.inputs, rows.targets) == (TEXTS, LABELS)
    with pytest.raises(DataError, match="A set has no order"):
        LabelledRows({"good", "bad"}, ["+", "-"], "made up")
    with pytest.raises(DataError, match="came as a table of the columns 'text'"):
        LabelledRows({"text": TEXTS}, LABELS, "made up")


def test_inputs_by_the_names_of_keras_stay_inputs_of_keras(trained):
    """A dict of the core's inputs is no table."""
    ids = trained._features(["good film"])[0][None]
    wanted = trained.predict([ids, np.zeros((1, 2), "float32")], verbose=0)
    found = trained.predict({"ids": ids, "wide": np.zeros((1, 2), "float32")}, verbose=0)
    np.testing.assert_array_equal(found, wanted)


def test_a_text_and_an_array_of_numbers_are_no_list_of_rows():
    """Views and sequences become lists; nothing else does."""
    ids, ragged = np.zeros((2, 3), int), tf.ragged.constant([[1]])
    assert ordered_rows("text") == "text"
    assert ordered_rows(ids) is ids
    assert ordered_rows(ragged) is ragged
    assert ordered_rows(array("d", [1.0, 2.0])) == [1.0, 2.0]
    assert ordered_rows({"a": 1, "b": 2}.keys()) == ["a", "b"]


ESTIMATORS = [
    (
        lambda: estimators.TextClassifierEstimator(**SMALL, epochs=1, settings={"wide": False}),
        (TEXTS, LABELS, WEIGHTS),
        "values",
    ),
    (lambda: estimators.SeriesRegressorEstimator(**SMALL, epochs=1), (SERIES, NUMBERS, WEIGHTS), "column"),
    (
        lambda: estimators.TokenClassifierEstimator(**SMALL, epochs=1, settings={"hash_buckets": 64}),
        (TOKENS, TAGS, OF_TOKENS),
        "deque",
    ),
]


@pytest.mark.usefixtures("idle_steps")
@pytest.mark.parametrize(("make", "columns", "form"), ESTIMATORS, ids=["texts", "series", "tokens"])
def test_estimators_read_any_container(make, columns, form):
    estimator, given = make(), [FORMS[form](column) for column in columns]
    estimator.fit(*given)
    for found, known in zip(estimator.predict(given[0]), estimator.predict(columns[0]), strict=True):
        assert np.array_equal(found, known)
    assert estimator.score(*given) == pytest.approx(estimator.score(*columns))
    with pytest.raises(DataError, match="A set has no order"):
        estimator.predict({"a", "b"})
    with pytest.raises(DataError, match="A set has no order"):
        estimator.score(*columns[:2], {1.0, 2.0})
