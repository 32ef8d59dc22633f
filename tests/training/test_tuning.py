"""Tuning: its trials, the settings it keeps, its end, and its record in the run folder."""

import dataclasses
import json
import math
import time

import pytest
from click.testing import CliRunner

from keras_selfattn import training
from keras_selfattn.cli.main import main
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import Terminated, TrainingError
from keras_selfattn.models import (
    ImageClassifier,
    SeriesClassifier,
    TextClassifier,
    TextConfig,
    TokenClassifier,
)
from keras_selfattn.runs.run_folder import load_run
from keras_selfattn.training import TrainConfig, fitting, tuning
from keras_selfattn.training.fitting import Fitted, copy_of
from keras_selfattn.training.tuning import Ended, Limits, OneAtATime

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

    monkeypatch.setattr(tuning, "fit_with_validation", fit)
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: TRIED)
    return seen


def tuned(seconds=math.inf, trials=math.inf, report=lambda _line: None, **settings):
    model = TextClassifier(SMALL)
    trainer = OneAtATime(model, ROWS, ROWS, FAST, **settings)
    return tuning.tuned(model, FAST, trainer, Limits(seconds, trials), report)


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
    assert lines[4:6] == [
        "After 10 s with learning_rate 0.02: val_loss is 3.0000.",
        "Trying width 16; val_loss is 3.0000 so far.",
    ]


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
    assert [trial.reason for trial in found.trials] == ["", "no number", ""]
    assert found.changes == {"width": 16}


def test_what_changes_nothing_or_cannot_be_is_not_tried(trained, monkeypatch):
    tried = [{"width": 9}, {"width": 8}, {"width": 16}]
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: tried)
    assert [trial.changes for trial in tuned(1000).trials] == [{}, {"width": 16}]


def test_so_many_other_settings_are_tried(trained):
    assert [trial.changes for trial in tuned(trials=2).trials] == [
        {},
        {"dropout": 0.5},
        {"learning_rate": 0.02},
    ]


@pytest.mark.parametrize("error", [MemoryError("no room"), ValueError("no shape")])
def test_a_trial_that_fails_is_recorded_with_its_reason_and_ends_nothing(trained, monkeypatch, error):
    def fit(model, *given, **settings):
        if model.config.dropout == 0.5:
            raise error
        return fitted(model, *given, **settings)

    fitted = tuning.fit_with_validation
    monkeypatch.setattr(tuning, "fit_with_validation", fit)
    found = tuned()
    assert found.trials[1].score is None
    assert found.trials[1].reason == f"{type(error).__name__}: {error}"
    assert found.changes == {"learning_rate": 0.02, "width": 16}


def interrupted(monkeypatch, error, at):
    """Raises an error in the training of a trial."""
    fitted = tuning.fit_with_validation

    def fit(model, rows, validation, config, *given, **settings):
        if config.learning_rate == at:
            raise error
        return fitted(model, rows, validation, config, *given, **settings)

    monkeypatch.setattr(tuning, "fit_with_validation", fit)


def by_tensorflow():
    error = RuntimeError("in user code")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), by_tensorflow()])
def test_ctrl_c_ends_the_search_with_the_best_settings_so_far(trained, monkeypatch, error):
    interrupted(monkeypatch, error, at=0.02)
    lines = []
    found = tuned(report=lines.append)
    assert [trial.changes for trial in found.trials] == [{}, {"dropout": 0.5}]
    assert found.changes == {}
    assert lines[-1] == "Interrupted: goes on with the best settings so far, nothing changed."


def test_ctrl_c_while_a_trial_is_told_loses_neither_it_nor_the_model(trained):
    def report(line):
        if line.endswith("with nothing changed: val_loss is 5.0000."):
            raise KeyboardInterrupt

    found = tuned(report=report)
    assert [(trial.changes, trial.score) for trial in found.trials] == [({}, 5.0)]
    assert found.changes == {}


@pytest.mark.parametrize(("error", "at"), [(KeyboardInterrupt, FAST.learning_rate), (Terminated, 0.02)])
def test_ctrl_c_before_anything_is_known_and_the_end_of_the_process_end_all(trained, monkeypatch, error, at):
    interrupted(monkeypatch, error(), at=at)
    with pytest.raises(error):
        tuned()


class Several:
    """A trainer of several at a time: those that are named end in a given order, by the loss of each."""

    def __init__(self, slots, order):
        self.slots, self.order, self.running, self.most, self.stopped = slots, list(order), [], 0, False

    def start(self, changes):
        self.running.append(changes)
        self.most = max(self.most, len(self.running))

    def next_ended(self, end):
        changes, loss = self.order.pop(0)
        self.running.remove(changes)
        if loss is None:
            return Ended(changes, 1.0, reason="its worker died")
        fitted = Fitted({"val_loss": [loss]}, 1, True, "val_loss", loss)
        return Ended(changes, 1.0, fitted, model=lambda: changes)

    def keep(self, trial):
        return trial

    def stop(self):
        self.stopped = True


A, B, C = {"dropout": 0.5}, {"learning_rate": 0.02}, {"width": 16}


def beside(order, slots=2, tried=(A, B, C)):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextClassifier, "alternatives", lambda self: list(tried))
        trainer = Several(slots, order)
        found = tuning.tuned(TextClassifier(SMALL), FAST, trainer, Limits())
    assert (trainer.order, trainer.running, trainer.stopped) == ([], [], True)
    assert trainer.most <= slots
    return found


def test_two_changes_that_improve_at_the_same_time_are_tried_together():
    together = {**A, **B}
    found = beside([({}, 5.0), (A, 4.0), (B, 4.5), ({**A, **C}, 6.0), (together, 3.0)])
    assert found.changes == together
    assert found.model == together


def test_a_better_change_that_ends_later_is_tried_with_the_one_it_replaced():
    found = beside([({}, 5.0), (A, 4.0), (B, 3.0), ({**A, **C}, 6.0), ({**B, **A}, 2.0)])
    assert found.changes == {**A, **B}


def test_a_change_that_ended_before_the_given_settings_is_compared_with_them():
    found = beside([(A, 6.0), ({}, 5.0), (B, 4.0), (C, None)])
    assert found.changes == B
    assert [trial.score for trial in found.trials] == [5.0, 6.0, 4.0, None]


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
    assert lines[-1] == "Again, on 120 rows:"
    assert run.rows == 120
    assert load_run(run.path).predict(["good film"], verbose=0)[0, 0] > 0.6


@pytest.mark.parametrize("kind", [TextClassifier, TokenClassifier, ImageClassifier, SeriesClassifier])
def test_all_that_is_tried_can_be_set(kind):
    model = kind()
    for change in model.alternatives():
        config = TrainConfig(**model.advised_training(100))
        changed = copy_of(model, change).config, fitting.changed(config, change)
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
