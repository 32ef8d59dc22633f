"""Cells of a request are what a training would read: lists, tokens, missing values."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from keras_selfattn.asking.input_cells import NamedColumns, input_columns, input_value
from keras_selfattn.batch.row_files import Window
from keras_selfattn.batch.row_writers import writer_for
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.serving.client import Signature, TensorSpec


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" Ada  wrote\tit ", ["Ada", "wrote", "it"]),
        ("10\u00a0000 a\u2009b\u0085 \u2028 c\vd", ["10\u00a0000", "a\u2009b\u0085", "\u2028", "c\vd"]),
        ("two\r\nlines\n", ["two", "lines"]),
        ("[a b\u00a0c", ["[a", "b\u00a0c"]),
        ('["New York"]', ["New York"]),
        ("", []),
    ],
)
def test_blank_tab_and_line_end_alone_separate_tokens(text, wanted):
    tokens = Signature({"tokens": TensorSpec("string", (None, None))}, {})
    assert input_value(tokens, "tokens", text, "row 0") == wanted


TOKENS = Signature({"tokens": TensorSpec("string", (None, None))}, {})


@pytest.mark.parametrize("cell", [str(["Ada", "wrote"]), str(np.array(["Ada", "wrote"]))])
def test_a_row_of_tokens_is_not_split_at_the_blanks_of_a_list(cell):
    with pytest.raises(DataError, match="row 1: .* a list as Python .*json.dumps"):
        input_value(TOKENS, "tokens", cell, "row 1")


def test_a_row_of_numbers_alone_in_a_list_is_an_error():
    with pytest.raises(DataError, match=r"row 1: the tokens are a JSON list, '\[1, 2\]'"):
        input_value(TOKENS, "tokens", "[1, 2]", "row 1")
    assert input_value(TOKENS, "tokens", '["Ada", 2]', "row 1") == ["Ada", "2"]
    assert input_value(TOKENS, "tokens", "[]", "row 1") == []


@pytest.mark.parametrize(
    "cell", ["[ laughs ] he said", "[laughs]", "[ 2 ]", "[ Tholt , Jane M. ]", "[ ]", "[ 'tis the season"]
)
def test_a_row_of_tokens_may_begin_with_a_bracket(cell):
    assert input_value(TOKENS, "tokens", cell, "row 1") == cell.split()


TEXTS = ["good", None, math.nan, ""]


READ = ["good", "", "", ""]


TEXT = Signature({"text": TensorSpec("string", (None,))}, {})


FILE = Signature({"encoded": TensorSpec("string", (None,))}, {})


def test_a_request_holds_what_a_training_would_read():
    given = [*TEXTS, pd.NA, pd.NaT, 7, True, "\ud800", b"\xc3\xa9", np.float32("nan")]
    wanted = [*READ, "", "", "7", "True", "?", "é", ""]
    assert [input_value(TEXT, "text", each, "row 1") for each in given] == wanted
    assert input_value(TOKENS, "tokens", ["a", 7, b"b"], "row 1") == ["a", "7", "b"]


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        (TEXT, ["a"]),
        (TEXT, {"a": 1}),
        (TEXT, math.inf),
        (TOKENS, None),
        (TOKENS, math.nan),
        (TOKENS, ["a", None]),
        (TOKENS, ["a", math.nan]),
        (TOKENS, [["a"]]),
        (FILE, None),
        (FILE, math.nan),
    ],
)
def test_what_is_no_text_or_token_is_refused_by_its_row(signature, value):
    with pytest.raises(DataError, match="row 1"):
        input_value(signature, next(iter(signature.inputs)), value, "row 1")


ANSWERS = {"score": [np.float32("nan"), np.float32(0.5)], "values": [np.array([1, np.inf]), np.zeros(1)]}


RECORDS = [{"id": math.nan, "n": [math.nan]}, {"id": None, "n": math.inf}]


def encoded(path):
    window = Window([1, 2], RECORDS, [0], 0)
    return writer_for(path, ["id", "n"], list(ANSWERS)).encoded(window, [0, 1], ANSWERS)[0]


PAIRS = Signature({name: TensorSpec("string", (None,)) for name in ("text", "text_pair")}, {})


def test_the_texts_of_a_pair_are_in_the_columns_named_those_of_the_training_or_those_of_their_names():
    names = ["text", "text_pair", "question", "answer"]
    both = NamedColumns("question", "answer")
    for named, trained, wanted in (
        (NamedColumns(), NamedColumns(), ["text", "text_pair"]),
        (both, NamedColumns(), ["question", "answer"]),
        (NamedColumns(), both, ["question", "answer"]),
        (NamedColumns(text_pair="answer"), NamedColumns("question", "gone"), ["question", "answer"]),
        (NamedColumns(), NamedColumns("text", "gone"), ["text", "text_pair"]),
    ):
        assert list(input_columns(PAIRS, Path("f.csv"), names, named, trained).values()) == wanted


@pytest.mark.parametrize(
    ("signature", "named", "error", "said"),
    [
        (
            PAIRS,
            NamedColumns(),
            DataError,
            "has the columns 'text', 'b'; the model takes 'text', 'text_pair'. Name",
        ),
        (PAIRS, NamedColumns(text_pair="c"), DataError, "no column 'c'. Its columns are 'text', 'b'"),
        (PAIRS, NamedColumns(text_pair="text"), DataError, "in two columns. Received 'text' for both"),
        (
            TEXT,
            NamedColumns(text_pair="b"),
            ConfigError,
            "--text-pair.* The model takes 'text': leave it out",
        ),
    ],
)
def test_columns_that_make_no_pairs_are_refused(signature, named, error, said):
    with pytest.raises(error, match=said):
        input_columns(signature, Path("f.csv"), ["text", "b"], named)
