"""From labelled rows to a run folder: one function."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_selfattn.atomic import new_directory
from keras_selfattn.data.labelled import LabelledRows, check_labels, label_names
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.fitting import copy_of, epochs_again, fit_again, fit_watched, members_of
from keras_selfattn.metrics import Report, report_of
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.config import is_number
from keras_selfattn.models.heads import Head
from keras_selfattn.runs import write_run
from keras_selfattn.train_config import TrainConfig
from keras_selfattn.tuning import Tuned, tuned

# Rows at once when predicting: enough to fill the cores, few enough to bound memory.
_PREDICT_BATCH = 256


@dataclass(frozen=True)
class Run:
    """What a training left.

    Args:
        path: the run folder.
        model: with the weights of the epoch that was best on the validation rows; or trained again with
            nothing watched, on all rows or, of several encoders, on those that were not held out.
        figures: on the rows held out, of a model that was not trained on them.
        best_epoch: that epoch, counted from 1.
        seconds: of vocabulary and training.
        rows: that the weights were trained on.
        again: whether the model was trained again.
        epochs: that the weights were trained for: as were best, or all where too few rows told which was.
        changes: settings that tuning found to be better than those asked for.
    """

    path: Path
    model: RawModel
    figures: Report
    best_epoch: int
    seconds: float
    rows: int
    again: bool
    epochs: int
    changes: dict[str, Any]


def train(
    rows: LabelledRows,
    output: str | Path,
    *,
    model: RawModel | None = None,
    config: TrainConfig | None = None,
    validation: LabelledRows | None = None,
    test: LabelledRows | None = None,
    reading: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    tune: float = 0.0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    report: Callable[[str], None] = lambda _line: None,
) -> Run:
    """Trains a model of raw rows and writes its run folder.

    Args:
        rows: training rows, whatever their containers; a share of them is held out for validation if none are
            given, and trained on afterwards where `config.refit` says so.
        output: the run folder; it appears when all of it is written.
        model: the model to train, which has seen no rows yet; a `TextClassifier` by default.
        config: how it is trained; by default as its kind advises.
        validation: rows that decide when to stop and which weights to keep; never trained on.
        test: rows for the figures in `metrics.json`; the validation rows where none are given.
        reading: how the rows were read from their file, such as its columns; other files of the run are then
            read alike.
        overwrite: whether an existing run folder is replaced, once the new one is whole.
        tune: seconds in which other settings are tried on the validation rows (`tuning.tuned`). The model of
            the run is then another one than `model`, with the best of them.
        callbacks: more Keras callbacks, such as a progress bar; of each training where there are several.
        verbose: as in `keras.Model.fit`.
        report: takes a line as each training after the first begins.

    Raises:
        ConfigError: for `reading` that is no JSON.
        DataError: for rows that cannot train the model, before training begins.
        RunError: if `output` cannot be written, exists and is not to be replaced, or is no run folder.
        TrainingError: if the loss is no number any more.

    Example:

        >>> import tempfile
        >>> from keras_selfattn.models import TextConfig
        >>> rows = LabelledRows(["good", "fine", "bad", "poor"] * 10, ["+", "+", "-", "-"] * 10, "made up")
        >>> held_out = LabelledRows(["good", "poor"], ["+", "-"], "made up")
        >>> small = TextClassifier(TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settings = TrainConfig(epochs=2)
        ...     run = train(rows, f"{folder}/run", model=small, config=settings,
        ...                 validation=held_out, verbose=0)
        >>> run.figures.rows
        2
    """
    model = TextClassifier() if model is None else model
    config = config or TrainConfig(**model.advised_training(len(rows)))
    tables = _checked(model, rows, validation, test, config)
    if not (is_number(tune) and tune >= 0):
        raise ConfigError(f"`tune` must be seconds, 0 or more. Received {tune!r}.")
    refit = config.refit and validation is None
    split = "validation" if test is None else "test"
    settings = {
        "data": {name: described(tables[name]) for name in ("train", "validation", "test") if name in tables},
        "reading": as_json("reading", dict(reading or {})),
    }
    with run_folder(Path(output), overwrite=overwrite) as draft:
        started = time.perf_counter()
        done = _trained(model, tables, config, refit, tune, report, callbacks=callbacks, verbose=verbose)
        seconds = time.perf_counter() - started
        # Of rows that the model kept has been trained on, the one before it tells.
        told = done.watched.model if refit and test is None else done.model
        run = Run(
            Path(output),
            done.model,
            evaluate(told, tables[split]),
            done.watched.fitted.best_epoch,
            seconds,
            rows=done.rows,
            again=done.again,
            epochs=done.epochs,
            changes=done.watched.changes,
        )
        settings |= _described(run, done.watched)
        history = done.watched.fitted.history
        with writing(run.path):
            write_run(draft, run.model, run.figures, split=split, history=history, settings=settings)
    return run


class _Trained(NamedTuple):
    """What trainings came to: the model to keep, the one watched before it, and as `Run` has them."""

    model: RawModel
    watched: Tuned
    rows: int
    again: bool
    epochs: int


def _trained(
    model: RawModel,
    tables: Mapping[str, LabelledRows],
    config: TrainConfig,
    refit: bool,
    tune: float,
    report: Callable[[str], None],
    **shown: Any,
) -> _Trained:
    """Trains a model that is watched and, with `refit` or several encoders, again with nothing watched."""
    again = refit or members_of(model) > 1
    parts = tables["train"], tables["validation"]
    if tune > 0:
        watched = tuned(model, *parts, config, tune, report=report, **shown)
        model = copy_of(model, watched.changes) if again else watched.model
    else:
        # Another model, where `model` itself is trained afterwards.
        first = copy_of(model, {"members": 1}) if again else model
        watched = Tuned(first, config, fit_watched(first, *parts, config, **shown), {}, [])
    kept = tables["all" if refit else "train"]
    epochs = watched.fitted.best_epoch
    if again:
        epochs = epochs_again(watched.fitted, tables["validation"], watched.config)
        fit_again(model, kept, epochs, watched.model, watched.config, report=report, **shown)
    return _Trained(model, watched, len(kept), again, epochs)


def evaluate(model: RawModel, rows: LabelledRows) -> Report:
    """Returns the figures of a model on rows with known targets, whatever their containers.

    Raises:
        DataError: for rows or targets of another kind than the model's, or a label that it does not know.
    """
    rows = _read(model, rows, type(model.head))
    check_labels(rows, set(getattr(model.head, "labels", ())))
    outputs = model.predict(rows.inputs, batch_size=_PREDICT_BATCH, verbose=0)
    return report_of(model.head, rows.targets, outputs, model.baselines(rows.inputs))


@contextmanager
def run_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yields the draft of a run folder; made before training, so that an unwritable place is said first."""
    if overwrite and target.is_dir() and any(target.iterdir()) and not (target / "model.keras").is_file():
        raise RunError(f"{target} is not a run folder, so it is not replaced. Choose another folder.")
    with ExitStack() as stack:
        with writing(target):
            draft = stack.enter_context(new_directory(target, overwrite=overwrite))
        # What goes wrong in the training itself, such as in a callback, says so in its own words.
        yield draft
        with writing(target):
            stack.close()


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Lets errors of the file system say which run folder cannot be written."""
    try:
        yield
    except FileExistsError as error:
        raise RunError(
            f"{error}. Choose another output folder, or replace a run folder with overwrite (--overwrite)."
        ) from error
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error}.") from error


def _checked(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows | None,
    test: LabelledRows | None,
    config: TrainConfig,
) -> dict[str, LabelledRows]:
    """Returns "all" rows, those to "train" on, "validation" and "test", as the model reads them."""
    kind = model._head_type(rows.targets)
    rows = _read(model, rows, kind)
    _check_learnable(rows, kind)
    if validation is None:
        kept, held_out = rows.split(config.validation, config.seed)
    else:
        kept, held_out = rows, _read(model, validation, kind)
    tables = {"all": rows, "train": kept, "validation": held_out}
    if test is not None:
        tables["test"] = _read(model, test, kind)
    known = label_names(kept.targets)
    for name in ("validation", "test"):
        if name in tables:
            check_labels(tables[name], known)
            _check_measurable(tables[name], kind, name)
    return tables


def _read(model: RawModel, rows: LabelledRows, kind: type[Head]) -> LabelledRows:
    """Returns rows as the model reads them, with targets as that kind of head does."""
    if not len(rows):
        raise DataError(f"{rows.source} has no rows. Give at least one.")
    with _named(rows.source):
        read = model._read(rows.inputs, rows.targets, None, kind)
    # Of the same class: it knows how its rows are split.
    return dataclasses.replace(rows, inputs=read.inputs, targets=read.targets)


def _check_learnable(rows: LabelledRows, kind: type[Head]) -> None:
    with _named(rows.source):
        kind.learned(rows.targets)


def _check_measurable(rows: LabelledRows, kind: type[Head], name: str) -> None:
    if kind.per_position and not any(len(target) for target in rows.targets):
        raise DataError(
            f"{rows.source}: all {len(rows)} {name} rows are empty, so that nothing can be measured on them. "
            "Give others, or leave rows without tokens out."
        )


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Lets errors of rows say where the rows come from."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def as_json(name: str, value: Any) -> Any:
    """Returns what a run folder can record, before a training that could not be recorded."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`{name}` must hold what JSON can, such as str and int: {error}.") from error
    return value


def _described(run: Run, found: Tuned) -> dict[str, Any]:
    """Returns what is recorded of a training."""
    trials = [dataclasses.asdict(trial) for trial in found.trials]
    return {
        "training": dataclasses.asdict(found.config),
        "best_epoch": run.best_epoch,
        "trained_on": run.rows,
        "epochs": run.epochs,
        "seconds": round(run.seconds, 1),
        **({"trials": trials} if trials else {}),
    }


def described(rows: LabelledRows) -> dict[str, Any]:
    """Returns what is recorded of rows."""
    return {"source": rows.source, "rows": len(rows)}
