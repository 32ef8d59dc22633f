"""The reliability of probabilities: how often answers of a confidence are right, and calibration's effect."""

from dataclasses import dataclass

import numpy as np

BINS = 15
"""The number of bins of Guo et al. and later papers."""


@dataclass(frozen=True)
class Reliability:
    """Answers by their confidence, in equal bins of [0, 1].

    Args:
        counts: answers in each bin, int `[bins]`.
        confidence: their mean confidence, float `[bins]`; NaN in an empty bin.
        accuracy: the share of them that is right, float `[bins]`; NaN in an empty bin.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of confidence and accuracy, in [0, 1]."""
        gaps = np.abs(np.nan_to_num(self.confidence - self.accuracy))
        return float((gaps * self.counts).sum() / max(1, self.counts.sum()))


def reliability(right: np.ndarray, confidence: np.ndarray) -> Reliability:
    """Return how often answers of each confidence are right.

    Args:
        right: True for a right answer, bool `[answers]`.
        confidence: the probability of each answer, float `[answers]`, in [0, 1].

    Example:

        >>> found = reliability(np.array([True, False]), np.array([0.9, 0.9]))
        >>> round(found.error, 3)
        0.4

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """
    confidence = np.clip(np.nan_to_num(np.asarray(confidence, np.float64)), 0, 1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    sums = [
        np.bincount(bins, weights=each, minlength=BINS) for each in (confidence, np.asarray(right, float))
    ]
    with np.errstate(invalid="ignore"):
        return Reliability(counts, *(each / counts for each in sums))


@dataclass(frozen=True)
class CalibrationEffect:
    """The reliability of a model on the rows that it was calibrated on.

    Args:
        before: with a temperature of 1, or the initial shares of the two paths.
        after: with the fitted ones.
    """

    before: Reliability
    after: Reliability
