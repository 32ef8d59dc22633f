"""A pretrained model by its name in the hub is the model of its folder, in Python and in every command."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from loopback_hub import loopback_hub, use_hub
from pretrained_folders import BERT, write_classifier, write_folder

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.models.pretrained.pretrained_start import PretrainedStart
from keras_selfattn.runs.run_folder import load_run, read_config
from keras_selfattn.training.checkpoints import digest_of_files, training_digests
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.processes.clusters import packed

pytest.importorskip("huggingface_hub")

ENCODER, CLASSIFIER = "somebody/tiny", "films"
TEXTS = ["a good film .", "the bad film", "good films", "badly bad"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("folders")
    return {
        ENCODER: write_folder(place / "encoder", BERT),
        CLASSIFIER: write_classifier(place / "classifier", ["good", "bad"]),
    }


@pytest.fixture
def hub(folders, tmp_path, monkeypatch):
    """A hub with both models; the current folder is an empty one."""
    with loopback_hub() as found:
        for name, folder in folders.items():
            found.add(name, folder, "v1")
        use_hub(monkeypatch, found, tmp_path / "home")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        yield found


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


def commit_of(hub, name):
    return hub.models[name][0].sha


def same_weights(one, other):
    for each, wanted in zip(one.core.get_weights(), other.core.get_weights(), strict=True):
        np.testing.assert_array_equal(each, wanted)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        (ENCODER, models.load),
        (ENCODER, lambda start: models.TextEncoder(start=start)),
        (CLASSIFIER, models.load),
        (CLASSIFIER, models.TextClassifier.from_folder),
    ],
    ids=["load", "TextEncoder", "load a classifier", "from_folder"],
)
def test_a_name_makes_the_model_of_the_folder(hub, folders, name, make):
    named, wanted = make(name), make(folders[name])
    same_weights(named, wanted)
    np.testing.assert_array_equal(named.predict(TEXTS, verbose=0), wanted.predict(TEXTS, verbose=0))
    assert named.start.record["path"] == f"hf://{name}@{commit_of(hub, name)}"


@pytest.mark.parametrize("kind", [models.TextClassifier, models.TextRegressor, models.TokenClassifier])
def test_a_model_starts_from_a_name_and_again_from_its_commit_without_the_hub(hub, kind):
    model = kind(start=ENCODER)
    assert model.start.path == f"hf://{ENCODER}@{commit_of(hub, ENCODER)}"
    asked = len(hub.requests)
    again = kind.from_config(model.untrained_config())
    assert again.start.path == model.start.path
    assert len(hub.requests) == asked


def test_a_training_knows_the_files_of_a_name(hub, folders):
    model = models.TextClassifier({"wide": False}, start=ENCODER)
    rows = type("Rows", (), {"inputs": TEXTS, "targets": list("abab")})()
    digests = training_digests(model, TrainConfig(), rows, rows)
    read = {file.relative_to(folders[ENCODER]).as_posix() for file in folders[ENCODER].rglob("*.*")}
    assert digests["files to start from (--from)"] == digest_of_files(folders[ENCODER])
    with packed(model).unpacked() as copy:
        assert Path(copy.start.path).is_dir()
        assert read == {
            file.relative_to(copy.start.path).as_posix() for file in Path(copy.start.path).rglob("*.*")
        }


def test_what_cannot_be_read_is_refused_before_its_weights_are_fetched(hub, folders, tmp_path):
    hub.add("a/llama", folders[ENCODER], files={"config.json": json.dumps({"model_type": "llama"}).encode()})
    with pytest.raises(Exception, match="the family 'llama'"):
        PretrainedStart("a/llama")
    code, said = invoke("import", ENCODER, "--output", tmp_path / "run")
    assert (code, "holds no classifier of texts" in said) == (1, True), said
    assert "model.safetensors" not in hub.downloads


def test_import_writes_a_run_of_a_name(hub, folders, tmp_path):
    code, said = invoke("import", CLASSIFIER, "--revision", "v1", "--output", tmp_path / "run")
    assert code == 0, said
    place = f"hf://{CLASSIFIER}@{commit_of(hub, CLASSIFIER)}"
    assert f"Imported {place}: 2 labels" in said
    assert read_config(tmp_path / "run")["start"] == {"path": place, "kind": "bert"}
    same_weights(load_run(tmp_path / "run"), models.load(folders[CLASSIFIER]))
    code, said = invoke("import", place, "--output", tmp_path / "again")
    assert code == 0, said
    assert read_config(tmp_path / "again")["start"]["path"] == place


@pytest.mark.slow
def test_commands_train_from_a_name_and_export_it(hub, tmp_path, unchecked):
    table = Path("rows.csv")
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text in TEXTS * 5 for label in "ab"))
    place = f"hf://{ENCODER}@{commit_of(hub, ENCODER)}"
    for command, more in (("train", ["--no-wide"]), ("pretrain", [])):
        run = tmp_path / command
        code, said = invoke(command, table, "--from", ENCODER, "--epochs", 1, "--output", run, *more)
        assert code == 0, said
        assert f"Beginning with {place}: bert" in said
        assert read_config(run)["start"]["path"] == place
    code, said = invoke("export", ENCODER, tmp_path / "exported")
    assert code == 0, said
    assert (tmp_path / "exported" / "1" / "saved_model.pb").is_file()


def test_a_mistyped_path_asks_nobody(hub, tmp_path):
    Path("rows.csv").write_text("text,label\na,b\n")
    Path("runs/base").mkdir(parents=True)
    for command in (
        ["train", "rows.csv", "--from", "runs/bsae", "--output", "run"],
        ["pretrain", "rows.csv", "--from", "runs/bsae", "--output", "run"],
        ["export", "runs/bsae", "models"],
        ["import", "runs/bsae", "--output", "run"],
    ):
        code, said = invoke(*command)
        assert code == 1
        assert "runs/bsae. Did you mean runs/base? Give" in said
    assert hub.requests == []


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (["--from", ENCODER], "There is no model at somebody/tiny. Give a run folder of"),
        (["--from", ENCODER, "--revision", "v1"], "--revision is for the task text, "),
    ],
)
def test_answers_begin_with_runs_alone(hub, more, match):
    Path("rows.csv").write_text("source,target\na,b\n")
    code, said = invoke("train", "rows.csv", "--task", "seq2seq", *more, "--output", "run")
    assert (code, match in said) == (1, True), said
    assert hub.requests == []


def test_no_such_name_is_told_before_a_row_is_read(hub):
    Path("rows.csv").write_text("no such table")
    code, said = invoke("train", "rows.csv", "--from", "somebody/tinny", "--output", "run")
    assert code == 1
    assert f"There is no folder somebody/tinny here. {hub.url} has no model somebody/tinny" in said
