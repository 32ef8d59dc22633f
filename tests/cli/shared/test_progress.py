"""The progress of a training: the time so far, the time left, and clear names for figures."""

import io

import pytest
from rich.console import Console

from keras_selfattn import models
from keras_selfattn.cli.shared import progress
from keras_selfattn.cli.shared.progress import TrainingProgress

LOGS = {"loss": 1.25, "accuracy": 0.5, "val_loss": 0.75, "val_accuracy": 0.875}


@pytest.fixture
def shown(monkeypatch):
    """Returns a progress on a console of a width, and what was written to that."""

    def begin(width, terminal=True):
        written = io.StringIO()
        console = Console(file=written, width=width, force_terminal=terminal, color_system=None, markup=False)
        monkeypatch.setattr(progress, "console", console)
        return TrainingProgress(), written

    return begin


def bar(shown_progress, width):
    """The line of the bar as it is."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(shown_progress._bar.get_renderable())
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_no_steps_and_no_time_left_are_shown_before_they_are_known(shown, width):
    found, _ = shown(width)
    with found:
        (line,) = bar(found, width)
        assert line.startswith("preparing")
        assert "elapsed" in line
        assert "left" not in line
        assert "step" not in line
        found.set_params({"steps": 100, "epochs": 20})
        found.on_train_begin()
        (line,) = bar(found, width)
        assert "0/2,000 steps" in line
        assert "left" not in line


@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_of_a_training_is_one_line_with_the_times_by_name(shown, width, monkeypatch):
    found, _ = shown(width)
    now = [100.0]
    found._bar.get_time = lambda: now[0]
    with found:
        found.set_params({"steps": 100, "epochs": 20})
        found.on_train_begin()
        for _ in range(10):
            now[0] += 3.0
            found.on_train_batch_end(0, LOGS)
        (line,) = bar(found, width)
    assert "10/2,000 steps 0:30 elapsed, 1:39:30 left" in line
    assert "loss" in line
    assert len(line) <= width


@pytest.mark.parametrize(
    ("width", "terminal", "lines"),
    [
        (80, True, ["training: loss 1.250, accuracy 0.500", "validation: loss 0.750, accuracy 0.875"]),
        (120, True, ["training: loss 1.250, accuracy 0.500  validation: loss 0.750, accuracy 0.875"]),
        (80, False, ["training: loss 1.250, accuracy 0.500  validation: loss 0.750, accuracy 0.875"]),
    ],
)
def test_the_line_of_an_epoch_says_which_figures_are_of_what(shown, width, terminal, lines):
    found, written = shown(width, terminal)
    found.set_params({"steps": 100, "epochs": 20})
    found.on_epoch_end(11, LOGS)
    expected = ["  epoch 12/20  " + lines[0], *(" " * 15 + line for line in lines[1:])]
    assert [line.rstrip() for line in written.getvalue().splitlines()] == expected


@pytest.mark.parametrize("wide", [True, False])
def test_beside_another_path_the_figures_of_training_are_said_to_be_those_of_attention(shown, wide):
    config = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64, wide=wide)
    model = models.TextClassifier(config)
    model.adapt(["good", "bad"] * 4, ["+", "-"] * 4)
    found, written = shown(200)
    found.set_params({"steps": 100, "epochs": 20})
    found.set_model(model)
    found.on_epoch_end(0, LOGS)
    assert ("training, attention alone: loss 1.250" in written.getvalue()) == wide
    assert ("validation, both paths: loss 0.750" in written.getvalue()) == wide
    assert ("training: loss 1.250" in written.getvalue()) != wide


def test_in_a_file_there_is_a_line_at_the_beginning_and_one_for_each_epoch(shown):
    found, written = shown(80, terminal=False)
    with found:
        found.set_params({"steps": 2, "epochs": 1})
        found.on_train_begin()
        found.on_train_batch_end(0, LOGS)
        found.on_epoch_end(0, {"loss": 1.25, "mean_absolute_error": 2.0})
        found.on_train_end()
    epoch = "  epoch 1/1  training: loss 1.250, mean absolute error 2.000\n"
    assert written.getvalue() == "  steps in an epoch: 2\n" + epoch
