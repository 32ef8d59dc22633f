"""Tables of labelled texts are read as they are written, and bad files refused with the place."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.text_pairs import TEXT_PAIRS


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'label,text\n+,"a ""good"",\nfilm"\n-,NA\n007,2024-01-01\n'),
        (
            "t.jsonl",
            '{"label": "+", "text": "a \\"good\\",\\nfilm"}\n{"text": "NA", "label": "-"}\n\n'
            '{"text": "2024-01-01", "label": "007"}\n',
        ),
        ("bom.CSV", b'\xef\xbb\xbflabel,text\r\n+,"a ""good"",\nfilm"\r\n-,NA\r\n007,2024-01-01\r\n'),
    ],
)
def test_values_are_taken_as_they_are_written(tmp_path, name, content):
    table = read_table(written(tmp_path, name, content))
    assert table.inputs == ['a "good",\nfilm', "NA", "2024-01-01"]
    assert table.targets == ["+", "-", "007"]


def test_a_tsv_has_no_quoting(tmp_path):
    table = read_table(written(tmp_path, "t.tsv", 'text\tlabel\n"Hello\t+\n"No" was it\t-\n'))
    assert (table.inputs, table.targets) == (['"Hello', '"No" was it'], ["+", "-"])


def test_a_field_of_megabytes_is_read_and_a_lone_surrogate_of_a_text_replaced(tmp_path):
    assert (
        len(read_table(written(tmp_path, "t.csv", f"text,label\n{'x' * 3_000_000},+\n")).inputs[0])
        == 3_000_000
    )
    assert read_table(written(tmp_path, "t.jsonl", '{"text": "\\ud800", "label": "a"}\n')).inputs == ["?"]


def test_an_empty_text_is_a_row_and_integer_labels_are_names(tmp_path):
    table = read_table(written(tmp_path, "t.jsonl", '{"text": "", "label": 1}\n{"text": null, "label": 2}\n'))
    assert (table.inputs, table.targets) == (["", ""], ["1", "2"])


def test_rows_bear_several_labels_as_json_lists_or_between_separators(tmp_path):
    lines = '{"text": "a", "label": ["x", 7]}\n{"text": "b", "label": []}\n'
    assert read_table(written(tmp_path, "t.jsonl", lines)).targets == [["x", "7"], []]
    table = read_table(written(tmp_path, "t.csv", "text,label\na,x; y;x\nb,\n"), label_separator=";")
    assert table.targets == [["x", "y"], []]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "text,label\n", "no rows below its header"),
        (
            "t.csv",
            "texts,label\na,b\n",
            r"no column 'text'. Its columns are 'texts', 'label'. Name those with `text` \(--text\)",
        ),
        ("t.csv", 'text,label\na,+\n"b\nb",\nc,+\nd, \n', "2 of 4 rows have no 'label', the first at line 3"),
        ("t.csv", "text,label\n\na,+\n\nb,\n", "the first at line 5"),
        ("t.jsonl", '{"text": "a", "label": "+"}\n\n{"text": "b"}\n', "1 of 2 rows .* the first at line 3"),
        ("t.csv", b"text,label\na,+\nb\xe9,-\n", "not UTF-8: byte 0xe9 in line 3"),
        ("t.csv", "text,label\na,+\nb,c,d\n", "line 3 has 3 fields where the first line has 2"),
        ("t.csv", "text,label\nwell, fine,pos\nno, bad,neg\n", "line 2 has 3 fields"),
        ("t.csv", "text,label\na\n", "line 2 has 1 fields"),
        (
            "t.csv",
            'text,label\na,+\n"b,+\n',
            "cannot be parsed: unexpected end of data, in the row from line 3",
        ),
        ("t.csv", "text,label,label\na,+,-\n", "two columns named 'label'"),
        (
            "t.jsonl",
            '{"text": "a", "label": {"+": 1}}\n',
            "the 'label' in line 1 must be a label. Received {'\\+': 1}",
        ),
        (
            "t.jsonl",
            '{"text": "a", "label": ["+"]}\n{"text": "b", "label": "-"}\n',
            "the 'label' in line 2 must be a list of labels. Received '-'",
        ),
        ("t.jsonl", '{"text": "a", "label": [["+"]]}\n', "in line 1 must be a list of labels"),
        ("t.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("t.jsonl", '{"text": "a", "label": "+"}\n{"text": ', "cannot be parsed: line 2 is not JSON"),
        ("t.jsonl", "[1]\n", "line 1 must be a JSON object"),
        ("t.xlsx", "text", "no known ending"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, name, content, said):
    with pytest.raises(DataError, match=said):
        read_table(written(tmp_path, name, content))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match="There is no file .*missing.csv"):
        read_table(tmp_path / "missing.csv")
    with pytest.raises(DataError, match="There is no file .*missing"):
        read_table(tmp_path / "missing")
    with pytest.raises(DataError, match="is a folder. Give a file ending in .csv, .tsv, .jsonl, .ndjson"):
        read_table(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="folder.csv cannot be read"):
        read_table(tmp_path / "folder.csv")


def test_an_empty_separator_of_labels_is_refused(tmp_path):
    with pytest.raises(DataError, match="`label_separator` must be at least one character"):
        read_table(written(tmp_path, "t.csv", "text,label\na,+\n"), label_separator="")


def test_lists_are_no_texts(tmp_path):
    file = written(tmp_path, "t.jsonl", '{"text": "a", "label": "x"}\n{"text": ["a", "b"], "label": "y"}\n')
    with pytest.raises(DataError, match=r"'text' in line 2 must be a text. Received a list, .*--task tokens"):
        read_table(file)
    with pytest.raises(DataError, match=r"'text' in line 2 must be a text. Received a list"):
        read_corpus(file)


PAIRS = "premise,hypothesis,label\na film,it moves,+\na song,,-\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", PAIRS),
        ("p.tsv", PAIRS.replace(",", "\t")),
        (
            "p.jsonl",
            '{"premise": "a film", "hypothesis": "it moves", "label": "+"}\n'
            '{"premise": "a song", "hypothesis": null, "label": "-"}\n',
        ),
    ],
)
def test_a_second_column_makes_rows_of_two_texts_and_its_empty_cells_are_counted(tmp_path, name, content):
    file = written(tmp_path, name, content)
    line = 2 if name.endswith("jsonl") else 3
    with pytest.warns(UserWarning, match=f"1 of 2 rows have an empty 'hypothesis', the first at line {line}"):
        rows = read_table(file, "premise", text_pair="hypothesis")
    assert rows.inputs == [("a film", "it moves"), ("a song", "")]
    assert (rows.kind, rows.targets) == (TEXT_PAIRS, ["+", "-"])


def test_pairs_are_read_from_parquet_and_without_a_header(tmp_path):
    table = pa.table({"q": ["a?"], "a": ["b"], "label": [["x", "y"]]})
    parquet.write_table(table, tmp_path / "p.parquet")
    rows = read_table(tmp_path / "p.parquet", "q", text_pair="a")
    assert (rows.inputs, rows.targets) == ([("a?", "b")], [["x", "y"]])
    file = written(tmp_path, "p.csv", "a?,b,+\n")
    assert read_table(file, "1", "3", text_pair="2", has_header=False).inputs == [("a?", "b")]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"text_pair": "answer"},
            r"no column 'answer'. Its columns are 'text', 'b', 'label'. .*`text_pair` \(--text-pair\)",
        ),
        ({"text_pair": "text"}, r"must be another column than `text` \(--text\). Received 'text' for both"),
        ({"text_pair": "label"}, r"must be another column than `label`"),
        ({"text_pair": "b"}, "the 'b' is empty in all 2 rows"),
    ],
)
def test_a_second_column_that_makes_no_pairs_is_refused(tmp_path, columns, said):
    with pytest.raises(DataError, match=said):
        read_table(written(tmp_path, "t.csv", "text,b,label\na,,+\nc, ,-\n"), **columns)


def test_lines_without_columns_are_no_pairs(tmp_path):
    with pytest.raises(ConfigError, match=r"`text_pair` \(--text-pair\) is a column, and .*t.txt has none"):
        read_table(written(tmp_path, "t.txt", "__label__a b\n"), text_pair="b")


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["1", "2.5", "3"], True),
        (["0", "1", "1"], False),
        (["1", "2", "good"], False),
        (["1", "2", "inf"], False),
    ],
)
def test_labels_that_are_all_numbers_are_classes_and_a_note_names_scores(tmp_path, labels, told):
    file = tmp_path / "rows.csv"
    file.write_text("text,label\n" + "".join(f"t,{label}\n" for label in labels), encoding="utf-8")
    rows = read_table(file)
    assert rows.targets == labels
    assert ("3 labels that are all numbers" in rows.note and "--task score" in rows.note) is told


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"text": "a", "label": "a"}, r"`label` \(--label\) must be another column than `text` \(--text\)"),
        (
            {"text": "a", "label": "b", "text_pair": "a"},
            r"`text_pair` \(--text-pair\) must .* `text` \(--text\)",
        ),
        ({"text": "a", "label": "b", "text_pair": "b"}, r"`text_pair` \(--text-pair\) must .* `label`"),
    ],
)
def test_a_column_that_is_named_twice_is_refused(tmp_path, named, said):
    file = tmp_path / "rows.csv"
    file.write_text("a,b\ngood,+\nbad,-\n")
    with pytest.raises(DataError, match=said + ".* Received '[ab]' for both"):
        read_table(file, **named)
