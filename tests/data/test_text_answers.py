"""Texts with right answers: columns, nested ones, alternatives, files of lines, and rows that lack a side."""

import gzip
import json
import re

import pytest

from keras_selfattn.data.text_answers import are_far_apart, read_answers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import TEXTS


def written(folder, content, name="rows.csv"):
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return folder / name


def test_two_columns_are_sources_and_answers(tmp_path):
    rows = read_answers(written(tmp_path, 'en,n,de\na man,1,ein Mann\n"a, b",2," A|B "\n'), "en", "de")
    assert (rows.inputs, rows.targets) == (["a man", "a, b"], [("ein Mann",), (" A|B ",)])
    assert (rows.kind, rows.target_kind, rows.place(1)) == (TEXTS, ANSWERS, 3)


def test_columns_without_a_header_have_numbers_and_separators_a_name(tmp_path):
    file = written(tmp_path, "ein Mann;a man\n")
    rows = read_answers(file, "2", "1", has_header=False, separator=";")
    assert (rows.inputs, rows.targets) == (["a man"], [("ein Mann",)])


def test_alternatives_are_right_answers_each_once_the_first_is_the_main_one(tmp_path):
    file = written(tmp_path, "source\ttarget\nread\tR EH1 D | R IY1 D |R EH1 D\nred\tR EH1 D\n", "rows.tsv")
    rows = read_answers(file, alternatives="|")
    assert rows.targets == [("R EH1 D", "R IY1 D"), ("R EH1 D",)]


@pytest.mark.parametrize(("cell", "number", "count"), [("a|", 2, 2), ("|a", 1, 2), ("a| |b", 2, 3)])
def test_an_empty_alternative_is_an_error_with_its_place(tmp_path, cell, number, count):
    file = written(tmp_path, f"source,target\nx,y\nx,{cell}\n")
    said = f"the 'target' in line 3: alternative {number} of {count} is empty"
    with pytest.raises(DataError, match=said):
        read_answers(file, alternatives="|")


def test_a_list_of_json_is_several_answers(tmp_path):
    lines = [
        {"source": "x", "target": ["a", "b"]},
        {"source": "y", "target": "c"},
        {"source": 3, "target": [7]},
    ]
    rows = read_answers(written(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl"))
    assert (rows.inputs, rows.targets) == (["x", "y", "3"], [("a", "b"), ("c",), ("7",)])
    file = written(tmp_path, '{"source": "x", "target": ["a", ""]}', "rows.jsonl")
    with pytest.raises(DataError, match="line 1: alternative 2 of 2 is empty"):
        read_answers(file)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".feather"])
def test_sides_may_be_within_a_column_of_translations(tmp_path, ending):
    records = [{"id": 1, "translation": {"en": "a man", "de": "ein Mann", "fr": "un homme"}}]
    file = tmp_path / f"rows{ending}"
    if ending == ".jsonl":
        file.write_text(json.dumps(records[0]))
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import feather, parquet

        (parquet.write_table if ending == ".parquet" else feather.write_feather)(
            pa.Table.from_pylist(records), str(file)
        )
    rows = read_answers(file, "en", "de")
    assert (rows.inputs, rows.targets) == (["a man"], [("ein Mann",)])
    with pytest.raises(DataError, match="has no column 'it'. Its columns are 'en', 'de', 'fr'.*--target"):
        read_answers(file, "en", "it")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("source,other\nx,y\n", "has no column 'target'. Its columns are 'source', 'other'. Name .*--target"),
        ("source\nx\n", "has no column 'target'. Its columns are 'source'."),
        ("source,target,target\nx,y,z\n", "has two columns named 'target'"),
        ("source,target\n", "has no rows below its header"),
        ("source,target\n,y\nx,\n", "none of the 2 rows has both a source and an answer"),
        ("source,target\nx\n", "line 2 has 1 fields"),
    ],
)
def test_a_table_that_is_none_of_two_sides_is_an_error(tmp_path, content, said):
    with pytest.raises(DataError, match=said):
        read_answers(written(tmp_path, content))


def test_arguments_that_contradict_each_other_are_errors(tmp_path):
    file = written(tmp_path, "a,b\nx,y\n")
    with pytest.raises(DataError, match=r"`target` \(--target\) must be another column than `source`"):
        read_answers(file, "a", "a")
    with pytest.raises(ConfigError, match="`alternatives` .* at least one character"):
        read_answers(file, "a", "b", "")


def test_rows_that_lack_a_side_are_left_out_and_told(tmp_path):
    file = written(tmp_path, "source,target\na,b\n ,b\na,\n,\nc,d\n")
    with pytest.warns(
        UserWarning, match="3 of 5 rows lack a source or an answer, the first at line 3. They are"
    ):
        rows = read_answers(file)
    assert (rows.inputs, rows.targets) == (["a", "c"], [("b",), ("d",)])
    assert [rows.place(row) for row in (0, 1)] == [2, 6]


def test_rows_whose_lengths_are_far_apart_are_kept_and_told(tmp_path):
    file = written(tmp_path, f"source,target\na,b\nab,{'x' * 21}\n{'y' * 19},z\n{'y' * 36},{'z' * 4}\n")
    with pytest.warns(UserWarning, match="in 1 of 4 rows one side has over 9 times .* the first at line 3"):
        assert len(read_answers(file)) == 4
    assert are_far_apart("", "x" * 21)
    assert not are_far_apart("x", "y" * 20)


@pytest.mark.parametrize("target", [".de", "de", "train.de", "{folder}/train.de"])
def test_lines_of_two_files_belong_together(tmp_path, target):
    file = written(tmp_path, "a man\r\nno, \u2028|one\n", "train.en")
    written(tmp_path, "ein Mann\nniemand", "train.de")
    rows = read_answers(file, target=target.format(folder=tmp_path))
    assert rows.inputs == ["a man", "no, \u2028|one"]
    assert rows.targets == [("ein Mann",), ("niemand",)]
    assert rows.note == f"2 lines of {file} with their answers in {tmp_path / 'train.de'}."
    assert rows.place(1) == 2


def test_names_of_one_ending_and_packed_files_are_lines_too(tmp_path):
    rows = read_answers(
        written(tmp_path, "a|b\n", "en.txt"),
        target=written(tmp_path, "c|d\n", "de.txt").name,
        alternatives="|",
    )
    assert (rows.inputs, rows.targets) == (["a|b"], [("c", "d")])
    for name, content in {"test.en.gz": b"a\n", "test.de.gz": b"b\n"}.items():
        (tmp_path / name).write_bytes(gzip.compress(content))
    assert read_answers(tmp_path / "test.en.gz", target=".de").targets == [("b",)]
    written(tmp_path, "c\n", "test.de")
    assert read_answers(tmp_path / "test.en.gz", target=".de").targets == [("c",)]


def test_unequal_numbers_of_lines_are_an_error_with_both(tmp_path):
    file = written(tmp_path, "a\nb\n\nc\n", "train.en")
    other = written(tmp_path, "a\nb\n", "train.de")
    with pytest.raises(DataError, match=re.escape(f"{file} has 4 lines and {other} has 2")):
        read_answers(file, target=".de")


@pytest.mark.parametrize("target", ["target", ".fr", "train.en", "other.de", "nowhere/en.txt"])
def test_lines_without_a_file_of_answers_are_an_error(tmp_path, target):
    file = written(tmp_path, "a\n", "train.en")
    written(tmp_path, "b\n", "other.de")  # neither its name nor its ending: whose answers are these?
    with pytest.raises(DataError, match=r"names none there. Give its ending, .*Received "):
        read_answers(file, target=target)


def test_a_missing_file_and_options_of_columns_are_errors(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_answers(tmp_path / "train.en", target=".de")
    with pytest.raises(DataError, match="There is no file"):
        read_answers(tmp_path / "rows.csv")
    with pytest.raises(ConfigError, match="separator"):
        read_answers(written(tmp_path, "a\n", "train.en"), target=".de", separator=";")


def test_a_side_that_is_a_column_and_within_the_translations_is_refused(tmp_path):
    record = {"en": "a woman", "translation": {"en": "a man", "de": "ein Mann"}}
    file = written(tmp_path, json.dumps(record) + "\n", "rows.jsonl")
    with pytest.raises(DataError, match="has 'en' as a column and within 'translation'"):
        read_answers(file, "en", "de")


def test_a_column_of_sources_in_a_file_of_lines_is_refused_by_name(tmp_path):
    file = written(tmp_path, "a\nb\n", "train.en")
    written(tmp_path, "b\na\n", "train.de")
    with pytest.raises(ConfigError, match=r"`source` \(--source\) names a column, and .*train.en has none"):
        read_answers(file, "en", ".de")
    assert read_answers(file, target=".de").targets == [("b",), ("a",)]
