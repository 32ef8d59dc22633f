"""A progress bar over a whole training, as a Keras callback."""

from typing import Any

import keras
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from keras_selfattn.cli.shared.console import clock, console
from keras_selfattn.training.calibration import has_two_paths
from keras_selfattn.training.few_rows import PairLoss

_FIGURES = ("loss", "accuracy", "mean_absolute_error")


class TrainingProgress(keras.callbacks.Callback):
    """Shows one bar for all epochs, with the time left, and a line for each finished epoch.

    Before a training, a bar without steps shows that vocabulary and linear models are learned.
    """

    def __init__(self) -> None:
        super().__init__()
        one_line = Column(no_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", table_column=one_line),
            BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40)),
            _Steps(table_column=one_line),
            _Times(table_column=one_line),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal,  # or there would be an empty line at the end of each bar
        )

    def __enter__(self) -> "TrainingProgress":
        self._show("preparing", None)
        return self

    def __exit__(self, *_: object) -> None:
        # Keras calls no callback when training is interrupted, so the terminal's cursor is restored here.
        self._bar.stop()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        steps, epochs = self._setting("steps") or 0, self._setting("epochs")
        if steps and not console.is_terminal:  # a first epoch without a bar can be minutes of silence
            console.print(f"  steps in an epoch: {steps:,}")
        self._show("compiling", steps * epochs or None)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._bar.update(self._task, advance=1, description="training", figures=_figures(logs or {}))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        parts = [f"{name}: {_figures(shown)}" for name, shown in self._named(logs or {}).items() if shown]
        beginning = f"  epoch {epoch + 1}/{self._setting('epochs')}  "
        line = beginning + "  ".join(parts)
        if console.is_terminal and len(line) > console.width:
            line = beginning + f"\n{' ' * len(beginning)}".join(parts)
        console.print(line, soft_wrap=True)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._show("finishing", None)

    def _show(self, description: str, steps: int | None) -> None:
        """Put a bar in place of the one before."""
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._task = self._bar.add_task(description, total=steps, figures="")
        self._bar.start()

    def _setting(self, name: str) -> Any:
        return (self.params or {}).get(name)

    def _named(self, logs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the figures of an epoch by the name of their rows: training or validation."""
        paths = self.model is not None and has_two_paths(self.model)
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        trained = {name: value for name, value in logs.items() if not name.startswith("val_")}
        names = (
            ("training, attention alone", "validation, both paths") if paths else ("training", "validation")
        )
        if isinstance(getattr(self.model, "loss", None), PairLoss):
            names = ("training, pairs", "validation")
        return dict(zip(names, (trained, validation), strict=True))


class _Steps(ProgressColumn):
    """Number of finished steps and of all steps; empty if there is no number of all."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:,.0f}/{task.total:,.0f} steps")


class _Times(ProgressColumn):
    """The elapsed time and, once it can be estimated from the steps, the remaining time."""

    # Times are shown in whole seconds.
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        elapsed, left = task.elapsed or 0.0, task.time_remaining
        return Text(f"{clock(elapsed)} elapsed" + ("" if left is None else f", {clock(left)} left"))


def _figures(logs: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {logs[name]:.3f}" for name in _FIGURES if name in logs)
