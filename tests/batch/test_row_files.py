"""Windows of files of rows: names of classes, missing values, wherever a window is cut."""

import json
import math

import pyarrow as pa
from pyarrow import feather, parquet

from keras_selfattn.batch.row_files import open_rows

WRITE = {".parquet": parquet.write_table, ".feather": feather.write_feather}


TEXT = {"dtype": "string", "_type": "Value"}


OPINION = {"names": ["neg", "pos"], "_type": "ClassLabel"}


def table(folder, columns, features, ending=".parquet", content=None):
    content = json.dumps({"info": {"features": features}}) if content is None else content
    file = folder / f"t{ending}"
    WRITE[ending](pa.table(columns).replace_schema_metadata({"huggingface": content}), file)
    return file


def test_predict_reads_the_same_names(tmp_path):
    columns = {"text": ["a", "b", "c"], "label": [1, 7, -1]}
    file = table(tmp_path, columns, {"text": TEXT, "label": OPINION})
    [window] = open_rows(file).windows(None)
    assert [window.records[row]["label"] for row in (0, 2)] == ["pos", None]
    assert [bool(window.problem(row)) for row in range(3)] == [False, True, False]


def test_a_window_that_is_cut_keeps_its_names(tmp_path):
    """As on Ray, where windows end where others begin."""
    file = table(tmp_path, {"text": ["a", "b", "c"], "label": [1, 0, 1]}, {"label": OPINION})
    [window] = open_rows(file).windows([1])
    cut = window.cut([2])
    assert ([*cut.lines], cut.records[0]["label"], len(cut.records)) == ([2], "neg", 1)


def test_a_window_of_json_lines_reads_nan(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": NaN}\n')
    [window] = open_rows(tmp_path / "t.jsonl").windows(None)
    assert math.isnan(window.records[0]["text"])
