"""Temperature scaling: confidence that means what it says, without another answer anywhere."""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.heads import Probabilities
from keras_selfattn.models.mixture import Mixture

# The temperatures tried, evenly in their logarithm; neighbours differ by 2 %.
_TEMPERATURES = np.geomspace(0.1, 10, 233)
_PREDICT_BATCH = 256
# Below any probability that float32 holds beside others that sum to 1.
_LEAST = 1e-38


def calibrate(model: RawModel, rows: LabelledRows) -> float | None:
    """Sets a classifier's temperature, and the shares of its two paths, to what makes given labels likeliest.

    As in Platt's scaling each label is believed but for a share of 1 in `rows` + 2: a model that is right on
    all of a few rows would have no lowest loss otherwise, and be taken for one that is never wrong.

    Args:
        model: trained; a model without probabilities is left as it is.
        rows: as many as there are, none of them trained on.

    Returns:
        The temperature, from 0.1 to 10, or None.

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2.
    """
    layers = {type(layer): layer for layer in model.core.layers}
    probabilities, mixture = layers.get(Probabilities), layers.get(Mixture)
    if probabilities is None:
        return None
    probabilities.temperature.assign(1.0)
    targets: Any = model.head.encoded(rows.targets)
    if model.head.per_position:
        targets = np.concatenate(targets)
    if mixture is not None:
        mixture.shares.assign(_shares(model, mixture, probabilities, rows, targets))
    logits = _logits(probabilities, _outputs(model, rows))
    targets = _borne(probabilities, targets, logits)
    losses = [_loss(probabilities, logits / temperature, targets) for temperature in _TEMPERATURES]
    best = float(_TEMPERATURES[int(np.argmin(losses))])
    probabilities.temperature.assign(best)
    return best


def _shares(
    model: RawModel, mixture: Mixture, probabilities: Probabilities, rows: LabelledRows, targets: Any
) -> np.ndarray:
    """Returns how much attention and the wide path count, neither less than nothing."""
    paths = []
    for alone in ([1.0, 0.0], [0.0, 1.0]):
        mixture.shares.assign(alone)
        paths.append(_logits(probabilities, _outputs(model, rows)))
    borne = _borne(probabilities, targets, paths[0])

    def loss(shares: np.ndarray) -> float:
        return _loss(probabilities, shares[0] * paths[0] + shares[1] * paths[1], borne)

    return minimize(loss, [0.3, 1.0], method="L-BFGS-B", bounds=[(0.0, 10.0)] * 2).x


def _outputs(model: RawModel, rows: LabelledRows) -> np.ndarray:
    found = model.predict(rows.inputs, batch_size=_PREDICT_BATCH, verbose=0)
    return (np.concatenate(found) if model.head.per_position else found).astype(np.float64)


def _logits(layer: Probabilities, outputs: np.ndarray) -> np.ndarray:
    """Returns what the probabilities `[B, C]` are of; for a softmax up to a number for each row."""
    logs = np.log(np.maximum(outputs, _LEAST))
    return logs if layer.activation == "softmax" else logs - np.log(np.maximum(1 - outputs, _LEAST))


def _borne(layer: Probabilities, targets: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Returns encoded targets as 0 or 1 `[B, C]`."""
    return np.eye(logits.shape[-1])[targets] if layer.activation == "softmax" else targets


def _loss(layer: Probabilities, logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the mean cross-entropy of logits `[B, C]` against targets that are doubted a little."""
    doubt = 1 / (len(logits) + 2)
    if layer.activation == "sigmoid":
        doubted = targets + doubt * (0.5 - targets)
        return float(np.mean(np.logaddexp(0, logits) - doubted * logits))
    doubted = targets + doubt * (1 / targets.shape[-1] - targets)
    return float(np.mean(np.logaddexp.reduce(logits, axis=-1) - np.sum(doubted * logits, axis=-1)))
