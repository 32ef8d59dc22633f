"""Search for settings: one change after the other, each kept if held-out rows improve.

The search says what is tried next and keeps the best; a trainer trains it: here, one at a time, or several at
a time on a cluster (`side_by_side`).
"""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from keras_selfattn.errors import ConfigError, Terminated
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted
from keras_selfattn.training.processes.model_copies import changed
from keras_selfattn.training.trials import Ended, Trainer

_CUT = "the time was over"


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
