"""The linear readout of random convolutions, with weights for the kinds of features that help.

Axes: B (rows), N (features), C (outputs).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.shapes import compiled, lengths_allowed
from keras_selfattn.models.batches.subsampling import stratified_subsample
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.series.frame_layers import real_frames
from keras_selfattn.models.series.random_convolutions import RandomConvolutions
from keras_selfattn.models.series.ridge import fit_ridge, kind_products, left_out

# The first weights of the kinds of features, as `RandomConvolutions.sizes` lists them. Differences are noise
# in many sets, so they begin low.
_WEIGHTS = (1.0, 1.0, 0.2, 1.0, 0.2, 0.2, 0.2, 0.2, 0.15)
# Tried changes of a weight, and the loss that a change must spare: a smaller gain is chance.
_CHANGES = (0.0, 0.3, 3.0)
_GAIN = 0.99
# The most rows for the fit of a readout, and for the choice of the weights: costs grow with their cube.
_MOST_ROWS, _MOST_TO_CHOOSE = 2000, 600
# Initial shares of attention and the random convolutions. With few rows the convolutions are right more
# often, and a little attention improves the probabilities. Fewer than 100 validation rows are too noisy to
# fit the shares.
SHARES = Shares(deep=0.1, wide=1.0, rows=100)
# Rows in a batch, and its `window`, the cost of a frame: long rows come in smaller batches.
_BATCH, _WINDOW = 32, 48
# The tried scales of the readout, evenly in their logarithm, and the smoothing of each label: predictions for
# left-out rows are nearly always right, so without smoothing no scale would be too large.
_SCALES = np.geomspace(0.3, 60, 80)
_DOUBT = 0.05


def wide_logits(frames: Any, wide: RandomConvolutions, classes: int) -> Any:
    """Return the logits `[B, C]` of the layers "wide" and "readout", of masked, standardised frames.

    Args:
        frames: float `[B, T, F]`.
        wide: the random convolutions, a layer of this name.
        classes: C.
    """
    return keras.layers.Dense(classes, trainable=False, dtype="float32", name="readout")(wide(frames))


def fit_wide(
    core: keras.Model,
    rows: Sequence[np.ndarray],
    targets: np.ndarray,
    *,
    exclusive: bool,
    weights: np.ndarray | None = None,
) -> None:
    """Fit the layer "readout" of a core on the features of its layer "wide".

    Args:
        core: with the layers "frames", "wide" and "readout".
        rows: float32 `[T, F]` each.
        targets: 1 for each label of a row, else 0, `[rows, C]`.
        exclusive: True if a row has one label.
        weights: of the rows, float `[rows]`; by default all the same.
    """
    chosen = stratified_subsample(targets > 0, np.ones(len(rows)), _MOST_ROWS)
    found, order = _features(core, [rows[row] for row in chosen])
    chosen = chosen[order]
    targets = targets[chosen].astype(np.float64)
    weights = np.ones(len(chosen)) if weights is None else weights[chosen]

    def scaled(answers: np.ndarray, of: np.ndarray) -> tuple[float, float]:
        """Return the smallest loss of answers for left-out rows, and the scale that has it."""
        return min((_loss(scale * answers, targets[of], exclusive, weights[of]), scale) for scale in _SCALES)

    sizes = core.get_layer("wide").sizes(rows[0].shape[1])
    some = np.random.default_rng(0).permutation(np.flatnonzero(weights))[:_MOST_TO_CHOOSE]
    products = kind_products(found[some], sizes, weights[some])
    kinds = _chosen_weights(
        lambda tried: scaled(left_out(products, tried, 2 * targets[some] - 1, weights[some]), some)[0]
    )
    ridge = fit_ridge(found, 2 * targets - 1, sizes, kinds, weights)
    _, scale = scaled(ridge.left_out, np.arange(len(chosen)))
    core.get_layer("readout").set_weights([scale * ridge.coefficients, scale * ridge.intercept])


def _features(core: keras.Model, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of rows, float32 `[B, N]`, in another order, and that order."""
    batches = LengthSortedBatches(rows, batch_size=_BATCH, window=_WINDOW, lengths=lengths_allowed())
    frames, wide = core.get_layer("frames"), core.get_layer("wide")
    features = compiled(lambda values: wide(frames(values), mask=real_frames(values)))
    found = [np.asarray(features(values)) for (values,) in batches]
    return np.concatenate(found)[: len(rows)], batches.order


def _chosen_weights(loss: Callable[[Sequence[float]], float]) -> list[float]:
    """Return the weights of the kinds of features, each changed once if left-out rows are answered better."""
    best = list(_WEIGHTS)
    least = loss(best)
    for place, first in enumerate(_WEIGHTS):
        for change in _CHANGES:
            tried = [*best[:place], change * first, *best[place + 1 :]]
            if (found := loss(tried)) < _GAIN * least:
                best, least = tried, found
    return best


def _loss(logits: np.ndarray, targets: np.ndarray, exclusive: bool, weights: np.ndarray) -> float:
    """Return the cross-entropy of slightly smoothed labels."""
    if exclusive:
        doubted = targets * (1 - _DOUBT) + _DOUBT / targets.shape[1]
        normal = np.logaddexp.reduce(logits, axis=1, keepdims=True)
        of_rows = np.sum(doubted * (normal - logits), axis=1)
    else:
        doubted = targets * (1 - _DOUBT) + _DOUBT / 2
        of_rows = np.mean(np.logaddexp(0, logits) - doubted * logits, axis=1)
    return float(np.average(of_rows, weights=weights))
