"""Vectors trained by a command, measured on pairs with scores and on queries with documents."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import BERT, write_folder

from keras_selfattn import models
from keras_selfattn.cli.main import main

THINGS = ["film", "good", "bad", "the"]


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_folder(folder / "bert", BERT)
    # The same thing twice is alike, two things are not.
    scored = [(first, second, 5 * (first == second)) for first in THINGS for second in THINGS] * 3
    lines = [
        f"a {first} {'.' * (n % 3)},{second} a,{score}" for n, (first, second, score) in enumerate(scored)
    ]
    (folder / "scored.csv").write_text("\n".join(["text,text_pair,label", *lines]) + "\n")
    found = [f'{{"text": "a {thing}", "text_pair": "{thing} a"}}' for thing in THINGS]
    (folder / "search.jsonl").write_text("\n".join(found) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(folder):
    options = ("--epochs", 60, "--learning-rate", 0.005, "--dropout", 0, "--batch-size", 16)
    options = ("--from", folder / "bert", *options, "--output", folder / "run")
    code, said = invoke("train", folder / "scored.csv", "--task", "embedding", *options)
    assert code == 0, said
    assert "scored.csv: pairs of texts with scores, the column 'label'." in said
    assert "Spearman" in said
    return folder / "run"


@pytest.mark.slow
def test_a_run_learns_the_scores_and_tells_its_figures(run, folder):
    code, said = invoke("evaluate", run, folder / "scored.csv", "--report", folder / "report.html")
    assert code == 0, said
    figures = json.loads((run / "metrics.json").read_text())
    assert {"spearman", "pearson", "rows", "split"} == set(figures)
    model = models.load(run)
    vectors = model.predict(
        [(f"a {first}", f"{second} a") for first in THINGS for second in THINGS], verbose=0
    )
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(-1) / np.prod(np.linalg.norm(vectors, axis=-1), axis=-1)
    alike = np.eye(4, dtype=bool).ravel()
    assert cosines[alike].min() > cosines[~alike].mean()
    page = (folder / "report.html").read_text()
    assert "Cosines against scores" in page
    assert "Spearman compares the order" in page
    assert json.loads((run / "example.json").read_text())["input"][0].startswith("a ")


@pytest.mark.slow
def test_the_order_of_validation_scores_chooses_the_epoch_not_the_loss(folder):
    options = ("--validation", folder / "scored.csv", "--epochs", 4, "--learning-rate", 0.005)
    options = ("--from", folder / "bert", *options, "--batch-size", 16, "--output", folder / "chosen")
    code, said = invoke("train", folder / "scored.csv", "--task", "embedding", *options)
    assert code == 0, said
    with (folder / "chosen" / "history.csv").open() as file:
        reached = [float(epoch["val_spearman"]) for epoch in csv.DictReader(file)]
    assert json.loads((folder / "chosen" / "config.json").read_text())["best_epoch"] == 1 + np.argmax(reached)
    figures = json.loads((folder / "chosen" / "metrics.json").read_text())
    assert figures["spearman"] == pytest.approx(max(reached), abs=1e-6)


@pytest.mark.slow
def test_it_is_measured_by_a_search_where_a_file_has_no_scores(run, folder):
    mistakes = folder / "wrong.jsonl"
    options = ("--mistakes", mistakes, "--report", folder / "search.html")
    code, said = invoke("evaluate", run, folder / "search.jsonl", *options)
    assert code == 0, said
    assert "texts that belong together; there are no scores" in said
    assert "mean reciprocal rank" in said
    assert "recall at 1 " in said
    lines = [json.loads(line) for line in mistakes.read_text().splitlines()]
    assert set(lines[0]) == {"line", "text", "text_pair", "label", "predicted", "error"}
    assert [line["error"] for line in lines] == sorted((line["error"] for line in lines), reverse=True)
    assert (
        "Each of 4 different queries orders all 4 different documents" in (folder / "search.html").read_text()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), r"Give `start` (--from), a pretrained model's folder"),
        (("--from", "./nobody"), "--from: There is no"),
        (("--from", "bert", "--width", 16), "--width contradicts"),
        (("--from", "bert", "--no-wide"), "--no-wide is for the task text, score. The task is embedding"),
        (("--from", "bert", "--score-loss", "cosine"), "scores are from -1 to 1"),
        (
            ("--from", "bert", "--label-smoothing", 0.1),
            "--label-smoothing is for labels. The task is embedding",
        ),
        (("--from", "bert", "--balanced"), "--balanced is for one label a row. The task is embedding"),
        (
            ("--from", "bert", "--label", "label", "--negative", "text"),
            "scores (`label`, --label label) are of two",
        ),
        (
            ("--from", "bert", "--validation", "search.jsonl"),
            "search.jsonl: The training rows have scores and the validation rows have none",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_a_training(folder, monkeypatch, options, said):
    monkeypatch.chdir(folder)
    code, found = invoke("train", "scored.csv", "--task", "embedding", *options, "--output", "none")
    assert code != 0
    assert said in found
    assert not (folder / "none").exists()
