"""Run folders: what is none, damaged settings, and files read as in training."""

import json

import numpy as np
import pandas
import pytest

from keras_selfattn.asking.input_cells import NamedColumns
from keras_selfattn.batch.model_graph import find_model
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.runs.run_folder import corpus_for_run, load_run, rows_for_run


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="There is no run folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(RunError, match="holds no model.keras"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "config.json is damaged: it must hold a JSON object. Received \\[\\]"),
        ('"x"', "it must hold a JSON object. Received 'x'"),
        ("[" * 100_000, "config.json cannot be read"),
        ("{}", "does not say what kind of model.*Train the run again"),
        ('{"kind": "Other"}', "kind 'Other', which is not known here. Known are TextClassifier"),
        ('{"kind": "TextClassifier", "reading": null}', "`reading` must hold arguments of the task text"),
        ('{"kind": "TextClassifier", "reading": [1]}', "Received \\[1\\]"),
        ('{"kind": "TextClassifier", "reading": {"foo": 1}}', "Received {'foo': 1}"),
        ('{"kind": "TextClassifier", "reading": {"label_separator": 5}}', "Received {'label_separator': 5}"),
    ],
)
def test_damaged_settings_of_a_run_are_said_to_be_so(tmp_path, content, said):
    (tmp_path / "model.keras").touch()
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match=said):
        rows_for_run(tmp_path, tmp_path / "t.csv", {})


def written(folder, name, content):
    (folder / name).write_text(content)
    return folder / name


def test_a_file_of_a_run_is_separated_as_that_of_its_training_was(tmp_path):
    (tmp_path / "model.keras").touch()
    config = {"kind": "TextClassifier", "reading": {"label": "stars", "separator": ";"}}
    written(tmp_path, "config.json", json.dumps(config))
    rows = rows_for_run(tmp_path, written(tmp_path, "t.csv", "text;stars\na, b;+\n"), {})
    assert (rows.inputs, rows.targets) == (["a, b"], ["+"])
    assert rows_for_run(
        tmp_path, written(tmp_path, "u.csv", "text,stars\na,+\n"), {"separator": ","}
    ).inputs == ["a"]
    lines = written(tmp_path, "t.jsonl", '{"text": "a", "stars": "+"}\n')
    assert rows_for_run(tmp_path, lines, {}).targets == ["+"], "lines of JSON have no separator"
    written(tmp_path, "config.json", json.dumps({"kind": "MaskedTokenModel", "reading": {"separator": ";"}}))
    assert corpus_for_run(tmp_path, tmp_path / "t.csv", {}) == ["a, b"]
    assert corpus_for_run(tmp_path, lines, {}) == ["a"]


def test_an_npz_has_its_own_size_whatever_the_folder_of_training_was_resized_to(tmp_path):
    np.savez(tmp_path / "test.npz", x=np.zeros((2, 8, 8), "uint8"), y=np.array([3, 5]))
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.keras").touch()
    (run / "config.json").write_text('{"kind": "ImageClassifier", "reading": {"image_size": 64}}')
    assert rows_for_run(run, tmp_path / "test.npz", {}).targets == ["3", "5"]
    with pytest.raises(DataError, match="`image_size` is for folders"):
        rows_for_run(run, tmp_path / "test.npz", {"image_size": 9})


def test_a_run_of_pairs_remembers_both_columns_in_any_form_of_table(tmp_path):
    (tmp_path / "model.keras").touch()
    columns = {"text": "question", "text_pair": "answer"}
    config = {"kind": "TextClassifier", "reading": {**columns, "separator": ";"}}
    written(tmp_path, "config.json", json.dumps(config))
    pair = [("is it?", "it is")]
    assert (
        rows_for_run(
            tmp_path, written(tmp_path, "t.csv", "question;answer;label\nis it?;it is;+\n"), {}
        ).inputs
        == pair
    )
    pandas.DataFrame([["is it?", "it is", "+"]], columns=["question", "answer", "label"]).to_parquet(
        tmp_path / "t.parquet"
    )
    assert rows_for_run(tmp_path, tmp_path / "t.parquet", {}).inputs == pair
    other = written(tmp_path, "u.csv", "question;reply;label\nis it?;it is;+\n")
    assert rows_for_run(tmp_path, other, {"text_pair": "reply"}).inputs == pair
    with pytest.raises(DataError, match="no column 'answer'. Its columns are 'question', 'reply', 'label'"):
        rows_for_run(tmp_path, other, {})
    with pytest.raises(ConfigError, match=r"`text_pair` \(--text-pair\) is a column, and .*t.txt has none"):
        rows_for_run(tmp_path, written(tmp_path, "t.txt", "__label__+ a\n"), {})
    assert find_model(tmp_path).columns == NamedColumns("question", "answer")
