"""Records of tables: quotes, separators, and reading on from any row."""

import csv

import numpy as np
import pytest

from keras_selfattn.data.formats.records import Place, columns_of, iter_records, iter_rows
from keras_selfattn.errors import DataError


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b'\xef\xbb\xbftext,n\r\na,1\r\n"b\n\r\n""c""",2\r\n\r\nd\r\ne\xff,3\r\n"f"g,4\r\nh,5'),
        ("t.csv", b'text,n\ra,1\r"b\rc",2\rd,3\r'),
        ("t.tsv", b'text\tn\na"\t1\nb\n"c\t2\n'),
        ("t.jsonl", b'\xef\xbb\xbf{"a": 1}\n\n{]\n[1]\n{"a": "\xff"}\r\n{"a": "\\ud800"}\n  \n{"a": 2}'),
    ],
)
def test_reading_goes_on_from_the_end_of_any_row(tmp_path, name, content):
    """Also after rows that cannot be read, and within line ends of every kind."""
    file = tmp_path / name
    file.write_bytes(content)
    rows = list(iter_rows(file))
    assert len(rows) >= 3
    for number, row in enumerate(rows):
        assert list(iter_rows(file, start=row.end)) == rows[number + 1 :]
        assert (row.values is None) == bool(row.problem)
    assert [row.line for row in rows] == sorted({row.line for row in rows})


def test_a_quote_that_nobody_closes_does_not_read_a_file_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_selfattn.data.formats.file_lines._MOST_BYTES", 100)
    file = tmp_path / "t.csv"
    file.write_text('text\n"a\n' + "b\n" * 100)
    with pytest.raises(DataError, match=r"the row from line \d+ on has over 0 MiB. Is a quote missing"):
        list(iter_rows(file))


def written(folder, name, content):
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.parametrize("content", ["a,+\nb,-\nc,+\n", '"a\nz",+\n\nb,-\n'])
def test_reading_goes_on_after_any_row_of_a_table_without_a_header(tmp_path, content):
    file = written(tmp_path, "t.csv", content)
    rows = list(iter_rows(file, has_header=False))
    assert [row.values["2"] for row in rows] == ["+", "-", "+"][: len(rows)]
    assert list(iter_rows(file, has_header=False, start=Place())) == rows
    for number, row in enumerate(rows):
        assert list(iter_rows(file, has_header=False, start=row.end)) == rows[number + 1 :]


def test_a_blank_before_a_quote_of_the_first_line_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text('text, "label"\ngood,pos\n')
    with pytest.raises(DataError, match="line 1 has a blank before a quote"):
        columns_of(tmp_path / "t.csv")
    rows = list(iter_rows(tmp_path / "t.csv", has_header=False))
    assert [(row.line, "a blank before a quote" in row.problem) for row in rows] == [(1, True), (2, False)]


FIELDS = [" ", ' "neg"', '"', '""', ' ""', 'a, "b"', ' "a" or "b"', '\n "x"', ' "a", "b"', " a", '" "', "  "]


def test_fields_that_are_quoted_may_hold_blanks_and_quotes(tmp_path):
    """Every field in every place, as Python's writer writes it."""
    rows = [[one, other] for one in FIELDS for other in FIELDS]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *rows])
    assert [[*record.values()] for _, record in iter_records(tmp_path / "t.csv")] == rows


@pytest.mark.parametrize(
    "line", ['bad, really "bad"', 'bad, "so" they say', "bad, neg", 'bad, "', 'bad, " x']
)
def test_quotes_inside_a_field_without_quotes_stay(tmp_path, line):
    (tmp_path / "t.csv").write_text(f"text,label\n{line}\n")
    [(_, record)] = iter_records(tmp_path / "t.csv")
    assert [*record.values()] == line.split(",")
