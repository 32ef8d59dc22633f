"""The curves of a training, from the history and the settings in its run folder."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.drawing.builders import RATE, curves
from keras_selfattn.drawing.figures import Chart, Line
from keras_selfattn.errors import RunError
from keras_selfattn.report.sections import Section


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


def training_section(
    history: Mapping[str, Sequence[float]], config: Mapping[str, Any], split: str = "validation"
) -> Section:
    """Return the curves of a training and the sentences about the kept weights.

    Args:
        history: values by name, one for each epoch.
        config: the run's settings.
        split: the name of the rows that the figures are of.
    """
    title = "Training"
    if not history:
        return Section(title, ["There is no history: the model was not trained here."])
    best = config.get("best_epoch")
    epochs = len(next(iter(history.values())))
    blocks: list[Any] = [_kept(best, epochs, config, split)]
    blocks += curves(history, best)
    if RATE in history:  # not in runs of old
        done = [float(epoch) for epoch in range(1, 1 + epochs)]
        line = Line("", done, history[RATE])
        heading = "Learning rate at the end of each epoch"
        blocks.append(Chart(heading, "epoch", "learning rate", [line], whole=True))
    if not any(name.startswith("val_") for name in history):
        blocks.append(
            "The model was trained on pairs of rows, so that no epoch was measured on validation rows."
        )
    return Section(title, blocks)


def is_of_kept_model(config: Mapping[str, Any], split: str) -> bool:
    """Return True if the figures of a split are of a model that was trained after the measured epochs."""
    encoders, more = _trained_again(config)
    return (encoders > 1 or more > 0) and not (more and split == "validation")


def _trained_again(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return the encoders of the kept model, and its rows if those held out are among them, or 0."""
    encoders = (config.get("model") or {}).get("members", 1)
    rows, trained = config.get("trained_on"), (config.get("data") or {}).get("train") or {}
    more = rows if isinstance(rows, int) and rows != trained.get("rows") else 0
    return encoders if isinstance(encoders, int) else 1, more


def _kept(best: Any, epochs: int, config: Mapping[str, Any], split: str) -> str:
    said = f"{epochs} epochs were run." if epochs > 1 else "1 epoch was run."
    encoders, more = _trained_again(config)
    if best is None:
        return said
    if encoders == 1 and not more:
        return f"{said} The kept weights are those of epoch {best}, which the charts mark."
    said += f" The charts mark epoch {best}. The model of the run was then trained anew up to that epoch"
    said += f", with {encoders} encoders" if encoders > 1 else ""
    said += f", on {more:,} rows with those that had been held out" if more else ""
    which = "after" if is_of_kept_model(config, split) else "before"
    return f"{said}. The figures of answers are of the model {which} that."
