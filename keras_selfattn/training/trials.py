"""One trial of a search for settings: what it gives, and its training in this process."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import SelfAttentionError, first_line
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted, fit_monitored
from keras_selfattn.training.processes.model_copies import changed, copy_of


@dataclass(frozen=True)
class Ended:
    """A trial that ended.

    Args:
        changes: its settings.
        seconds: its duration.
        fitted: the outcome of the training; None if it failed.
        reason: why it failed.
        model: returns the trained model.
    """

    changes: dict[str, Any]
    seconds: float
    fitted: Fitted | None = None
    reason: str = ""
    model: Callable[[], RawModel] | None = None


class Trainer(Protocol):
    """Trains trials: each is a model with changed settings."""

    slots: int
    """Trials at a time."""

    def start(self, changes: dict[str, Any]) -> None:
        """Begin a trial; it may wait until `next_ended`."""
        ...

    def next_ended(self, end: float) -> Ended | None:
        """Return a trial that ended, or None if none did until `end`, of the clock `time.perf_counter`.

        Raises:
            SelfAttentionError: if the trial without changes failed.
        """
        ...

    def stop(self) -> None:
        """Give up the trials that have not ended."""
        ...

    def keep(self, trial: Ended) -> Ended:
        """Return a trial, the best so far, with its model at hand; one with a `reason` if it was lost."""
        ...


class OneAtATime:
    """Trains trials in this process.

    Args:
        model: an untrained model; copies of it, with one encoder, are trained.
        rows: to train on.
        validation: to compare by.
        config: the settings of training.
        choose_epoch: as in `fit_monitored`.
        callbacks: of each training.
        verbose: as in `keras.Model.fit`.
    """

    slots = 1

    def __init__(
        self,
        model: RawModel,
        rows: LabelledRows,
        validation: LabelledRows,
        config: TrainConfig,
        *,
        choose_epoch: bool = True,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        verbose: str | int = "auto",
    ) -> None:
        self._model, self._rows, self._config = model, (rows, validation), config
        self._settings = {"verbose": verbose, "choose_epoch": choose_epoch}
        self._callbacks = list(callbacks)
        self._changes: dict[str, Any] = {}

    def start(self, changes: dict[str, Any]) -> None:
        """As in `Trainer`."""
        self._changes = changes

    def next_ended(self, end: float) -> Ended | None:
        """As in `Trainer`; trains."""
        began, deadline, changes = time.perf_counter(), _Deadline(end), self._changes
        try:
            copied, settings = copy_of(self._model, {"members": 1, **changes}), changed(self._config, changes)
            used = {**self._settings, "callbacks": [*self._callbacks, deadline]}
            fitted = fit_monitored(copied, *self._rows, settings, **used)
        except Exception as error:
            if not changes:
                raise
            if _was_interrupted(error):
                raise KeyboardInterrupt from error
            return Ended(changes, time.perf_counter() - began, reason=reason_of(error))
        if deadline.met:
            return None
        return Ended(changes, time.perf_counter() - began, fitted, model=lambda: copied)

    def stop(self) -> None:
        """As in `Trainer`: none goes on by itself."""

    def keep(self, trial: Ended) -> Ended:
        """As in `Trainer`."""
        return trial


def reason_of(error: BaseException) -> str:
    """Return why a training failed: an error of ours in its words, another one with its kind."""
    words = first_line(error)
    kind = type(error).__name__
    return words if isinstance(error, SelfAttentionError) or words == kind else f"{kind}: {words}"


class _Deadline(keras.callbacks.Callback):
    """End a training when the time is over; `met` is then True."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end, self.met = end, False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if time.perf_counter() >= self._end and self.model is not None:
            self.model.stop_training = self.met = True


def _was_interrupted(error: BaseException) -> bool:
    """Return True for an interrupt that TensorFlow's tracing turned into an error of its own."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found is not None or "KeyboardInterrupt" in str(error)
