"""Rows, labels and weights come in any ordered container, and mean what the same list means."""

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
from keras_selfattn.label_names import as_names
from keras_selfattn.row_containers import ordered_rows

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 4
LABELS = ["+", "+", "-", "-"] * 4
WEIGHTS = [1.0, 2.0, 0.5, 3.0] * 4
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
TAGS = [["D", "N"], ["D", "A", "N"]] * 4
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


def text_model():
    model = models.TextClassifier({**SMALL, "ngram_buckets": 64})
    model.compile()
    return model


@pytest.fixture(scope="module")
def trained():
    model = text_model()
    model.adapt(TEXTS, LABELS)
    return model


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_texts_labels_and_weights_of_any_container_are_those_of_a_list(trained, form):
    wanted = trained.evaluate(TEXTS, LABELS, sample_weight=WEIGHTS, verbose=0)
    assert trained.evaluate(form(TEXTS), form(LABELS), sample_weight=form(WEIGHTS), verbose=0) == wanted
    answers = trained.predict(TEXTS, verbose=0)
    np.testing.assert_array_equal(trained.predict(form(TEXTS), verbose=0), answers)
    np.testing.assert_allclose(trained(form(TEXTS)), answers, atol=1e-6)
    assert trained.label(form(TEXTS)) == trained.label(TEXTS)
    assert trained.explain(form(TEXTS[:4]))[0].tokens == ["good", "film"]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("kind", "rows", "targets"),
    [
        (lambda: models.TokenClassifier({**SMALL, "hash_buckets": 64}), TOKENS, TAGS),
        (lambda: models.SeriesRegressor(SMALL), SERIES, NUMBERS),
    ],
    ids=["tokens", "numbers"],
)
def test_rows_of_tokens_and_series_are_those_of_a_list(form, kind, rows, targets):
    model = kind()
    model.compile()
    model.adapt(form(rows), form(targets))
    wanted = model.evaluate(rows, targets, verbose=0)
    assert model.evaluate(form(rows), form(targets), verbose=0) == wanted
    for found, known in zip(
        model.predict(form(rows), verbose=0), model.predict(rows, verbose=0), strict=True
    ):
        np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("form", [Column, deque], ids=["column", "deque"])
def test_images_are_those_of_a_list(form):
    model = models.ImageClassifier(SMALL)
    model.adapt(form(IMAGES), form(LABELS))
    np.testing.assert_array_equal(model.predict(form(IMAGES), verbose=0), model.predict(IMAGES, verbose=0))


@pytest.mark.slow
def test_training_and_validation_read_columns_as_lists():
    """The same weights, losses and metrics; and a column, which may be large, is read once."""
    histories, read = [], []
    for form in (list, Column):
        model, rows = text_model(), [form(TEXTS), form(LABELS), form(WEIGHTS)]
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
    model = models.TokenClassifier({**SMALL, "hash_buckets": 64})
    model.compile()
    model.adapt(tf.ragged.constant(TOKENS), tf.ragged.constant(TAGS))
    assert model.label(tf.ragged.constant(TOKENS)) == model.label(TOKENS)


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


@pytest.mark.slow
def test_estimators_read_any_container():
    form, settings = FORMS["values"], {"wide": False}
    classifier = estimators.TextClassifierEstimator(**SMALL, epochs=1, settings=settings)
    classifier.fit(form(TEXTS), form(LABELS), form(WEIGHTS))
    assert classifier.predict(form(TEXTS)).tolist() == classifier.predict(TEXTS).tolist()
    wanted = classifier.score(TEXTS, LABELS, WEIGHTS)
    assert classifier.score(form(TEXTS), form(LABELS), form(WEIGHTS)) == wanted
    form = Column
    regressor = estimators.SeriesRegressorEstimator(**SMALL, epochs=1)
    regressor.fit(form(SERIES), form(NUMBERS), form(WEIGHTS))
    assert regressor.score(form(SERIES), form(NUMBERS)) == pytest.approx(regressor.score(SERIES, NUMBERS))
    form = deque
    labeller = estimators.TokenClassifierEstimator(**SMALL, epochs=1, settings={"hash_buckets": 64})
    labeller.fit(form(TOKENS), form(TAGS))
    assert labeller.score(form(TOKENS), form(TAGS)) == labeller.score(TOKENS, TAGS)
    with pytest.raises(DataError, match="A set has no order"):
        classifier.predict({"a", "b"})
