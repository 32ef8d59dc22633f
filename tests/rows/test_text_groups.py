"""Groups of texts as rows: what is read, and what is refused with its row."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_selfattn.errors import DataError
from keras_selfattn.rows.text_groups import TEXT_GROUPS, TextNumbers, numbered


@pytest.mark.parametrize(
    "given",
    [
        [("a", "b"), ("c", "d")],
        (("a", "b"), ("c", "d")),
        np.array([["a", "b"], ["c", "d"]]),
        np.array([["a", "b"], ["c", "d"]], object),
        pd.DataFrame({"x": ["a", "c"], "y": ["b", "d"]}).to_numpy(),
        [(b"a", "b"), ("c", b"d")],
        [{"text": "a", "text_pair": "b"}, ("c", "d")],
        tf.constant([["a", "b"], ["c", "d"]]),
    ],
)
def test_groups_are_read_from_any_container(given):
    assert TEXT_GROUPS.are_rows(given)
    assert TEXT_GROUPS.read(given) == [("a", "b"), ("c", "d")]


def test_a_negative_can_be_missing_and_a_text_can_be_empty():
    rows = [("a", "", "n", None), ("", "b", float("nan"), pd.NA), ("c", "d"), ("e", "f", "")]
    read = TEXT_GROUPS.read(rows)
    assert read == [("a", "", "n", None), ("", "b", None, None), ("c", "d"), ("e", "f", None)]
    assert numbered(read) == [(0, 1, 2, -1), (1, 3, -1, -1), (4, 5), (6, 7, -1)]
    assert all(isinstance(numbers, TextNumbers) for numbers in numbered(read))


def test_texts_alone_are_rows_too():
    assert TEXT_GROUPS.are_rows(["a", "b"])
    assert TEXT_GROUPS.read(np.array(["a", "b"])) == ["a", "b"]
    assert TEXT_GROUPS.read([]) == []
    assert not TEXT_GROUPS.are_rows(np.zeros((2, 3), "int32"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(None, "a")], r"Group 0 \(counted from 0\) must be two texts or more.*Received"),
        ([("a", "b"), "c"], r"Group 1 \(counted from 0\) must be two texts or more.*Received 'c'"),
        ([("a", "b"), ("c",)], r"Group 1 .*Received \('c',\)"),
        ([("a", None)], r"Group 0 .*Received \('a', None\)"),
        ([("a", "b", 3)], r"Group 0 .*Received \('a', 'b', 3\)"),
        (["c", ("a", "b")], r"Text 1 \(counted from 0\) is not a string"),
        ([{"text": "a", "text_pair": 1}], r"Group 0 .*Received \{'text': 'a', 'text_pair': 1\}"),
        ((np.array(["a", "b"]), np.array(["c", "d"])), "a tuple of 2 arrays, which may be rows or columns"),
        ((["a", "b"], ["c", "d"]), "a tuple of 2 lists, which may be rows or columns"),
    ],
)
def test_what_is_no_group_is_named(rows, said):
    with pytest.raises(DataError, match=said):
        TEXT_GROUPS.read(rows)


def test_what_a_report_shows_and_compares():
    row = ("A film!", "a movie", None, "a song")
    assert TEXT_GROUPS.cells(row) == ("A film!", "a movie")
    assert TEXT_GROUPS.shown(row) == "A film! / a movie / a song"
    assert TEXT_GROUPS.length(row) == 20
    assert TEXT_GROUPS.as_json(row) == ["A film!", "a movie", None, "a song"]
    assert TEXT_GROUPS.picture(row).text == "A film!\n\na movie"
    assert TEXT_GROUPS.loose_key(row) == TEXT_GROUPS.loose_key(("a film", "A movie.", None, "a song"))
    assert TEXT_GROUPS.loose_key(row) != TEXT_GROUPS.loose_key(("a film", "a movie", "a sonnet"))
    assert TEXT_GROUPS.part_keys(row) == {"text": ("A film!",), "text_pair": ("a movie",)}
    assert TEXT_GROUPS.is_short(row)
    assert not TEXT_GROUPS.is_short(("a", ""))
