"""The run folder: everything about one training, or an imported model, written whole or not at all.

model.keras        the model, with its vocabulary and label names
metrics.json       figures of the task on the held-out rows; rows, split; none of an imported model
config.json        kind of model, its settings and those of the training, data, seed, backend, versions
history.csv        loss, metrics and learning rate of each epoch; beside another path, attention_… are of
                   attention alone, and val_… of both paths
classes.csv        precision, recall, F1 of each class
confusion.csv      for one label a row: rows by label, columns by prediction
errors.csv         of numbers and of texts: figures of the model's answers and of baselines
signatures.csv     of texts: how sacrebleu computed its figures
vocabulary.txt     for texts: one token on each line, in the order of the ids, which begin at 2, or at 0 if
                   the model begins with a pretrained encoder
example.json       a held-out row with its target, for the card of an export; if one is short enough
report.html        all of this as figures and tables; not of an imported model
"""

import csv
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn import __version__
from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import read_corpus
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.files import valid_json
from keras_selfattn.files.atomic import check_target, check_writable, new_directory
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.tasks import TASKS, Task

if TYPE_CHECKING:
    from keras_selfattn.metrics import Report
    from keras_selfattn.models.raw_model import RawModel

_PRETRAINED = "MaskedTokenModel"
# How a table with columns is written; other files have neither.
_OF_TABLES = frozenset({"separator", "has_header"})
_VERSIONED = ("keras", "tensorflow", "numpy", "scikit-learn")
_TABLES = ("history", "classes", "confusion", "errors", "signatures", "spans")
_FILES = frozenset(
    {"model.keras", "metrics.json", "config.json", "vocabulary.txt", "example.json", "report.html"}
    | {f"{name}.csv" for name in _TABLES}
)
_NUMBER = (int, float)
# What is read of config.json by its name, where it is there.
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("model", "training", "data", "versions"), dict),
    **dict.fromkeys(("seconds", "peak_memory_mb", "best_epoch", "trained_on"), _NUMBER),
    "kind": str,
}
_TYPES_OF_ROWS: dict[str, type | tuple[type, ...]] = {"rows": int, "source": str}


def write_run(
    folder: Path,
    model: "RawModel",
    figures: "Report",
    *,
    split: str,
    history: Mapping[str, Sequence[float]],
    settings: Mapping[str, Any],
    example: Mapping[str, Any] | None = None,
) -> None:
    """Write the files of a run into an empty folder.

    Args:
        folder: the folder; `atomic.new_directory` makes it appear whole.
        model: the trained model.
        figures: on the held-out rows.
        split: the name of those rows' split, such as "validation".
        history: values by name, one for each epoch.
        settings: entries for `config.json` besides the model's config, labels and versions.
        example: a row for the card, as JSON types, if there is one.
    """
    _write_model(folder, model, {**figures.summary(), "rows": figures.rows, "split": split}, settings)
    epochs = range(1, 1 + len(next(iter(history.values()), ())))
    _write_csv(folder / "history.csv", ["epoch", *history], zip(epochs, *history.values(), strict=True))
    if example is not None:
        # A lone surrogate, which Python's texts may hold, is invalid in UTF-8.
        text = valid_json.dumps(example, ensure_ascii=False) + "\n"
        (folder / "example.json").write_bytes(text.encode(errors="replace"))
    for name, table in figures.tables().items():
        _write_csv(folder / f"{name}.csv", table.header, table.rows)


def write_imported(folder: Path, model: "RawModel") -> None:
    """Write the files of a model that was trained elsewhere into an empty folder; there is no history.

    Args:
        folder: the folder; `atomic.new_directory` makes it appear whole.
        model: the model.
    """
    _write_model(folder, model, {}, {"training": {}, "data": {}, "reading": {}})


def _write_model(
    folder: Path, model: "RawModel", metrics: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Write a model, its figures, the settings, and its vocabulary."""
    import keras  # here: commands that only check a folder need not wait for it

    from keras_selfattn.models.saving.written_file import write_file

    write_file(model, folder / "model.keras")
    _write_json(folder / "metrics.json", metrics)
    backend = keras.backend.backend()
    versions = {name: version(name) for name in (*_VERSIONED, backend)}
    versions |= {"keras-selfattn": __version__, "python": platform.python_version()}
    labels = getattr(model, "labels", None)
    described = {"kind": type(model).__name__, "model": model.config.summary(), "backend": backend}
    described |= {} if labels is None else {"labels": labels}
    start = getattr(model, "start", None)
    described |= {} if start is None else {"start": start.record}
    _write_json(folder / "config.json", {**described, **settings, "versions": versions})
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is not None:
        # A token may be a line break, so each is written as a JSON string.
        lines = [json.dumps(token, ensure_ascii=False) + "\n" for token in tokenizer.vocabulary]
        (folder / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")


def check_output(target: Path, *, overwrite: bool, resume: bool = False) -> None:
    """Raise RunError if no run folder could be written there; called before reading and training.

    Args:
        target: the run folder.
        overwrite: True replaces an existing run folder.
        resume: True says of an existing one that there is nothing to go on with.
    """
    if resume and not overwrite and (target / "model.keras").is_file():
        raise RunError(
            f"{target} is a run that has ended, so --resume has nothing to go on with. Choose another output "
            "folder, or train anew with --overwrite."
        )
    with writing(target):
        check_target(target, overwrite=overwrite)
        if target.is_dir() and any(target.iterdir()) and not (target / "model.keras").is_file():
            raise RunError(f"{target} is not a run folder, so it is not replaced. Choose another folder.")
        check_writable(target)


def check_no_file_of_run(flag: str, file: Path) -> None:
    """Raise ConfigError if a file, given by a command's flag, is one of a training, in its run folder.

    Example:

        >>> check_no_file_of_run("--report", Path("report.html"))
    """
    place = file.resolve()
    if place.name in _FILES and (place.parent / "model.keras").is_file():
        raise ConfigError(
            f"{flag} must not replace a file of a training. Received {str(file)!r}, which belongs to the run "
            f"{place.parent.name}. Give another name."
        )


@contextmanager
def draft_run(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield the draft of a run folder, created before training so that an unwritable place fails first."""
    check_output(target, overwrite=overwrite)
    with ExitStack() as stack:
        with writing(target):
            draft = stack.enter_context(new_directory(target, overwrite=overwrite))
        # Errors of the training itself, such as in a callback, are raised unchanged.
        yield draft
        with writing(target):
            stack.close()


def data_record(rows: LabelledRows) -> dict[str, Any]:
    """Return the record of rows."""
    return {"source": rows.source, "rows": len(rows)}


def as_json(name: str, value: Any) -> Any:
    """Return settings as JSON types; raise before a training that could not be recorded."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`{name}` must hold what JSON can, such as str and int: {error}.") from error
    return value


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in MB."""
    import resource  # here: Windows has none, and reads run folders

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 10**6


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn errors of the file system into errors that name the run folder."""
    try:
        yield
    except RunError:
        raise
    except FileExistsError as error:
        raise RunError(
            f"{error}. Choose another output folder, or replace a run folder with overwrite (--overwrite)."
        ) from error
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error}.") from error


def load_run(folder: Path) -> "RawModel":
    """Return the model of a run folder.

    Raises:
        RunError: if the folder is missing, is not a run, or its model cannot be read.
    """
    from keras_selfattn.models import load
    from keras_selfattn.models.raw_model import RawModel

    check_run(folder)
    model = load(folder)
    if not isinstance(model, RawModel):
        raise RunError(
            f"{folder / 'model.keras'} holds a {type(model).__name__}, not one of this library's models."
        )
    return model


def task_of_run(folder: Path) -> Task:
    """Return the task of a run folder's model.

    Raises:
        RunError: if the folder is missing, is not a run, or its settings cannot be read.
    """
    check_run(folder)
    config = read_config(folder)
    if "kind" not in config:
        raise RunError(
            f"{folder / 'config.json'} does not say what kind of model it is of: it is damaged, or of an "
            "earlier version of this library, whose models are not read any more. Train the run again."
        )
    if config["kind"] == _PRETRAINED:
        raise RunError(
            f"{folder} is a pretrained model, which names no labels: train a classifier that begins with it, "
            f"with `keras-selfattn train TABLE --from {folder}`."
        )
    found = [task for task in TASKS if task.kind == config["kind"]]
    if not found:
        raise RunError(
            f"{folder / 'config.json'} names a model of kind {config['kind']!r}, which is not known here. "
            f"Known are {', '.join(task.kind for task in TASKS)}."
        )
    return found[0]


def rows_for_run(folder: Path, path: Path, given: Mapping[str, Any]) -> LabelledRows:
    """Return the rows of a file, read like those of the run's training unless `given` says otherwise.

    Raises:
        RunError: as for `task_of_run`.
        ConfigError: for an argument that is not for the task, or not for the file.
        DataError: for a file that cannot be read.
    """
    task = task_of_run(folder)
    reading = read_config(folder).get("reading", {})
    if not (isinstance(reading, dict) and all(task.takes(name, value) for name, value in reading.items())):
        raise RunError(
            f"{folder / 'config.json'} is damaged: `reading` must hold arguments of the task {task.name}, "
            f"{', '.join(task.reading)}. Received {reading!r}. Train the run again."
        )
    reading = task.fitting(path, reading)
    try:
        return task.rows(path, {**reading, **given})
    except ConfigError:  # a file in another format than in training, without its columns
        kept = {name: value for name, value in reading.items() if type(value) is int}
        # Both texts of a pair, both sides of an answer, are so in any format.
        if reading.get("text_pair") is not None or "alternatives" in task.reading:
            kept = {name: value for name, value in reading.items() if name not in _OF_TABLES}
        return task.rows(path, {**kept, **given})


def is_pretrained(folder: Path) -> bool:
    """Return True if a run folder holds a model that was trained on texts without labels.

    Raises:
        RunError: if the folder is missing, is not a run, or its settings cannot be read.
    """
    check_run(folder)
    return read_config(folder).get("kind") == _PRETRAINED


def corpus_for_run(folder: Path, path: Path, given: Mapping[str, Any]) -> list[str]:
    """Return the texts of a file, read like those of a pretraining unless `given` says otherwise.

    Raises:
        ConfigError: for an argument that is not for reading texts.
        DataError: for a file that cannot be read.
    """
    for name in set(given) - {"text", *_OF_TABLES}:
        raise ConfigError(f"`{name}` is not for {folder}, which was pretrained on texts alone. Leave it out.")
    known = read_config(folder).get("reading", {})
    if not isinstance(known, dict):
        raise RunError(
            f"{folder / 'config.json'} is damaged: `reading` must be an object. Received {known!r}."
        )
    taken = {"text", *_OF_TABLES} if ending_of(path) in (".csv", ".tsv") else {"text"}
    reading = {**{name: value for name, value in known.items() if name in taken}, **given}
    return read_corpus(path, **reading)


def check_run(folder: Path) -> None:
    """Raise RunError if there is no run folder."""
    if not folder.exists():
        raise RunError(f"There is no run folder {folder}. Train one with `keras-selfattn train`.")
    if holds_pretrained(folder):
        raise RunError(
            f"{folder} is a pretrained model's folder, not a run folder. Make a run of a classifier of texts "
            f"with `keras-selfattn import {folder} --output RUN`, or train one with `keras-selfattn train "
            f"TABLE --from {folder}`."
        )
    if not (folder / "model.keras").is_file():
        raise RunError(f"{folder} is not a run folder: it holds no model.keras.")


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return the figures in a run folder's `metrics.json`.

    Raises:
        RunError: if it cannot be read, or its rows or split have another type than trainings write.
    """
    path = folder / "metrics.json"
    metrics = _read_json(path)
    _check_types(path, "", metrics, {"rows": int, "split": str})
    return metrics


def read_example(folder: Path) -> Any:
    """Return the row in a run folder's `example.json`, as JSON types; None if there is none.

    Raises:
        RunError: if it cannot be read.
    """
    path = folder / "example.json"
    return _read_json(path).get("input") if path.exists() else None


def read_config(folder: Path) -> dict[str, Any]:
    """Return settings, data and versions in a run folder's `config.json`.

    Raises:
        RunError: if it cannot be read, or a part of it, named in the message, has another type than trainings
            write.
    """
    path = folder / "config.json"
    config = _read_json(path)
    _check_types(path, "", config, _TYPES)
    data = config.get("data") or {}
    _check_types(path, "data: ", data, dict.fromkeys(data, dict))
    for name, part in data.items():
        _check_types(path, f"data: {name}: ", part or {}, _TYPES_OF_ROWS)
    return config


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{path.parent} is not a whole run folder: {path.name} cannot be read: {error}"
        ) from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it must hold a JSON object. Received {content!r:.80}.")
    return content


def _check_types(
    path: Path, before: str, part: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]
) -> None:
    """Raise RunError if a value is of another type, or too large; `before` comes before its name."""
    for name, kind in types.items():
        value = part.get(name)
        if value is None or (isinstance(value, kind) and not _is_too_large(value)):
            continue
        wanted = {dict: "a JSON object", str: "a text"}.get(kind, "a number")  # type: ignore[call-overload]
        raise RunError(
            f"{path} is damaged: `{before}{name}` must be {wanted}. Received {value!r:.80}. "
            "Train the run again."
        )


def _is_too_large(value: Any) -> bool:
    """Return True for an integer, which JSON does not bound, that is no float."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(valid_json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_csv(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
