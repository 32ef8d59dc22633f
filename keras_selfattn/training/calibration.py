"""Calibration on held-out rows: of probabilities by a temperature, of two paths by their shares."""

import math
from typing import Any, cast

import keras
import numpy as np
from scipy.optimize import minimize, minimize_scalar, nnls

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.reliability import CalibrationEffect, Reliability, reliability
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.heads.label_rules import largest
from keras_selfattn.models.heads.number_head import InUnits, NumbersHead
from keras_selfattn.models.heads.probabilities import Mixture, Probabilities
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.targets import NUMBERS

_PREDICT_BATCH = 256
_HOTTEST = 10.0
# Fewer rows are too noisy: one more mistake would change the temperature.
_FEWEST = 20
# The first shares of two paths to numbers count as much as so many rows.
_PRIOR_ROWS = 20
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
        The temperature, from 0.1 to 10, or None if nothing was set; 1 where shares were.

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2.
    """
    fit = calibration_of(model, rows)
    return fit.set() if fit.possible else None


def has_two_paths(model: Any) -> bool:
    """Return True if a model has another path beside attention; training steps change attention only."""
    # A part of a model, which is trained on pairs, has no core.
    return any(isinstance(layer, Mixture) for layer in getattr(model, "core", model).layers)


def copy_calibration(source: RawModel, target: RawModel) -> None:
    """Copy the temperature and shares of a model to another one of the same config."""
    for layer in source.core.layers:
        if isinstance(layer, Probabilities | Mixture):
            target.core.get_layer(layer.name).set_weights(layer.get_weights())


def calibration_of(model: RawModel, rows: LabelledRows, weights: Any = None) -> "Calibration | NumberShares":
    """Return the fit for a model: of its probabilities, or of the shares of two paths to numbers."""
    in_units = any(isinstance(layer, InUnits) for layer in model.core.layers)
    return (NumberShares if in_units else Calibration)(model, rows, weights)


class Calibration:
    """The fit of the parameters between a model's logits and its probabilities.

    Args:
        model: a model that has seen rows.
        rows: none of them trained on.
        weights: of the rows, as in training; by default all the same.

    Attributes:
        possible: True if there are probabilities to calibrate, and enough rows.
        effect: of `set`; None before.
    """

    def __init__(self, model: RawModel, rows: LabelledRows, weights: Any = None) -> None:
        layers = {type(layer): layer for layer in model.core.layers}
        # Rows of weight 0 have no effect.
        self._model, self._count = model, len(rows) if weights is None else int(np.count_nonzero(weights))
        self._independent = rows.independent
        self._probabilities: Any = layers.get(Probabilities)
        self._mixture: Any = layers.get(Mixture)
        self._wide: np.ndarray | None = None
        self._of_scores = model.head.target_kind == NUMBERS
        self.effect: CalibrationEffect | None = None
        self.possible = self._probabilities is not None and self._count >= _FEWEST
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
        self._probabilities.temperature.assign(1.0)
        if self.mixes:
            deep, wide, shares, _ = self._set_shares()
            first = self._mixture.first
            self.effect = self._compared(
                first.deep * deep + first.wide * wide, shares[0] * deep + shares[1] * wide
            )
            return 1.0
        logits = self._logits()
        temperature = self._fitted_temperature(logits)
        self._probabilities.temperature.assign(temperature)
        self.effect = self._compared(logits, logits / temperature)
        return temperature

    def set_shares(self) -> dict[str, float]:
        """Fit and set the shares of the two paths; return the loss and accuracy of both together."""
        deep, wide, shares, loss = self._set_shares()
        if self._of_scores:
            return {"loss": loss}
        logits = shares[0] * deep + shares[1] * wide
        if not self._probabilities.exclusive:
            right = np.mean((logits > 0) == (self._targets > 0), axis=-1)
        else:
            right = largest(logits) == self._targets
        return {"loss": loss, "accuracy": float(np.average(right, weights=self._weights))}

    @property
    def mixes(self) -> bool:
        """True if the model has two paths, and enough rows to fit their shares."""
        enough = self._mixture is not None and min(self._count, self._independent) >= self._mixture.first.rows
        return self.possible and enough

    def _set_shares(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the current logits of attention and of the wide path, their shares, and the loss of both."""
        doubt = 1 / (len(self._targets) + 2)
        if self._wide is None:
            self._wide = self._path([0.0, 1.0])
        deep, wide = self._path([1.0, 0.0]), self._wide

        def loss(shares: np.ndarray) -> float:
            return self._loss(shares[0] * deep + shares[1] * wide, doubt)

        found: Any = minimize(loss, [0.3, 0.7], method="L-BFGS-B", bounds=[(0.0, _HOTTEST)] * 2)
        shares = found.x if math.isfinite(found.fun) else np.array([1.0, 0.0])
        self._mixture.shares.assign(shares)
        return deep, wide, shares, float(found.fun)

    def _compared(self, before: np.ndarray, after: np.ndarray) -> CalibrationEffect | None:
        if self._of_scores:  # which are not right or wrong
            return None
        return CalibrationEffect(self._reliability(before), self._reliability(after))

    def _reliability(self, logits: np.ndarray) -> Reliability:
        """Return the reliability of the answers; of several labels a row, of each label's probability."""
        if not self._probabilities.exclusive:
            shares = (1 + np.tanh(logits / 2)) / 2  # exp(-logits) would overflow
            return reliability(self._targets.ravel() > 0, shares.ravel())
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        right = largest(logits) == self._targets
        return reliability(right, weights.max(axis=-1) / weights.sum(axis=-1))

    def _fitted_temperature(self, logits: np.ndarray) -> float:
        # On few rows, smoothed labels would make a nearly perfect model underconfident; a prior does not.
        def loss(log: float) -> float:
            return self._loss(logits / math.exp(log), doubt=0.0) + log**2 / (2 * len(logits))

        bounds = (-math.log(_HOTTEST), math.log(_HOTTEST))
        found: Any = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
        return math.exp(found.x) if math.isfinite(found.fun) else 1.0

    def _path(self, shares: list[float]) -> np.ndarray:
        self._mixture.shares.assign(shares)
        return self._logits()

    def _logits(self) -> np.ndarray:
        """Return the logits of the probabilities, float64 `[B, C]`; for a softmax up to a constant a row."""
        found = self._model.predict_batches(self._batches, verbose=0)
        found = np.concatenate(found) if self._model.head.per_position else found
        found = found.astype(np.float64)
        logs = np.log(np.maximum(found, _LEAST))
        if self._probabilities.exclusive:
            return logs
        return logs - np.log(np.maximum(1 - found, _LEAST))

    def _loss(self, logits: np.ndarray, doubt: float) -> float:
        """Return the mean cross-entropy of logits against the smoothed targets."""
        if not self._probabilities.exclusive:
            doubted = self._targets + doubt * (0.5 - self._targets)
            of_rows = np.mean(np.logaddexp(0, logits) - doubted * logits, axis=-1)
            return float(np.average(of_rows, weights=self._weights))
        most = logits.max(axis=-1, keepdims=True)
        normal = most[:, 0] + np.log(np.exp(logits - most).sum(axis=-1))
        borne = logits[np.arange(len(logits)), self._targets]
        of_rows = normal - (1 - doubt) * borne - doubt * logits.mean(axis=-1)
        return float(np.average(of_rows, weights=self._weights))


class NumberShares:
    """The fit of the shares of attention and of a wide path that predict the same numbers, by least squares.

    Args:
        model: a model that has seen rows.
        rows: none of them trained on.
        weights: of the rows, as in training; by default all the same.

    Attributes:
        possible: True if there are two paths, and enough rows.
        effect: None: there are no probabilities.
    """

    effect: CalibrationEffect | None = None

    def __init__(self, model: RawModel, rows: LabelledRows, weights: Any = None) -> None:
        self._model, self._head = model, cast(NumbersHead, model.head)
        layers = {type(layer): layer for layer in model.core.layers}
        self._mixture: Any = layers.get(Mixture)
        count = len(rows) if weights is None else int(np.count_nonzero(weights))
        self.possible = self._mixture is not None and count >= max(_FEWEST, self._mixture.first.rows)
        if not self.possible:
            return
        self._targets = self._standardised(model.head.encoded(rows.targets))
        self._weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
        # Computed once: only attention changes from epoch to epoch.
        self._batches = model.batches(Rows(model.read_inputs(rows.inputs), []), _PREDICT_BATCH)
        self._wide: np.ndarray | None = None

    @property
    def mixes(self) -> bool:
        """True if shares are fitted."""
        return self.possible

    def set(self) -> float:
        """Set the shares; return 1, the temperature of numbers."""
        self.set_shares()
        return 1.0

    def set_shares(self) -> dict[str, float]:
        """Fit and set the shares of the two paths, at least 0; return the figures of both together."""
        if self._wide is None:
            self._wide = self._path([0.0, 1.0])
        deep, wide = self._path([1.0, 0.0]), self._wide  # [B, N]
        root = np.sqrt(self._weights)[:, None]
        # Few rows would shrink both paths to what is sure; rows of the first shares hold against it.
        prior = math.sqrt(_PRIOR_ROWS * deep.shape[1]) * np.eye(2)
        paths = np.vstack([np.stack([(root * deep).ravel(), (root * wide).ravel()], axis=1), prior])
        wanted = np.concatenate([(root * self._targets).ravel(), prior @ self._mixture.first[:2]])
        shares = nnls(paths, wanted)[0] if np.isfinite(paths).all() else np.array([1.0, 0.0])
        self._mixture.shares.assign(shares)
        error = shares[0] * deep + shares[1] * wide - self._targets
        absolute = np.abs(error) * self._head.deviation
        return {
            "loss": float(np.average((error**2).mean(axis=1), weights=self._weights)),
            "mean_absolute_error": float(absolute.mean()),
        }

    def _path(self, shares: list[float]) -> np.ndarray:
        self._mixture.shares.assign(shares)
        return self._standardised(self._model.predict_batches(self._batches, verbose=0))

    def _standardised(self, numbers: Any) -> np.ndarray:
        """Return numbers as deviations from the mean, float64 `[B, N]`."""
        return (np.asarray(numbers, np.float64) - self._head.mean) / self._head.deviation


class SharesFitted(keras.callbacks.Callback):
    """Fit the shares of a model's two paths after each epoch, and report both paths together.

    Their loss replaces `val_loss`, and their accuracy or absolute error replaces that of the epoch, if it is
    monitored. So the best epoch and the stop depend on both paths together.

    Args:
        fit: of the model in training.
    """

    def __init__(self, fit: Calibration | NumberShares) -> None:
        super().__init__()
        self._fit = fit

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            found = {f"val_{name}": value for name, value in self._fit.set_shares().items()}
            logs |= {name: value for name, value in found.items() if name in logs or name == "val_loss"}
