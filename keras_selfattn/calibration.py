"""Temperature scaling: confidence that means what it says, without another answer anywhere."""

from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.heads import Probabilities

# The temperatures tried, evenly in their logarithm; neighbours differ by 2 %.
_TEMPERATURES = np.geomspace(0.1, 10, 233)
_PREDICT_BATCH = 256
# Below any probability that float32 holds beside others that sum to 1.
_LEAST = 1e-38


def calibrate(model: RawModel, rows: LabelledRows) -> float | None:
    """Sets the temperature of a classifier to the one of the lowest loss on rows it was not trained on.

    As in Platt's scaling each label is believed but for a share of 1 in `rows` + 2: a model that is right on
    all of a few rows would have no lowest loss otherwise, and be taken for one that is never wrong.

    Args:
        model: trained; a model without probabilities is left as it is.
        rows: as many as there are.

    Returns:
        The temperature, from 0.1 to 10, or None.

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2.
    """
    layer = next((each for each in model.core.layers if isinstance(each, Probabilities)), None)
    if layer is None:
        return None
    layer.temperature.assign(1.0)
    outputs = model.predict(rows.inputs, batch_size=_PREDICT_BATCH, verbose=0)
    targets: Any = model.head.encoded(rows.targets)
    if model.head.per_position:
        outputs, targets = np.concatenate(outputs), np.concatenate(targets)
    if layer.activation == "softmax":
        targets = np.eye(outputs.shape[-1])[targets]
    losses = [_loss(layer.activation, outputs, targets, temperature) for temperature in _TEMPERATURES]
    best = float(_TEMPERATURES[int(np.argmin(losses))])
    layer.temperature.assign(best)
    return best


def _loss(activation: str, outputs: np.ndarray, targets: np.ndarray, temperature: float) -> float:
    """Returns the mean cross-entropy of probabilities `[B, C]` whose logits are divided by a temperature."""
    doubt = 1 / (len(outputs) + 2)
    logs = np.log(np.maximum(outputs.astype(np.float64), _LEAST))
    if activation == "sigmoid":
        against = np.log(np.maximum(1 - outputs.astype(np.float64), _LEAST))
        logits, doubted = (logs - against) / temperature, targets + doubt * (0.5 - targets)
        return float(np.mean(np.logaddexp(0, logits) - doubted * logits))
    logits = logs / temperature  # up to a constant of each row, which a softmax leaves out
    doubted = targets + doubt * (1 / targets.shape[-1] - targets)
    return float(np.mean(np.logaddexp.reduce(logits, axis=-1) - np.sum(doubted * logits, axis=-1)))
