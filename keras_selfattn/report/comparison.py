"""Runs beside each other: figures, curves, classes, and the settings that differ; from their folders."""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.drawing.builders import RATE, metric_of, rows_of
from keras_selfattn.drawing.figures import Chart, Line
from keras_selfattn.drawing.markup import tag
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.report.figure_names import name_in_words, value_in_words
from keras_selfattn.report.history import read_history
from keras_selfattn.report.sections import Page, Section, Table
from keras_selfattn.report.settings import flattened
from keras_selfattn.runs.run_folder import check_run, read_config, read_metrics

_CURVES = 8  # runs with a line of their own
_CLASSES = 20
# Of these a lower value is better.
_LOWER = ("error", "loss", "perplexity", "unfinished", "seconds", "peak_memory_mb")
# Not settings: what a training gives, and what follows from others.
_OUTCOMES = frozenset({"best_epoch", "trained_on", "seconds", "peak_memory_mb", "labels", "trials"})
_NO_FIGURES = frozenset({"rows", "split"})


@dataclass(frozen=True)
class RunFiles:
    """The files of a run folder.

    Args:
        name: its path, as it was given.
        config: settings, data and versions.
        metrics: its figures.
        history: values by name, one for each epoch.
        classes: F1 by the name of the class; nothing of numbers.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]
    history: Mapping[str, Sequence[float]]
    classes: Mapping[str, float]


@dataclass(frozen=True)
class Compared:
    """A figure or a setting of all runs.

    Args:
        name: in words.
        values: as text, one for each run; "" where a run has none.
        best: the places of the best values; nothing of settings.
    """

    name: str
    values: Sequence[str]
    best: frozenset[int] = frozenset()


def read_runs(folders: Sequence[Path]) -> list[RunFiles]:
    """Return the files of run folders that can be compared.

    Raises:
        ConfigError: for fewer than two folders, one that is given twice, or models of different kinds.
        RunError: for a folder that is missing, is not a run, or cannot be read.
    """
    if len(folders) < 2:
        raise ConfigError(
            f"`compare` needs two runs or more. Received {', '.join(map(str, folders)) or 'none'}. Give "
            "another one."
        )
    for place, folder in enumerate(folders):
        check_run(folder)
        if any(folder.samefile(other) for other in folders[:place]):
            raise ConfigError(f"`compare` needs different runs. Received {folder} twice.")
    runs = [_read(folder) for folder in folders]
    kinds = {run.config.get("kind") for run in runs}
    if len(kinds) > 1:
        each = ", ".join(f"{run.name} holds a {run.config.get('kind')}" for run in runs)
        raise ConfigError(f"Runs of different tasks cannot be compared: {each}. Give runs of one task.")
    return runs


def compared_figures(runs: Sequence[RunFiles]) -> list[Compared]:
    """Return the figures of the runs, then the cost of each training."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics if name not in _NO_FIGURES))
    found = [_compared(name, [run.metrics.get(name) for run in runs]) for name in names]
    found += [
        _compared(name, [run.config.get(name) for run in runs])
        for name in ("seconds", "peak_memory_mb", "best_epoch")
    ]
    return [each for each in found if any(each.values)]


def different_settings(runs: Sequence[RunFiles]) -> list[Compared]:
    """Return the settings, the rows and the versions that are not the same in all runs."""
    flat = [flattened({k: v for k, v in run.config.items() if k not in _OUTCOMES}) for run in runs]
    names = dict.fromkeys(name for each in flat for name in each)
    found = []
    for name in names:
        values = ["" if each.get(name) is None else str(each[name]) for each in flat]
        if len(set(values)) > 1:
            found.append(Compared(name.replace("_", " "), values))
    return found


def warning_of_rows(runs: Sequence[RunFiles]) -> str:
    """Return a sentence if the figures are of different rows, or ""."""
    measured = list(map(_measured, runs))
    if len(set(measured)) == 1:
        return ""
    each = "; ".join(f"{run.name}: {said}" for run, said in zip(runs, measured, strict=True))
    return f"The figures are of different rows, which may be why they differ ({each})."


def _measured(run: RunFiles) -> str:
    """Return which rows the figures of a run are of; the seed chooses those held out of the training's."""
    split, data = run.metrics.get("split"), run.config.get("data") or {}
    source, trained = ((data.get(name) or {}).get("source") for name in (split, "train"))
    said = f"{run.metrics.get('rows', 'unknown')} {split or 'unknown'} rows"
    if not source:
        return said
    held_out = split == "validation" and source == trained
    seed = (run.config.get("training") or {}).get("seed")
    return f"{said} of {source}" + (f", held out by seed {seed}" if held_out else "")


def comparison(runs: Sequence[RunFiles]) -> Page:
    """Return the page of runs beside each other."""
    names = [run.name for run in runs]
    figures = [[each.name, *_marked(each)] for each in compared_figures(runs)]
    about = [warning_of_rows(runs)] if warning_of_rows(runs) else []
    sections = [
        Section("Figures", ["The best value is bold.", Table("Figures", ["figure", *names], figures)]),
        Section("Curves", _curves(runs)),
    ]
    classes = _classes(runs)
    if classes:
        title = "Classes whose F1 differs most"
        sections.append(Section(title, [Table(title, ["label", *names, "difference"], classes)]))
    settings = [[each.name, *each.values] for each in different_settings(runs)]
    title = "Settings that differ"
    blocks = [Table(title, ["setting", *names], settings)] if settings else ["All settings are the same."]
    return Page(f"{len(runs)} runs beside each other", about, [], [*sections, Section(title, blocks)])


def _read(folder: Path) -> RunFiles:
    return RunFiles(str(folder), read_config(folder), read_metrics(folder), read_history(folder), _f1(folder))


def _f1(folder: Path) -> dict[str, float]:
    path = folder / "classes.csv"
    if not path.exists():
        return {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {line["label"]: float(line["f1"]) for line in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error!r}. Train the run again.") from error


def _compared(name: str, values: Sequence[Any]) -> Compared:
    """Return a figure of all runs; equal values of all are none the best."""
    known = [value for value in values if _is_figure(value)]
    best: frozenset[int] = frozenset()
    if len(set(known)) > 1 and name != "best_epoch":
        wanted = min(known) if any(part in name for part in _LOWER) else max(known)
        best = frozenset(place for place, value in enumerate(values) if value == wanted)
    shown = [_shown(name, value) if _is_figure(value) else "" for value in values]
    return Compared({"peak_memory_mb": "peak memory, MB"}.get(name, name_in_words(name)), shown, best)


def _shown(name: str, value: float) -> str:
    return f"{value:,.10g}" if name in _OUTCOMES else value_in_words(name, value)


def _is_figure(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # JSON's integers may be larger


def _marked(figure: Compared) -> list[Any]:
    return [tag("b", value) if place in figure.best else value for place, value in enumerate(figure.values)]


def _curves(runs: Sequence[RunFiles]) -> list[Any]:
    """Return a chart for each column of the histories, with a line for each run."""
    shown = runs[:_CURVES]
    names = list(dict.fromkeys(name for run in shown for name in run.history))
    # What is measured on held-out rows first, the loss before others.
    names.sort(key=lambda name: (not name.startswith("val_"), metric_of(name) != "loss"))
    blocks: list[Any] = []
    for name in names:
        lines = [
            Line(run.name, [float(n) for n in range(1, 1 + len(run.history[name]))], run.history[name])
            for run in shown
            if name in run.history
        ]
        metric = metric_of(name).replace("_", " ")
        of_rows = "" if name == RATE else f", {rows_of(name, {name: []})}"
        title = f"{metric[:1].upper()}{metric[1:]}{of_rows}"
        blocks.append(Chart(title, "epoch", metric, lines, whole=True))
    if len(runs) > _CURVES:
        blocks.append(f"The charts have the first {_CURVES} runs: more lines cannot be told apart.")
    return blocks or ["No run has a history."]


def _classes(runs: Sequence[RunFiles]) -> list[list[Any]]:
    """Return the classes of all runs whose F1 differs most, with the F1 in each and the difference."""
    common = [label for label in runs[0].classes if all(label in run.classes for run in runs)]
    rows = []
    for label in common:
        values = [run.classes[label] for run in runs]
        if max(values) > min(values):
            rows.append([label, *values, max(values) - min(values)])
    return sorted(rows, key=lambda row: -row[-1])[:_CLASSES]
