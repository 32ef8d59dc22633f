"""From labelled rows to a run folder: one function."""

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_selfattn.atomic import new_directory
from keras_selfattn.calibration import Calibration, SharesFitted
from keras_selfattn.data.labelled import LabelledRows, check_labels, label_names
from keras_selfattn.errors import ConfigError, DataError, RunError, TrainingError
from keras_selfattn.metrics import Report, report_of
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.heads import Head
from keras_selfattn.runs import write_run
from keras_selfattn.train_config import TrainConfig

# Rows at once when predicting: enough to fill the cores, few enough to bound memory.
_PREDICT_BATCH = 256
# Share of the steps over which the learning rate rises; Adam's first steps are the noisy ones.
_WARMUP = 0.1
# The rate starts and ends at this share of its peak.
_FLOOR = 0.02
# What is best of what a head watches.
_MODES = {"val_loss": "min", "val_accuracy": "max"}


@dataclass(frozen=True)
class Run:
    """What a training left.

    Args:
        path: the run folder.
        model: with the weights of the epoch that was best on the validation rows.
        figures: on the rows held out.
        best_epoch: that epoch, counted from 1.
        seconds: of vocabulary and training.
    """

    path: Path
    model: RawModel
    figures: Report
    best_epoch: int
    seconds: float


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
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> Run:
    """Trains a model of raw rows and writes its run folder.

    Args:
        rows: training rows, whatever their containers; a share of them is held out for validation if none are
            given.
        output: the run folder; it appears when all of it is written.
        model: the model to train, which has seen no rows yet; a `TextClassifier` by default.
        config: how it is trained; by default as its kind advises.
        validation: rows that decide when to stop and which weights to keep.
        test: rows for the figures in `metrics.json`; the validation rows where none are given.
        reading: how the rows were read from their file, such as its columns; other files of the run are then
            read alike.
        overwrite: whether an existing run folder is replaced, once the new one is whole.
        callbacks: more Keras callbacks, such as a progress bar.
        verbose: as in `keras.Model.fit`.

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
    rows, validation, test = _checked(model, rows, validation, test, config)
    split, measured = ("validation", validation) if test is None else ("test", test)
    tables = {"train": rows, "validation": validation, "test": test}
    settings = {
        "training": dataclasses.asdict(config),
        "data": {name: _describe(table) for name, table in tables.items() if table is not None},
        "reading": _as_json("reading", dict(reading or {})),
    }
    with _run_folder(Path(output), overwrite=overwrite) as draft:
        started = time.perf_counter()
        keras.utils.set_random_seed(config.seed)
        head = model._head_type(rows.targets).learned(rows.targets)
        model.adapt(rows.inputs, rows.targets, _weights(head, rows.targets, rows, config))
        calibration = Calibration(model, validation, _weights(head, rows.targets, validation, config))
        if calibration.mixes:
            callbacks = [SharesFitted(calibration), *callbacks]
        history = _fit(model, rows, validation, config, callbacks, verbose)
        if calibration.possible:
            calibration.set()
        seconds = time.perf_counter() - started
        best_epoch = 1 + _best(model, history)
        figures = evaluate(model, measured)
        settings |= {"best_epoch": best_epoch, "seconds": round(seconds, 1)}
        write_run(draft, model, figures, split=split, history=history, settings=settings)
    return Run(Path(output), model, figures, best_epoch, seconds)


def evaluate(model: RawModel, rows: LabelledRows) -> Report:
    """Returns the figures of a model on rows with known targets, whatever their containers.

    Raises:
        DataError: for rows or targets of another kind than the model's, or a label that it does not know.
    """
    rows = _read(model, rows, type(model.head))
    check_labels(rows, set(getattr(model.head, "labels", ())))
    outputs = model.predict(rows.inputs, batch_size=_PREDICT_BATCH, verbose=0)
    return report_of(model.head, rows.targets, outputs, model.baselines(rows.inputs))


def _fit(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
) -> dict[str, list[float]]:
    steps = math.ceil(len(rows) / config.batch_size) * config.epochs
    warmup = max(1, round(_WARMUP * steps))
    schedule: Any = keras.optimizers.schedules.CosineDecay(
        _FLOOR * config.learning_rate,
        max(1, steps - warmup),
        alpha=_FLOOR,
        warmup_target=config.learning_rate,
        warmup_steps=warmup,
    )
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=config.weight_decay, global_clipnorm=1.0),
        model.head.loss(config.label_smoothing),
    )
    stopping = keras.callbacks.EarlyStopping(
        monitor=model.head.watched,
        mode=_MODES[model.head.watched],
        patience=config.patience,
        restore_best_weights=True,
    )
    weights = _weights(model.head, rows.targets, validation, config)
    history = model.fit(
        rows.inputs,
        rows.targets,
        batch_size=config.batch_size,
        # Weighted as in training, or the best epoch would be another one.
        validation_data=(validation.inputs, validation.targets, weights),
        epochs=config.epochs,
        class_weight=config.class_weight,
        seed=config.seed,
        callbacks=[*callbacks, stopping],
        verbose=verbose,
    ).history
    if not np.isfinite(history["val_loss"]).all():
        raise TrainingError(
            f"The loss is no number any more. Lower the learning rate; it was {config.learning_rate:g}."
        )
    return history


def _weights(head: Head, targets: Sequence[Any], rows: LabelledRows, config: TrainConfig) -> Any:
    """Returns the weights of rows by their classes, of which `targets` are those of training, or None."""
    by_place = head.class_weights(config.class_weight, targets)
    if by_place is None:
        return None
    return np.array([by_place[place] for place in head.encoded(rows.targets).tolist()])


def _best(model: RawModel, history: dict[str, list[float]]) -> int:
    """Returns the epoch whose weights were kept, counted from 0."""
    watched = model.head.watched
    return int((np.argmin if _MODES[watched] == "min" else np.argmax)(history[watched]))


@contextmanager
def _run_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yields the draft of a run folder; made before training, so that an unwritable place is said first."""
    if overwrite and target.is_dir() and any(target.iterdir()) and not (target / "model.keras").is_file():
        raise RunError(f"{target} is not a run folder, so it is not replaced. Choose another folder.")
    try:
        with new_directory(target, overwrite=overwrite) as draft:
            yield draft
    except FileExistsError as error:
        raise RunError(f"{error}. Choose another output folder, or overwrite a run folder.") from error
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error}.") from error


def _checked(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows | None,
    test: LabelledRows | None,
    config: TrainConfig,
) -> tuple[LabelledRows, LabelledRows, LabelledRows | None]:
    """Returns training, validation and test rows as the model reads them, which fit each other."""
    kind = model._head_type(rows.targets)
    rows = _read(model, rows, kind)
    _check_learnable(rows, kind)
    if validation is None:
        rows, validation = rows.split(config.validation, config.seed)
    else:
        validation = _read(model, validation, kind)
    test = None if test is None else _read(model, test, kind)
    known = label_names(rows.targets)
    for held_out in (validation, test):
        if held_out is not None:
            check_labels(held_out, known)
    return rows, validation, test


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


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Lets errors of rows say where the rows come from."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def _as_json(name: str, value: Any) -> Any:
    """Returns what a run folder can record, before a training that could not be recorded."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`{name}` must hold what JSON can, such as str and int: {error}.") from error
    return value


def _describe(rows: LabelledRows) -> dict[str, Any]:
    return {"source": rows.source, "rows": len(rows)}
