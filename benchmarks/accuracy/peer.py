"""Shared parts of all linear peers: how they are fitted, chosen and measured."""

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.sets import Split
from keras_selfattn.data.labelled import LabelledRows, split_rows

_WARM, _TIMED = 5, 50
_ENOUGH = 5.0  # seconds, after which fewer rows are enough


@dataclass(frozen=True)
class Fitted:
    """A peer that has been trained.

    Args:
        name: the name of the chosen model.
        predict: from rows to their predictions.
        state: the objects that would have to be stored.
        seconds: wall and CPU seconds of training, of the chosen model alone.
        choices: the accuracy of each tried model on the rows to choose on.
    """

    name: str
    predict: Callable[[Sequence[Any]], Sequence[Any]]
    state: Any
    seconds: tuple[float, float]
    choices: Mapping[str, float]


@dataclass(frozen=True)
class Peer:
    """A linear model that ours are compared with.

    Args:
        name: its name in results.
        settings: all settings that its figures depend on besides data and seed.
        seeded: True if it draws random numbers; otherwise one seed is enough.
        fit: from a split and a seed.
    """

    name: str
    settings: Mapping[str, Any]
    seeded: bool
    fit: Callable[[Split, int], Fitted]


def choosing(split: Split) -> tuple[LabelledRows, LabelledRows, LabelledRows]:
    """Return rows to train on, rows to choose on, and both. The same rows are held out for our models."""
    if split.dev is None:
        return *split_rows(split.train, 0.1, 0), split.train
    return split.train, split.dev, labelled(split)


def labelled(split: Split) -> LabelledRows:
    """Return all rows but the test rows."""
    if split.dev is None:
        return split.train
    inputs, targets = ([*a, *b] for a, b in _columns(split.train, split.dev))
    return LabelledRows(inputs, targets, split.train.source)


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Return the result of a call, and its seconds: wall time, and CPU time of all CPUs together."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, (time.perf_counter() - wall, time.process_time() - cpu)


def cpu_ms_of_one(predict: Callable[[Sequence[Any]], Any], inputs: Sequence[Any]) -> float:
    """Return the median CPU time of predicting a single row, in milliseconds.

    Args:
        predict: from rows to predictions.
        inputs: rows; the first five warm up, and up to 50 are timed, or fewer if they take over 5 s.
    """
    seconds: list[float] = []
    for given in inputs[: _WARM + _TIMED]:
        seconds.append(timed(lambda given=given: predict([given]))[1][1])
        if sum(seconds) > _ENOUGH:
            break
    return 1000 * float(np.median(seconds[_WARM:] or seconds))


def accuracy(targets: Sequence[Any], found: Sequence[Any]) -> float:
    """Return the share of right predictions; if positions have labels, each position counts alike.

    Example:

        >>> accuracy([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]])
        0.6666666666666666
    """
    if isinstance(targets[0], str):
        right = [true == name for true, name in zip(targets, found, strict=True)]
    else:
        rows = zip(targets, found, strict=True)
        right = [true == name for row in rows for true, name in zip(*row, strict=True)]
    return float(np.mean(right))


def measure_peer(peer: Peer, split: Split, seed: int) -> dict[str, Any]:
    """Train a peer, read the test rows once, and return its figures and the name of the chosen model."""
    fitted = peer.fit(split, seed)
    figures = {
        "accuracy": accuracy(split.test.targets, fitted.predict(split.test.inputs)),
        "seconds": fitted.seconds[0],
        "cpu seconds": fitted.seconds[1],
        "bytes": len(pickle.dumps(fitted.state)),
        "cpu ms of one": cpu_ms_of_one(fitted.predict, split.test.inputs),
    }
    return {"figures": figures, "note": fitted.name, "choices": dict(fitted.choices)}


def _columns(*parts: LabelledRows) -> Any:
    return zip(*((part.inputs, part.targets) for part in parts), strict=True)
