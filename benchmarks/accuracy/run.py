"""Train all contestants on all sets, one row of results after the other, without the rows already known."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.accuracy import kernels, linear_models, ours, tagging
from benchmarks.accuracy.peer import Peer, measure_peer
from benchmarks.accuracy.sets import SETS, DataSet, Split, shortened
from benchmarks.accuracy.store import Key, Store, data_digest, fingerprint
from keras_selfattn import __version__
from keras_selfattn.errors import ConfigError, DataError, TrainingError
from keras_selfattn.tasks import Task, task_named

PEERS: dict[str, Peer] = {"text": linear_models.PEER, "series": kernels.PEER, "tokens": tagging.PEER}
# Packages whose version may change figures, besides our own.
_OURS_ON, _PEERS_ON = ("keras", "tensorflow", "numpy"), ("scikit-learn", "numpy")


@dataclass(frozen=True)
class Job:
    """A row of results that is wanted.

    Args:
        key: the row's key.
        measure: trains; returns figures, a note and the choices.
    """

    key: Key
    measure: Callable[[], dict[str, Any]]


@dataclass
class SetResult:
    """Facts about a set.

    Args:
        name: of the set.
        train_rows: the number of rows to learn from, including those to choose on.
        test_rows: the number of test rows, in all folds together.
        wanted: the number of rows of results.
        rows: the rows of results that are there.
    """

    name: str
    train_rows: int
    test_rows: int
    wanted: int
    rows: list[dict[str, Any]]


@dataclass
class Outcome:
    """The outcome of a run: results by set, and the reasons for skipped sets and rows, by name."""

    sets: list[SetResult]
    skipped: dict[str, str]


def run(
    folder: Path,
    store: Store,
    *,
    only: Sequence[str] = (),
    seeds: int = 3,
    quick: bool = False,
    progress: Callable[[str], None],
    after_set: Callable[[Outcome], None],
) -> Outcome:
    """Measure all rows that are not in the store yet.

    Args:
        folder: holds a folder for each set.
        store: the known rows; new rows are added.
        only: texts, one of which must be in the name of a set; all sets if empty.
        seeds: the number of trainings of ours, with seeds from 0 on.
        quick: True if few rows and epochs are enough.
        progress: takes a line for each row.
        after_set: takes the outcome so far, after each set.

    Raises:
        ConfigError: if no set is selected.
        DataError: if there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. Give the one that holds a folder for each set.")
    chosen = [each for each in SETS if not only or any(text in each.name for text in only)]
    if not chosen:
        names = ", ".join(each.name for each in SETS)
        raise ConfigError(f"No set has {' or '.join(map(repr, only))} in its name. The sets are {names}.")
    outcome = Outcome([], {})
    for each in chosen:
        task = task_named(each.task, folder)
        splits = _splits(each, task, folder, quick, outcome.skipped)
        if splits is None:
            progress(f"{each.name}: skipped, {outcome.skipped[each.name]}")
            continue
        jobs = list(jobs_of(each, task, splits, seeds, quick))
        result = SetResult(each.name, _train_rows(splits), sum(len(s.test) for s in splits), len(jobs), [])
        outcome.sets.append(result)
        for job in jobs:
            row = _measured(job, store, progress, outcome.skipped)
            if row is not None:
                result.rows.append(row)
        after_set(outcome)
    return outcome


def jobs_of(data: DataSet, task: Task, splits: Sequence[Split], seeds: int, quick: bool) -> Iterator[Job]:
    """Yield the wanted rows of a set, the quick linear ones first."""
    peer = PEERS[data.task]
    digests = [data_digest([split.train, split.dev, split.test]) for split in splits]
    for seed in range(seeds if peer.seeded else 1):
        for split, digest in zip(splits, digests, strict=True):
            print_of_it = fingerprint(**peer.settings, data=digest, versions=_versions(_PEERS_ON))
            key = Key(data.name, peer.name, seed, split.fold, print_of_it)
            yield Job(key, partial(measure_peer, peer, split, seed))
    for seed in range(seeds):
        for split, digest in zip(splits, digests, strict=True):
            settings = ours.settings_of(task, split, quick=quick)
            print_of_it = fingerprint(**settings, data=digest, versions=_versions(_OURS_ON))
            key = Key(data.name, ours.NAME, seed, split.fold, print_of_it)
            yield Job(key, partial(ours.measure_ours, task, split, seed, quick=quick))


def _splits(
    data: DataSet, task: Task, folder: Path, quick: bool, skipped: dict[str, str]
) -> list[Split] | None:
    """Return the splits of a set; if it cannot be read, put the reason into `skipped`."""
    if not (folder / data.name).is_dir():
        skipped[data.name] = f"there is no folder {folder / data.name}"
    else:
        try:
            splits = data.read(folder / data.name, task)
            return shortened(splits) if quick else splits
        except DataError as error:
            skipped[data.name] = str(error)
    return None


def _measured(
    job: Job, store: Store, progress: Callable[[str], None], skipped: dict[str, str]
) -> dict[str, Any] | None:
    """Return the row of a job, known or measured now. If training fails, None; `skipped` gets the reason."""
    key = job.key
    name = f"{key.set}  {key.contestant}  seed {key.seed}" + (f", fold {key.fold}" if key.fold else "")
    row = store.get(key)
    if row is not None:
        progress(f"{name}: {_shown(row)}  (known)")
        return row
    try:
        row = store.add(key, job.measure())
    except (DataError, TrainingError) as error:
        skipped[name] = str(error)
        progress(f"{name}: failed, {error}")
        return None
    progress(f"{name}: {_shown(row)}")
    return row


def _shown(row: dict[str, Any]) -> str:
    figures = row["figures"]
    return f"{figures['accuracy']:.1%} in {figures['seconds']:,.1f} s, {row['note']}"


def _train_rows(splits: Sequence[Split]) -> int:
    first = splits[0]
    return len(first.train) + (0 if first.dev is None else len(first.dev))


def _versions(packages: Sequence[str]) -> dict[str, str]:
    return {name: version(name) for name in packages} | {"keras-selfattn": __version__}
