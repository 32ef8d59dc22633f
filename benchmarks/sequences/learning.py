"""`benchmarks sequences`: what models from texts to texts learn: tasks known exactly, and pronunciations."""

import importlib.util
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.store import Key, Store, data_digest, fingerprint
from benchmarks.machine import versions
from benchmarks.peers import sequence_models
from benchmarks.peers.sequence_models import SequenceRows
from benchmarks.process import one_thread
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from benchmarks.sequences.exact_tasks import EXACT_TASKS, Row, exact_rows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.text_answers import read_answers
from keras_selfattn.errors import DataError, TrainingError

FIGURE = "test exact"  # of every result
POSITIONS = ("sinusoidal", "rotary", "alibi", "t5", "shaw")
PRONUNCIATIONS = "cmudict"
_TRAIN, _TEST = 20_000, 2_000
_QUICK = 64
# Every row has one right answer, and the model sees each kind of row often: nothing to drop.
_EXACT = {"tokens": "characters", "width": 128, "num_layers": 2, "decoder_layers": 2, "dropout": 0.0}
_STEPS = {"batch_size": 64, "learning_rate": 2e-3}
_EXACT_EPOCHS = {"dates": 8, "numbers": 6, "reversal": 8}
# 115,000 short rows: a narrow model, in batches of 128 rows of some 16 symbols each.
_SPELLING = {"tokens": "words", "width": 128, "decoder_layers": 2, "dropout": 0.0}
_SHORT_ROWS = {"batch_size": 128, "learning_rate": 2e-3, "epochs": 7}
_NOTES = [
    "Trainings of the exact tasks have one thread, those of pronunciations all cores. Longer rows are of 8 "
    "and 9 digits where 1 to 7 are learned, and of 41 to 50 characters where 1 to 40 are; dates have none.",
    "An answer is exact if it equals a right one; symbols are what stands between blanks. Of pronunciations "
    "the word error rate is 1 less the exact ones, and the phoneme error rate is the errors by symbol.",
]


@dataclass(frozen=True)
class _Job:
    """One training of a contestant on a set."""

    set: str
    contestant: str
    train: Callable[..., dict[str, float]]
    config: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    beams: tuple[int, ...] = ()
    threads: int | None = 1  # None for as many as there are cores

    def figures(
        self, rows: SequenceRows, given: Mapping[str, Any], seed: int, store: Store | None
    ) -> dict[str, float]:
        """Return the figures of the training, known or measured now."""
        given = {**self.training, **given}
        parts = [rows.train, rows.development, *rows.test.values()]
        configuration = fingerprint(
            config=dict(self.config), given=given, data=data_digest(parts), versions=versions()
        )
        key = Key(self.set, self.contestant, seed, 0, configuration)
        known = None if store is None else store.get(key)
        if known is not None:
            return known["figures"]
        folder = None if store is None else store.folder(key)
        arguments = rows, dict(self.config), given, seed, self.beams, folder
        with one_thread() if self.threads == 1 else nullcontext():
            found = in_own_process(self.train, *arguments)
        if store is not None and folder is not None:
            store.add(key, {"figures": found, "given": given})
            shutil.rmtree(folder)
        return found


def run(
    settings: Settings,
    data: Path | None,
    seeds: int,
    epochs: int | None,
    store: Store | None = None,
) -> Table:
    """Return the exact answers of each contestant, medians over seeds.

    Args:
        settings: of the measurement.
        data: folder with the folder `cmudict`; None leaves it out.
        seeds: trainings of each contestant.
        epochs: of ours, at most; None for those of each task.
        store: the known results, which are not measured again; new ones are added.
    """
    given = {} if epochs is None else {"epochs": epochs}
    results = []
    for name, jobs in _jobs(data).items():
        chosen = [job for job in jobs if settings.chosen(name, job.contestant)]
        rows = _rows(name, data, settings.quick) if chosen else None
        for job in chosen:
            assert rows is not None
            results.append(_measured(job, rows, given, 1 if settings.quick else seeds, settings, store))
    return Table(results, _NOTES)


def _jobs(data: Path | None) -> dict[str, list[_Job]]:
    ours = sequence_models.ours
    found = {
        task: [
            _Job(task, position, ours, {**_EXACT, "position": position}, {**_STEPS, "epochs": epochs})
            for position in POSITIONS
        ]
        for task, epochs in _EXACT_EPOCHS.items()
    }
    if data is not None:
        found[PRONUNCIATIONS] = [
            _Job(PRONUNCIATIONS, "ours", ours, _SPELLING, _SHORT_ROWS, beams=(4,), threads=None),
            _Job(PRONUNCIATIONS, "Phonetisaurus", sequence_models.phonetisaurus),
        ]
    return found


def _measured(
    job: _Job,
    rows: SequenceRows,
    given: Mapping[str, Any],
    seeds: int,
    settings: Settings,
    store: Store | None,
) -> Result:
    if job.train is sequence_models.phonetisaurus:
        seeds = 1
        if importlib.util.find_spec("phonetisaurus") is None:
            return Result(job.set, job.contestant, skipped="phonetisaurus is not installed")
    found = []
    for seed in range(seeds):
        settings.progress(f"{job.set}, seed {seed}: {job.contestant}")
        try:
            found.append(job.figures(rows, given, seed, store))
        except (DataError, TrainingError, RuntimeError) as error:
            return Result(job.set, job.contestant, skipped=str(error))
    medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
    reached = [each[FIGURE] for each in found]
    note = f"exact {min(reached):.2%} to {max(reached):.2%}" if len(found) > 1 else ""
    return Result(job.set, job.contestant, medians, note)


def _rows(name: str, data: Path | None, quick: bool) -> SequenceRows:
    """Return the rows of a set; a few to see that it runs."""
    if name in EXACT_TASKS:
        rows = exact_rows(name, _QUICK if quick else _TRAIN, _QUICK if quick else _TEST)
        test = {"test": labelled(rows.test, name)}
        return SequenceRows(
            labelled(rows.train, name),
            None,
            test if not rows.longer else {**test, "longer": labelled(rows.longer, name)},
        )
    assert data is not None
    most = _QUICK if quick else None
    train, development, test = (
        spelled(read_answers(data / name / f"{part}.tsv.gz", "word", "phonemes", alternatives), most)
        for part, alternatives in (("train", None), ("valid", "|"), ("test", "|"))
    )
    return SequenceRows(train, development, {"test": test})


def labelled(rows: Sequence[Row], source: str) -> LabelledRows:
    """Return rows of one right answer each."""
    return LabelledRows([text for text, _ in rows], [(answer,) for _, answer in rows], source)


def spelled(rows: LabelledRows, most: int | None = None) -> LabelledRows:
    """Return the first rows with blanks between the letters of sources: symbols, as phonemes are.

    Example:

        >>> spelled(LabelledRows(["hi"], [("HH AY1",)], "made up")).inputs
        ['h i']
    """
    return LabelledRows(
        [" ".join(word) for word in rows.inputs[:most]], list(rows.targets[:most]), rows.source
    )
