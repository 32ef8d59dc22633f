"""Labels as names: columns, lists of several, types, and what UTF-8 cannot hold."""

import json

import numpy as np
import pandas as pd
import pytest

from keras_selfattn.data import read_table
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelList, as_name_lists, as_names, may_bear_several

COLUMNS = {
    "an array [n, 1]": np.array([["b"], ["a"], ["b"]]),
    "integers [n, 1]": np.array([[1], [0], [1]]),
    "lists of one": [["b"], ["a"], ["b"]],
    "tuples of one": (("b",), ("a",), ("b",)),
    "a frame of one column": pd.DataFrame({"label": ["b", "a", "b"]}),
    "a series of lists of one": pd.Series([["b"], ["a"], ["b"]]),
    "arrays of one": [np.array([1]), np.array([0]), np.array([1])],
}
SEVERAL = {
    "one row has two": [["a"], ["b", "c"]],
    "one row has none": [["a"], []],
    "an array [n, 2]": np.array([["a", "b"], ["a", "c"]]),
    "sets": [{"a"}, {"b"}],
    "as a file with a separator has them": [LabelList(["a"]), LabelList(["b"])],
}


@pytest.mark.parametrize("labels", COLUMNS.values(), ids=COLUMNS)
def test_a_column_is_one_label_a_row(labels):
    assert not may_bear_several(labels)
    assert as_names(labels) in (["b", "a", "b"], ["1", "0", "1"])


@pytest.mark.parametrize("labels", SEVERAL.values(), ids=SEVERAL)
def test_lists_that_are_no_column_are_of_several_labels(labels):
    assert may_bear_several(labels)
    assert all(isinstance(names, LabelList) for names in as_name_lists(labels))


def test_labels_read_as_lists_stay_lists_whichever_rows_are_left():
    """Rows with several labels can be split so that each has one: this must not change the task."""
    assert may_bear_several(as_name_lists([["a"], ["b", "c"]])[:1])


@pytest.mark.parametrize("labels", [["a", "b"], [1, 2], [], None, [b"a", "b"], np.array([True, False])])
def test_plain_labels_are_one_a_row(labels):
    assert not may_bear_several(labels)


MIXED = [
    ([1, 2.0], "Label 1 .* is a fraction, 2.0, where others are an integer: Label 0 .* is 1"),
    ([True, 1], "Label 1 .* is an integer, 1, where others are a boolean: Label 0 .* is True"),
    (["1", "2", 1], "Label 2 .* is an integer, 1, where others are text: Label 0 .* is '1'"),
    ([[1], [2.0]], "Label 1 .* is a fraction"),
    (np.array([1, True], object), "Label 1 .* is a boolean"),
]


@pytest.mark.parametrize(("labels", "said"), MIXED)
def test_labels_of_several_types_are_refused_with_the_row(labels, said):
    with pytest.raises(DataError, match=said):
        as_names(labels)


def test_lists_of_labels_of_several_types_are_refused_with_the_row():
    with pytest.raises(DataError, match="A label of row 1 .* is an integer, 2, .*A label of row 0 .* is '2'"):
        as_name_lists([["a", "2"], ["a", 2]])


@pytest.mark.parametrize("label", ["\ud800", b"\xff", "a\udcff"])
def test_labels_that_utf_8_cannot_hold_are_refused_with_the_row(label):
    with pytest.raises(DataError, match="Label 1 .* is not valid in UTF-8. Received") as refused:
        as_names(["a", label])
    str(refused.value).encode()
    with pytest.raises(DataError, match="A label of row 1 .* is not valid in UTF-8"):
        as_name_lists([["a"], ["b", label]])


def test_types_of_numpy_are_those_of_python():
    assert as_names([1, np.int64(2), np.uint8(3)]) == ["1", "2", "3"]
    assert as_names(["a", np.str_("b"), b"c"]) == ["a", "b", "c"]


def test_text_and_numbers_that_nobody_mistakes_for_each_other_may_stand_together():
    assert as_names(["spam", 0, "ham", 1]) == ["spam", "0", "ham", "1"]


def written(folder, *labels):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": "a", "label": label}) + "\n" for label in labels))
    return file


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([1, 2.0], "'label' in line 2 is a fraction, 2.0, where others are an integer: .* line 1 is 1"),
        ([True, 1], "'label' in line 2 is an integer"),
        (["a", "\ud800"], "'label' in line 2 is not valid in UTF-8"),
        ([["1"], ["a", 1]], "'label' in line 2 is an integer"),
        ([["a"], ["\ud800"]], "'label' in line 2 is not valid in UTF-8"),
    ],
)
def test_a_file_of_such_labels_is_refused_with_the_line(labels, said, tmp_path):
    with pytest.raises(DataError, match=said):
        read_table(written(tmp_path, *labels))


def test_lists_in_a_file_are_of_several_labels_even_if_each_holds_one(tmp_path):
    assert may_bear_several(read_table(written(tmp_path, ["a"], ["b"])).targets)
    table = tmp_path / "rows.csv"
    table.write_text("text,label\ngood,a\nbad,b\n")
    assert may_bear_several(read_table(table, label_separator=";").targets)
    assert not may_bear_several(read_table(table).targets)
