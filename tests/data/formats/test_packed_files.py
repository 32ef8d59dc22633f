"""Texts from Parquet, Feather, fastText's lines and packed files are those of a .csv with the same rows."""

import bz2
import gzip
import sys

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from keras_selfattn.asking.asked_rows import asked_rows
from keras_selfattn.batch.row_files import open_rows
from keras_selfattn.data.formats import endings
from keras_selfattn.data.series import read_series
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.serving.client import Signature, TensorSpec
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


def test_lines_of_fasttext_are_texts_with_one_label(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("__label__+ a good film\n\n  bad\t__label__- one \n__label__+\n")
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == (["a good film", "bad\tone", ""], ["+", "-", "+"])
    assert [rows.place(row) for row in range(3)] == [1, 3, 4]


@pytest.mark.parametrize("blank", [" ", "\t", "\v", "\f", "\r", "\0"])
def test_words_of_fasttext_stand_between_its_own_blanks(tmp_path, blank):
    """Those of `Dictionary::readWord`; a line feed ends the line."""
    file = tmp_path / "t.txt"
    file.write_bytes(f"{blank}a{blank}__label__x{blank}{blank}b{blank}\n{blank}\n__label__y c\n".encode())
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == ([f"a{blank}b", "c"], ["x", "y"])


@pytest.mark.parametrize("sign", ["\u00a0", "\u2009", "\u0085", "\u2028", "\u3000", "\x1c", "\x1f"])
def test_other_blanks_are_part_of_a_word_of_fasttext(tmp_path, sign):
    file = tmp_path / "t.txt"
    file.write_text(f"__label__x{sign}y {sign}a{sign}\n__label__z a{sign}__label__x\n")
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == ([f"{sign}a{sign}", f"a{sign}__label__x"], [f"x{sign}y", "z"])
    file.write_text(f"__label__x a\n{sign}\n")
    with pytest.raises(DataError, match="line 2 has no label"):
        read_table(file)


def test_lines_of_fasttext_with_several_labels_are_lists(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("__label__x __label__y a\n__label__x b __label__x\n")
    assert read_table(file).targets == [["x", "y"], ["x"]]


@pytest.mark.parametrize("line", ["a film", "__label__ a film", "a__label__x film"])
def test_a_line_without_a_label_is_refused(tmp_path, line):
    (tmp_path / "t.txt").write_text(f"__label__+ good\n{line}\n")
    with pytest.raises(DataError, match=r"line 2 has no label. .* __label__NAME"):
        read_table(tmp_path / "t.txt")


def test_the_task_text_reads_lines_of_fasttext_where_it_is_named(tmp_path):
    (tmp_path / "t.txt").write_text("__label__+ good\n__label__- bad\n")
    assert task_named("text", tmp_path / "t.txt").rows(tmp_path / "t.txt", {}).targets == ["+", "-"]


PACKED = {
    "rows.csv.gz": 'text,label\ngood,+\n"bad, really",-\n',
    "rows.TSV.GZ": "text\tlabel\ngood\t+\nbad, really\t-\n",
    "rows.jsonl.gz": '{"text": "good", "label": "+"}\n{"text": "bad, really", "label": "-"}\n',
    "rows.txt.gz": "__label__+ good\n__label__- bad, really\n",
}


@pytest.mark.parametrize("name", PACKED)
def test_a_table_packed_by_gzip_is_read_as_the_table(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(PACKED[name].encode()))
    rows = read_table(path)
    assert (list(rows.inputs), list(rows.targets)) == (["good", "bad, really"], ["+", "-"])


def test_a_corpus_and_tokens_and_series_may_be_packed(tmp_path):
    corpus = tmp_path / "corpus.txt.gz"
    corpus.write_bytes(gzip.compress(b"a good film\n\na bore\n"))
    assert read_corpus(corpus) == ["a good film", "a bore"]
    names = tmp_path / "names.conll.gz"
    names.write_bytes(gzip.compress(b"Ada B-PER\nwrote O\n"))
    assert read_tagged(names).inputs == [["Ada", "wrote"]]
    series = tmp_path / "t.tsv.gz"
    series.write_bytes(gzip.compress(b"1\t0.5\t0.25\n2\t1.5\t0.0\n"))
    assert [row.shape for row in read_series(series).inputs] == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"text,label\n" + b"good,+\n" * 9000)[:-40], "is not a whole .gz file"),
        (b"text,label\ngood,+\n", "is not a whole .gz file: Not a gzipped file"),
        (gzip.compress(b""), "is empty"),
        (b"", "is empty"),
        (gzip.compress(b"text,label\nall\xe9,+\n"), "is not UTF-8: byte 0xe9 in line 2"),
    ],
    # Packed bytes hold the time: in a name they would differ between two processes.
    ids=["cut", "not packed", "nothing, packed", "nothing", "not UTF-8"],
)
def test_a_damaged_file_is_told_by_name(tmp_path, content, said):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_table(path)


def test_what_is_no_text_is_not_unpacked(tmp_path):
    path = tmp_path / "rows.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(DataError, match="which is for texts. Unpack it: `gunzip "):
        read_table(path)
    with pytest.raises(DataError, match=r"no known ending\. Give a file ending in \.csv"):
        read_table(path.rename(tmp_path / "rows.gz"))


def test_a_run_takes_a_packed_file_for_its_task(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(PACKED["rows.csv.gz"].encode()))
    assert task_named(None, path).name == "text"


def test_another_packing_is_one_entry(tmp_path, monkeypatch):
    """A packing that is added to the table alone is read everywhere, and says when it is not whole."""
    path = tmp_path / "rows.csv.bz2"
    packed = bz2.compress(b"text,label\ngood,+\nbad,-\n")
    path.write_bytes(packed)
    with pytest.raises(DataError, match="has no known ending"):
        read_table(path)
    made = endings.Packing("bzip2", "bunzip2", bz2.BZ2File, (EOFError, OSError))
    monkeypatch.setitem(endings.PACKINGS, ".bz2", made)
    rows = read_table(path)
    assert (rows.inputs, rows.targets) == (["good", "bad"], ["+", "-"])
    assert open_rows(path).columns == ["text", "label"]
    signature = Signature({"text": TensorSpec("string", (None,))}, {})
    form = {"column": None, "separator": None, "has_header": None}
    assert [row["text"] for _, row in asked_rows(signature, (), path, form)] == ["good", "bad"]
    path.write_bytes(packed[:-9])
    with pytest.raises(DataError, match="is not a whole .bz2 file: .*Copy or pack it again"):
        read_table(path)
    other = tmp_path / "rows.parquet.bz2"
    other.write_bytes(packed)
    with pytest.raises(DataError, match=r"packed by bzip2, .*Unpack it: `bunzip2 .*parquet.bz2`"):
        read_table(other)
