"""Endings of files: packed files are read as those within, whatever they hold."""

import bz2
import gzip

import pytest

from keras_selfattn.asking.asked_rows import asked_rows
from keras_selfattn.batch.row_files import open_rows
from keras_selfattn.data.formats import endings
from keras_selfattn.data.series import read_series
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import DataError
from keras_selfattn.serving.client import Signature, TensorSpec
from keras_selfattn.tasks import task_named

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
