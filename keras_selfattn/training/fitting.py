"""One fit of a model: with validation rows, which find its epochs and calibrate it; or again without them.

Both learn the model's words and labels from the rows first, then pass over the rows epoch by epoch, or over
pairs of few texts. The columns of a run's `history.csv` are made here.
"""

import dataclasses
import math
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.evaluation import measured
from keras_selfattn.metrics.head_metrics import epoch_figure, head_metrics
from keras_selfattn.models.batches.sample_weights import weights_of
from keras_selfattn.models.batches.shares import WHOLE, feeding
from keras_selfattn.models.core.ensemble import copy_member
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.weight_parts import assign, parts_of
from keras_selfattn.training.calibration import (
    CalibrationEffect,
    SharesFitted,
    calibration_of,
    copy_calibration,
    has_two_paths,
)
from keras_selfattn.training.checkpoints import Checkpoints
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.few_rows import fit_on_pairs, trains_on_pairs
from keras_selfattn.training.processes.data_parallel import SharedSteps, make_equal
from keras_selfattn.training.processes.group import ProcessGroup
from keras_selfattn.training.schedule import Scheduled, check_finite, scheduled_optimizer

# Fewer validation rows are too few to compare epochs: on data sets of series with 5 to 24 of them,
# attention was 1.6 points worse in the epoch that they selected than in the last one.
_ENOUGH_ROWS = 100
# The end of the names of figures that are better if they are lower.
_ERROR_RATE = "error_rate"

FitEncoders = Callable[
    [Sequence[RawModel], LabelledRows, Sequence[TrainConfig], int, bool], Iterable[RawModel]
]
"""From encoders, rows, their configs, epochs and `on_pairs` to the trained encoders in their order."""


@dataclass(frozen=True)
class Fitted:
    """The outcome of a fit with validation rows.

    Args:
        history: the columns of `history.csv` by name, a value for each epoch.
        best_epoch: the epoch of the kept weights, counted from 1: the best, or the last if none was chosen.
        chosen: True if the validation rows chose it.
        monitored: the name of the monitored metric.
        score: the monitored metric with the kept weights.
        on_pairs: True if the model was trained on pairs of rows.
        calibrated: the effect of the calibration; None without one.
    """

    history: dict[str, list[float]]
    best_epoch: int
    chosen: bool
    monitored: str
    score: float
    on_pairs: bool = False
    calibrated: CalibrationEffect | None = dataclasses.field(default=None, compare=False, repr=False)

    def beats(self, other: "Fitted") -> bool:
        """Return True if the monitored metric is better here than in the other."""
        return self.score < other.score if _mode(self.monitored) == "min" else self.score > other.score


def enough_to_choose_epoch(validation: LabelledRows) -> bool:
    """Return True if there are enough validation rows to choose the epochs of a training on all rows.

    Rows of one group, such as a voice, count as one: the epoch that suits one voice suits no other.
    """
    return validation.independent >= _ENOUGH_ROWS


def copy_of(model: RawModel, changes: Mapping[str, Any]) -> RawModel:
    """Return an untrained model of the same kind, with changed fields of its config."""
    config = changed(model.config, changes).to_dict()
    return type(model).from_config({**model.untrained_config(), "config": config})


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """Return a config with the changes that are for its fields."""
    fields = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{name: value for name, value in changes.items() if name in fields})


def members_of(model: RawModel) -> int:
    """Return the number of encoders of a model."""
    return getattr(model.config, "members", 1)


def fit_with_validation(
    model: RawModel,
    rows: LabelledRows,
    validation: LabelledRows,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
    *,
    choose_epoch: bool = True,
    checkpoints: Checkpoints | None = None,
    group: ProcessGroup | None = None,
) -> Fitted:
    """Train a model, keep the weights of its best or last epoch, and calibrate it.

    Args:
        model: has seen no rows yet.
        rows: to train on.
        validation: to choose the epoch and to calibrate.
        config: the settings.
        callbacks: more Keras callbacks.
        verbose: as in `keras.Model.fit`.
        choose_epoch: False trains for all epochs and keeps the weights of the last, as training on pairs
            always does.
        checkpoints: to go on from and to write; training on pairs, which is short, has none.
        group: the processes that train together; on pairs, each makes all steps.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    # Rows become what the model computes on within it: its vocabulary and labels are learned here.
    head = _adapt(model, rows, config)
    # Weighted as in training, otherwise another epoch would be best.
    weights = _row_weights(head, rows.targets, validation, config)
    calibration = calibration_of(model, validation, weights)
    validation_data = (validation.inputs, validation.targets, weights)
    # Few texts and a pretrained encoder: pairs of rows, and no epoch is measured. Else steps on the labels,
    # with the shares of a second path fitted after each epoch, and the best epoch or the last one kept.
    on_pairs = trains_on_pairs(model, rows, config)
    measures = choose_epoch and not on_pairs
    figure = epoch_figure(head, validation.targets) if measures else None
    monitored = model.head.monitored if figure is None else f"val_{figure}"
    if on_pairs:
        history = _run_epochs_on_pairs(model, rows, config, config.epochs, callbacks, verbose=verbose)
    else:
        shares = [SharesFitted(calibration)] if calibration.mixes else []
        most = None if figure is None else head_metrics(head).rows_of_epoch
        figures = [] if figure is None else [_FigureMeasured(figure, _spread(validation, most), config)]
        stopping = _early_stopping(monitored, config) if choose_epoch else None
        settings: dict[str, Any] = {"validation_data": validation_data, "verbose": verbose}
        settings |= {"stopping": stopping, "checkpoints": checkpoints, "group": group}
        used = [*shares, *figures, *callbacks]
        history = _run_epochs(model, rows, config, config.epochs, used, **settings)
        check_finite(history["val_loss"], config)
    if calibration.possible:
        calibration.set()
    fitted = _outcome(model, history, validation_data, monitored, on_pairs, choose_epoch)
    check_finite([fitted.score], config)
    return dataclasses.replace(fitted, calibrated=calibration.effect)


def _adapt(model: RawModel, rows: LabelledRows, config: TrainConfig) -> Head:
    """Let a model learn its vocabulary, labels and the like from rows, and return its future head."""
    keras.utils.set_random_seed(config.seed)
    head = model.head_type(rows.targets).from_targets(rows.targets)
    model.adapt(rows.inputs, rows.targets, _row_weights(head, rows.targets, rows, config))
    return head


def _row_weights(head: Head, targets: Sequence[Any], rows: LabelledRows, config: TrainConfig) -> Any:
    """Return the weights of rows by their classes, from the training `targets`, or None."""
    by_place = head.class_weights(config.class_weight, targets)
    return None if by_place is None else weights_of(rows.targets, head, by_place)


def _early_stopping(monitored: str, config: TrainConfig) -> keras.callbacks.Callback:
    """Return the callback that ends a fit after `patience` epochs without a better one, which it restores."""
    mode, patience = _mode(monitored), config.patience
    return _EarlyStopping(monitored, mode=mode, patience=patience)


class _EarlyStopping(keras.callbacks.EarlyStopping):
    """Keras' callback, which restores the best weights from a temporary file: no copy of them is in memory.

    An error rate of answers can stay the same for epochs in which the model learns: all answers are alike
    first. So an epoch with a better validation loss is none without progress there, until the rate is 0; and
    of epochs with the best rate, that with the least loss is kept: its answers are the surest.
    """

    _kept: "Sequence[np.ndarray] | _WeightsInFile | None" = None
    least_loss = kept_loss = math.inf

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        self.least_loss = self.kept_loss = math.inf

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        loss, rate = ((logs or {}).get(name, math.inf) for name in ("val_loss", self.monitor))
        is_rate = self.monitor.endswith(_ERROR_RATE)
        surer = is_rate and rate == self.best and loss < self.kept_loss
        if is_rate and self.best != 0 and loss < self.least_loss:
            self.least_loss, self.wait = loss, -1  # 0 once this epoch is counted
        super().on_epoch_end(epoch, logs)
        if surer:
            self.best_epoch = epoch
        if self.best_epoch == epoch and self.monitor in (logs or {}):
            self.kept_loss = loss
            self._keep()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        model: Any = self.model
        if isinstance(self._kept, _WeightsInFile):
            self._kept.restore(model.weights)
        elif self._kept is not None:
            model.set_weights(self._kept)

    def _keep(self) -> None:
        model: Any = self.model
        self._kept = None
        try:
            self._kept = _WeightsInFile(model.weights)
        except OSError:  # there is no folder for it, or no room: they stay in memory
            self._kept = model.get_weights()

    @property
    def best_weights(self) -> Sequence[np.ndarray] | None:
        """The weights of the best epoch; None before the first."""
        return self._kept.read() if isinstance(self._kept, _WeightsInFile) else self._kept

    @best_weights.setter
    def best_weights(self, weights: Sequence[np.ndarray] | None) -> None:
        self._kept = weights


class _WeightsInFile:
    """The values of weights in a temporary file, which is gone with this object or the process."""

    def __init__(self, weights: Sequence[Any]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._values = []
        for each in weights:
            start, dtype = self._file.tell(), np.dtype("float32")
            for part in parts_of(each):
                self._file.write(part.tobytes())
                dtype = part.dtype
            self._values.append(_ArrayInFile(self._file, start, tuple(each.shape), dtype))
        self._file.flush()

    def read(self) -> list[np.ndarray]:
        return [each[:] for each in self._values]

    def restore(self, weights: Sequence[Any]) -> None:
        for weight, value in zip(weights, self._values, strict=True):
            assign(weight, value)


@dataclass(frozen=True)
class _ArrayInFile:
    """An array in a file from a place on, whose rows are read when they are asked for."""

    file: Any
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        if not self.shape:
            return self._read(0, ())
        first, end, _ = rows.indices(self.shape[0])
        return self._read(first, (end - first, *self.shape[1:]))

    def _read(self, row: int, shape: tuple[int, ...]) -> np.ndarray:
        self.file.seek(self.start + row * math.prod(self.shape[1:]) * self.dtype.itemsize)
        content = self.file.read(math.prod(shape) * self.dtype.itemsize)
        return np.frombuffer(content, self.dtype).reshape(shape)


def _mode(monitored: str) -> Literal["min", "max"]:
    """Return the direction in which a metric is better: of losses and errors down, of other figures up."""
    return "min" if monitored == "val_loss" or monitored.endswith(_ERROR_RATE) else "max"


class _FigureMeasured(keras.callbacks.Callback):
    """Put a figure of the answers to validation rows into the logs of each epoch."""

    def __init__(self, name: str, validation: LabelledRows, config: TrainConfig) -> None:
        super().__init__()
        self._name, self._rows, self._config = name, validation, config

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        if logs is not None:
            check_finite([logs["loss"], logs["val_loss"]], self._config)  # of NaN no answer can be searched
            logs[f"val_{self._name}"] = measured(model, self._rows).figures.summary()[self._name]


def _spread(rows: LabelledRows, most: int | None) -> LabelledRows:
    """Return so many of the rows at most, from all over them: files may be sorted."""
    if most is None or len(rows) <= most:
        return rows
    return rows.take(np.linspace(0, len(rows) - 1, most).astype(int).tolist())


def _run_epochs(
    model: RawModel,
    rows: LabelledRows,
    config: TrainConfig,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback],
    stopping: keras.callbacks.EarlyStopping | None = None,
    checkpoints: Checkpoints | None = None,
    group: ProcessGroup | None = None,
    **settings: Any,
) -> dict[str, list[float]]:
    """Pass over the rows, from the last checkpoint on if there is one; return the values of all epochs."""
    shared = None if group is None else SharedSteps(group)
    used = [_compile(model, rows, config, epochs), *callbacks]
    if shared is not None:
        used = [shared, *used, shared.agreed]
    used += [] if stopping is None else [stopping]
    checkpoint = None
    if checkpoints is not None:
        checkpoint = checkpoints.next_fit(model, stopping)
        settings["initial_epoch"] = checkpoint.epochs
        epochs = checkpoint.epochs if checkpoint.ended else epochs
        used.append(checkpoint)
    used += [] if shared is None else [shared.beginning]
    with feeding(WHOLE if group is None else group.share):
        history = model.fit(
            rows.inputs,
            rows.targets,
            batch_size=config.batch_size,
            epochs=epochs,
            class_weight=config.class_weight,
            seed=config.seed,
            callbacks=used,
            **settings,
        ).history
    if group is not None:
        make_equal(model)
    return history if checkpoint is None else checkpoint.history


def _compile(model: RawModel, rows: LabelledRows, config: TrainConfig, epochs: int) -> Scheduled:
    """Compile a model for a number of passes, and return the callback that corrects the number of steps."""
    steps = math.ceil(len(rows) / config.batch_size) * epochs
    optimizer, scheduled = scheduled_optimizer(model, config, config.learning_rate, steps)
    model.compile(optimizer, model.head.loss(config.label_smoothing))
    return scheduled


def _run_epochs_on_pairs(
    model: RawModel,
    rows: LabelledRows,
    config: TrainConfig,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback],
    **settings: Any,
) -> dict[str, list[float]]:
    """Pass over pairs of the rows; return the loss of each epoch."""
    weights = _row_weights(model.head, rows.targets, rows, config)
    return fit_on_pairs(model, rows, weights, epochs, config, callbacks, **settings)


def _outcome(
    model: RawModel,
    history: dict[str, list[float]],
    validation_data: tuple[Any, Any, Any],
    monitored: str,
    on_pairs: bool,
    choose_epoch: bool,
) -> Fitted:
    """Return the outcome of a finished fit: the epoch of its weights, and the monitored metric with them."""
    columns = _columns(model, history)
    if on_pairs:  # whose epochs were not measured
        inputs, targets, weights = validation_data
        found = model.evaluate(inputs, targets, sample_weight=weights, return_dict=True, verbose=0)
        score = found[monitored.removeprefix("val_")]
        return Fitted(columns, len(history["loss"]), False, monitored, score, on_pairs)
    values = history[monitored]
    epoch = _best_of(history, monitored) if choose_epoch else len(values) - 1
    return Fitted(columns, 1 + epoch, choose_epoch, monitored, values[epoch])


def _best_of(history: dict[str, list[float]], monitored: str) -> int:
    """Return the epoch that early stopping keeps, from 0."""
    values = history[monitored]
    if monitored.endswith(_ERROR_RATE):
        return min(range(len(values)), key=lambda epoch: (values[epoch], history["val_loss"][epoch]))
    best = np.argmin if _mode(monitored) == "min" else np.argmax
    return int(best(values))


def _columns(model: RawModel, history: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the values of each epoch by the names of the columns of `history.csv`.

    If a model has two paths, training loss and accuracy are of attention alone, so their names begin with
    "attention_"; validation loss and accuracy are of both paths.
    """
    if not has_two_paths(model):
        return history
    return {
        name if name.startswith("val_") or name == "learning_rate" else f"attention_{name}": values
        for name, values in history.items()
    }


def fit_without_validation(
    model: RawModel,
    rows: LabelledRows,
    epochs: int,
    monitored: RawModel,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
    report: Callable[[str], None],
    on_pairs: bool = False,
    checkpoints: Checkpoints | None = None,
    group: ProcessGroup | None = None,
    fit_encoders: FitEncoders | None = None,
) -> None:
    """Train a model for a number of epochs, each of its encoders separately; none is measured on the way.

    The learning rate decays over these epochs. The calibration is copied from the monitored model.

    Args:
        model: has seen no rows yet.
        rows: to train on; none of them is for validation.
        epochs: those that the kept weights of the monitored model were trained for.
        monitored: the model trained by `fit_with_validation`, of the same config or with one encoder.
        config: the settings of its training.
        callbacks: as in `fit_with_validation`.
        verbose: as in `keras.Model.fit`.
        report: called with a line as each training begins.
        on_pairs: True if the monitored model was trained on pairs.
        checkpoints: as in `fit_with_validation`.
        group: as in `fit_with_validation`.
        fit_encoders: trains several encoders elsewhere, without callbacks and checkpoints; here if None.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    members = members_of(model)
    encoders = (
        [copy_of(model, {**model.encoder_only, "members": 1}) for _ in range(members)] if members > 1 else []
    )
    seeded = [dataclasses.replace(config, seed=(config.seed + n) % 2**32) for n in range(max(1, members))]
    # Several encoders are models of their own, whose weights are copied to their places in the whole one,
    # which learns its words and labels itself. A single encoder is the model itself.
    if encoders:
        _adapt(model, rows, config)
    if encoders and fit_encoders is not None:
        report(f"Again, on {len(rows):,} rows, {members} encoders side by side:")
        for place, trained in enumerate(fit_encoders(encoders, rows, seeded, epochs, on_pairs)):
            report(f"  encoder {place + 1} of {members} is trained")
            copy_member(trained.core, model.core, place)
    else:
        settings: dict[str, Any] = {"callbacks": list(callbacks), "verbose": verbose}
        if not on_pairs:
            settings |= {"checkpoints": checkpoints, "group": group}
        for place, encoder in enumerate(encoders or [model]):
            which = f", encoder {place + 1} of {members}" if encoders else ""
            report(f"Again, on {len(rows):,} rows{which}:")
            fit_encoder(encoder, rows, seeded[place], epochs, on_pairs, **settings)
            if encoders:
                copy_member(encoder.core, model.core, place)
    if encoders:
        _compile(model, rows, config, epochs)
    # None of these rows is left to calibrate on.
    copy_calibration(monitored, model)


def fit_encoder(
    encoder: RawModel, rows: LabelledRows, config: TrainConfig, epochs: int, on_pairs: bool, **settings: Any
) -> None:
    """Train a model of one encoder, which has seen no rows yet, for all of the epochs.

    Raises:
        TrainingError: if the loss became NaN or infinite.
    """
    _adapt(encoder, rows, config)
    run_epochs = _run_epochs_on_pairs if on_pairs else _run_epochs
    check_finite(run_epochs(encoder, rows, config, epochs, **settings)["loss"], config)
