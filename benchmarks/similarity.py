"""`benchmarks similarity`: pairs of texts with scores, learned by ours and by sentence-transformers.

A bi-encoder gives each text a vector, whose cosines are compared; a cross-encoder reads both texts of a pair.
"""

import hashlib
import importlib.util
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.store import Key, Store, data_digest, fingerprint
from benchmarks.peers import bi_encoders, cross_encoders
from benchmarks.peers.measured_training import Pairs, Recipe
from benchmarks.process import one_thread
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.data.text_groups import read_groups
from keras_selfattn.errors import ConfigError, DataError, TrainingError

OURS, PEER = "ours", "sentence-transformers"
KINDS: dict[str, dict[str, Callable[..., dict[str, float]]]] = {
    "bi-encoder": {OURS: bi_encoders.ours, PEER: bi_encoders.sentence_transformers},
    "cross-encoder": {OURS: cross_encoders.ours, PEER: cross_encoders.sentence_transformers},
}
LOSSES = {
    "bi-encoder": {OURS: ("order", "cosine"), PEER: ("order", "cosine")},
    "cross-encoder": {OURS: ("squared error", "cross-entropy"), PEER: ("cross-entropy",)},
}
_PACKAGES = ("numpy", "keras", "tensorflow", "torch", "transformers", "sentence-transformers")
_SOURCES = Path(__file__).resolve().parent.parent
_NOTES = [
    "Each training has one thread. Both train the same weights and measure the development rows after each "
    "epoch; the best one is kept.",
    "Ours trains as `train --task embedding --from` and `train --task score --text-pair --from` do.",
    "sentence-transformers trains with its own losses; the cross-encoder's is binary cross-entropy.",
]


@dataclass(frozen=True)
class Contest:
    """All that a table of this benchmark is of.

    Args:
        model: folder of the pretrained encoder.
        data: folder with LANGUAGE-train.csv, -dev.csv and -test.csv: two texts and a score, without a header.
        language: the beginning of these names.
        seeds: how often each contestant trains; figures are medians.
        recipes: how each contestant trains, by kind and name.
        rows: the most training rows; all without it.
        tested_on: the rows of the figures, "test" or "dev"; settings are chosen on the latter.
    """

    model: Path
    data: Path
    language: str
    seeds: int
    recipes: Mapping[str, Mapping[str, Recipe]]
    rows: int | None = None
    tested_on: str = "test"


def run(settings: Settings, contest: Contest, store: Store | None = None) -> Table:
    """Return the correlations, seconds and memory of each contestant.

    Args:
        settings: of the measurement; the contestants train in turns.
        contest: what is measured.
        store: the known results, which are not measured again; new ones are added.

    Raises:
        ConfigError: for the loss of the other kind.
    """
    _check_losses(contest.recipes)
    pairs = _pairs(contest, settings.quick)
    rows = {kind: f"{contest.language} {kind}" for kind in contest.recipes}
    chosen = [(kind, name) for kind in rows for name in KINDS[kind] if settings.chosen(rows[kind], name)]
    found: dict[tuple[str, str], list[dict[str, float]]] = {each: [] for each in chosen}
    skipped: dict[tuple[str, str], str] = {}
    if importlib.util.find_spec("sentence_transformers") is None:
        skipped = {each: f"{PEER} is not installed" for each in chosen if each[1] == PEER}
    for seed in range(1 if settings.quick else contest.seeds):
        for kind, name in chosen:
            if (kind, name) in skipped:
                continue
            job = _Job(contest, pairs, kind, name, seed)
            try:
                found[kind, name].append(job.figures(settings.progress, store))
            except (DataError, TrainingError, RuntimeError) as error:
                skipped[kind, name] = str(error)
    return Table(
        [_result(rows[each[0]], each[1], found[each], skipped.get(each, "")) for each in chosen], _NOTES
    )


@dataclass(frozen=True)
class _Job:
    """One training of a contestant."""

    contest: Contest
    pairs: Pairs
    kind: str
    name: str
    seed: int

    def figures(self, progress: Callable[[str], None], store: Store | None) -> dict[str, float]:
        """Return the figures of the training, known or measured now."""
        label = f"{self.contest.language} {self.kind}, seed {self.seed}: {self.name}"
        key = None if store is None else self._key()
        row = None if store is None or key is None else store.get(key)
        if row is not None:
            progress(f"{label} (known)")
            return row["figures"]
        progress(label)
        with one_thread():
            asked = (str(self.contest.model), self.pairs, self.seed, self._recipe())
            figures = in_own_process(KINDS[self.kind][self.name], *asked)
        if store is not None and key is not None:
            store.add(key, {"figures": figures, "recipe": asdict(self._recipe())})
        return figures

    def _recipe(self) -> Recipe:
        return self.contest.recipes[self.kind][self.name]

    def _key(self) -> Key:
        # Our defaults are in our sources, those of the peer in the benchmark's.
        sources = ["keras_selfattn", "benchmarks/peers"] if self.name == OURS else ["benchmarks/peers"]
        print_of_it = fingerprint(
            recipe=asdict(self._recipe()),
            data=data_digest(self.pairs),
            model=_digest(self.contest.model),
            sources=[_digest(_SOURCES / each, "*.py") for each in sources],
            versions={name: _version(name) for name in _PACKAGES},
        )
        return Key(f"{self.contest.language} {self.kind}", self.name, self.seed, 0, print_of_it)


def _pairs(contest: Contest, quick: bool) -> Pairs:
    """Return the rows of a contest; a few of each file to see that it runs."""
    columns: dict[str, Any] = {"text": "1", "text_pair": "2", "label": "3", "has_header": False}
    parts = ("train", "dev", contest.tested_on)
    files = [read_groups(contest.data / f"{contest.language}-{part}.csv", **columns) for part in parts]
    most = [contest.rows, None, None] if not quick else [64, 64, 64]
    counts = [min(len(rows), count or len(rows)) for rows, count in zip(files, most, strict=True)]
    # Evenly, since the rows of a file are in the order of their sources.
    chosen = [
        [place * len(rows) // count for place in range(count)]
        for rows, count in zip(files, counts, strict=True)
    ]
    return Pairs(*(rows.take(places) for rows, places in zip(files, chosen, strict=True)))


def _check_losses(recipes: Mapping[str, Mapping[str, Recipe]]) -> None:
    for kind, of_kind in recipes.items():
        for name, recipe in of_kind.items():
            known = LOSSES[kind][name]
            if recipe.loss is not None and recipe.loss not in known:
                raise ConfigError(
                    f"The loss of {name} (--loss, --peer-loss) as a {kind} is {' or '.join(known)}. Received "
                    f"{recipe.loss!r}: measure one kind (--kind) at a time, with its own losses."
                )


def _digest(folder: Path, pattern: str = "*") -> str:
    """Return a digest of the names and contents of the files in a folder."""
    found = hashlib.sha256()
    for file in sorted(each for each in folder.rglob(pattern) if each.is_file()):
        found.update(f"{file.relative_to(folder)}\0".encode())
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _result(row: str, name: str, found: Sequence[Mapping[str, float]], skipped: str) -> Result:
    if skipped:
        return Result(row, name, skipped=skipped)
    figures = {figure: statistics.median(each[figure] for each in found) for figure in found[0]}
    reached = [each["spearman"] for each in found]
    note = f"Spearman {min(reached):.4f} to {max(reached):.4f}" if len(found) > 1 else ""
    return Result(row, name, figures, note)
