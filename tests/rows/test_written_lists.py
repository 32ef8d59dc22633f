"""Cells that hold a list are several labels if they are JSON, and else refused with the form of their writer.

Oracles: `pandas.DataFrame.to_csv` (3.1), `numpy.array2string`; the text of DuckDB 2.0 (`COPY ... TO 'x.csv'`
of VARCHAR[]), of PostgreSQL (text[]) and of Label Studio's CSV export.
"""

import csv
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from keras_selfattn.data.formats.records import iter_records
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_table
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelList, as_name_lists, as_names


def labels(folder, *cells, ending=".csv"):
    """A table with these labels."""
    file = folder / f"t{ending}"
    rows = [{"text": f"text {n}", "label": cell} for n, cell in enumerate(cells)]
    if ending == ".csv":
        stream = io.StringIO()
        csv.DictWriter(stream, ["text", "label"]).writeheader()
        csv.DictWriter(stream, ["text", "label"]).writerows(rows)
        file.write_text(stream.getvalue())
    elif ending == ".tsv":
        file.write_text("text\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in rows))
    elif ending == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), file)
    return file


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_cells_that_are_json_lists_are_several_labels(tmp_path, ending):
    file = labels(tmp_path, '["x", "y"]', ' ["y"] ', "[]", '["a, b", "x", "x"]', ending=ending)
    found = read_table(file).targets
    assert found == [["x", "y"], ["y"], [], ["a, b", "x"]]
    assert all(isinstance(each, LabelList) for each in found)
    numbers = labels(tmp_path, '[1, "2"]', "[1]", ending=ending)
    assert read_table(numbers).targets == [["1", "2"], ["1"]]


@pytest.mark.parametrize("cells", [["[0, 10]", "[11, 20]"], ["[1]", "[2]"], ["[]", "[18, 25]"]])
def test_ranges_and_lists_of_numbers_alone_are_an_error_that_names_both_readings(tmp_path, cells):
    with pytest.raises(DataError, match=r"line [23], '\[.*a list of labels or the name of a range.*0-10"):
        read_table(labels(tmp_path, *cells))


def test_one_name_in_each_json_list_is_still_a_list(tmp_path):
    assert isinstance(read_table(labels(tmp_path, '["x"]', '["y"]')).targets[0], LabelList)


@pytest.mark.parametrize("bare", ["neg", "", "[a]", "3"])
@pytest.mark.parametrize("cell", ['["x"]', '["x", "y"]', "[]", "[1, 2]"])
def test_json_lists_among_other_cells_are_an_error_with_both_lines(tmp_path, cell, bare):
    with pytest.raises(
        DataError, match=r"'label' in line 3 is a JSON list.* line 2 .*json.dumps.*\[\] for none"
    ):
        read_table(labels(tmp_path, bare, cell))
    with pytest.raises(DataError, match=r"'label' in line 2 is a JSON list.* line 3 "):
        read_table(labels(tmp_path, cell, bare))


FORMS = {
    "pandas": (str(["x", "y"]), "as Python"),
    "pandas, one name": (str(["x"]), "as Python"),
    "pandas, a tuple": (str(("x", "y")), "as Python"),
    "pandas, a tuple of one": (str(("x",)), "as Python"),
    "pandas, a set": (str({"x"}), "as Python"),
    "pandas, an apostrophe": (str(["it's", "y"]), "as Python"),
    "pandas, NumPy's strings": (str([np.str_("x"), np.str_("y")]), "as Python"),
    "NumPy": (str(np.array(["x", "y"], object)), "as Python"),
    "NumPy, long": (str(np.array(["x" * 50, "y" * 50], object)), "as Python"),
    "NumPy, numbers": (str(np.array([1, 0, 12])), "a list of numbers as NumPy"),
    "NumPy, fractions": (str(np.array([0.5, 1e-9])), "a list of numbers as NumPy"),
    "DuckDB": ("[a, b c]", "without quotes"),
    "PostgreSQL": ("{a,b}", "without quotes"),
    "Label Studio": ('{"choices": ["good", "dull"]}', "Label Studio"),
    "Label Studio, spans": ('[{"start": 0, "labels": ["PER"]}]', "a JSON list of"),
    "an object": ('{"x": 1}', "a JSON object"),
    "Python's dict": (str({"choices": ["good"]}), "as Python"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_other_lists_are_refused_with_their_form_and_the_way_out(tmp_path, form, ending):
    cell, said = FORMS[form]
    for cells in (["neg", cell], [cell, cell], ['["x"]', cell]):
        line = cells.index(cell) + (2 if ending == ".csv" else 1)
        with pytest.raises(
            DataError, match=f"'label' in line {line} is .*{said}.*json.dumps.*--label-separator"
        ):
            read_table(labels(tmp_path, *cells, ending=ending))


def test_a_name_in_brackets_is_told_the_way_out(tmp_path):
    with pytest.raises(
        DataError, match=r"line 3 is a list without quotes.* If it is a name, write it without br"
    ):
        read_table(labels(tmp_path, "carbon", "[C,N]"))


def test_pandas_lists_in_a_csv_are_refused(tmp_path):
    pd.DataFrame({"text": ["a", "b"], "label": [["x", "y"], []]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="'label' in line 2 is a list as Python"):
        read_table(tmp_path / "t.csv")
    pd.DataFrame({"text": ["a", "b"], "label": ['["x", "y"]', "[]"]}).to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv").targets == [["x", "y"], []]


HONEST = [
    ["[OTHER]", "[PER]"],
    ["[laughs]", "none"],
    ["[1]", "none"],
    ["(a, b)", "c"],
    ["{}}", "{", "[", "]", "(", '"', "'", '"neg"', "'neg'"],
    ["a, b", "[a] b, [c]", "x [y]"],
    ["a [b, c]", "[b, c] a"],
    ["[[a]]", "{a}", "[a b]"],
    [":]", "[:", "(:", "(')", '(")', "('a')"],
]


@pytest.mark.parametrize("cells", HONEST)
def test_names_in_brackets_are_names(tmp_path, cells):
    assert read_table(labels(tmp_path, *cells)).targets == cells
    assert as_names(cells) == cells


def test_a_cell_of_deep_brackets_is_read_in_no_time(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    quotes = "['" + "' '" * 100_000
    assert read_table(labels(tmp_path, deep, quotes)).targets == [deep, quotes]


@pytest.mark.parametrize("form", ["pandas", "DuckDB", "Label Studio"])
@pytest.mark.parametrize("separator", [";", ","])
def test_a_separator_does_not_cut_lists(tmp_path, form, separator):
    cell, said = FORMS[form]
    with pytest.raises(DataError, match=f"'label' in line 3 is .*{said}"):
        read_table(labels(tmp_path, "x", cell), label_separator=separator)
    with pytest.raises(DataError, match="'label' in line 2 is a JSON list.* Leave --label-separator"):
        read_table(labels(tmp_path, '["x", "y"]', "x"), label_separator=separator)
    assert read_table(labels(tmp_path, "[x];[y]"), label_separator=";").targets == [["[x]", "[y]"]]


def test_a_text_that_holds_a_list_stays_a_text(tmp_path):
    (tmp_path / "t.csv").write_text('text,label\n"[\'x\', \'y\']",a\n"[""x""]",b\n')
    assert read_table(tmp_path / "t.csv").inputs == ["['x', 'y']", '["x"]']


@pytest.mark.parametrize(
    ("cell", "said"), [('["x", "y"]', "a JSON list"), ("['x', 'y']", "as Python"), ("a b", "a b")]
)
def test_tokens_that_are_texts_are_refused_with_their_form(tmp_path, cell, said):
    row = {"tokens": ["a", "b"], "labels": ["x", "y"]}
    for column in row:
        (tmp_path / "t.jsonl").write_text(json.dumps({**row, column: cell}))
        with pytest.raises(DataError, match=f"'{column}' in line 1 must be a list. .*{said}"):
            read_tagged(tmp_path / "t.jsonl")


@pytest.mark.parametrize("form", ["pandas", "NumPy", "Label Studio", "DuckDB"])
def test_lists_as_texts_in_memory_are_refused_with_their_row(form):
    cell, said = FORMS[form]
    with pytest.raises(DataError, match=f"Label 1 .* is .*{said}"):
        as_names(pd.Series(["x", cell]))
    with pytest.raises(DataError, match="Label 0 .* is a JSON list.*json.loads"):
        as_names(['["x", "y"]', "x"])
    assert as_name_lists([["x", "y"]]) == [["x", "y"]]


SPACED = {
    "a label": 'text,label\ngood,pos\nbad, "neg"\n',
    "a text": 'label,text\npos,good\nneg, "bad, really"\n',
    "the first field": 'text,label\ngood,pos\n "bad, really"\n',
    "before a comma": 'text,label\ngood,pos\n  "bad" ,neg\n',
    "another column": 'text,label,id\ngood,pos,1\nbad,neg, "2"\n',
    "semicolons": 'text;label\ngood;pos\nbad; "neg"\n',
}


@pytest.mark.parametrize("name", SPACED)
def test_a_blank_before_a_quote_is_an_error_with_its_line(tmp_path, name):
    (tmp_path / "t.csv").write_text(SPACED[name])
    separator = ";" if name == "semicolons" else None
    with pytest.raises(DataError, match=r"line 3 has .*blank.* before .*quote"):
        list(iter_records(tmp_path / "t.csv", separator=separator))
    if name == "a label":
        with pytest.raises(DataError, match="line 3 has a blank before a quote"):
            read_table(tmp_path / "t.csv")


def test_a_tsv_may_have_blanks_before_quotes(tmp_path):
    (tmp_path / "t.tsv").write_text('text\tlabel\nbad\t "neg"\n')
    assert read_table(tmp_path / "t.tsv").targets == ['"neg"']
