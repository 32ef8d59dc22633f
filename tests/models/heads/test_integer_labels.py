"""Integers as keys of class weights and as targets: names of labels or indices of classes, never both."""

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.sample_weights import row_weights
from keras_selfattn.models.heads.class_heads import ClassHead, MultiLabelHead
from keras_selfattn.models.heads.integer_labels import by_place, named
from keras_selfattn.models.tokens.position_head import PositionHead

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 3

pytestmark = pytest.mark.usefixtures("eager_steps")


def dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


def generated(*columns):
    for start in range(0, len(columns[0]), 4):
        yield tuple(column[start : start + 4] for column in columns)


class Batches(keras.utils.PyDataset):
    def __init__(self, *columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return len(self.columns[0]) // 4

    def __getitem__(self, place):
        return tuple(column[4 * place : 4 * place + 4] for column in self.columns)


def adapted(labels):
    model = models.TextClassifier(models.TextConfig(**SMALL, ngram_buckets=64))
    model.compile()
    model.adapt(TEXTS, labels)
    return model


@pytest.mark.parametrize(
    ("labels", "given", "wanted"),
    [
        # 0 is no label, so that all three are indices: the 10 belongs to the third class.
        (["1", "2", "3"], {0: 1, 1: 1, 2: 10}, {0: 1, 1: 1, 2: 10}),
        (["1", "2", "3"], {1: 1, 2: 1, 3: 10}, {0: 1, 1: 1, 2: 10}),
        (["1", "2", "3"], {"1": 1, "2": 10}, {0: 1, 1: 10}),
        (["1", "2", "3"], {np.int64(3): 10}, {2: 10}),
        (["1", "2", "3"], {b"2": 10}, {1: 10}),
        (["0", "1", "2"], {1: 4, 2: 10}, {1: 4, 2: 10}),
        (["0", "1", "other"], {"other": 3, 1: 2}, {2: 3, 1: 2}),
        (["+", "-"], {np.int32(1): 3}, {1: 3}),
        (["+", "-"], {"+": 2, 1: 3}, {0: 2, 1: 3}),
        (["False", "True"], {True: 3}, {1: 3}),
        (["True", "Zebra"], {True: 3}, {0: 3}),
        (["0.5", "1.5"], {1.5: 3}, {1: 3}),
        (["0.5", "1.5"], {0: 3}, {0: 3}),
    ],
)
def test_keys_are_all_names_or_all_indices(labels, given, wanted):
    found = by_place("class_weight", given, labels)
    assert found == wanted
    assert all(type(place) is int for place in found)


@pytest.mark.parametrize(
    ("labels", "given", "by_label", "by_index"),
    [
        (["1", "2", "3"], {1: 5.0, 2: 9.0}, "{'1': 5.0, '2': 9.0}", "{'2': 5.0, '3': 9.0}"),
        (["1", "2"], {1: 5.0}, "{'1': 5.0}", "{'2': 5.0}"),
        (["-1", "0", "1"], {0: 5.0, 1: 9.0}, "{'0': 5.0, '1': 9.0}", "{'-1': 5.0, '0': 9.0}"),
        (["1.0", "2.0"], {1: 5.0}, "{'1.0': 5.0}", "{'2.0': 5.0}"),
        (["01", "02"], {1: 5.0}, "{'01': 5.0}", "{'02': 5.0}"),
    ],
)
def test_integers_that_are_labels_and_indices_are_refused_with_both_readings(
    labels, given, by_label, by_index
):
    with pytest.raises(ConfigError) as caught:
        by_place("class_weight", given, labels)
    assert f"by label it is {by_label}, by index from 0 {by_index}" in str(caught.value)
    assert "with the labels as text" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rows", "source"])
def test_fit_weighs_the_same_class_in_each_form_of_rows(form):
    """The weight of index 2 is that of the label 3."""
    labels = [1, 2, 3, 3] * 3
    model, seen = adapted(labels), []
    batches = model.batches
    model.batches = lambda rows, *args, **kwargs: seen.append(rows) or batches(rows, *args, **kwargs)
    given = (TEXTS, labels) if form == "rows" else (dataset(TEXTS, labels),)
    model.fit(*given, class_weight={0: 1, 1: 1, 2: 10}, verbose=0)
    assert seen
    for rows in seen:
        assert rows.weights.tolist() == [10.0 if name == "3" else 1.0 for name in rows.targets]
    with pytest.raises(ConfigError, match="`class_weight` can be read in two ways"):
        model.fit(*given, class_weight={1: 1.0, 2: 10.0}, verbose=0)


def test_weights_of_the_cores_inputs_reach_keras_by_index(monkeypatch):
    model, seen = adapted([1, 2, 3, 3] * 3), []
    monkeypatch.setattr(
        keras.Model, "fit", lambda self, *args, class_weight, **kwargs: seen.append(class_weight)
    )
    inputs = [np.full((12, 3), 2, "int32"), np.zeros((12, 3), "float32")]
    model.fit(inputs, np.array([0, 1, 2, 2] * 3), class_weight={"3": 10})
    assert seen == [{0: 1.0, 1: 1.0, 2: 10.0}]


@pytest.mark.slow
@pytest.mark.parametrize("form", [None, dataset, generated, Batches])
@pytest.mark.parametrize(
    ("labels", "targets", "names"),
    [
        # One label is a number: integers are names, as they were in `fit`.
        (["1", "2", "other"], [1, 2, 1, 2], ["1", "2", "1", "2"]),
        ([1, 2, 3], [1, 2, 1, 2], ["1", "2", "1", "2"]),
        (["+", "-"], [1, 0, 1, 0], ["-", "+", "-", "+"]),
    ],
)
def test_integer_targets_mean_the_same_in_every_call(form, labels, targets, names):
    model = adapted([labels[row % len(labels)] for row in range(12)])
    targets, names = np.array(targets * 3), names * 3
    wanted = model.evaluate(TEXTS, names, verbose=0)
    given = (TEXTS, targets) if form is None else (form(TEXTS, targets),)
    np.testing.assert_allclose(model.evaluate(*given, verbose=0), wanted, rtol=1e-5)
    model.optimizer.learning_rate = 0.0
    validation = given if form is None else form(TEXTS, targets)
    history = model.fit(TEXTS, targets, validation_data=validation, verbose=0).history
    assert history["val_loss"][0] == pytest.approx(wanted[0], rel=1e-4)


@pytest.mark.slow
def test_validation_before_the_first_fit_is_read_as_after_it():
    model = models.TextClassifier(models.TextConfig(**SMALL, ngram_buckets=64))
    model.compile()
    labels, ids = ["+", "-", "+", "-"] * 3, np.array([0, 1, 0, 1] * 3)
    history = model.fit(TEXTS, labels, validation_data=(TEXTS, ids), verbose=0).history
    assert history["val_loss"][0] == pytest.approx(model.evaluate(TEXTS, labels, verbose=0)[0], rel=1e-4)


@pytest.mark.parametrize("form", [None, dataset])
@pytest.mark.parametrize(
    ("labels", "targets", "said"),
    [
        (["+", "-"], [0, 1, 2, 1], r"Label 2 \(counted from 0\).* is 2. The model has classes 0 to 1: \+, -"),
        ([1, 2, 3], [0, 1, 2, 1], "knows no label '0' .*knows: 1, 2, 3"),
        # 1 is equal to the label 1.0, but not its name, and no index either.
        ([1.0, 2.0], [1, 1, 1, 1], r"knows no label '1' .*knows: 1.0, 2.0"),
    ],
)
def test_integer_targets_without_a_class_are_refused_in_every_call(form, labels, targets, said):
    model = adapted([labels[row % len(labels)] for row in range(12)])
    given = (TEXTS[:4], targets) if form is None else (form(TEXTS[:4], targets),)
    with pytest.raises(DataError, match=said):
        model.evaluate(*given, verbose=0)


def test_targets_of_other_types_stay_as_they_are():
    for targets in (
        ["a"],
        [0.0],
        [True],
        np.eye(2, dtype=int),
        pandas.DataFrame({0: [1, 0], 1: [0, 1]}),
        None,
    ):
        assert named(targets, ["+", "-"]) is targets
    for labels in (["1", "2"], ["1", "other"], ["0.5", "1.5"]):
        assert named((targets := [1, 0]), labels) is targets
    assert named(pandas.Series([1, 0]), ["+", "-"]) == ["-", "+"]
    assert named(np.array([[1], [0]]), ["+", "-"]) == ["-", "+"]
    assert named(tf.constant([1, 0]), ["+", "-"]) == ["-", "+"]


@pytest.mark.slow
def test_integers_of_positions_are_indices_up_to_the_padding():
    rows = [["a", "film"], ["the", "best", "film"], []]
    tags = [["D", "N"], ["D", "A", "N"], []]
    model = models.TokenClassifier(models.TokenConfig(**SMALL, hash_buckets=64))
    model.compile()
    model.adapt(rows, tags)
    wanted = model.evaluate(rows, tags, verbose=0)
    np.testing.assert_allclose(model.evaluate(rows, [[1, 2], [1, 0, 2], []], verbose=0), wanted, rtol=1e-6)
    padded = tf.ragged.constant(rows[:2]).to_tensor().numpy()
    np.testing.assert_allclose(
        model.evaluate(padded, np.array([[1, 2, -1], [1, 0, 2]]), verbose=0),
        model.evaluate(rows[:2], tags[:2], verbose=0),
        rtol=1e-6,
    )
    with pytest.raises(DataError, match="knows no label '7'"):
        model.evaluate(rows[:1], [[1, 7]], verbose=0)
    with pytest.raises(ConfigError, match="`class_weight` is for one label a row. The task is labelling"):
        model.fit(rows, tags, class_weight={0: 2.0}, verbose=0)


@pytest.mark.parametrize("make", [ClassHead, MultiLabelHead, PositionHead])
def test_labels_of_a_head_are_names_in_an_order(make):
    assert make([1, 2]).labels == make(np.array([1, 2])).labels == ["1", "2"]
    for wrong in ([], ["a", "a"], {"a", "b"}, "ab"):
        with pytest.raises(ConfigError, match="`labels` must be names that differ, at least one, in a list"):
            make(wrong)
    with pytest.raises(DataError, match="Give all of them in one type"):
        make([1, "1"])


@pytest.mark.parametrize("weights", [{"+": 2.0}, ["much", "more"], [[1.0], [1.0, 2.0]]])
def test_weights_of_rows_that_are_no_numbers_are_refused(weights):
    with pytest.raises(DataError, match="one number a row; those of classes are `class_weight`. Received"):
        row_weights(weights)
