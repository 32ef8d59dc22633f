"""From labelled rows to a run folder: one function, and its settings."""

import dataclasses
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
from keras_selfattn.data.labelled import LabelledRows, check_classes, check_labels, label_names
from keras_selfattn.errors import ConfigError, RunError, TrainingError
from keras_selfattn.metrics import Report, report_of
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.config import check_count
from keras_selfattn.runs import write_run

# Rows at once when predicting: enough to fill the cores, few enough to bound memory.
_PREDICT_BATCH = 256
# Share of the steps over which the learning rate rises; Adam's first steps are the noisy ones.
_WARMUP = 0.1
# The rate starts and ends at this share of its peak.
_FLOOR = 0.02
# What is best of what a head watches.
_MODES = {"val_loss": "min", "val_accuracy": "max"}


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained.

    Args:
        epochs: passes over the training rows, at most.
        batch_size: rows in a step.
        learning_rate: peak of the schedule: linear warmup, then a cosine down to nearly 0.
        weight_decay: decoupled, of AdamW.
        patience: epochs without a better validation loss after which training stops; the best weights are
            restored in any case.
        validation: share of the rows held out where no validation rows are given, in (0, 1).
        label_smoothing: share of each label that is spread over all classes in training, in [0, 1).
        class_weight: "balanced" gives each class the same weight in all, however few its rows; a dict gives
            weights by label name; None counts each row alike.
        seed: of weights, dropout, order and split: the same seed gives the same result on the same machine.

    Raises:
        ConfigError: for a field out of range.
    """

    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    patience: int = 4
    validation: float = 0.1
    label_smoothing: float = 0.0
    class_weight: str | dict[str, float] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            check_count(name, getattr(self, name))
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"`learning_rate` must be greater than 0. Received {self.learning_rate!r}.")
        if not 0 <= self.weight_decay < 1:
            raise ConfigError(f"`weight_decay` must be in [0, 1). Received {self.weight_decay!r}.")
        if not 0 < self.validation < 1:
            raise ConfigError(f"`validation` must be between 0 and 1. Received {self.validation!r}.")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"`label_smoothing` must be in [0, 1). Received {self.label_smoothing!r}.")
        if not (self.class_weight in (None, "balanced") or isinstance(self.class_weight, dict)):
            raise ConfigError(f'`class_weight` must be "balanced" or a dict. Received {self.class_weight!r}.')
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"`seed` must be in [0, 2**32). Received {self.seed!r}.")


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
        rows: training rows; a share of them is held out for validation if none are given.
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
    rows, validation = _checked(rows, validation, test, config)
    split, measured = ("validation", validation) if test is None else ("test", test)
    with _run_folder(Path(output), overwrite=overwrite) as draft:
        started = time.perf_counter()
        keras.utils.set_random_seed(config.seed)
        model.adapt(rows.inputs, rows.targets)
        calibration = Calibration(model, validation)
        if calibration.mixes:
            callbacks = [SharesFitted(calibration), *callbacks]
        history = _fit(model, rows, validation, config, callbacks, verbose)
        if calibration.possible:
            calibration.set()
        seconds = time.perf_counter() - started
        best_epoch = 1 + _best(model, history)
        figures = evaluate(model, measured)
        tables = {"train": rows, "validation": validation, "test": test}
        settings = {
            "training": dataclasses.asdict(config),
            "data": {name: _describe(table) for name, table in tables.items() if table is not None},
            "reading": dict(reading or {}),
            "best_epoch": best_epoch,
            "seconds": round(seconds, 1),
        }
        write_run(draft, model, figures, split=split, history=history, settings=settings)
    return Run(Path(output), model, figures, best_epoch, seconds)


def evaluate(model: RawModel, rows: LabelledRows) -> Report:
    """Returns the figures of a model on rows with known targets.

    Raises:
        DataError: for a label that the model does not know.
    """
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
    history = model.fit(
        rows.inputs,
        rows.targets,
        batch_size=config.batch_size,
        validation_data=_weighted(model, rows, validation, config),
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


def _weighted(model: RawModel, rows: LabelledRows, validation: LabelledRows, config: TrainConfig) -> tuple:
    """Returns validation data whose rows weigh as those of training do, or the best epoch is another one."""
    by_place = model.head.class_weights(config.class_weight, rows.targets)
    if by_place is None:
        return validation.inputs, validation.targets
    weights = [by_place[place] for place in model.head.encoded(validation.targets).tolist()]
    return validation.inputs, validation.targets, weights


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
    rows: LabelledRows, validation: LabelledRows | None, test: LabelledRows | None, config: TrainConfig
) -> tuple[LabelledRows, LabelledRows]:
    """Returns training and validation rows that fit each other and the test rows."""
    check_classes(rows)
    if validation is None:
        rows, validation = rows.split(config.validation, config.seed)
        check_classes(rows)
    known = label_names(rows.targets)
    for held_out in (validation, test):
        if held_out is not None:
            check_labels(held_out, known)
    return rows, validation


def _describe(rows: LabelledRows) -> dict[str, Any]:
    return {"source": rows.source, "rows": len(rows)}
