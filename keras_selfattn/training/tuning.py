"""Settings found by trying: one change after the other, each kept if held-out rows are better off."""

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
from keras_selfattn.training.fitting import Fitted, changed, copy_of, fit_watched


@dataclass(frozen=True)
class Trial:
    """One training with some settings changed.

    Args:
        changes: fields of the model's config and of `TrainConfig`, from what was asked for.
        score: what training watches on the validation rows, in its best epoch; None if the time was over
            before the training was, or if its loss was no number.
        seconds: that it took.
    """

    changes: dict[str, Any]
    score: float | None
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """The outcome of a search for settings.

    Args:
        model: of one encoder, trained with the best settings on the rows that were not held out.
        config: how it was trained.
        fitted: what that training found.
        changes: of the settings, from what was asked for.
        trials: all of them, in order; the first changes nothing.
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
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    report: Callable[[str], None] = lambda _line: None,
) -> Tuned:
    """Train a model with the settings given, then with one changed after the other while there is time.

    A change that leaves the validation rows better off is kept, and the next ones come on top of it. Of many
    trials some are better by chance alone: hold some hundreds of rows out.

    Args:
        model: has seen no rows yet, and will see none: copies of it are trained.
        rows: to train on.
        validation: to judge by.
        config: the settings of training to begin with.
        seconds: for all trials but the first, which is trained to its end.
        callbacks: of each training.
        verbose: as in `keras.Model.fit`.
        report: takes a line about each trial.

    Raises:
        TrainingError: if the loss of the first trial became NaN or infinite.
    """

    def trial(changes: dict[str, Any], more: Sequence[keras.callbacks.Callback] = ()) -> Tuned:
        began = time.perf_counter()
        copied, settings = copy_of(model, {"members": 1, **changes}), changed(config, changes)
        fitted = fit_watched(copied, rows, validation, settings, [*callbacks, *more], verbose)
        return Tuned(copied, settings, fitted, changes, [Trial(changes, fitted.score, _since(began))])

    best = trial({})
    trials, end = list(best.trials), time.perf_counter() + seconds
    for change in _possible(model, config):
        if time.perf_counter() >= end:
            break
        report(f"Trying {described(change)}; {best.fitted.watched} is {best.fitted.score:.4f} so far.")
        began, deadline = time.perf_counter(), _Deadline(end)
        try:
            found = trial({**best.changes, **change}, [deadline])
        except TrainingError:  # a learning rate may be too high; the settings before are not
            trials.append(Trial({**best.changes, **change}, None, _since(began)))
            continue
        if deadline.met:
            trials.append(dataclasses.replace(found.trials[0], score=None))
            break
        trials += found.trials
        best = found if found.fitted.beats(best.fitted) else best
    return dataclasses.replace(best, trials=trials)


def _possible(model: RawModel, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the alternatives that change something, and that the other settings allow."""
    found = []
    for change in model.alternatives():
        with suppress(ConfigError):  # a width that the heads asked for do not divide
            if (changed(model.config, change), changed(config, change)) != (model.config, config):
                found.append(change)
    return found


def described(changes: Mapping[str, Any]) -> str:
    """Return changes as a line says them.

    Example:

        >>> described({"width": 256, "wide": False})
        'width 256, wide False'
    """
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "nothing changed"


class _Deadline(keras.callbacks.Callback):
    """Ends a training when the time is over; `met` says whether it did."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end, self.met = end, False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if time.perf_counter() >= self._end and self.model is not None:
            self.model.stop_training = self.met = True


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 1)
