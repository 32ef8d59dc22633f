"""Labelled rows: the split keeps shares, equal rows and every label; columns of any container are rows."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from keras_selfattn.data.labelled import LabelledRows, as_rows, split_rows
from keras_selfattn.errors import DataError
from keras_selfattn.models import TextClassifier
from keras_selfattn.rows.series import SERIES
from keras_selfattn.rows.targets import NUMBERS


def test_a_split_keeps_shares_and_equal_texts_together():
    texts = [f"text {row % 150}" for row in range(200)]
    table = LabelledRows(texts, ["+" if row % 150 < 100 else "-" for row in range(200)], "t.csv")
    kept, held = split_rows(table, 0.2, seed=1)
    assert len(kept) + len(held) == 200
    assert not set(kept.inputs) & set(held.inputs)
    assert len(set(held.inputs)) == 30
    assert len({text for text, label in zip(held.inputs, held.targets, strict=True) if label == "+"}) == 20
    assert split_rows(table, 0.2, seed=1) == (kept, held)
    assert split_rows(table, 0.2, seed=2) != (kept, held)


def test_many_small_classes_are_held_out_in_their_share_overall():
    table = LabelledRows(
        [f"text {row}" for row in range(400)], [str(row % 100) for row in range(400)], "t.csv"
    )
    kept, held = split_rows(table, 0.1, seed=0)
    assert 20 <= len(held) <= 60
    assert set(kept.targets) == set(table.targets)


def test_too_few_rows_to_split_say_so():
    with pytest.raises(DataError, match="too few different rows to hold 10% of them out: 1"):
        split_rows(LabelledRows(["a", "a"], ["+", "-"], "t.csv"), 0.1, seed=0)


@pytest.mark.parametrize("seed", range(20))
def test_no_label_is_held_out_whole(seed):
    """Ten labels occur once each, beside two that are everywhere."""
    targets = [["a", "b"] if row % 2 else ["a"] for row in range(200)]
    for row in range(10):
        targets[20 * row] = ["a", f"rare{row}"]
    kept, held = split_rows(LabelledRows([f"text {n}" for n in range(200)], targets, "t.csv"), 0.1, seed)
    assert kept.labels() == {name for names in targets for name in names}
    assert 5 <= len(held) <= 25


def test_a_text_with_two_labels_stays_if_one_of_them_is_nowhere_else():
    texts, labels = ["dup", "dup", *"abcdefgh"], ["a", "c", *"aaaabbbb"]
    rows = LabelledRows(texts, labels, "t.csv")
    for seed in range(20):
        kept, held = split_rows(rows, 0.5, seed)
        assert "dup" not in held.inputs
        assert set(kept.targets) == {"a", "b", "c"}


def test_a_row_that_can_be_spared_is_found_though_the_draw_is_needed():
    targets = [["a"], ["b"], ["c"], ["d"], ["d"]]
    for seed in range(10):
        kept, held = split_rows(LabelledRows(list("vwxyz"), targets, "t.csv"), 0.2, seed)
        assert held.targets == [["d"]]
        assert len(kept) == 4
    with pytest.raises(DataError, match="too few different rows to hold 20% of them out: 3"):
        split_rows(LabelledRows(list("vwx"), targets[:3], "t.csv"), 0.2, seed=0)


@pytest.mark.parametrize("container", [tuple, np.array, lambda column: pd.Series(column, index=range(7, 27))])
def test_columns_come_in_any_container(container):
    texts, labels = [f"text {n}" for n in range(20)], ["+", "-"] * 10
    rows = LabelledRows(container(texts), container(labels), "made up")
    assert (rows.inputs, rows.targets) == (texts, labels)
    kept, held = rows.split(0.2, seed=0)
    assert sorted([*kept.inputs, *held.inputs]) == sorted(texts)


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


@pytest.mark.parametrize("table", [pd.DataFrame, dict])
def test_both_texts_of_pairs_are_known_by_their_columns_not_by_the_order_of_these(table):
    rows = as_rows((table({"text_pair": ["Yes.", "No."], "text": ["Is it?", "Why?"]}), ["+", "-"]), "rows")
    assert rows.inputs == [("Is it?", "Yes."), ("Why?", "No.")]


@pytest.mark.parametrize("table", [pd.DataFrame, dict, pa.table])
def test_a_table_is_read_by_the_names_of_its_columns_or_refused(table):
    texts = table({"premise": ["Is it?", "Why?"], "hypothesis": ["Yes.", "No."]})
    with pytest.raises(DataError, match=r"columns 'premise', 'hypothesis'. .*rows\['premise'\]; or, for two"):
        as_rows((texts, ["+", "-"]), "rows")
    with pytest.raises(
        DataError, match=r"The labels came as a table of the columns 'label'.*rows\['label'\]"
    ):
        as_rows((["a", "b"], table({"label": ["+", "-"]})), "rows")
    scores = as_rows((["a", "b"], table({"style": [4.5, 1.0], "content": [3, 2]})), "rows").take([1, 0])
    assert (scores.targets.columns, scores.target_kind) == (["style", "content"], NUMBERS)
    assert [target.tolist() for target in scores.targets] == [[1.0, 2.0], [4.5, 3.0]]


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(DataError, match="two columns 'a'. Rename one"):
        as_rows((["x"], twice), "rows")


def test_a_table_of_numbers_is_series_of_equal_length():
    rows = as_rows((pd.DataFrame({"t0": [1.0, 2.0], "t1": [0.0, 1.0]}), ["+", "-"]), "rows")
    assert (rows.kind, [row.tolist() for row in rows.inputs]) == (SERIES, [[1.0, 0.0], [2.0, 1.0]])


def test_one_row_of_each_label_cannot_be_split():
    rows = LabelledRows([f"text {n}" for n in range(30)], [f"label {n}" for n in range(30)], "made up")
    alike = LabelledRows(["good", "bad"] * 30, ["+", "-"] * 30, "made up")
    for given, labels in ((rows, 30), (alike, 2)):
        with pytest.raises(
            DataError,
            match=f"one row of each of its {labels} labels, or rows that are all alike, so that none",
        ):
            split_rows(given, 0.1, 0)


@pytest.mark.parametrize("targets", [["a", None], [None, ["a"]], [None, "a"]])
def test_a_row_without_a_target_has_no_label(targets):
    assert LabelledRows(["x", "y"], targets, "made up").labels() == {"a"}


def test_a_split_draws_from_each_class_of_the_kind_of_target():
    rows = LabelledRows([f"text {n}" for n in range(40)], ["a"] * 20 + ["b"] * 20, "made up")
    _kept, held_out = split_rows(rows, 0.1, 0)
    assert sorted(held_out.targets) == ["a", "a", "b", "b"]


# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


TEXTS = ["good film", "bad film", "fine film", "poor film"]


@pytest.mark.parametrize("container", [list, np.array, tuple])
def test_a_pair_of_columns_is_rows(container):
    rows = as_rows((container(TEXTS), container(["+", "-"] * 2)), "training rows")
    assert (rows.inputs, rows.targets, rows.source) == (TEXTS, ["+", "-"] * 2, "training rows")


def test_a_table_of_numbers_is_no_labels_unless_a_model_is_declared_to_have_several():
    """Each row of two columns of 0 and 1 would have the labels "0" and "1"."""
    table: Any = pd.DataFrame({"+": [1, 0], "-": [0, 1]})
    rows = LabelledRows(["good", "bad"], table, "made up")
    with pytest.raises(DataError, match=r"The labels came as a table of the columns '\+', '-'"):
        TextClassifier().head_type(rows.targets)
    model = TextClassifier(multi_label=True)
    read = model.read_rows(rows.inputs, rows.targets, None, model.head_type(rows.targets))
    assert list(map(list, read.targets)) == [["+"], ["-"]]
