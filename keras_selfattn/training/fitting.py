"""Training monitored on held-out rows: schedule, best epoch, calibration; and a second one on all rows."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.ensemble import copy_member
from keras_selfattn.models.heads import Head
from keras_selfattn.models.pretrained.fine_tuning_adamw import FineTuningAdamW
from keras_selfattn.models.probabilities import Mixture
from keras_selfattn.models.sample_weights import weights_of
from keras_selfattn.training.calibration import Calibration, SharesFitted, copy_calibration
from keras_selfattn.training.config import TrainConfig

# Share of the steps in which the learning rate rises; Adam's first steps are the noisy ones.
_WARMUP = 0.1
# The rate starts and ends at this share of its peak.
_FLOOR = 0.02
# Fewer validation rows are too noisy to compare epochs: on data sets of series with 5 to 24 of them,
# attention was 1.6 points worse in the epoch that they selected than in the last one.
_TELLING = 100
# The direction of each monitored metric: minimised or maximised.
_METRIC_MODES = {"val_loss": "min", "val_accuracy": "max"}


@dataclass(frozen=True)
class Fitted:
    """The outcome of a training with a monitored metric.

    Args:
        history: values by name, one for each epoch.
        best_epoch: the epoch of the kept weights, counted from 1.
        monitored: the name of the monitored metric.
    """

    history: dict[str, list[float]]
    best_epoch: int
    monitored: str

    @property
    def score(self) -> float:
        """The monitored metric in the best epoch."""
        return self.history[self.monitored][self.best_epoch - 1]

    def beats(self, other: "Fitted") -> bool:
        """Return True if the monitored metric is better here than in the other."""
        return (
            self.score < other.score if _METRIC_MODES[self.monitored] == "min" else self.score > other.score
        )


def fit_monitored(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
) -> Fitted:
    """Train a model, keep the weights of the epoch that is best on validation rows, and calibrate it.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    head = _adapted(model, rows, config)
    calibration = Calibration(model, validation, row_weights(head, rows.targets, validation, config))
    if calibration.mixes:
        callbacks = [SharesFitted(calibration), *callbacks]
    monitored = model.head.monitored
    stopping = keras.callbacks.EarlyStopping(
        monitor=monitored, mode=_METRIC_MODES[monitored], patience=config.patience, restore_best_weights=True
    )
    # Weighted as in training, otherwise another epoch would be best.
    weights = row_weights(model.head, rows.targets, validation, config)
    history = _fit(
        model,
        rows,
        config,
        config.epochs,
        validation_data=(validation.inputs, validation.targets, weights),
        callbacks=[*callbacks, stopping],
        verbose=verbose,
    )
    _check_finite(history["val_loss"], config)
    if calibration.possible:
        calibration.set()
    best = int((np.argmin if _METRIC_MODES[monitored] == "min" else np.argmax)(history[monitored]))
    return Fitted(history, 1 + best, monitored)


def fit_again(
    model: RawModel,
    rows: LabelledRows,
    epochs: int,
    monitored: RawModel,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
    report: Callable[[str], None],
) -> None:
    """Train a model, each of its encoders separately, without monitoring.

    The learning rate decays over the given epochs. The calibration is copied from the monitored model.

    Args:
        model: has seen no rows yet.
        rows: to train on; none of them is for validation.
        epochs: the result of `epochs_again`.
        monitored: the model trained by `fit_monitored`, of the same config or with one encoder.
        config: the settings of its training.
        callbacks: as in `fit_monitored`.
        verbose: as in `keras.Model.fit`.
        report: called with a line as each training begins.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    members = members_of(model)
    encoders = (
        [copy_of(model, {**model.encoder_only, "members": 1}) for _ in range(members)] if members > 1 else []
    )
    settings: dict[str, Any] = {"callbacks": list(callbacks), "verbose": verbose}
    if encoders:
        _adapted(model, rows, config)
    for place, trained in enumerate(encoders or [model]):
        which = f", encoder {place + 1} of {members}" if encoders else ""
        report(f"Again, on {len(rows):,} rows{which}:")
        seeded = dataclasses.replace(config, seed=(config.seed + place) % 2**32)
        fit_unmonitored(trained, rows, epochs, seeded, **settings)
        if encoders:
            copy_member(trained.core, model.core, place)
    if encoders:
        _compile(model, rows, config, epochs)
    copy_calibration(monitored, model)


def fit_unmonitored(
    model: RawModel, rows: LabelledRows, epochs: int, config: TrainConfig, **settings: Any
) -> None:
    """Train a model that has seen no rows for a number of epochs.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    _adapted(model, rows, config)
    _check_finite(_fit(model, rows, config, epochs, **settings)["loss"], config)


def epochs_again(found: Fitted, validation: LabelledRows, config: TrainConfig) -> int:
    """Return the number of epochs without monitoring: the best one, if there were enough validation rows."""
    return found.best_epoch if len(validation) >= _TELLING else config.epochs


def copy_of(model: RawModel, changes: Mapping[str, Any]) -> RawModel:
    """Return an untrained model of the same kind, with changed fields of its config."""
    config = changed(model.config, changes).to_dict()
    return type(model).from_config({**model.get_config(), "config": config})


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """Return a config with the changes that are for its fields."""
    fields = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{name: value for name, value in changes.items() if name in fields})


def members_of(model: RawModel) -> int:
    """Return the number of encoders of a model."""
    return getattr(model.config, "members", 1)


def has_two_paths(model: Any) -> bool:
    """Return True if a model has another path beside attention; training steps change attention only."""
    return any(isinstance(layer, Mixture) for layer in model.core.layers)


def named_history(model: RawModel, history: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the values of each epoch under clear names.

    If a model has two paths, training loss and accuracy are of attention alone, so their names begin with
    "attention_"; validation loss and accuracy are of both paths.
    """
    if not has_two_paths(model):
        return dict(history)
    return {
        name if name.startswith("val_") else f"attention_{name}": values for name, values in history.items()
    }


def _adapted(model: RawModel, rows: LabelledRows, config: TrainConfig) -> Head:
    """Let a model learn its vocabulary, labels and the like from rows, and return its future head."""
    keras.utils.set_random_seed(config.seed)
    head = model.head_type(rows.targets).from_targets(rows.targets)
    model.adapt(rows.inputs, rows.targets, row_weights(head, rows.targets, rows, config))
    return head


def _fit(
    model: RawModel,
    rows: LabelledRows,
    config: TrainConfig,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback],
    **settings: Any,
) -> dict[str, list[float]]:
    scheduled = _compile(model, rows, config, epochs)
    return model.fit(
        rows.inputs,
        rows.targets,
        batch_size=config.batch_size,
        epochs=epochs,
        class_weight=config.class_weight,
        seed=config.seed,
        callbacks=[scheduled, *callbacks],
        **settings,
    ).history


def _compile(model: RawModel, rows: LabelledRows, config: TrainConfig, epochs: int) -> "_Scheduled":
    """Compile a model for a number of passes, and return the callback that corrects the number of steps."""
    schedule: Any = keras.optimizers.schedules.CosineDecay(
        _FLOOR * config.learning_rate,
        1,
        alpha=_FLOOR,
        warmup_target=config.learning_rate,
        warmup_steps=1,
    )
    settings: dict[str, Any] = {"weight_decay": config.weight_decay, "global_clipnorm": 1.0}
    rates = model.learning_rates
    optimizer = (
        FineTuningAdamW(schedule, rates=rates, **settings)
        if rates
        else keras.optimizers.AdamW(schedule, **settings)
    )
    model.compile(optimizer, model.head.loss(config.label_smoothing))
    scheduled = _Scheduled(schedule)
    scheduled.spread(math.ceil(len(rows) / config.batch_size) * epochs)
    return scheduled


class _Scheduled(keras.callbacks.Callback):
    """Fit a schedule to the steps of a training: with long rows, batches are smaller and steps more.

    Args:
        schedule: a cosine with a warmup, in the optimizer of a model before its first step.
    """

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self._schedule = schedule

    def spread(self, steps: int) -> None:
        """Set the lengths of the rise and of the decay."""
        warmup = max(1, round(_WARMUP * steps))
        self._schedule.warmup_steps, self._schedule.decay_steps = warmup, max(1, steps - warmup)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Before the first step, when Keras compiles the values of the schedule.
        self.spread(self.params["steps"] * self.params["epochs"])


def _check_finite(losses: Sequence[float], config: TrainConfig) -> None:
    if not np.isfinite(losses).all():
        raise TrainingError(
            f"The loss became NaN or infinite. Lower the learning rate; it was {config.learning_rate:g}."
        )


def row_weights(head: Head, targets: Sequence[Any], rows: LabelledRows, config: TrainConfig) -> Any:
    """Return the weights of rows by their classes, from the training `targets`, or None."""
    by_place = head.class_weights(config.class_weight, targets)
    return None if by_place is None else weights_of(rows.targets, head, by_place)
