"""The public sets: how to read the files of each, and which rows to train, choose and test on.

The files come from the authors of the sets, or from papers that compare on them; nothing is downloaded. The
names of classes do not matter, so labels are kept as they are written.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import read_table
from keras_selfattn.errors import DataError
from keras_selfattn.tasks import Task

# Folds of a set without its own split; the seed never changes, so that all compare on the same folds.
FOLDS = 10
_FOLD_SEED = 0
# The size of a set in a quick run, which only shows that everything runs.
_QUICK_TRAIN, _QUICK_HELD_OUT, _QUICK_FOLDS = 240, 80, 2


@dataclass(frozen=True)
class Split:
    """One division of a set.

    Args:
        train: rows to learn from.
        dev: rows to choose on; None if the set has none: some of `train` are then used.
        test: rows that are predicted once.
        fold: counted from 0; 0 if the set has one division.
    """

    train: LabelledRows
    dev: LabelledRows | None
    test: LabelledRows
    fold: int = 0


@dataclass(frozen=True)
class DataSet:
    """A public set.

    Args:
        name: its folder.
        task: the name of the task that its rows are for.
        read: from the folder and the task to its splits.
    """

    name: str
    task: str
    read: Callable[[Path, Task], list[Split]]


def shortened(splits: Sequence[Split], seed: int = 0) -> list[Split]:
    """Return at most two folds, with few rows in each part, to see that everything runs."""
    found = []
    for split in splits[:_QUICK_FOLDS]:
        train = _some(split.train, _QUICK_TRAIN, seed)
        known = train.labels()
        dev = None if split.dev is None else _known(_some(split.dev, _QUICK_HELD_OUT, seed), known)
        test = _known(_some(split.test, _QUICK_HELD_OUT, seed), known)
        found.append(Split(train, dev if dev is None or len(dev) else None, test, split.fold))
    return found


def few(split: Split, rows_per_class: int, seed: int) -> Split:
    """Return as many training rows of each class, drawn at random, none to choose on, and all test rows."""
    places: dict[str, list[int]] = {}
    for row in np.random.default_rng(seed).permutation(len(split.train)).tolist():
        drawn = places.setdefault(split.train.targets[row], [])
        if len(drawn) < rows_per_class:
            drawn.append(row)
    train = split.train.take(sorted(row for drawn in places.values() for row in drawn))
    return Split(train, None, split.test, split.fold)


def _some(rows: LabelledRows, count: int, seed: int) -> LabelledRows:
    return rows.take(sorted(np.random.default_rng(seed).permutation(len(rows))[:count].tolist()))


def _known(rows: LabelledRows, known: set[str]) -> LabelledRows:
    """Return the rows whose labels occur in training; few rows of a large set do not have all labels."""
    borne = map(rows.target_kind.labels, rows.targets)
    return rows.take([row for row, labels in enumerate(borne) if set(labels) <= known])


def _lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Return the lines between line feeds: `splitlines` would also split at other characters of Latin-1."""
    try:
        text = path.read_bytes().decode(encoding)
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not {encoding}: byte {error.start} is none of it.") from None
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def _rows(path: Path, pairs: Iterable[tuple[str, str]]) -> LabelledRows:
    """Return rows of labels and texts."""
    labels, texts = [], []
    for number, (label, text) in enumerate(pairs, start=1):
        if not label.strip():
            raise DataError(f"{path}: row {number} has no label.")
        labels.append(label.strip())
        texts.append(text.strip())
    if not texts:
        raise DataError(f"{path} has no rows.")
    return LabelledRows(texts, labels, str(path))


def _label_first(path: Path, encoding: str = "utf-8") -> LabelledRows:
    """Read lines of a label, a blank and a text."""
    parts = (line.partition(" ") for line in _lines(path, encoding))
    return _rows(path, ((label, text) for label, _, text in parts))


def _trec(folder: Path, task: Task) -> list[Split]:
    train, test = (_label_first(folder / f"TREC.{part}.all", "latin-1") for part in ("train", "test"))
    return [Split(train, None, test)]


def _sst2(folder: Path, task: Task) -> list[Split]:
    train, dev, test = (_label_first(folder / f"stsa.binary.{part}") for part in ("train", "dev", "test"))
    return [Split(train, dev, test)]


def _mr(folder: Path, task: Task) -> list[Split]:
    from sklearn.model_selection import StratifiedKFold

    rows = _label_first(folder / "rt-polarity.all", "latin-1")
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=_FOLD_SEED)
    try:
        places = list(folds.split(np.zeros(len(rows)), np.asarray(rows.targets)))
    except ValueError as error:
        raise DataError(f"{rows.source} cannot be divided into {FOLDS} parts: {error}") from None
    return [
        Split(rows.take(train.tolist()), None, rows.take(test.tolist()), fold)
        for fold, (train, test) in enumerate(places)
    ]


def _imdb(folder: Path, task: Task) -> list[Split]:
    """Read lines of a label, an id with the rating, and a review."""
    return [Split(_tabbed(folder / "train.tsv"), None, _tabbed(folder / "test.tsv"))]


def _tabbed(path: Path) -> LabelledRows:
    fields = [line.split("\t", 2) for line in _lines(path)]
    short = next((number for number, each in enumerate(fields, start=1) if len(each) < 3), None)
    if short is not None:
        raise DataError(f"{path}: row {short} has fewer than 3 columns between tabs.")
    return _rows(path, ((label, text) for label, _, text in fields))


def _clinc150(folder: Path, task: Task) -> list[Split]:
    """Read the rows in scope; the rows out of scope are a separate task."""
    path = folder / "data_full.json"
    try:
        parts = json.loads("\n".join(_lines(path)))
        train, dev, test = (
            _rows(path, ((str(label), str(text)) for text, label in parts[part]))
            for part in ("train", "val", "test")
        )
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} does not hold lists of texts and labels: {error!r}") from None
    return [Split(train, dev, test)]


def _banking77(folder: Path, task: Task) -> list[Split]:
    train, test = (read_table(folder / f"{part}.csv", "text", "category") for part in ("train", "test"))
    return [Split(train, None, test)]


def _snips(folder: Path, task: Task) -> list[Split]:
    train, dev, test = (_side_by_side(folder, part) for part in ("train", "valid", "test"))
    return [Split(train, dev, test)]


def _side_by_side(folder: Path, part: str) -> LabelledRows:
    """Read texts and labels from the same lines of two files."""
    path = folder / f"{part}.seq.in"
    texts, labels = _lines(path), _lines(folder / f"{part}.label")
    if len(texts) != len(labels):
        raise DataError(f"{path} has {len(texts)} lines and the labels have {len(labels)}.")
    return _rows(path, zip(labels, texts, strict=True))


def _ucr(folder: Path, task: Task) -> list[Split]:
    train, test = (task.rows(_one(folder, f"*_{part}.t*"), {}) for part in ("TRAIN", "TEST"))
    return [Split(train, None, test)]


def _ud(folder: Path, task: Task) -> list[Split]:
    parts = ("train", "dev", "test")
    train, dev, test = (task.rows(_one(folder, f"*-ud-{part}.conllu"), {}) for part in parts)
    return [Split(train, dev, test)]


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"{folder} has {len(found)} files {pattern}, where one is expected.")
    return found[0]


SETS = (
    DataSet("trec", "text", _trec),
    DataSet("sst2", "text", _sst2),
    DataSet("mr", "text", _mr),
    DataSet("imdb", "text", _imdb),
    DataSet("banking77", "text", _banking77),
    DataSet("clinc150", "text", _clinc150),
    DataSet("snips", "text", _snips),
    DataSet("ud_ewt", "tokens", _ud),
    DataSet("ucr_ECG200", "series", _ucr),
    DataSet("ucr_GunPoint", "series", _ucr),
    DataSet("ucr_ItalyPowerDemand", "series", _ucr),
    DataSet("ucr_SyntheticControl", "series", _ucr),
    DataSet("ucr_JapaneseVowels", "series", _ucr),
)
