"""A table's form, its separator and whether it has a header, works wherever tables are read."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from keras_selfattn.asking.asked_rows import asked_rows
from keras_selfattn.cli.main import main
from keras_selfattn.data.formats.records import iter_records
from keras_selfattn.data.series import read_series
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.runs.run_folder import corpus_for_run, rows_for_run
from keras_selfattn.serving.client import Signature, TensorSpec

SEEN = "';' separates the columns, add --separator ';'"


def written(folder, name, content):
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.parametrize(
    "content",
    [
        "text;label\ngood film;+\n",
        "text;label\ngood, really;+\n",
        'text;label\n"good; really";+\n',
        '"text";"label"\ngood;+\n',
    ],
)
def test_the_separator_that_a_table_seems_to_have_is_named(tmp_path, content):
    file = written(tmp_path, "t.csv", content)
    with pytest.raises(DataError, match=SEEN):
        read_table(file)
    assert len(read_table(file, separator=";")) == 1


def test_a_separator_that_is_no_part_of_the_header_is_not_named(tmp_path):
    with pytest.raises(DataError) as error:
        read_table(written(tmp_path, "t.csv", "a,b;c\nx,y\n"))
    assert "--separator" not in str(error.value)


@pytest.mark.parametrize("spelled", ["\t", "\\t", "'\\t'", "tab", "TAB"])
def test_a_tab_is_taken_however_people_spell_it(tmp_path, spelled):
    file = written(tmp_path, "t.csv", 'text\tlabel\n"a\tb"\t+\n')
    assert read_table(file, separator=spelled).inputs == ["a\tb"], "a .csv is quoted whatever separates it"


@pytest.mark.parametrize("wrong", ["", "ab", "x", "1", '"', "\n", ";;"])
def test_what_is_no_separator_is_refused(tmp_path, wrong):
    with pytest.raises(
        ConfigError, match="must be one character other than a letter, digit, quote or line break"
    ):
        read_table(written(tmp_path, "t.csv", "text,label\na,+\n"), separator=wrong)


def test_a_separator_for_lines_of_json_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is for files ending in .csv or .tsv. The file is .*t.jsonl"):
        list(iter_records(written(tmp_path, "t.jsonl", "{}\n"), separator=";"))
    with pytest.raises(ConfigError, match=".csv or .tsv. The file is .*t.txt"):
        read_corpus(written(tmp_path, "t.txt", "a\n"), separator=";")
    for name in ("t.ts", "t.tsv"):
        with pytest.raises(ConfigError, match="is for files ending in .csv. The file is"):
            read_series(written(tmp_path, name, "@data\n1,2:a\n"), separator=";")


def test_corpora_and_series_are_read_with_it(tmp_path):
    assert read_corpus(written(tmp_path, "c.csv", "n;text\n1;a, b\n"), separator=";") == ["a, b"]
    file = written(tmp_path, "s.csv", "id;label;load\na;up;1\na;up;2\nb;down;5\n")
    rows = read_series(file, separator="semicolon")
    assert [row[:, 0].tolist() for row in rows.inputs] == [[1.0, 2.0], [5.0]]
    assert [rows.place(row) for row in (0, 1)] == ["series 'a', line 2", "series 'b', line 4"]


def test_a_query_reads_its_file_with_it(tmp_path):
    signature = Signature({"text": TensorSpec("string", (None,))}, {})
    file = written(tmp_path, "in.csv", "id;text\n1;a, film\n")
    form = {"column": None, "separator": ";", "has_header": None}
    asked = asked_rows(signature, (), file, form)
    assert list(asked) == [({"id": "1", "text": "a, film"}, {"text": "a, film"})]
    form = {"column": "text", "separator": None, "has_header": None}
    with pytest.raises(DataError, match=SEEN):
        list(asked_rows(signature, (), file, form))


@pytest.mark.parametrize("command", ["train", "evaluate", "export", "pretrain", "predict", "query", "embed"])
def test_every_command_that_reads_tables_takes_both(command):
    done = CliRunner().invoke(main, [command, "--help"])
    assert "--separator" in done.output
    assert "--no-header" in done.output


def test_a_table_without_a_header_has_columns_by_number(tmp_path):
    file = written(tmp_path, "news.csv", '3,"Wall St.","up, again"\n1,Vote,late\n')
    rows = read_table(file, "3", "1", has_header=False)
    assert (rows.inputs, rows.targets) == (["up, again", "late"], ["3", "1"])
    assert [rows.place(row) for row in (0, 1)] == [1, 2]
    assert read_corpus(file, "2", has_header=False) == ["Wall St.", "Vote"]
    with pytest.raises(DataError, match="no column 'text'. Its columns are '1', '2', '3'"):
        read_table(file, has_header=False)
    with pytest.raises(DataError, match="line 2 has 1 fields where the first line has 2"):
        read_table(written(tmp_path, "short.csv", "a,+\nb\n"), "1", "2", has_header=False)
    frames = written(tmp_path, "s.csv", "a;up;1\na;up;2\nb;down;5\n")
    rows = read_series(frames, row_id="1", label="2", separator=";", has_header=False)
    assert [row[:, 0].tolist() for row in rows.inputs] == [[1.0, 2.0], [5.0]]


def test_a_header_is_not_denied_of_files_that_have_none(tmp_path):
    for name, read in (("t.jsonl", read_table), ("t.txt", read_corpus), ("t.ts", read_series)):
        with pytest.raises(ConfigError, match=r"`has_header=False` \(--no-header\) is for files ending in"):
            read(written(tmp_path, name, "{}\n"), has_header=False)


def test_a_run_and_a_query_read_tables_without_a_header(tmp_path):
    (tmp_path / "model.keras").touch()
    reading = {"text": "2", "label": "1", "has_header": False}
    written(tmp_path, "config.json", json.dumps({"kind": "TextClassifier", "reading": reading}))
    file = written(tmp_path, "t.csv", "+,a\n-,b\n")
    assert rows_for_run(tmp_path, file, {}).inputs == ["a", "b"]
    lines = written(tmp_path, "t.jsonl", '{"2": "a", "1": "+"}\n')
    assert rows_for_run(tmp_path, lines, {}).targets == ["+"]
    written(tmp_path, "config.json", json.dumps({"kind": "MaskedTokenModel", "reading": reading}))
    assert corpus_for_run(tmp_path, file, {}) == ["a", "b"]
    signature = Signature({"text": TensorSpec("string", (None,))}, {})
    form = {"column": "2", "separator": None, "has_header": False}
    asked = asked_rows(signature, (), file, form)
    assert next(asked) == ({"1": "+", "2": "a"}, {"text": "a"})


def test_rows_tell_where_in_their_file_they_are(tmp_path):
    rows = read_table(written(tmp_path, "t.csv", 'text,label\n"a\nb",+\n\nc,-\n'))
    assert [rows.place(row) for row in (0, 1)] == [2, 5]
    assert rows.take([1]).place(0) == 5
    rows = read_tagged(written(tmp_path, "t.conll", "a X\nb Y\n\nc X\n"))
    assert [rows.place(row) for row in (0, 1)] == [1, 4]
    assert Path(rows.source).name == "t.conll"
