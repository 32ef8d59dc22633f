"""`predict` of a model that writes texts: its columns, and its flags in each form of file."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import serving_models


@pytest.fixture(scope="module")
def backwards(tmp_path_factory):
    return serving_models.save(serving_models.Backwards(), tmp_path_factory.mktemp("backwards"))


TEXTS = ["abc", "123456789", ""]
WRITTEN = ["cba", "98765432", ""]
ENDED = [True, False, True]


def asked(predict, backwards, tmp_path, ending, *options):
    source, output = tmp_path / "rows.csv", tmp_path / f"answers{ending}"
    pd.DataFrame({"id": [1, 2, 3], "text": TEXTS}).to_csv(source, index=False)
    done = predict(source, output, *options, of=backwards)
    assert done.exit_code == 0, done.output
    assert "1 text was cut: the model's bound of symbols came before the end" in done.stderr
    return output


def test_a_csv_has_the_written_text_beside_the_text(predict, backwards, tmp_path):
    answers = pd.read_csv(asked(predict, backwards, tmp_path, ".csv"), keep_default_na=False)
    assert list(answers) == ["id", "text", "predicted_text", "score", "ended"]
    assert answers["predicted_text"].tolist() == WRITTEN
    assert answers["ended"].tolist() == ENDED


def test_json_lines_have_flags_of_json(predict, backwards, tmp_path):
    lines = asked(predict, backwards, tmp_path, ".jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["ended"] for line in lines] == ENDED
    assert [json.loads(line)["predicted_text"] for line in lines] == WRITTEN


def test_parquet_has_a_column_of_flags(predict, backwards, tmp_path):
    table = pq.read_table(asked(predict, backwards, tmp_path, ".parquet"))
    assert table.schema.field("ended").type == pa.bool_()
    assert table["ended"].to_pylist() == ENDED
    assert table["predicted_text"].to_pylist() == WRITTEN


def test_a_cut_text_is_told_where_its_flag_is_not_written(predict, backwards, tmp_path):
    answers = pd.read_csv(asked(predict, backwards, tmp_path, ".csv", "--outputs", "text"))
    assert list(answers) == ["id", "text", "predicted_text"]
