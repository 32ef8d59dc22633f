"""The share of attention beside a wide path, cross-validated on the training rows."""

from collections.abc import Callable

import numpy as np

from keras_selfattn.data.labelled import LabelledRows, labels_in
from keras_selfattn.errors import DataError
from keras_selfattn.models.base import RawModel
from keras_selfattn.training.calibration import FEWEST, Calibration, fitted_shares, row_losses

# Attention must spare this many standard errors of the loss; a smaller gain is chance.
_ERRORS = 1.0


def cross_fitted_share(rows: LabelledRows, seed: int, trained: Callable[[LabelledRows], RawModel]) -> float:
    """Return the share of attention, relative to the wide path's, from 0 to 1.

    A model is trained on each half of the rows, and the shares of its paths are fitted to the labels of the
    other half. Attention's is 0 unless it reduces the cross-entropy by more than a standard error. It is 0,
    too, if there are too few rows to know: the halves lack labels of each other, or have fewer than 20 rows.

    Args:
        rows: training rows.
        seed: of their division.
        trained: from rows to a model with two paths that is trained on them.
    """
    try:
        halves = rows.split(0.5, seed)
    except DataError:  # of two different rows, say
        return 0.0
    if labels_in(halves[0].targets) != labels_in(halves[1].targets):
        return 0.0
    if min(map(len, halves)) < FEWEST:
        return 0.0
    fits = [Calibration(trained(half), other) for half, other in (halves, halves[::-1])]
    deep, wide, targets = (np.concatenate(each) for each in zip(*(fit.paths() for fit in fits), strict=True))
    return share_of_attention(deep, wide, targets, exclusive=fits[0].exclusive)


def share_of_attention(deep: np.ndarray, wide: np.ndarray, targets: np.ndarray, *, exclusive: bool) -> float:
    """Return the share of attention, relative to the wide path's, from 0 to 1, for logits of unseen rows.

    Args:
        deep: logits of attention, float `[B, C]`.
        wide: logits of the wide path, float `[B, C]`.
        targets: the class, int `[B]`, or 1 for each label, `[B, C]`.
        exclusive: True if a row has one label.

    Example:

        >>> right, wrong = np.array([[4.0, 0.0]] * 50), np.array([[0.0, 4.0]] * 50)
        >>> classes = np.zeros(50, int)
        >>> share_of_attention(wrong, right, classes, exclusive=True)
        0.0
        >>> share_of_attention(right, wrong, classes, exclusive=True)
        1.0
    """
    every = np.ones(len(targets))
    both, _ = fitted_shares(deep, wide, targets, every, exclusive=exclusive)
    alone, _ = fitted_shares(np.zeros_like(deep), wide, targets, every, exclusive=exclusive)
    without = row_losses(alone[1] * wide, targets, exclusive=exclusive)
    spared = without - row_losses(both[0] * deep + both[1] * wide, targets, exclusive=exclusive)
    if spared.mean() <= _ERRORS * spared.std() / np.sqrt(len(spared)):
        return 0.0
    return float(both[0] / both.max())
