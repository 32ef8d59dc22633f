"""Tables of Parquet and Feather: columns of every type, names of classes, and what cannot be read."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars_files import INT128, unpacked
from polars_files import VIEWS as FILE_OF_VIEWS
from pyarrow import feather, parquet

from keras_selfattn.data.formats.arrow_tables import arrow_records
from keras_selfattn.errors import DataError


def test_files_of_views_are_read_for_training(tmp_path):
    file = unpacked(tmp_path / "rows.feather", FILE_OF_VIEWS)
    wanted = [(1, {"text": "good", "label": "+"}), (2, {"text": "bad", "label": "-"})]
    assert arrow_records(file, ["text", "label"]) == wanted
    pq.write_table(pa.table({"text": pa.array(["good"], pa.string_view())}), tmp_path / "rows.parquet")
    assert arrow_records(tmp_path / "rows.parquet", ["text"]) == [(1, {"text": "good"})]


def test_a_type_that_arrow_cannot_read_is_no_broken_file(tmp_path):
    file = unpacked(tmp_path / "rows.parquet", INT128)
    with pytest.raises(
        DataError, match=r"rows.parquet holds a type that pyarrow .* cannot read: Integers with"
    ) as error:
        arrow_records(file, ["text"])
    assert "whole" not in str(error.value)
    file.write_bytes(b"PAR1 half a file")
    with pytest.raises(DataError, match="is not a whole Parquet file: .* Write or copy it again"):
        arrow_records(file, ["text"])


def test_a_date_that_python_cannot_hold_is_refused_with_its_row(tmp_path):
    far = pa.table({"text": ["a", "b"], "label": pa.array([0, 2**30], pa.date32())})
    pq.write_table(far, tmp_path / "rows.parquet")
    with pytest.raises(
        DataError, match=r"rows.parquet: the 'label' in row 2 cannot be read: as date32.* out of range"
    ):
        arrow_records(tmp_path / "rows.parquet", ["text", "label"])
    assert arrow_records(tmp_path / "rows.parquet", ["text"])[1] == (2, {"text": "b"})


WRITE = {".parquet": parquet.write_table, ".feather": feather.write_feather}


OPINION = {"names": ["neg", "pos"], "_type": "ClassLabel"}


def table(folder, columns, features, ending=".parquet", content=None):
    content = json.dumps({"info": {"features": features}}) if content is None else content
    file = folder / f"t{ending}"
    WRITE[ending](pa.table(columns).replace_schema_metadata({"huggingface": content}), file)
    return file


def test_classes_inside_others_have_names_too(tmp_path):
    columns = {
        "text": ["a"],
        "inner": [{"kind": 1, "n": 7}],
        "several": [[{"kind": 0}, {"kind": -1}]],
        "old": [{"kind": [1, 0]}],
    }
    features = {
        "inner": {"kind": OPINION, "n": {"dtype": "int64", "_type": "Value"}},
        "several": {"feature": {"kind": OPINION}, "_type": "List"},
        "old": {"feature": {"kind": OPINION}, "length": -1, "_type": "Sequence"},
    }
    [(_, record)] = arrow_records(table(tmp_path, columns, features), list(columns))
    assert record["inner"] == {"kind": "pos", "n": 7}
    assert record["several"] == [{"kind": "neg"}, {"kind": None}]
    assert record["old"] == {"kind": ["pos", "neg"]}
