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
    """Shows one bar for all epochs, with the time left, and a line for each finished epoch."""

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
        return self

    def __exit__(self, *_: object) -> None:
        # Keras calls no callback when training is interrupted; the terminal's cursor comes back here.
        self._bar.stop()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        steps = (self._setting("steps") or 0) * self._setting("epochs")
        self._task = self._bar.add_task("compiling", total=steps or None, figures="")
        self._bar.start()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._bar.update(self._task, advance=1, description="training", figures=_figures(logs or {}))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        console.print(f"  epoch {epoch + 1}/{self._setting('epochs')}  {_figures(logs or {})}")

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._bar.stop()

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
