"""From labelled rows to a run folder: one function, and its settings."""

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_selfattn.atomic import check_target, new_directory
from keras_selfattn.data.tables import Table, check_classes, split_table
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.metrics import Report, report
from keras_selfattn.models import TextClassifier, TextConfig
from keras_selfattn.runs import write_run

# Rows at once when predicting: enough to fill the cores, few enough to bound memory.
_PREDICT_BATCH = 256
# Share of the steps over which the learning rate rises; Adam's first steps are the noisy ones.
_WARMUP = 0.1
# The rate starts and ends at this share of its peak.
_FLOOR = 0.02


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
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"`{name}` must be a positive integer. Received {value!r}.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"`learning_rate` must be greater than 0. Received {self.learning_rate!r}.")
        if not 0 <= self.weight_decay < 1:
            raise ConfigError(f"`weight_decay` must be in [0, 1). Received {self.weight_decay!r}.")
        if not 0 < self.validation < 1:
            raise ConfigError(f"`validation` must be between 0 and 1. Received {self.validation!r}.")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"`seed` must be in [0, 2**32). Received {self.seed!r}.")


@dataclass(frozen=True)
class Run:
    """What a training left: where, the model, its figures on held-out rows, and the seconds it took."""

    path: Path
    model: TextClassifier
    figures: Report
    seconds: float


def train(
    rows: Table,
    output: str | Path,
    *,
    model_config: TextConfig | None = None,
    config: TrainConfig | None = None,
    validation: Table | None = None,
    test: Table | None = None,
    overwrite: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> Run:
    """Trains a text classifier and writes its run folder.

    Args:
        rows: training rows; a share of them is held out for validation if none are given.
        output: the run folder; it appears when all of it is written.
        model_config: what the model is made of.
        config: how it is trained.
        validation: rows that decide when to stop and which weights to keep.
        test: rows for the figures in `metrics.json`; the validation rows where none are given.
        overwrite: whether an existing run folder is replaced, once the new one is whole.
        callbacks: more Keras callbacks, such as a progress bar.
        verbose: as in `keras.Model.fit`.

    Raises:
        DataError: for rows that cannot train a classifier, before training begins.
        RunError: if `output` exists and is not to be replaced.

    Example:

        >>> import tempfile
        >>> rows = Table(["good", "fine", "bad", "poor"] * 10, ["+", "+", "-", "-"] * 10, "made up")
        >>> held_out = Table(["good", "poor"], ["+", "-"], "made up")
        >>> small = TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settings = TrainConfig(epochs=2)
        ...     run = train(rows, f"{folder}/run", model_config=small, config=settings,
        ...                 validation=held_out, verbose=0)
        >>> run.figures.rows
        2
    """
    config, target = config or TrainConfig(), Path(output)
    try:
        check_target(target, overwrite=overwrite)
    except FileExistsError as error:
        raise RunError(f"{error} Give another --output, or --overwrite to replace a run folder.") from None
    check_classes(rows)
    if validation is None:
        rows, validation = split_table(rows, config.validation, config.seed)
        check_classes(rows)
    for held_out in (validation, test):
        if held_out is not None:
            _check_known(held_out, rows)
    started = time.perf_counter()
    keras.utils.set_random_seed(config.seed)
    model = TextClassifier(model_config)
    model.adapt(rows.texts, rows.labels)
    history = _fit(model, rows, validation, config, callbacks, verbose)
    seconds = time.perf_counter() - started
    figures = evaluate(model, test or validation)
    settings = {
        "training": dataclasses.asdict(config),
        "data": {"train": _describe(rows), "validation": _describe(validation)},
        "seconds": round(seconds, 1),
    }
    if test is not None:
        settings["data"]["test"] = _describe(test)
    with new_directory(target, overwrite=overwrite) as draft:
        split = "validation" if test is None else "test"
        write_run(draft, model, figures, split=split, history=history, settings=settings)
    return Run(target, model, figures, seconds)


def evaluate(model: TextClassifier, rows: Table) -> Report:
    """Returns the figures of a model on labelled rows.

    Raises:
        DataError: for a label that the model does not know.
    """
    unknown = set(rows.labels) - set(model.labels)
    if unknown:
        raise DataError(_unknown_labels(rows, unknown, model.labels))
    probabilities = model.predict(rows.texts, batch_size=_PREDICT_BATCH, verbose=0)
    predicted = [model.labels[index] for index in np.argmax(probabilities, axis=-1)]
    return report(model.labels, rows.labels, predicted)


def _fit(
    model: TextClassifier,
    rows: Table,
    validation: Table,
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
    )
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=config.patience, restore_best_weights=True
    )
    history = model.fit(
        rows.texts,
        rows.labels,
        batch_size=config.batch_size,
        validation_data=(validation.texts, validation.labels),
        epochs=config.epochs,
        seed=config.seed,
        callbacks=[stopping, *callbacks],
        verbose=verbose,
    )
    return history.history


def _check_known(held_out: Table, rows: Table) -> None:
    unknown = set(held_out.labels) - set(rows.labels)
    if unknown:
        raise DataError(_unknown_labels(held_out, unknown, sorted(set(rows.labels))))


def _unknown_labels(table: Table, unknown: set[str], known: Sequence[str]) -> str:
    count = sum(label in unknown for label in table.labels)
    return (
        f"{table.source}: {count} rows have a label that was not in training, such as "
        f"{min(unknown)!r}. Known are {', '.join(known[:20])}{', …' if len(known) > 20 else ''}."
    )


def _describe(table: Table) -> dict[str, Any]:
    return {"source": table.source, "rows": len(table)}
