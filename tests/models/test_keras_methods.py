"""The habits of Keras work with raw rows: call, summary, names, export, one-hot labels."""

import re
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError, ExportError

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 4
LABELS = ["+", "+", "-", "-"] * 4
SERIES = [np.arange(length, dtype="float32") for length in (3, 5, 2, 4)] * 4
IMAGES = [np.full((8, 8), shade, "uint8") for shade in (0, 20, 200, 255)] * 4
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
TAGS = [["D", "N"], ["D", "A", "N"]] * 4

pytestmark = pytest.mark.usefixtures("eager_steps")


def adapted(kind):
    """A model that has learned from rows, and the rows."""
    if kind == "tokens":
        model, rows, targets = models.TokenClassifier({**SMALL, "hash_buckets": 64}), TOKENS, TAGS
    elif kind == "series":
        model, rows, targets = models.SeriesClassifier({**SMALL, "kernels": 20}), SERIES, LABELS
    elif kind == "images":
        model, rows, targets = models.ImageClassifier(SMALL), IMAGES, LABELS
    elif kind == "several":
        model, rows, targets = text_model(), TEXTS, [["+"], ["+", "-"], [], ["-"]] * 4
    else:
        model, rows, targets = text_model(), TEXTS, LABELS
    model.adapt(rows, targets)
    return model, rows


def text_model(**settings):
    return models.TextClassifier({**SMALL, "ngram_buckets": 64}, **settings)


@pytest.mark.parametrize("kind", ["text", "series", "images", "tokens"])
def test_a_call_on_a_list_of_rows_gives_what_predict_gives(kind):
    model, rows = adapted(kind)
    called, asked = np.asarray(model(rows[:3])), model.predict(rows[:3], verbose=0)
    for one, other in zip(called, asked, strict=True):
        np.testing.assert_allclose(one[: len(other)], other, atol=1e-6)


def test_a_call_on_tensors_stays_a_call_of_keras():
    model, rows = adapted("text")
    wanted = model.predict(rows[:3], verbose=0)
    np.testing.assert_allclose(model(tf.constant(rows[:3])), wanted, atol=1e-6)
    np.testing.assert_allclose(model(np.array(rows[:3])), wanted, atol=1e-6)
    values = model(keras.Input((None,), dtype="int32"))
    assert values.shape == (None, 2)


@pytest.mark.parametrize(
    ("inputs", "said"), [("a text", r"wrap it in a list: \[text\]"), ([], "A call needs at least one row")]
)
def test_a_call_on_no_rows_is_refused(inputs, said):
    model, _ = adapted("text")
    with pytest.raises(DataError, match=said):
        model(inputs)
    with pytest.raises(DataError, match="has not seen any rows yet"):
        text_model()(["a text"])


@pytest.mark.parametrize("kind", ["text", "series", "images"])
def test_label_names_the_most_likely_class_of_each_row(kind):
    model, rows = adapted(kind)
    outputs = model.predict(rows, verbose=0)
    assert model.label(rows) == [model.labels[int(np.argmax(row))] for row in outputs]


def test_label_gives_all_likely_names_where_rows_have_several():
    model, rows = adapted("several")
    outputs = model.predict(rows[:4], verbose=0)
    wanted = [[name for name, value in zip("+-", row, strict=True) if value >= 0.5] for row in outputs]
    assert model.label(rows[:4]) == wanted == [["+"], ["+", "-"], [], ["-"]]


def test_label_of_numbers_says_that_there_are_none():
    with pytest.raises(ConfigError, match="SeriesForecaster returns numbers in the units .* Call `predict`"):
        models.SeriesForecaster().label(SERIES)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            models.TextClassifier(SMALL),
            ["the vocabulary and the label names", "1 block .* 2 heads, width 8", "n-grams"],
        ),
        (models.TextClassifier({"wide": False, "members": 2}), ["2 times: 1 block", "wide: False"]),
        (models.TokenClassifier(), ["2 blocks of self-attention, 4 heads", "each token"]),
        (models.SeriesClassifier(), ["4,000 random convolutions", "mean and deviation"]),
        (models.SeriesForecaster(), ["a ridge regression", "season: 1"]),
        (models.ImageClassifier(), ["size, mean and deviation", "patch_size: None"]),
        (models.MaskedTokenModel(), ["learns the vocabulary", "tokens at each mask"]),
    ],
)
def test_summary_before_the_first_rows_says_what_will_be_built(model, said, capsys):
    model.summary()
    printed = capsys.readouterr().out
    assert "not built yet" in printed
    assert [each for each in said if not re.search(each, printed)] == []
    lines = []
    model.summary(print_fn=lines.append)
    assert "\n".join(lines) + "\n" == printed
    assert not model.built


def test_summary_of_a_trained_model_is_that_of_keras():
    model, _ = adapted("text")
    lines = []
    model.summary(print_fn=lambda text, line_break=False: lines.append(text))
    assert "Total params" in "\n".join(lines)


@pytest.mark.slow
def test_export_writes_a_version_that_takes_raw_texts(tmp_path, unchecked):
    model, rows = adapted("text")
    assert model.export(tmp_path / "m") == Path(tmp_path / "m" / "1")
    assert model.export(tmp_path / "m", version=7).name == "7"
    answer = tf.saved_model.load(str(tmp_path / "m" / "1")).signatures["serving_default"](
        text=tf.constant(rows[:4])
    )
    assert [label.decode() for label in answer["label"].numpy()] == model.label(rows[:4])


def test_export_before_training_and_in_other_formats_writes_nothing(tmp_path):
    with pytest.raises(ExportError, match="has no weights yet. Train it"):
        text_model().export(tmp_path / "m")
    model, _ = adapted("text")
    with pytest.raises(ConfigError, match=r"Received 'torch'. .*model.core.export\(..., format='torch'\)"):
        model.export(tmp_path / "m", format="torch")
    assert list(tmp_path.iterdir()) == []


ONE_HOT = np.eye(3)[[0, 0, 2, 1] * 4]


@pytest.mark.usefixtures("idle_steps")
@pytest.mark.parametrize(
    "labels",
    [ONE_HOT, ONE_HOT.astype("int32"), ONE_HOT.astype(bool), ONE_HOT.tolist(), tf.constant(ONE_HOT)],
)
def test_rows_of_zeros_and_ones_are_one_hot_where_a_model_is_declared_to_have_one_label(labels):
    model = text_model(multi_label=False)
    model.compile()
    model.fit(TEXTS, labels, verbose=0)
    assert (model.labels, model.multi_label) == (["0", "1", "2"], False)
    named = text_model()
    named.compile()
    named.adapt(TEXTS, ["0", "0", "2", "1"] * 4)
    named.set_weights(model.get_weights())
    wanted = named.evaluate(TEXTS, ["0", "0", "2", "1"] * 4, verbose=0)
    np.testing.assert_allclose(model.evaluate(TEXTS, labels, verbose=0), wanted, rtol=1e-5)


def test_the_columns_of_a_table_name_the_classes():
    model = text_model(multi_label=False)
    model.adapt(TEXTS, pd.get_dummies(pd.Series(LABELS)))
    assert model.labels == ["+", "-"]
    assert model.label(["good film", "poor"]) == ["+", "-"]


def test_rows_of_zeros_and_ones_are_several_labels_where_that_is_declared():
    model = text_model(multi_label=True)
    model.adapt(TEXTS, [[1, 0], [1, 1], [0, 0], [0, 1]] * 4)
    assert (model.labels, model.multi_label) == (["0", "1"], True)
    by_name, _ = adapted("several")
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), by_name.predict(TEXTS, verbose=0), atol=0.5)
    assert model.label(TEXTS[:4]) == [["0"], ["0", "1"], [], ["1"]]


def test_rows_of_zeros_and_ones_without_a_declaration_are_refused_with_both_readings():
    with pytest.raises(DataError, match=r"One-hot.*`multi_label=False`.*Several labels.*`multi_label=True`"):
        text_model().adapt(TEXTS, ONE_HOT)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            [[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]] * 4,
            r"Label 0 .* must be one-hot.* Received \[1, 1, 0\]",
        ),
        ([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]] * 4, r"Column 2 .* is 0 in all 16 rows"),
    ],
)
def test_rows_that_are_not_one_hot_are_refused_by_row_and_column(labels, said):
    with pytest.raises(DataError, match=said):
        text_model(multi_label=False).adapt(TEXTS, labels)


def test_a_trained_model_knows_how_many_columns_its_labels_have():
    model, rows = adapted("text")
    model.compile()
    by_name = model.evaluate(rows, LABELS, verbose=0)
    np.testing.assert_allclose(model.evaluate(rows, np.eye(2)[[0, 0, 1, 1] * 4], verbose=0), by_name)
    with pytest.raises(DataError, match="3 columns of zeros and ones. The model knows 2 labels"):
        model.evaluate(rows, ONE_HOT, verbose=0)
