"""Calibration: the distance of predicted probabilities from the rate of right predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# The number of bins of Guo et al. and later papers.
_BINS = 15


def calibration_error(true: Sequence[Any], predicted: Sequence[Any], confidence: np.ndarray) -> float:
    """Return the expected calibration error: the mean gap of confidence and accuracy over 15 equal bins.

    Args:
        true: the label of each row.
        predicted: the prediction for each row.
        confidence: the probability of each prediction, float `[rows]`, in [0, 1].

    Example:

        >>> round(calibration_error(["+", "+"], ["+", "-"], np.array([0.9, 0.9])), 3)
        0.4

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """
    right = np.array([label == found for label, found in zip(true, predicted, strict=True)], dtype=float)
    bins = np.minimum((np.asarray(confidence) * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, weights=np.asarray(confidence) - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / max(1, len(right)))
