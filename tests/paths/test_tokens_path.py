"""The command line's whole path for labelled tokens, and what it refuses; the example, run small."""

import csv
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError
from keras_selfattn.runs.run_folder import read_config, read_metrics, rows_for_run

ROOT = Path(__file__).parents[2]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with names.conll and names.jsonl, and a run trained on the first."""
    found = tmp_path_factory.mktemp("names")
    rows = [(f"Ada met Bob{n} in Rome", "B-PER O B-PER O B-LOC") for n in range(30)]
    rows = [(tokens.split(), labels.split()) for tokens, labels in [*rows, *[("nobody came", "O O")] * 10]]
    blocks = ["".join(map("{}\t{}\n".format, tokens, labels)) for tokens, labels in rows]
    (found / "names.conll").write_text("\n".join(blocks))
    records = [json.dumps({"words": tokens, "tags": labels}) for tokens, labels in rows]
    (found / "names.jsonl").write_text("\n".join(records))
    settings = ("--width", 16, "--learning-rate", 0.01)
    done = invoke("train", found / "names.conll", "--output", found / "run", *settings)
    assert done.exit_code == 0, done.output
    assert "Training on 40 rows" in done.output
    return found


@pytest.mark.slow
def test_train_chooses_the_task_by_the_ending_and_writes_figures_of_spans(folder):
    figures = read_metrics(folder / "run")
    assert figures["span_f1"] > 0.9
    assert list(figures)[:3] == ["span_f1", "span_precision", "span_recall"]
    config = read_config(folder / "run")
    assert config["kind"] == "TokenClassifier"
    assert config["labels"] == ["B-LOC", "B-PER", "O"]
    assert (config["training"]["batch_size"], config["training"]["epochs"]) == (32, 20)
    assert {"spans.csv", "classes.csv", "vocabulary.txt"} <= {
        path.name for path in (folder / "run").iterdir()
    }


@pytest.mark.slow
def test_the_epoch_that_is_kept_is_the_most_accurate(folder, tmp_path):
    # Trained again, the few held-out rows would choose none.
    settings = ("--width", 16, "--learning-rate", 0.01, "--members", 1, "--no-refit")
    done = invoke("train", folder / "names.conll", "--output", tmp_path / "run", *settings)
    assert done.exit_code == 0, done.output
    history = list(csv.DictReader((tmp_path / "run" / "history.csv").read_text().splitlines()))
    accuracies = [float(epoch["val_accuracy"]) for epoch in history]
    assert read_config(tmp_path / "run")["best_epoch"] == 1 + accuracies.index(max(accuracies))


@pytest.mark.slow
def test_evaluate_reads_files_of_each_form(folder):
    done = invoke("evaluate", folder / "run", folder / "names.jsonl", "--text", "words", "--label", "tags")
    assert done.exit_code == 0, done.output
    assert "span F1" in done.output
    assert "spans" in done.output
    assert "tokens" in done.output


@pytest.mark.slow
def test_how_training_read_its_file_is_left_out_where_a_file_has_another_form(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    config = read_config(folder / "run") | {"reading": {"column": "xpos"}}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert len(rows_for_run(tmp_path / "run", folder / "names.conll", {})) == 40
    with pytest.raises(ConfigError, match="`column` is for files ending in .conllu"):
        rows_for_run(tmp_path / "run", folder / "names.conll", {"column": "xpos"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["names.conll", "--tokens", "words"],
            "--tokens is for the task text, score, seq2seq. The task is tokens",
        ),
        (["names.conll", "--label-separator", ","], "--label-separator is for the task text"),
        (["names.conll", "--text", "words"], "`text` is for files ending in .jsonl"),
        (["names.jsonl", "--column", "xpos"], "--column is for the task tokens. The task is text"),
        (["names.jsonl", "--task", "tokens"], "has no column 'tokens'. Its columns are 'words', 'tags'"),
    ],
)
def test_options_that_do_not_go_with_the_file_are_refused(folder, arguments, said):
    done = invoke("train", folder / arguments[0], *arguments[1:], "--output", folder / "no")
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)
    assert not (folder / "no").exists()


@pytest.mark.slow
def test_the_example_finds_most_of_the_names_that_it_never_saw(tmp_path):
    spec = importlib.util.spec_from_file_location("token_labels", ROOT / "examples" / "token_labels.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.run(tmp_path, sentences=240, epochs=4) > 0.6
