"""Rows of answers in every form: valid JSON, missing and infinite numbers, numbers of Parquet."""

import csv
import json
import math

import numpy as np
from pyarrow import parquet

from keras_selfattn.batch.row_files import Window
from keras_selfattn.batch.row_writers import writer_for


def valid(content):
    def refused(word):
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refused) for line in content.splitlines()]


ANSWERS = {"score": [np.float32("nan"), np.float32(0.5)], "values": [np.array([1, np.inf]), np.zeros(1)]}


RECORDS = [{"id": math.nan, "n": [math.nan]}, {"id": None, "n": math.inf}]


def encoded(path):
    window = Window([1, 2], RECORDS, [0], 0)
    return writer_for(path, ["id", "n"], list(ANSWERS)).encoded(window, [0, 1], ANSWERS)[0]


def test_rows_of_predict_are_valid_json_lines(tmp_path):
    assert valid(encoded(tmp_path / "t.jsonl")) == [
        {"id": None, "n": [None], "score": None, "values": [1, None]},
        {"id": None, "n": None, "score": 0.5, "values": [0.0]},
    ]


def test_missing_numbers_are_empty_fields_of_csv_and_infinite_ones_words(tmp_path):
    rows = list(csv.reader(encoded(tmp_path / "t.csv").decode().splitlines()))
    assert rows == [["", "[null]", "", "[1.0, null]"], ["", "Infinity", "0.5", "[0.0]"]]


def test_numbers_of_parquet_stay_what_they_are(tmp_path):
    (tmp_path / "draft").write_bytes(encoded(tmp_path / "t.parquet"))
    writer_for(tmp_path / "t.parquet", ["id", "n"], list(ANSWERS)).finish(
        tmp_path / "draft", tmp_path / "t.parquet"
    )
    found = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert math.isnan(found["score"][0])
    assert found["values"][0] == [1, math.inf]
    assert [value is None or math.isnan(value) for value in found["id"]] == [True, True]
    assert found["n"] == ["[null]", "Infinity"], "a column of several types is text"


def test_a_missing_value_among_texts_stays_null_in_parquet(tmp_path):
    rows = [{"id": math.nan}, {"id": "x"}, {"id": ""}]
    draft = writer_for(tmp_path / "t.parquet", ["id"], []).encoded(
        Window([1, 2, 3], rows, [0], 0), [0, 1, 2], {}
    )
    (tmp_path / "draft").write_bytes(draft[0])
    writer_for(tmp_path / "t.parquet", ["id"], []).finish(tmp_path / "draft", tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet")["id"].to_pylist() == [None, "x", ""]
