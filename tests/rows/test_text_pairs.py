"""Two texts a row: what is read as such, and how a row is told from others."""

import numpy as np
import pytest

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.rows.text_pairs import SYMMETRIC_PAIRS, TEXT_PAIRS, is_pair

PAIR = ("Is it good?", "Yes.")


@pytest.mark.parametrize(
    "rows",
    [
        [PAIR, ["a", "b"]],
        (PAIR, ("a", "b")),
        [{"text": PAIR[0], "text_pair": PAIR[1]}, {"text_pair": "b", "text": "a"}],
        [tuple(text.encode() for text in PAIR), ("a", "b")],
        np.array([PAIR, ("a", "b")]),
    ],
)
def test_containers_of_pairs_are_read_alike(rows):
    assert TEXT_PAIRS.are_rows(rows)
    assert TEXT_PAIRS.read(rows) == [PAIR, ("a", "b")]


@pytest.mark.parametrize("row", ["ab", b"ab", ["a"], ["a", "b", "c"], ["a", 1], {"text": "a"}, None, 1])
def test_what_is_no_pair_is_refused_with_its_number(row):
    assert not is_pair(row)
    assert not TEXT_PAIRS.are_rows([row])
    with pytest.raises(DataError, match=r"Pair 1 \(counted from 0\) must be two texts"):
        TEXT_PAIRS.read([PAIR, row])


def test_texts_and_features_are_no_pairs():
    for x in ["ab", ["a", "b"], np.zeros((2, 2)), [np.zeros(2), np.zeros(2)]]:
        assert not TEXT_PAIRS.are_rows(x)
    assert TEXT_PAIRS.are_rows([])


def test_keys_see_the_order_and_the_loose_one_neither_case_nor_spaces():
    alike = ("is  it GOOD", "yes")
    assert TEXT_PAIRS.key(PAIR) != TEXT_PAIRS.key(alike)
    assert TEXT_PAIRS.loose_key(PAIR) == TEXT_PAIRS.loose_key(alike)
    assert TEXT_PAIRS.loose_key(PAIR) != TEXT_PAIRS.loose_key(PAIR[::-1])


def test_where_the_order_says_nothing_a_pair_and_its_reverse_are_one_row():
    assert SYMMETRIC_PAIRS != TEXT_PAIRS
    assert SYMMETRIC_PAIRS.key(PAIR) == SYMMETRIC_PAIRS.key(PAIR[::-1]) != SYMMETRIC_PAIRS.key(("Yes.", ""))
    assert SYMMETRIC_PAIRS.loose_key(PAIR) == SYMMETRIC_PAIRS.loose_key(("YES", "is it good"))
    assert SYMMETRIC_PAIRS.cells(PAIR[::-1]) == PAIR[::-1]  # it is shown as it was given
    pairs = [(f"a{n}", f"b{n}") for n in range(20)]
    both = [*pairs, *(pair[::-1] for pair in pairs)]
    rows = LabelledRows(both, ["x", "y"] * 20, "made up", kind=SYMMETRIC_PAIRS)
    kept, held_out = rows.split(0.3, seed=0)
    assert 0 < len(held_out) < len(kept)
    assert not {frozenset(row) for row in kept.inputs} & {frozenset(row) for row in held_out.inputs}


def test_a_row_is_shown_with_both_texts():
    assert TEXT_PAIRS.as_json(PAIR) == {"text": "Is it good?", "text_pair": "Yes."}
    assert TEXT_PAIRS.cells(PAIR) == PAIR
    assert TEXT_PAIRS.shown(PAIR) == "Is it good? / Yes."
    assert TEXT_PAIRS.length(PAIR) == 15
    assert TEXT_PAIRS.is_short(PAIR)
    assert not TEXT_PAIRS.is_short(("a", ""))
