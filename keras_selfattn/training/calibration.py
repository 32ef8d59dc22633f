"""Calibration of probabilities: a temperature, or the shares of two paths, fitted on held-out rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from scipy.optimize import minimize, minimize_scalar

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.probabilities import Mixture, Probabilities
from keras_selfattn.models.raw_inputs import Rows

_PREDICT_BATCH = 256
_HOTTEST = 10.0
# Fewer rows are too noisy: one more mistake would change the temperature.
MIN_CALIBRATION_ROWS = 20
# Keras' own: below it probabilities are equal.
_LEAST = 1e-7


def calibrate(model: RawModel, rows: LabelledRows) -> float | None:
    """Set a classifier's temperature, or the shares of its two paths, to maximise the likelihood of labels.

    Shares also scale the confidence, so if they are fitted, the temperature is 1. A model that is right on
    all of a few rows would seem never to be wrong. So shares are fitted to labels smoothed by 1 in `rows` +
    2, as in Platt's scaling, and the logarithm of a temperature has a prior of mean 0 and deviation 1. Models
    without probabilities, or with fewer than 20 rows, are not changed; nor are shares if their `Mixture`
    needs more rows.

    Args:
        model: trained.
        rows: held-out rows, none of them trained on.

    Returns:
        The temperature, from 0.1 to 10, or None if nothing was set.

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2.
    """
    fit = Calibration(model, rows)
    return fit.set() if fit.possible else None


def copy_calibration(source: RawModel, target: RawModel) -> None:
    """Copy the temperature and shares of a model to another one of the same config."""
    for layer in source.core.layers:
        if isinstance(layer, Probabilities | Mixture):
            target.core.get_layer(layer.name).set_weights(layer.get_weights())


@dataclass(frozen=True)
class UnseenRows:
    """The logits of rows that a model was not trained on, and their targets.

    Args:
        deep: float64 `[B, C]`: those of attention, or of all that the model has; for a softmax up to a
            constant a row.
        wide: those of the wide path, if the shares of both are fitted, or None.
        targets: as the loss takes them.
        weights: of the rows, as in training.
        exclusive: True if a row has one label.

    Example:

        >>> sure = np.array([[5.0, 0.0]] * 4)
        >>> rows = UnseenRows(sure, None, np.array([0, 0, 0, 1]), np.ones(4), exclusive=True)
        >>> rows.accuracy(rows.deep), round(rows.temperature(), 1)
        (0.75, 2.6)
    """

    deep: np.ndarray
    wide: np.ndarray | None
    targets: np.ndarray
    weights: np.ndarray
    exclusive: bool

    @classmethod
    def joined(cls, parts: "Sequence[UnseenRows]") -> "UnseenRows":
        """Return the rows of several models of one kind together."""

        def whole(name: str) -> Any:
            columns = [getattr(part, name) for part in parts]
            return None if columns[0] is None else np.concatenate(columns)

        names = ("deep", "wide", "targets", "weights")
        return cls(**{name: whole(name) for name in names}, exclusive=parts[0].exclusive)

    def shares(self) -> tuple[np.ndarray, float]:
        """Return the shares of both paths that make the labels likeliest, and their loss."""
        doubt = 1 / (len(self.targets) + 2)

        def loss(shares: np.ndarray) -> float:
            return self.loss(self.mixed(shares), doubt)

        found: Any = minimize(loss, [0.3, 0.7], method="L-BFGS-B", bounds=[(0.0, _HOTTEST)] * 2)
        return (found.x if math.isfinite(found.fun) else np.array([1.0, 0.0])), float(found.fun)

    def temperature(self) -> float:
        """Return the temperature that makes the labels likeliest."""

        # On few rows, smoothed labels would make a nearly perfect model underconfident; a prior does not.
        def loss(log: float) -> float:
            return self.loss(self.deep / math.exp(log), doubt=0.0) + log**2 / (2 * len(self.deep))

        bounds = (-math.log(_HOTTEST), math.log(_HOTTEST))
        found: Any = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
        return math.exp(found.x) if math.isfinite(found.fun) else 1.0

    def mixed(self, shares: np.ndarray) -> np.ndarray:
        """Return the logits of both paths with these shares."""
        return shares[0] * self.deep + shares[1] * np.asarray(self.wide)

    def accuracy(self, logits: np.ndarray) -> float:
        """Return the accuracy of logits."""
        if self.exclusive:
            right = logits.argmax(axis=-1) == self.targets
        else:
            right = np.mean((logits > 0) == (self.targets > 0), axis=-1)
        return float(np.average(right, weights=self.weights))

    def loss(self, logits: np.ndarray, doubt: float) -> float:
        """Return the mean cross-entropy of logits against the smoothed targets."""
        if not self.exclusive:
            doubted = self.targets + doubt * (0.5 - self.targets)
            of_rows = np.mean(np.logaddexp(0, logits) - doubted * logits, axis=-1)
            return float(np.average(of_rows, weights=self.weights))
        most = logits.max(axis=-1, keepdims=True)
        normal = most[:, 0] + np.log(np.exp(logits - most).sum(axis=-1))
        borne = logits[np.arange(len(logits)), self.targets]
        of_rows = normal - (1 - doubt) * borne - doubt * logits.mean(axis=-1)
        return float(np.average(of_rows, weights=self.weights))


class Calibration:
    """The fit of the parameters between a model's logits and its probabilities.

    Args:
        model: a model that has seen rows.
        rows: none of them trained on.
        weights: of the rows, as in training; by default all the same.
        temperature_only: True for rows of which any number is enough, and that leave the shares as they are:
            a temperature changes no label.

    Attributes:
        possible: True if there are probabilities to calibrate, and enough rows.
    """

    def __init__(
        self, model: RawModel, rows: LabelledRows, weights: Any = None, *, temperature_only: bool = False
    ) -> None:
        layers = {type(layer): layer for layer in model.core.layers}
        # Rows of weight 0 have no effect.
        self._model, self._count = model, len(rows) if weights is None else int(np.count_nonzero(weights))
        self._probabilities: Any = layers.get(Probabilities)
        self._mixture: Any = layers.get(Mixture)
        self._wide: np.ndarray | None = None
        self._temperature_only = temperature_only
        needed = 1 if temperature_only else MIN_CALIBRATION_ROWS
        self.possible = self._probabilities is not None and self._count >= needed
        if not self.possible:
            return
        targets: Any = model.head.encoded(rows.targets)
        self._targets = np.concatenate(targets) if model.head.per_position else np.asarray(targets)
        # Rows of tokens can all be empty.
        self.possible = len(self._targets) > 0
        self._weights = np.ones(len(self._targets)) if weights is None else np.asarray(weights)
        # Computed once: only attention changes from epoch to epoch.
        self._batches = model.batches(Rows(model.read_inputs(rows.inputs), []), _PREDICT_BATCH)

    def set(self) -> float:
        """Set the shares or, if these are not fitted, the temperature; return the temperature."""
        return set_calibration(self._model, self.unseen())

    def set_shares(self) -> tuple[float, float]:
        """Fit and set the shares of the two paths; return the loss and accuracy of both together."""
        rows = self.unseen()
        shares, loss = rows.shares()
        self._mixture.shares.assign(shares)
        return loss, rows.accuracy(rows.mixed(shares))

    @property
    def mixes(self) -> bool:
        """True if the model has two paths, and enough rows to fit their shares."""
        if not self.possible or self._mixture is None or self._temperature_only:
            return False
        return self._count >= self._mixture.first.rows

    def unseen(self) -> UnseenRows:
        """Return the rows with the model's current logits.

        It sets the temperature to 1 and, if the shares are to be fitted, leaves those of attention alone.
        """
        self._probabilities.temperature.assign(1.0)
        if self.mixes and self._wide is None:
            self._wide = self._path([0.0, 1.0])
        deep = self._path([1.0, 0.0]) if self.mixes else self._logits()
        exclusive = self._probabilities.activation == "softmax"
        return UnseenRows(deep, self._wide, self._targets, self._weights, exclusive)

    def _path(self, shares: list[float]) -> np.ndarray:
        self._mixture.shares.assign(shares)
        return self._logits()

    def _logits(self) -> np.ndarray:
        """Return the logits of the probabilities, float64 `[B, C]`; for a softmax up to a constant a row."""
        found = self._model.predict_batches(self._batches, verbose=0)
        found = np.concatenate(found) if self._model.head.per_position else found
        found = found.astype(np.float64)
        logs = np.log(np.maximum(found, _LEAST))
        if self._probabilities.activation == "softmax":
            return logs
        return logs - np.log(np.maximum(1 - found, _LEAST))


def set_calibration(model: RawModel, rows: UnseenRows) -> float:
    """Set a model's shares or, if these are not fitted, its temperature; return the temperature."""
    layers = {type(layer): layer for layer in model.core.layers}
    temperature = rows.temperature() if rows.wide is None else 1.0
    if rows.wide is not None:
        layers[Mixture].shares.assign(rows.shares()[0])
    layers[Probabilities].temperature.assign(temperature)
    return temperature


class SharesFitted(keras.callbacks.Callback):
    """Fit the shares of a model's two paths after each epoch, and report both paths together.

    Their loss replaces `val_loss`, and their accuracy replaces `val_accuracy`, if it is monitored. So the
    best epoch and the stop depend on both paths together.

    Args:
        fit: of the model in training.
    """

    def __init__(self, fit: Calibration) -> None:
        super().__init__()
        self._fit = fit

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            loss, accuracy = self._fit.set_shares()
            logs |= {"val_loss": loss} | ({"val_accuracy": accuracy} if "val_accuracy" in logs else {})
