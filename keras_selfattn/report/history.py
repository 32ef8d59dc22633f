"""The curves of a training, from the history and the settings in its run folder."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.drawing.builders import curves
from keras_selfattn.drawing.figures import Chart, Line
from keras_selfattn.errors import RunError
from keras_selfattn.report.sections import Named, Section

_RATE_POINTS = 60


def read_history(folder: Path) -> dict[str, list[float]]:
    """Return the values of each epoch by name, in the order of the file; none of an imported model.

    Raises:
        RunError: if the file is there and cannot be read.
    """
    path = folder / "history.csv"
    if not path.exists():
        return {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        return {
            name: [float(line[name]) for line in lines]
            for name in (lines[0] if lines else ())
            if name != "epoch"
        }
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error}. Train the run again.") from error


def training_section(history: Mapping[str, Sequence[float]], config: Mapping[str, Any]) -> Section:
    """Return the curves of a training and the sentence about the kept weights."""
    title = "Training"
    if not history:
        return Section(title, ["There is no history: the model was not trained here."])
    best = config.get("best_epoch")
    epochs = len(next(iter(history.values())))
    blocks: list[Any] = [_kept(best, epochs, config)]
    charts = curves(history, best)
    blocks += [Named(f"training-{metric_name(each)}", each) for each in charts]
    rate = _rate_chart(history, config, epochs)
    if rate is not None:
        blocks.append(Named("learning-rate", rate))
    if not any(name.startswith("val_") for name in history):
        blocks.append(
            "The model was trained on pairs of rows, so that no epoch was measured on validation rows."
        )
    return Section(title, blocks)


def metric_name(chart: Chart) -> str:
    """Return the metric of a chart, for the name of a file."""
    return chart.y_name.replace(" ", "-")


def _kept(best: Any, epochs: int, config: Mapping[str, Any]) -> str:
    trained_on, held = config.get("trained_on"), (config.get("data") or {}).get("train") or {}
    said = f"{epochs} epoch{'s' if epochs > 1 else ''} were run." if epochs > 1 else "1 epoch was run."
    if best is not None:
        said += f" The kept weights are those of epoch {best}, which the charts mark."
    if isinstance(trained_on, int) and trained_on != held.get("rows"):
        said += (
            f" The model of the run was then trained again, for as many epochs, on {trained_on:,} rows with "
            "those that had been held out; the figures on held-out rows are of the model before."
        )
    return said


def _rate_chart(history: Mapping[str, Any], config: Mapping[str, Any], epochs: int) -> Chart | None:
    """Return the planned learning rate; training on pairs has another one, and its charts none."""
    from keras_selfattn.training.schedule import planned_rate

    training = config.get("training") or {}
    peak, planned = training.get("learning_rate"), training.get("epochs")
    if not (isinstance(peak, float) and isinstance(planned, int) and planned >= epochs):
        return None
    if not any(name.startswith("val_") for name in history) or not math.isfinite(peak):
        return None
    places = [epochs * n / _RATE_POINTS for n in range(_RATE_POINTS + 1)]
    rates = [planned_rate(peak, place / planned) for place in places]
    return Chart("Learning rate", "epochs done", "learning rate", [Line("", places, rates)])
