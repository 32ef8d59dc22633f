"""Search for settings: one change after the other, each kept if held-out rows improve.

The search says what is tried next and keeps the best; a trainer trains it: here, one at a time, or several at
a time on a cluster (`side_by_side`).
"""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, SelfAttentionError, Terminated, first_line
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted, changed, copy_of, fit_with_validation

_CUT = "the time was over"


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


@dataclass(frozen=True)
class Trial:
    """One training with some changed settings.

    Args:
        changes: fields of the model's config and of `TrainConfig` that differ from the given ones.
        score: the monitored metric on the validation rows, with the kept weights; None if the time was over
            before the training, or if it failed.
        seconds: its duration.
        reason: why there is no score; "" if there is one.
    """

    changes: dict[str, Any]
    score: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Candidate:
    """The outcome of a search for settings.

    Args:
        model: of one encoder, trained with the best settings on the rows that were not held out.
        config: the settings of its training.
        fitted: the outcome of that training.
        changes: the settings that differ from the given ones, by name.
        trials: all trials, in the order of their ends; one of them changes nothing.
    """

    model: RawModel
    config: TrainConfig
    fitted: Fitted
    changes: dict[str, Any]
    trials: list[Trial]


@dataclass(frozen=True)
class Limits:
    """The end of a search, whichever comes first.

    Args:
        seconds: for all trials except the first, which is always finished.
        trials: with other settings than the given ones.
    """

    seconds: float = math.inf
    trials: float = math.inf


def tuned(
    model: RawModel,
    config: TrainConfig,
    trainer: Trainer,
    limits: Limits,
    report: Callable[[str], None] = lambda _line: None,
) -> Candidate:
    """Train a model with the given settings, then with one change after the other until a limit.

    A change that improves the validation rows is kept for the next trials. Some of many trials are better by
    chance alone: hold out some hundreds of rows. A trial that fails is recorded. After Ctrl-C the best of the
    finished trials is returned.

    Args:
        model: an untrained model; copies of it are trained.
        config: the initial settings of training.
        trainer: trains.
        limits: the end of the search.
        report: called with a line about each trial.

    Raises:
        SelfAttentionError: if the trial without changes failed.
        KeyboardInterrupt: before that trial ended.
    """
    search = _Search(deque(_possible(model, config)), limits, report)
    try:
        search.run(trainer)
    except KeyboardInterrupt as interrupt:
        if search.best is None or isinstance(interrupt, Terminated):
            raise
        report(
            f"Interrupted: goes on with the best settings so far, {changes_in_words(search.best.changes)}."
        )
    finally:
        trainer.stop()
    best: Any = search.best
    return Candidate(best.model(), changed(config, best.changes), best.fitted, best.changes, search.trials)


@dataclass(frozen=True)
class _Running:
    """A trial that runs: its settings, which are a change on top of a base, and when it began."""

    change: dict[str, Any]
    base: dict[str, Any]
    began: float

    @property
    def changes(self) -> dict[str, Any]:
        return {**self.base, **self.change}


class _Search:
    """The trials so far, the best of them, and the next one."""

    def __init__(self, waiting: deque[dict[str, Any]], limits: Limits, report: Callable[[str], None]) -> None:
        self.best: Ended | None = None
        self.trials: list[Trial] = []
        self._waiting, self._limits, self._report = waiting, limits, report
        self._running: list[_Running] = []
        self._tried: list[dict[str, Any]] = []
        self._scored: list[Ended] = []
        self._early: list[tuple[Ended, _Running]] = []
        self._end = math.inf

    def run(self, trainer: Trainer) -> None:
        """Try until nothing is left, or a limit is met."""
        change: dict[str, Any] | None = {}  # the given settings
        while True:
            while change is not None:
                self._start(trainer, change)
                change = self._next() if len(self._running) < trainer.slots else None
            if not self._running:
                return
            ended = trainer.next_ended(self._end)
            if ended is None:
                cut = [Trial(each.changes, None, _since(each.began), _CUT) for each in self._running]
                self.trials += cut
                return
            place = [each.changes for each in self._running].index(ended.changes)
            self._take(trainer, ended, self._running.pop(place))
            change = self._next()

    def _start(self, trainer: Trainer, change: dict[str, Any]) -> None:
        best = self.best
        if change:
            known = "" if best is None else f"; {_fitted(best).monitored} is {_fitted(best).score:.4f} so far"
            self._report(f"Trying {changes_in_words(change)}{known}.")
        running = _Running(change, {} if best is None else best.changes, time.perf_counter())
        self._tried.append(running.changes)
        self._running.append(running)
        trainer.start(running.changes)

    def _next(self) -> dict[str, Any] | None:
        """Return the next change, of which there is none any more after the limits."""
        if len(self._tried) > self._limits.trials or time.perf_counter() >= self._end:
            return None
        base = {} if self.best is None else self.best.changes
        while self._waiting:
            change = self._waiting.popleft()
            if {**base, **change} not in self._tried:
                return change
        return None

    def _take(self, trainer: Trainer, ended: Ended, was: _Running) -> None:
        """Compare a trial with the best one; one that ended before the given settings did waits for them."""
        if self.best is None and ended.changes:
            self._early.append((ended, was))
            return
        if ended.fitted is not None and (self.best is None or ended.fitted.beats(_fitted(self.best))):
            ended = trainer.keep(ended)
        # Before it can be the best: Ctrl-C may come at any line.
        score = None if ended.fitted is None else ended.fitted.score
        self.trials.append(Trial(ended.changes, score, round(ended.seconds, 1), ended.reason))
        if ended.fitted is not None:
            self._compare(ended, was)
        self._tell(ended)
        if not ended.changes:
            self._end = time.perf_counter() + self._limits.seconds
            for early in self._early:
                self._take(trainer, *early)

    def _tell(self, ended: Ended) -> None:
        fitted, seconds = ended.fitted, round(ended.seconds, 1)
        found = f"failed: {ended.reason}" if fitted is None else f"{fitted.monitored} is {fitted.score:.4f}"
        self._report(f"After {seconds:g} s with {changes_in_words(ended.changes)}: {found.rstrip('.')}.")

    def _compare(self, ended: Ended, was: _Running) -> None:
        """Keep the better of a trial and the best one.

        If another trial became the best while this one ran, and both improved, both are tried together.
        """
        before, fitted = self.best, _fitted(ended)
        self._scored.append(dataclasses.replace(ended, model=None))
        outrun = before is not None and before.changes != was.base
        if before is None or fitted.beats(_fitted(before)):
            self.best = ended
            if outrun and before is not None:
                changes = before.changes.items()
                self._waiting.appendleft({k: v for k, v in changes if ended.changes.get(k) != v})
        elif outrun:
            base = next(each for each in self._scored if each.changes == was.base)
            if fitted.beats(_fitted(base)):
                self._waiting.appendleft(was.change)


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


def _fitted(trial: Ended) -> Fitted:
    assert trial.fitted is not None
    return trial.fitted


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 1)


class OneAtATime:
    """Trains trials in this process.

    Args:
        model: an untrained model; copies of it, with one encoder, are trained.
        rows: to train on.
        validation: to compare by.
        config: the settings of training.
        choose_epoch: as in `fit_with_validation`.
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
            fitted = fit_with_validation(copied, *self._rows, settings, **used)
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
