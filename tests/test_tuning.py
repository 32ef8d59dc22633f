"""Tuning: its trials, the settings it keeps, its end, and its record in the run folder."""

import dataclasses
import json
import time

import pytest
from click.testing import CliRunner

from keras_selfattn import training
from keras_selfattn.cli.main import main
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.models import (
    ImageClassifier,
    SeriesClassifier,
    TextClassifier,
    TextConfig,
    TokenClassifier,
)
from keras_selfattn.run_folder import load_run
from keras_selfattn.training import TrainConfig, fitting, tuning
from keras_selfattn.training.fitting import Fitted

SMALL = TextConfig(width=8, num_heads=2, wide=False)
ROWS = LabelledRows(
    [f"{word} film number{n}" for n in range(30) for word in ("good", "bad", "fine", "poor")],
    ["+", "-", "+", "-"] * 30,
    "made up",
)
FAST = TrainConfig(epochs=2, batch_size=16, refit=True)
TRIED = [{"dropout": 0.5}, {"learning_rate": 0.02}, {"width": 16}, {"num_layers": 2}]


class Clock:
    """Stands still but for what each training takes."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.fixture
def trained(monkeypatch):
    """Replaces training by scores: the loss falls by 1 for a width of 16 and by 2 for a rate of 0.02."""
    seen, clock = [], Clock(monkeypatch)

    def fit(model, rows, validation, config, callbacks, verbose, choose_epoch):
        clock.now += 10
        for callback in callbacks:
            callback.set_model(model)
            callback.on_train_batch_end(0)
        seen.append((model.config, config))
        if config.learning_rate == 9.0:
            raise TrainingError("no number")
        loss = 5.0 - (model.config.width == 16) - 2 * (config.learning_rate == 0.02)
        return Fitted({"val_loss": [9.0, loss]}, 2, choose_epoch, "val_loss", loss)

    monkeypatch.setattr(tuning, "fit_monitored", fit)
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: TRIED)
    return seen


def tuned(seconds, **settings):
    return tuning.tuned(TextClassifier(SMALL), ROWS, ROWS, FAST, seconds, **settings)


def test_each_change_is_tried_on_top_of_those_that_were_better(trained):
    lines = []
    found = tuned(1000, report=lines.append)
    assert found.changes == {"learning_rate": 0.02, "width": 16}
    assert [trial.changes for trial in found.trials] == [
        {},
        {"dropout": 0.5},
        {"learning_rate": 0.02},
        {"learning_rate": 0.02, "width": 16},
        {"learning_rate": 0.02, "width": 16, "num_layers": 2},
    ]
    assert [trial.score for trial in found.trials] == [5.0, 5.0, 3.0, 2.0, 2.0]
    assert [trial.seconds for trial in found.trials] == [10.0] * 5
    assert found.config == dataclasses.replace(FAST, learning_rate=0.02)
    assert (found.model.config.width, found.model.config.dropout) == (16, SMALL.dropout)
    assert lines[2] == "Trying width 16; val_loss is 3.0000 so far."


def test_what_is_asked_for_is_trained_to_its_end_and_nothing_begins_after_the_time(trained):
    assert [trial.changes for trial in tuned(1e-9).trials] == [{}, {"dropout": 0.5}]
    assert len(trained) == 2


@pytest.mark.parametrize("choose", [False, True])
def test_each_trial_chooses_its_epoch_or_none_does(trained, choose):
    assert tuned(1000, choose_epoch=choose).fitted.chosen is choose


def test_a_trial_that_the_time_cuts_short_is_not_chosen(trained):
    found = tuned(15)
    assert [trial.score for trial in found.trials] == [5.0, 5.0, None]
    assert found.changes == {}


def test_a_trial_whose_loss_is_no_number_is_left(trained, monkeypatch):
    tried = [{"learning_rate": 9.0}, {"width": 16}]
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: tried)
    found = tuned(1000)
    assert [trial.score for trial in found.trials] == [5.0, None, 4.0]
    assert found.changes == {"width": 16}


def test_what_changes_nothing_or_cannot_be_is_not_tried(trained, monkeypatch):
    tried = [{"width": 9}, {"width": 8}, {"width": 16}]
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: tried)
    assert [trial.changes for trial in tuned(1000).trials] == [{}, {"width": 16}]


def test_of_accuracies_the_higher_is_better():
    low, high = (Fitted({"val_accuracy": [score]}, 1, True, "val_accuracy", score) for score in (0.5, 0.75))
    assert (high.beats(low), low.beats(high), low.beats(low)) == (True, False, False)


@pytest.mark.slow
def test_the_run_has_the_best_settings_and_says_what_was_tried(tmp_path, monkeypatch):
    """A rate of 0.02 learns in two epochs what one of 1e-6 cannot."""
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: [{"learning_rate": 0.02}])
    slow, given = dataclasses.replace(FAST, learning_rate=1e-6), TextClassifier(SMALL)
    lines = []
    run = training.train(
        ROWS, tmp_path / "run", model=given, config=slow, tune=600, verbose=0, report=lines.append
    )
    assert run.changes == {"learning_rate": 0.02}
    assert run.model is not given
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["training"]["learning_rate"] == 0.02
    first, second = config["trials"]
    assert (first["changes"], second["changes"]) == ({}, {"learning_rate": 0.02})
    assert second["score"] < first["score"]
    assert lines[2] == "Again, on 120 rows:"
    assert run.rows == 120
    assert load_run(run.path).predict(["good film"], verbose=0)[0, 0] > 0.6


@pytest.mark.parametrize("kind", [TextClassifier, TokenClassifier, ImageClassifier, SeriesClassifier])
def test_all_that_is_tried_can_be_set(kind):
    model = kind()
    for change in model.alternatives():
        config = TrainConfig(**model.advised_training(100))
        changed = fitting.copy_of(model, change).config, fitting.changed(config, change)
        assert changed != (model.config, config), change


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--refit", "--validation", "rows.csv"], "--refit trains on rows held out of TABLE. Leave it out"),
        (["--tune", "nan"], "--tune must be minutes, more than 0. Received nan"),
        (["--tune", "0"], "0.0 is not in the range x>0."),
        (["--members", "0"], "0 is not in the range x>=1"),
        (["--training-span", "0"], "0 is not in the range x>=1"),
    ],
)
def test_the_command_refuses_what_cannot_be_before_it_trains(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{text},{label}\n" for text, label in zip(ROWS.inputs, ROWS.targets, strict=True))
    (tmp_path / "rows.csv").write_text("text,label\n" + lines)
    done = CliRunner().invoke(main, ["train", "rows.csv", "--output", "run", *options])
    assert done.exit_code != 0
    assert said in " ".join((done.output + str(done.exception)).split())
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_command_says_what_it_tried_and_chose(tmp_path):
    lines = "".join(f"{text},{label}\n" for text, label in zip(ROWS.inputs, ROWS.targets, strict=True))
    (tmp_path / "rows.csv").write_text("text,label\n" + lines)
    asked = ["train", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "run"), "--epochs", "1"]
    done = CliRunner().invoke(main, [*asked, "--width", "8", "--heads", "2", "--no-wide", "--tune", "1e-6"])
    assert done.exit_code == 0, done.output
    assert "Tuning chose: nothing changed." in done.output
