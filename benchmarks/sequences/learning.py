"""`benchmarks sequences`: models from texts to texts: tasks known exactly, pronunciations, translations."""

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
from benchmarks.peers import sequence_models, torch_sequences
from benchmarks.peers.sequence_models import SequenceRows
from benchmarks.process import one_thread
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from benchmarks.sequences.exact_tasks import EXACT_TASKS, Row, exact_rows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.text_answers import read_answers
from keras_selfattn.errors import DataError, TrainingError

FIGURE = "test exact"  # of every result
_BLEU = "test BLEU"  # of sentences, few of which are exact
POSITIONS = ("sinusoidal", "rotary", "alibi", "t5", "shaw")
PRONUNCIATIONS = "cmudict"
TRANSLATIONS = "multi30k"
_TRAIN, _TEST = 20_000, 2_000
_QUICK = 64
# Every row has one right answer, and the model sees each kind of row often: nothing to drop.
_EXACT = {"tokens": "characters", "width": 128, "num_layers": 2, "decoder_layers": 2, "dropout": 0.0}
_STEPS = {"batch_size": 64, "learning_rate": 2e-3}
_EXACT_EPOCHS = {"dates": 8, "numbers": 9, "reversal": 8}
# 115,000 short rows: a narrow model, in batches of 128 rows of some 16 symbols each.
_SPELLING = {"tokens": "words", "width": 128, "decoder_layers": 2, "dropout": 0.0}
_SHORT_ROWS = {"batch_size": 128, "learning_rate": 2e-3, "epochs": 7}
# An hour of one thread: 5,448 steps. `patience` never ends it, because the peer has no such rule.
_TRANSLATION = {"tokens": "pieces", "width": 256, "num_layers": 3, "decoder_layers": 3}
_SENTENCES = {"epochs": 12, "patience": 1000}
# `train` searches for the answers to at most so many rows after an epoch; the peer is to see the same ones.
_DEVELOPMENT = 500
_PARTS = "train", "val", "test_2016_flickr"
_NOTES = [
    "Trainings have one thread, but ours of pronunciations all cores. Longer rows are of 8 and 9 digits "
    "where 1 to 7 are learned, and of 41 to 50 characters where 1 to 40 are; dates have none.",
    "An answer is exact if it equals a right one; symbols are what stands between blanks. Of pronunciations "
    "the word error rate is 1 less the exact ones, and the phoneme error rate is the errors by symbol.",
]
_NOTES_OF_SENTENCES = [
    "Translations: torch's layers have the pieces, first weights, batches, loss, AdamW with its rates, "
    "dropout and epochs of ours, and one thread as ours. Both keep the epoch whose answers to 500 "
    "development rows have the least character error rate. torch's weights are then copied to our model: one "
    "search answers for both, greedily and with 4 beams. So the memory of torch's includes our search.",
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
    needs: tuple[str, ...] = ()  # modules
    seeded: bool = True

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
    """Return the figures of each contestant's answers, medians over seeds.

    Args:
        settings: of the measurement.
        data: folder with the folders `cmudict` and `multi30k`; None leaves both out.
        seeds: trainings of each contestant.
        epochs: of ours and of torch's, at most; None for those of each task.
        store: the known results, which are not measured again; new ones are added.
    """
    given = {} if epochs is None else {"epochs": epochs}
    results, notes = [], list(_NOTES)
    for name, jobs in _jobs(data).items():
        chosen = [job for job in jobs if settings.chosen(name, job.contestant)]
        if not chosen:
            continue
        try:
            rows = _rows(name, data, settings.quick)
        except DataError as error:
            results += [Result(name, job.contestant, skipped=str(error)) for job in chosen]
            continue
        notes += _notes_of(rows)
        for job in chosen:
            results.append(_measured(job, rows, given, 1 if settings.quick else seeds, settings, store))
    return Table(results, notes)


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
            _Job(
                PRONUNCIATIONS,
                "Phonetisaurus",
                sequence_models.phonetisaurus,
                needs=("phonetisaurus",),
                seeded=False,
            ),
        ]
        translate = {"config": _TRANSLATION, "training": _SENTENCES, "beams": (4,)}
        found[TRANSLATIONS] = [
            _Job(TRANSLATIONS, "ours", ours, **translate, needs=("sacrebleu",)),
            _Job(
                TRANSLATIONS,
                "nn.Transformer on torch",
                torch_sequences.torch,
                **translate,
                needs=("torch", "sacrebleu"),
            ),
        ]
    return found


def _notes_of(rows: SequenceRows) -> list[str]:
    """Return the notes above a table of sentences, with the signatures of their figures; else none."""
    if not rows.sentences or importlib.util.find_spec("sacrebleu") is None:
        return []
    metrics = sequence_models.corpus_metrics(rows.test["test"])
    signatures = [f"{name} {each.get_signature()}" for name, each in metrics.items()]
    return [*_NOTES_OF_SENTENCES, f"sacrebleu's signatures: {'; '.join(signatures)}."]


def _measured(
    job: _Job,
    rows: SequenceRows,
    given: Mapping[str, Any],
    seeds: int,
    settings: Settings,
    store: Store | None,
) -> Result:
    for module in job.needs:
        if importlib.util.find_spec(module) is None:
            return Result(job.set, job.contestant, skipped=f"{module} is not installed")
    found = []
    for seed in range(seeds if job.seeded else 1):
        settings.progress(f"{job.set}, seed {seed}: {job.contestant}")
        try:
            found.append(job.figures(rows, given, seed, store))
        except (DataError, TrainingError, RuntimeError) as error:
            return Result(job.set, job.contestant, skipped=str(error))
    medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
    return Result(job.set, job.contestant, medians, _between(found))


def _between(found: Sequence[Mapping[str, float]]) -> str:
    """Return the lowest and the highest main figure of several trainings, in words."""
    if len(found) < 2:
        return ""
    if _BLEU in found[0]:
        reached = [each[_BLEU] for each in found]
        return f"BLEU {min(reached):.1f} to {max(reached):.1f}"
    reached = [each[FIGURE] for each in found]
    return f"exact {min(reached):.2%} to {max(reached):.2%}"


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
    if name == TRANSLATIONS:
        return _translations(data / name, most)
    train, development, test = (
        spelled(read_answers(data / name / f"{part}.tsv.gz", "word", "phonemes", alternatives), most)
        for part, alternatives in (("train", None), ("valid", "|"), ("test", "|"))
    )
    return SequenceRows(train, development, {"test": test})


def _translations(folder: Path, most: int | None) -> SequenceRows:
    """Return English captions with the German ones, of each part at most so many."""
    parts = [read_answers(folder / f"{part}.en.gz", target=".de") for part in _PARTS]
    train, development, test = (rows.take(range(len(rows))[:most]) for rows in parts)
    spread = range(0, len(development), max(1, len(development) // _DEVELOPMENT))
    return SequenceRows(train, development.take(spread[:_DEVELOPMENT]), {"test": test}, sentences=True)


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
