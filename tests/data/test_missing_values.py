"""Null, absent and NaN mean the same in every file; JSON that is written is valid."""

import csv
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from keras_selfattn.asking.query import write
from keras_selfattn.cli.evaluate import write_mistakes
from keras_selfattn.data.series import read_long_series
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.report import Columns
from keras_selfattn.rows.label_names import as_name_lists, as_names
from keras_selfattn.rows.texts import TextRows
from keras_selfattn.rows.tokens import TokenRows
from keras_selfattn.runs.run_folder import read_config, read_metrics, write_run

TEXTS = ["good", None, math.nan, ""]
READ = ["good", "", "", ""]


def columns(folder, ending, **named):
    file = folder / f"t{ending}"
    if ending == ".csv":  # as pandas writes it
        pd.DataFrame(named).to_csv(file, index=False)
    elif ending == ".jsonl":
        rows = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        table = pa.table({name: pa.array(values, from_pandas=True) for name, values in named.items()})
        (parquet.write_table if ending == ".parquet" else feather.write_feather)(table, file)
    return file


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".feather"])
def test_a_missing_text_is_an_empty_text(tmp_path, ending):
    file = columns(tmp_path, ending, text=TEXTS, label=["a", "b", "c", "d"])
    assert read_table(file).inputs == READ
    assert read_corpus(file) == ["good"]


def test_an_absent_text_and_a_number_of_floats_that_is_none_are_empty_too(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": "x"}\n{"label": "y"}\n')
    with pytest.warns(
        UserWarning, match="1 of 2 lines have no 'text', the first is line 2. It is read as an empty"
    ):
        assert read_table(tmp_path / "t.jsonl").inputs == ["a", ""]
    floats = pa.table({"text": pa.array([1.5, math.nan, None]), "label": ["x", "y", "z"]})
    parquet.write_table(floats, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").inputs == ["1.5", "", ""]


def test_a_value_that_some_frames_lack_is_missing_and_told(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"load": 1, "heat": 2}\n{"load": 3, "haet": 4}\n{"load": 5, "heat": null}\n'
    )
    with pytest.warns(UserWarning, match="have no '(heat|haet)'") as told:
        (series,) = read_long_series(tmp_path / "t.jsonl")
    np.testing.assert_array_equal(series, [[1, 2, np.nan], [3, np.nan, 4], [5, np.nan, np.nan]])
    assert [str(each.message).partition(": ")[2].partition(". ")[0] for each in told] == [
        "1 of 3 lines have no 'heat', the first is line 2",
        "2 of 3 lines have no 'haet', the first is line 1",
    ]


@pytest.mark.parametrize("twice", ['{"text": "a", "text": "b", "label": "x"}', '{"label": {"n": 1, "n": 2}}'])
def test_a_name_with_two_values_in_a_line_of_json_is_an_error(tmp_path, twice):
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": "x"}\n' + twice + "\n")
    with pytest.raises(DataError, match="line 2 has two values of '(text|n)'. Keep one"):
        read_table(tmp_path / "t.jsonl")


@pytest.mark.parametrize("value", ["null", "NaN", '" "'])
def test_a_missing_label_is_named_by_its_line(tmp_path, value):
    (tmp_path / "t.jsonl").write_text(f'{{"text": "a", "label": "x"}}\n{{"text": "b", "label": {value}}}\n')
    with pytest.raises(DataError, match="1 of 2 rows have no 'label', the first at line 2"):
        read_table(tmp_path / "t.jsonl")


def test_missing_names_of_a_list_are_none_of_its_labels(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": ["x", null, NaN, ""]}\n')
    assert read_table(tmp_path / "t.jsonl").targets == [["x"]]
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": ["x"]}\n{"text": "a", "label": NaN}\n')
    with pytest.raises(DataError, match="'label' in line 2 must be a list of labels. Received nan"):
        read_table(tmp_path / "t.jsonl")


@pytest.mark.parametrize("value", ["Infinity", "-Infinity"])
def test_an_infinite_number_is_neither_text_nor_label(tmp_path, value):
    (tmp_path / "t.jsonl").write_text(f'{{"text": {value}, "label": "x"}}\n')
    with pytest.raises(
        DataError, match="'text' in line 1 must be a text. Received -?inf, an infinite number"
    ):
        read_table(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text(f'{{"text": "a", "label": {value}}}\n')
    with pytest.raises(DataError, match="'label' in line 1 is no name. Received -?inf, an infinite number"):
        read_table(tmp_path / "t.jsonl")


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity"])
@pytest.mark.parametrize("place", ["tokens", "labels"])
def test_a_missing_token_or_its_label_is_an_error(tmp_path, value, place):
    row = {"tokens": '["a", "b"]', "labels": '["x", "y"]'}
    row[place] = f'["a", {value}]'
    (tmp_path / "t.jsonl").write_text(f'{{"tokens": {row["tokens"]}, "labels": {row["labels"]}}}\n')
    with pytest.raises(DataError, match=f"'{place}' in line 1 .*(None|nan|inf)"):
        read_tagged(tmp_path / "t.jsonl")


def test_bytes_of_parquet_are_texts_in_utf_8(tmp_path):
    content = {"text": ["é".encode(), b""], "label": [b"x", b"y"]}
    parquet.write_table(pa.table(content), tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet")
    assert (rows.inputs, rows.targets) == (["é", ""], ["x", "y"])
    tokens = {"tokens": [["é".encode(), b"b"]], "labels": [[b"x", b"y"]]}
    parquet.write_table(pa.table(tokens), tmp_path / "t.parquet")
    assert read_tagged(tmp_path / "t.parquet").inputs == [["é", "b"]]
    parquet.write_table(pa.table({"text": [b"\xff"], "label": ["x"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="'text' in line 1 must be a text in UTF-8"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA])
def test_columns_in_memory_name_the_row_that_misses_a_value(missing):
    for texts in (["a", missing], pd.Series(["a", missing], dtype=object), np.array(["a", missing], object)):
        with pytest.raises(DataError, match="Text 1 .* is not a string. Received .* Give '' for a missing"):
            TextRows().read(texts)
    with pytest.raises(DataError, match="Token 1 of row 0 .* is not a string"):
        TokenRows().read([["a", missing]])
    with pytest.raises(DataError, match="Label 1 .* is missing"):
        as_names(["x", missing])
    with pytest.raises(DataError, match="A label of row 0 .* is missing"):
        as_name_lists([["x", missing]])


def test_an_infinite_number_is_no_label_in_memory():
    with pytest.raises(DataError, match="Label 1 .* is no name. Received inf, an infinite number"):
        as_names(np.array([1.0, np.inf]))


def valid(content):
    def refused(word):
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refused) for line in content.splitlines()]


@pytest.mark.parametrize(("form", "wanted"), [("json", None), ("csv", "")])
def test_the_answers_of_query_are_valid(tmp_path, form, wanted):
    with (tmp_path / "t").open("w") as stream:
        write(stream, [{"id": None, "score": np.float32("nan"), "values": np.array([np.nan, 1])}], form)
    content = (tmp_path / "t").read_text()
    if form == "json":
        assert valid(content) == [{"id": wanted, "score": wanted, "values": [None, 1]}]
    else:
        assert list(csv.reader(content.splitlines()))[1] == [wanted, wanted, "[null, 1.0]"]


def test_the_mistakes_of_evaluate_are_valid(tmp_path):
    found = Columns(["line", "label", "probability"], [(2, [1.0, math.nan], math.nan)])
    write_mistakes(tmp_path / "t.jsonl", found)
    assert valid((tmp_path / "t.jsonl").read_text()) == [
        {"line": 2, "label": [1.0, None], "probability": None}
    ]
    write_mistakes(tmp_path / "t.csv", found)
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == '2,"[1.0, null]",""'


class _Model:
    """As much of a model as a run folder records."""

    class config:  # noqa: N801
        @staticmethod
        def summary():
            return {"width": 8, "rate": math.inf}

    def save(self, path, zipped=True):
        path.mkdir()


class _Figures:
    rows = 2

    def summary(self):
        return {"mean_absolute_error": math.nan, "accuracy": 0.5}

    def tables(self):
        return {}


def test_the_files_of_a_run_are_valid(tmp_path):
    example = {"input": [math.nan], "target": "x", "where": 1}
    model: Any = _Model()
    figures: Any = _Figures()
    write_run(tmp_path, model, figures, split="test", history={}, settings={"a": [math.nan]}, example=example)
    for name in ("metrics.json", "config.json", "example.json"):
        valid((tmp_path / name).read_text().replace("\n", ""))
    assert read_metrics(tmp_path)["mean_absolute_error"] is None
    assert (read_config(tmp_path)["a"], read_config(tmp_path)["model"]["rate"]) == ([None], None)
