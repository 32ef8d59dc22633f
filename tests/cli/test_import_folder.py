"""`import` of a pretrained classifier's folder: what it writes, and what it refuses."""

import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import (
    BERT,
    classifier_of,
    classifier_weights,
    write_classifier,
    write_folder,
)

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.errors import RunError
from keras_selfattn.runs.run_folder import load_run, read_config, read_metrics

LABELS = ["good", "bad", "mixed"]  # not in alphabetical order


TEXTS = ["a good film .", "bad", "", "the films badly"]


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


def test_import_writes_a_run(tmp_path):
    folder, run = write_classifier(tmp_path / "m", LABELS), tmp_path / "runs" / "films"
    code, output = invoke("import", folder, "--output", run)
    assert code == 0, output
    assert "3 labels (good, bad, mixed)" in output
    assert f"export {run} models/films" in output
    assert {file.name for file in run.iterdir()} == {
        "model.keras",
        "config.json",
        "metrics.json",
        "vocabulary.txt",
    }
    record = read_config(run)
    assert (record["kind"], record["labels"]) == ("TextClassifier", LABELS)
    assert record["start"] == {"path": str(folder), "kind": "bert"}
    assert read_metrics(run) == {}
    wanted = models.TextClassifier.from_folder(folder).predict(TEXTS, verbose=0)
    np.testing.assert_allclose(load_run(run).predict(TEXTS, verbose=0), wanted, atol=1e-6)
    code, output = invoke("import", folder, "--output", run)
    assert code != 0
    assert "exists already" in output
    code, output = invoke("import", run, "--output", tmp_path / "other")
    assert code != 0
    assert "is a run folder already" in output
    with pytest.raises(RunError, match="Begin with that encoder's folder"):
        models.TextClassifier(start=run)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (None, "There is no folder"),
        ({"architectures": ["BertModel"]}, "`keras-selfattn export` and `embed`, or train a classifier"),
        ({"model_type": "llama"}, "the family 'llama'"),
        (
            {"model_type": "marian", "architectures": ["MarianMTModel"]},
            "MarianMTModel of the family 'marian'",
        ),
        ({"model_type": "t5", "architectures": ["T5Model"]}, "T5Model of the family 't5' (config.json)"),
        ({"architectures": ["BartForConditionalGeneration"]}, "train pairs.csv --task seq2seq"),
        ({"problem_type": "regression"}, "--text-pairs` or --one-text"),
        ("pickle", "a pickle, which is never opened"),
    ],
)
def test_import_refuses_and_writes_nothing(tmp_path, settings, match):
    folder = tmp_path / "m"
    if settings is not None:
        config = classifier_of(BERT, LABELS, **({} if settings == "pickle" else settings))
        write_folder(folder, config, classifier_weights(BERT, 3))
    if settings == "pickle":
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    code, output = invoke("import", folder, "--output", tmp_path / "run")
    assert code != 0
    assert match in output
    assert [file.name for file in tmp_path.iterdir()] == ([] if settings is None else ["m"])


@pytest.mark.slow
def test_import_says_what_a_score_is_of_and_how_it_is_bounded(tmp_path):
    mark = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
    folder, run = write_classifier(tmp_path / "m", ["score"], **mark), tmp_path / "run"
    code, output = invoke("import", folder, "--output", run)
    assert code == 0, output
    assert "a score, with no function after the output layer (`activation_fn` of `sentence_trans" in output
    assert "of two texts a row" in output
    assert f"evaluate {run} labelled.csv --text-pair COLUMN" in output
    assert read_config(run)["kind"] == "TextRegressor"
    pairs = [("a good film .", "bad")]
    wanted = models.TextRegressor.from_folder(folder).predict(pairs, verbose=0)
    np.testing.assert_allclose(load_run(run).predict(pairs, verbose=0), wanted, atol=1e-6)
    code, output = invoke("import", folder, "--output", tmp_path / "both", "--symmetric")
    assert (code, "of two texts a row, in either order" in output) == (0, True), output
    assert read_config(tmp_path / "both")["model"]["symmetric"] is True
    code, output = invoke("import", folder, "--output", tmp_path / "one", "--one-text")
    assert code != 0
    assert "holds a cross-encoder, whose rows are two texts" in output
