"""A progress bar over a whole training, as a Keras callback."""

from typing import Any

import keras
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from keras_selfattn.cli.console import console


class TrainingProgress(keras.callbacks.Callback):
    """Shows one bar for all epochs, with the time left, and a line for each finished epoch.

    Before a training there is a bar that says what is learned without steps: vocabulary and linear models.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
        )

    def __enter__(self) -> "TrainingProgress":
        self._show("preparing", None)
        return self

    def __exit__(self, *_: object) -> None:
        # Keras calls no callback when training is interrupted; the terminal's cursor comes back here.
        self._bar.stop()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        steps = (self._setting("steps") or 0) * self._setting("epochs")
        self._show("compiling", steps or None)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._bar.update(self._task, advance=1, description="training", figures=_figures(logs or {}))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        console.print(f"  epoch {epoch + 1}/{self._setting('epochs')}  {_figures(logs or {})}")

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._show("finishing", None)

    def _show(self, description: str, steps: int | None) -> None:
        """Puts a bar in place of the one before."""
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._task = self._bar.add_task(description, total=steps, figures="")
        self._bar.start()

    def _setting(self, name: str) -> Any:
        return (self.params or {}).get(name)


def _figures(logs: dict[str, Any]) -> str:
    names = {
        "loss": "loss",
        "accuracy": "accuracy",
        "val_loss": "validation loss",
        "val_accuracy": "accuracy",
    }
    return "  ".join(f"{shown} {logs[name]:.3f}" for name, shown in names.items() if name in logs)
