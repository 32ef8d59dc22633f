"""Texts from Parquet and Feather are those of a .csv with the same rows."""

import sys

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.tasks import task_named

COLUMNS = {"id": [1, 2, 3], "text": ["good, really", "bad", None], "label": ["+", "-", "+"]}
WRITE = {".parquet": parquet.write_table, ".feather": feather.write_feather}


def table(folder, ending, columns):
    file = folder / f"t{ending}"
    WRITE[ending](pa.table(columns), file)
    return file


@pytest.mark.parametrize("ending", WRITE)
def test_a_table_of_arrow_holds_the_rows_of_a_csv(tmp_path, ending):
    (tmp_path / "t.csv").write_text('id,text,label\n1,"good, really",+\n2,bad,-\n3,,+\n')
    wanted, file = read_table(tmp_path / "t.csv"), table(tmp_path, ending, COLUMNS)
    found = read_table(file)
    assert (found.inputs, found.targets) == (wanted.inputs, wanted.targets)
    assert [found.place(row) for row in range(3)] == [1, 2, 3], "its rows have numbers in place of lines"
    assert read_corpus(file) == ["good, really", "bad"]
    assert task_named(None, file).name == "text"


def test_lists_are_several_labels_and_numbers_are_names(tmp_path):
    several = {"text": ["a", "b", "c"], "label": [["x", "y"], [], ["y"]]}
    assert read_table(table(tmp_path, ".parquet", several)).targets == [["x", "y"], [], ["y"]]
    numbers = {"text": ["a", "b"], "label": [1, 2]}
    assert read_table(table(tmp_path, ".feather", numbers)).targets == ["1", "2"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text": [["a", "b"]], "label": ["+"]}, "must be a text. Received a list.*--task tokens"),
        ({"text": ["a"], "stars": ["+"]}, "has no column 'label'. Its columns are 'text', 'stars'"),
        ({"text": ["a", "b"], "label": ["+", None]}, "1 of 2 rows have no 'label', the first at line 2"),
        ({"text": pa.array([], "string"), "label": pa.array([], "string")}, "has no rows"),
    ],
)
def test_a_table_that_is_no_table_of_labelled_texts_is_refused(tmp_path, columns, said):
    for ending in (".parquet", ".feather"):
        with pytest.raises(DataError, match=said):
            read_table(table(tmp_path, ending, columns))


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_a_table_that_is_not_whole_is_refused(tmp_path, ending):
    file = table(tmp_path, ending, COLUMNS)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(
        DataError, match=f"is not a whole {'Parquet' if ending == '.parquet' else ending} file"
    ):
        read_table(file)
    with pytest.raises(DataError, match="There is no file"):
        read_table(tmp_path / f"absent{ending}")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    file = table(tmp_path, ".parquet", COLUMNS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'keras-selfattn\[parquet\]'"):
        read_table(file)


def test_a_separator_is_for_tables_of_text(tmp_path):
    with pytest.raises(ConfigError, match="is for files ending in .csv or .tsv"):
        read_table(table(tmp_path, ".parquet", COLUMNS), separator=";")
