"""`query` asks a labeller of raw texts for spans, and writes them as doccano does."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from stock_serving import StockServing, StockSignature

from keras_selfattn.asking.asked_rows import signature_choice
from keras_selfattn.asking.raw_texts import choice_for
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError


def found(texts):
    """Words in capitals, with a rest behind them that means nothing."""
    rows = [[each.span() for each in re.finditer("[A-Z]+", text.decode())] for text in texts]
    most = max(map(len, rows), default=0) + 1
    padded = np.array([row + [(7, 9)] * (most - len(row)) for row in rows]).reshape(len(rows), most, 2)
    return {
        "start": padded[..., 0].astype(np.int32),
        "end": padded[..., 1].astype(np.int32),
        "label": np.full((len(rows), most), b"NAME", object),
        "score": np.full((len(rows), most), 0.5, np.float32),
        "count": np.array(list(map(len, rows)), np.int32),
    }


@pytest.fixture
def query(stock_server, tmp_path):
    """Runs the command on arguments, or a file of some content; gives its result and its rows."""
    of_spans = dict.fromkeys(("start", "end"), (tf.int32, (None, None)))
    of_spans |= {"label": (tf.string, (None, None)), "score": (tf.float32, (None, None))}
    spans = StockSignature(
        {"text": (tf.string, (None,))},
        lambda arrays: found(arrays["text"]),
        of_spans | {"count": (tf.int32, (None,))},
    )
    tokens = StockSignature(
        {"tokens": (tf.string, (None, None))},
        lambda arrays: {"label": arrays["tokens"]},
        {"label": (tf.string, (None, None))},
    )
    target = stock_server(StockServing({"serving_default": tokens, "spans": spans}))

    def run(*arguments, name=None, content=""):
        if name is not None:
            (tmp_path / name).write_text(content, encoding="utf-8")
            arguments = ("--file", tmp_path / name, *arguments)
        words = ["query", "m", *map(str, arguments), "--target", target, "--format", "json"]
        done = CliRunner().invoke(main, words)
        return done, list(map(json.loads, done.stdout.splitlines())) if done.exit_code == 0 else []

    return run


def test_a_file_of_raw_texts_gets_spans_in_doccanos_form(query):
    done, rows = query(name="in.jsonl", content='{"id": 7, "text": "😀 ADA", "label": []}\n{"text": ""}\n')
    assert done.exit_code == 0, done.output
    assert rows == [{"id": 7, "text": "😀 ADA", "label": [[3, 6, "NAME"]]}, {"text": "", "label": []}]
    done, rows = query("--offsets", "characters", name="in.txt", content="😀 ADA\n\n")
    assert rows == [{"text": "😀 ADA", "label": [[2, 5, "NAME"]]}, {"text": "", "label": []}]
    done, rows = query("--column", "a", "--signature", "spans", name="in.csv", content="a,b\nADA,EU\n")
    assert rows == [{"a": "ADA", "b": "EU", "label": [[0, 3, "NAME"]]}]


def test_texts_are_tokens_unless_the_signature_says_otherwise(query):
    assert query("ADA wrote.")[1] == [{"tokens": "ADA wrote.", "label": ["ADA", "wrote."]}]
    assert query("ADA wrote.", "--signature", "spans")[1] == [
        {"text": "ADA wrote.", "label": [[0, 3, "NAME"]]}
    ]
    _, rows = query("ADA, no EU", "--signature", "spans", "--outputs", "end", "--outputs", "score")
    assert rows == [{"text": "ADA, no EU", "end": [3, 10], "score": [0.5, 0.5]}]


def test_a_file_that_does_not_tell_is_refused(query):
    done, _ = query(name="in.csv", content="review\nADA wrote\n")
    assert (done.exit_code, "--signature spans for raw texts" in " ".join(done.output.split())) == (1, True)
    done, _ = query(name="in.csv", content="text,label\nADA,+\n")
    told = "The row with the text 'ADA' cannot be written: it has a column 'label', '+'"
    assert (done.exit_code, told in " ".join(done.output.split())) == (1, True)
    done, _ = query("a", "--offsets", "utf-16")
    assert (done.exit_code, "these answers are none" in " ".join(done.output.split())) == (1, True)


def test_nothing_is_taken_from_a_pipe_to_look_at_it(tmp_path):
    """The rows would be gone, and a second reader would wait for a writer without end."""
    pipe, content = tmp_path / "rows.jsonl", b'{"text": "ADA"}\n'
    os.mkfifo(pipe)
    both_ends = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(both_ends, content)
        options = {"signature": None, "column": None, "separator": None, "has_header": None}
        choice = signature_choice(pipe, options)
        assert os.read(both_ends, 1000) == content
    finally:
        os.close(both_ends)
    assert choice.of(["serving_default"]) == "serving_default"
    with pytest.raises(ConfigError, match="--signature spans for raw texts"):
        choice.of(["serving_default", "spans"])


@pytest.mark.parametrize(
    ("row", "column", "trained", "expected"),
    [
        ({"text": None, "id": 1}, None, None, "texts"),
        ({"text": ["a"]}, None, None, "tokens"),
        ({"text": "a", "tokens": [{"text": "a", "start": 0}]}, None, None, "texts"),
        ({"text": "a b", "tokens": ["a", "b"]}, None, None, "tokens"),
        ({"tokens": "a b"}, None, None, "tokens"),
        ({"body": "a b", "id": 1}, None, "body", "either"),
        ({"body": "a b", "id": 1}, "body", None, "either"),
        ({"text": "a b", "id": 1}, None, "text", "either"),
        ({"body": "a b", "text": "c"}, "text", None, "texts"),
        ({"body": "a b", "id": 1}, None, None, "tokens"),
        ({}, None, None, "tokens"),
    ],
)
def test_columns_tell_what_rows_hold(row, column, trained, expected):
    assert choice_for(row, "rows.jsonl", None, column, trained).rows == expected
