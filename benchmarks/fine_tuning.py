"""`benchmarks fine-tuning`: the same pretrained weights fine-tuned on public sets, by ours and on PyTorch."""

import importlib.util
import statistics
from pathlib import Path
from typing import Any

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.sets import SETS, few, shortened
from benchmarks.peers import fine_tuned
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.errors import DataError, TrainingError
from keras_selfattn.tasks import TASKS

_CONTESTANTS = {
    "ours": fine_tuned.ours,
    "transformers on torch": fine_tuned.transformers_on_torch,
    "SetFit": fine_tuned.setfit,
    "logistic regression": fine_tuned.logistic_regression,
}
_NOTES = [
    "Ours trains as `train --from` does: 4 to 20 epochs, n-grams beside it; 1,000 rows or fewer in pairs.",
    "transformers trains 3 epochs (20 on up to 1,000 rows), rate 5e-5, a linear layer on the mean of tokens.",
    "SetFit trains with its defaults, 500 steps at most.",
    "Logistic regression, of scikit-learn with C=1, is of the vectors before fine-tuning.",
]
_NEEDED = {"transformers on torch": ("torch", "transformers"), "SetFit": ("setfit", "datasets")}
_TEXT = next(task for task in TASKS if task.name == "text")


def run(settings: Settings, model: Path, data: Path, seeds: int, rows_per_class: int | None = None) -> Table:
    """Return accuracy, log loss, seconds and memory of each contestant on the sets of texts in a folder.

    Args:
        settings: of the measurement; the contestants train in turns.
        model: folder of the pretrained encoder.
        data: folder that holds a folder for each set.
        seeds: how often each contestant trains on each set; figures are medians.
        rows_per_class: as many training rows of each class, drawn by the seed; all without it.
    """
    results = []
    for known in SETS:
        chosen = [name for name in _CONTESTANTS if settings.chosen(known.name, name)]
        if known.task != _TEXT.name or not chosen or not (data / known.name).is_dir():
            continue
        split = known.read(data / known.name, _TEXT)[0]
        split = shortened([split])[0] if settings.quick else split
        found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
        skipped = {name: missing for name in chosen if (missing := _missing(name))}
        for seed in range(1 if settings.quick else seeds):
            for name in chosen:
                if name not in skipped:
                    settings.progress(f"{known.name}, seed {seed}: {name}")
                    drawn = split if rows_per_class is None else few(split, rows_per_class, seed)
                    _trained(name, (str(model), drawn, seed, settings.quick), found[name], skipped)
        results += [_result(known.name, name, found[name], skipped.get(name, "")) for name in chosen]
    return Table(results, _NOTES)


def _missing(name: str) -> str:
    """Return which package of a contestant is not installed, or ""."""
    missing = [package for package in _NEEDED.get(name, ()) if importlib.util.find_spec(package) is None]
    return f"{missing[0]} is not installed" if missing else ""


def _trained(name: str, arguments: tuple[Any, ...], found: list[Any], skipped: dict[str, str]) -> None:
    try:
        found.append(in_own_process(_CONTESTANTS[name], *arguments))
    except (DataError, TrainingError, RuntimeError) as error:
        skipped[name] = str(error)


def _result(row: str, name: str, found: list[dict[str, float]], skipped: str) -> Result:
    if skipped:
        return Result(row, name, skipped=skipped)
    figures = {figure: statistics.median(each[figure] for each in found) for figure in found[0]}
    accuracies = [each["accuracy"] for each in found]
    note = f"accuracy {min(accuracies):.1%} to {max(accuracies):.1%}" if len(found) > 1 else ""
    return Result(row, name, figures, note)
