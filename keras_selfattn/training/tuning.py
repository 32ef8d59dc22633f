"""Search for settings: one change after the other, each kept if held-out rows improve."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import keras

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, TrainingError
from keras_selfattn.models.base import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted, changed, copy_of, fit_monitored


@dataclass(frozen=True)
class Trial:
    """One training with some changed settings.

    Args:
        changes: fields of the model's config and of `TrainConfig` that differ from the given ones.
        score: the monitored metric on the validation rows, with the kept weights; None if the time was over
            before the training, or if its loss became NaN.
        seconds: its duration.
    """

    changes: dict[str, Any]
    score: float | None
    seconds: float


@dataclass(frozen=True)
class Candidate:
    """The outcome of a search for settings.

    Args:
        model: of one encoder, trained with the best settings on the rows that were not held out.
        config: the settings of its training.
        fitted: the outcome of that training.
        changes: the settings that differ from the given ones, by name.
        trials: all trials, in order; the first changes nothing.
    """

    model: RawModel
    config: TrainConfig
    fitted: Fitted
    changes: dict[str, Any]
    trials: list[Trial]


def tuned(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows,
    config: TrainConfig,
    seconds: float,
    *,
    choose_epoch: bool = True,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    report: Callable[[str], None] = lambda _line: None,
) -> Candidate:
    """Train a model with the given settings, then with one change after the other while there is time.

    A change that improves the validation rows is kept for the next trials. Some of many trials are better by
    chance alone: hold out some hundreds of rows.

    Args:
        model: an untrained model; copies of it are trained.
        rows: to train on.
        validation: to compare by.
        config: the initial settings of training.
        seconds: for all trials except the first, which is always finished.
        choose_epoch: as in `fit_monitored`.
        callbacks: of each training.
        verbose: as in `keras.Model.fit`.
        report: called with a line about each trial.

    Raises:
        TrainingError: if the loss of the first trial became NaN or infinite.
    """

    def trial(changes: dict[str, Any], more: Sequence[keras.callbacks.Callback] = ()) -> Candidate:
        began = time.perf_counter()
        copied, settings = copy_of(model, {"members": 1, **changes}), changed(config, changes)
        used = [*callbacks, *more]
        fitted = fit_monitored(copied, rows, validation, settings, used, verbose, choose_epoch=choose_epoch)
        return Candidate(copied, settings, fitted, changes, [Trial(changes, fitted.score, _since(began))])

    best = trial({})
    trials, end = list(best.trials), time.perf_counter() + seconds
    for change in _possible(model, config):
        if time.perf_counter() >= end:
            break
        report(
            f"Trying {changes_in_words(change)}; {best.fitted.monitored} is {best.fitted.score:.4f} so far."
        )
        began, deadline = time.perf_counter(), _Deadline(end)
        try:
            found = trial({**best.changes, **change}, [deadline])
        except TrainingError:  # a learning rate may be too high; the earlier settings are not
            trials.append(Trial({**best.changes, **change}, None, _since(began)))
            continue
        if deadline.met:
            trials.append(dataclasses.replace(found.trials[0], score=None))
            break
        trials += found.trials
        best = found if found.fitted.beats(best.fitted) else best
    return dataclasses.replace(best, trials=trials)


def _possible(model: RawModel, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the alternatives that change something and fit the other settings."""
    found = []
    for change in model.alternatives():
        with suppress(ConfigError):  # a width that the given heads do not divide
            if (changed(model.config, change), changed(config, change)) != (model.config, config):
                found.append(change)
    return found


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Return changes in words.

    Example:

        >>> changes_in_words({"width": 256, "wide": False})
        'width 256, wide False'
    """
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "nothing changed"


class _Deadline(keras.callbacks.Callback):
    """End a training when the time is over; `met` is then True."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end, self.met = end, False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if time.perf_counter() >= self._end and self.model is not None:
            self.model.stop_training = self.met = True


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 1)
