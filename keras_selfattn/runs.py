"""The run folder: everything about one training, written whole or not at all.

model.keras        the model, with its vocabulary and label names
metrics.json       figures on the rows held out: accuracy, macro_f1, rows, split
config.json        model and training settings, data, seed, versions
history.csv        loss and accuracy of each epoch
classes.csv        precision, recall, F1 of each class
confusion.csv      rows by label, columns by prediction
vocabulary.txt     one token a line, in the order of the ids from 2 on
"""

import csv
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from keras_selfattn import __version__
from keras_selfattn.errors import RunError
from keras_selfattn.metrics import Report
from keras_selfattn.models import TextClassifier, load

_VERSIONED = ("keras", "tensorflow", "numpy", "scikit-learn")


def write_run(
    folder: Path,
    model: TextClassifier,
    figures: Report,
    *,
    split: str,
    history: Mapping[str, Sequence[float]],
    settings: Mapping[str, Any],
) -> None:
    """Writes the files of a run into an empty folder.

    Args:
        folder: where; `atomic.new_directory` makes it appear whole.
        model: the trained model.
        figures: on the rows held out.
        split: what those rows were, such as "validation".
        history: values by name, one an epoch.
        settings: what `config.json` records besides the model's config, labels and versions.
    """
    model.save(folder / "model.keras")
    metrics = {
        "accuracy": figures.accuracy,
        "macro_f1": figures.macro_f1,
        "rows": figures.rows,
        "split": split,
    }
    _write_json(folder / "metrics.json", metrics)
    versions = {name: version(name) for name in _VERSIONED}
    versions |= {"keras-selfattn": __version__, "python": platform.python_version()}
    config = {"model": model.config.to_dict(), "labels": model.labels, **settings, "versions": versions}
    _write_json(folder / "config.json", config)
    epochs = range(1, 1 + len(next(iter(history.values()), ())))
    _write_csv(folder / "history.csv", ["epoch", *history], zip(epochs, *history.values(), strict=True))
    rows = [(c.label, c.precision, c.recall, c.f1, c.rows) for c in figures.classes]
    _write_csv(folder / "classes.csv", ["label", "precision", "recall", "f1", "rows"], rows)
    by_label = [
        (c.label, *counts) for c, counts in zip(figures.classes, figures.confusion.tolist(), strict=True)
    ]
    _write_csv(folder / "confusion.csv", ["label", *model.labels], by_label)
    tokens = [] if model.tokenizer is None else model.tokenizer.vocabulary
    # A token may be a line break itself, so each is written as a JSON string.
    lines = [json.dumps(token, ensure_ascii=False) + "\n" for token in tokens]
    (folder / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")


def load_run(folder: Path) -> TextClassifier:
    """Returns the model of a run folder.

    Raises:
        RunError: if the folder is missing, is no run, or its model cannot be read.
    """
    if not folder.exists():
        raise RunError(f"There is no run folder {folder}. Train one with `keras-selfattn train`.")
    if not (folder / "model.keras").is_file():
        raise RunError(f"{folder} is not a run folder: it holds no model.keras.")
    model = load(folder)
    if not isinstance(model, TextClassifier):
        raise RunError(f"{folder / 'model.keras'} holds a {type(model).__name__}, not a TextClassifier.")
    return model


def read_metrics(folder: Path) -> dict[str, Any]:
    """Returns the figures in a run folder's `metrics.json`.

    Raises:
        RunError: if it cannot be read.
    """
    return _read_json(folder / "metrics.json")


def read_config(folder: Path) -> dict[str, Any]:
    """Returns settings, data and versions in a run folder's `config.json`.

    Raises:
        RunError: if it cannot be read.
    """
    return _read_json(folder / "config.json")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path.parent} is not a whole run folder: {path.name} cannot be read: {error}"
        ) from error


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_csv(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
