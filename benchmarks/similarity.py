"""`benchmarks similarity`: vectors trained on pairs with scores, by ours and sentence-transformers."""

import importlib.util
import statistics
from pathlib import Path
from typing import Any

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.peers import bi_encoders
from benchmarks.peers.bi_encoders import Pairs, Recipe
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.data.text_groups import read_groups
from keras_selfattn.errors import DataError, TrainingError

_CONTESTANTS = {"ours": bi_encoders.ours, "sentence-transformers": bi_encoders.sentence_transformers}
_NOTES = [
    "Both train the same weights and measure the development rows after each epoch; the best one is kept.",
    "Ours trains as `train --task embedding --from` does; sentence-transformers with its own losses.",
]


def run(
    settings: Settings,
    model: Path,
    data: Path,
    language: str,
    seeds: int,
    recipes: dict[str, Recipe],
    rows: int | None = None,
) -> Table:
    """Return the correlation on the test rows, seconds and memory of each contestant.

    Args:
        settings: of the measurement; the contestants train in turns.
        model: folder of the pretrained encoder.
        data: folder with LANGUAGE-train.csv, -dev.csv and -test.csv: two texts and a score, without a header.
        language: the beginning of these names.
        seeds: how often each contestant trains; figures are medians.
        recipes: how each contestant trains, by its name.
        rows: the most rows of each file; all without it.
    """
    columns: dict[str, Any] = {"text": "1", "text_pair": "2", "label": "3", "has_header": False}
    files = [read_groups(data / f"{language}-{part}.csv", **columns) for part in ("train", "dev", "test")]
    pairs = Pairs(*(each.take(range(min(rows or len(each), len(each)))) for each in files))
    chosen = [name for name in _CONTESTANTS if settings.chosen(language, name)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    skipped: dict[str, str] = {}
    if importlib.util.find_spec("sentence_transformers") is None:
        skipped["sentence-transformers"] = "sentence_transformers is not installed"
    for seed in range(1 if settings.quick else seeds):
        for name in chosen:
            if name not in skipped:
                settings.progress(f"{language}, seed {seed}: {name}")
                asked = (str(model), pairs, seed, recipes[name])
                try:
                    found[name].append(in_own_process(_CONTESTANTS[name], *asked))
                except (DataError, TrainingError, RuntimeError) as error:
                    skipped[name] = str(error)
    return Table([_result(language, name, found[name], skipped.get(name, "")) for name in chosen], _NOTES)


def _result(row: str, name: str, found: list[dict[str, float]], skipped: str) -> Result:
    if skipped:
        return Result(row, name, skipped=skipped)
    figures = {figure: statistics.median(each[figure] for each in found) for figure in found[0]}
    reached = [each["spearman"] for each in found]
    note = f"Spearman {min(reached):.4f} to {max(reached):.4f}" if len(found) > 1 else ""
    return Result(row, name, figures, note)
