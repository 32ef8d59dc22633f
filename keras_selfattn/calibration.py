"""Temperature scaling: confidence that means what it says, without another answer anywhere."""

from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models import RawModel
from keras_selfattn.models.heads import Probabilities

# The temperatures tried, evenly in their logarithm; neighbours differ by 2 %.
_TEMPERATURES = np.geomspace(0.1, 10, 233)
_PREDICT_BATCH = 256


def calibrate(model: RawModel, rows: LabelledRows) -> float | None:
    """Sets the temperature of a classifier to the one of the lowest loss on rows it was not trained on.

    The loss has one minimum in the inverse temperature, so the best of a grid is near it. Where the rows
    leave it open (a model that is always right), the temperature stays within 0.1 to 10.

    Args:
        model: trained; a model without probabilities is left as it is.
        rows: as many as there are.

    Returns:
        The temperature, or None.

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2.
    """
    layer = next((each for each in model.core.layers if isinstance(each, Probabilities)), None)
    if layer is None:
        return None
    layer.temperature.assign(1.0)
    outputs = model.predict(rows.inputs, batch_size=_PREDICT_BATCH, verbose=0)
    targets = model.head.encoded(rows.targets)
    if model.head.per_position:
        outputs, targets = np.concatenate(outputs), np.concatenate(targets)
    losses = [_loss(layer.activation, outputs, targets, temperature) for temperature in _TEMPERATURES]
    best = float(_TEMPERATURES[int(np.argmin(losses))])
    layer.temperature.assign(best)
    return best


def _loss(activation: str, outputs: np.ndarray, targets: Any, temperature: float) -> float:
    """Returns the mean cross-entropy of probabilities whose logits are divided by a temperature."""
    logs = np.log(np.maximum(outputs.astype(np.float64), 1e-30))
    if activation == "sigmoid":
        logits = (logs - np.log(np.maximum(1 - outputs.astype(np.float64), 1e-30))) / temperature
        return float(np.mean(np.logaddexp(0, logits) - targets * logits))
    logits = logs / temperature  # softmax leaves out a constant of each row
    normal = np.logaddexp.reduce(logits, axis=-1)
    return float(np.mean(normal - np.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]))
