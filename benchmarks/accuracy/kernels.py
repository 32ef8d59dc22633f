"""Random convolutions of series with a ridge classifier on top: the peer of `SeriesClassifier`.

Axes: B (rows), T (frames), F (channels), K (taps of a kernel).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.accuracy.peer import Fitted, Peer, timed
from benchmarks.accuracy.sets import Split

_KERNELS = 10_000
_TAPS = (7, 9, 11)
_ALPHAS = np.logspace(-3, 3, 10)

SETTINGS = {"kernels": _KERNELS, "taps": list(_TAPS), "alphas": _ALPHAS.tolist()}


@dataclass(frozen=True)
class Kernel:
    """One random convolution.

    Args:
        weights: float `[F, K]`, for the channels in `channels`.
        channels: int `[F]`.
        bias: added to the output.
        dilation: frames from tap to tap.
        padding: zeros before and after a series.
    """

    weights: np.ndarray
    channels: np.ndarray
    bias: float
    dilation: int
    padding: int


def draw_kernels(count: int, length: int, channels: int, seed: int) -> list[Kernel]:
    """Draw kernels for series of up to `length` frames.

    Reference: Dempster, Petitjean and Webb 2020, "ROCKET: Exceptionally fast and accurate time series
    classification using random convolutional kernels", section 3.1; subsets of channels as in sktime.
    """
    random = np.random.default_rng(seed)
    return [_drawn(random, length, channels) for _ in range(count)]


def transformed(kernels: Sequence[Kernel], series: Sequence[np.ndarray]) -> np.ndarray:
    """Return two features for each kernel: the share of its outputs above 0, and its largest output.

    Args:
        kernels: as drawn.
        series: float `[T, F]` each, of any lengths; NaN counts as 0. If a kernel does not fit into a series,
            both features are 0.

    Returns:
        float32 `[B, 2 * kernels]`.
    """
    lengths = np.array([len(row) for row in series])
    stacked = np.zeros((series[0].shape[1], len(series), max(1, lengths.max())), np.float32)  # [F, B, T]
    for place, row in enumerate(series):
        stacked[:, place, : len(row)] = np.nan_to_num(row).T
    found = np.zeros((len(series), 2 * len(kernels)), np.float32)
    for place, kernel in enumerate(kernels):
        found[:, 2 * place : 2 * place + 2] = _features(kernel, stacked, lengths)
    return found


def fit(split: Split, seed: int, count: int = _KERNELS) -> Fitted:
    """Train on all training rows; choose the strength of the ridge by leave-one-out."""
    length = max(len(row) for row in split.train.inputs)
    kernels = draw_kernels(count, length, split.train.inputs[0].shape[1], seed)
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=_ALPHAS))
    _, seconds = timed(
        lambda: model.fit(transformed(kernels, split.train.inputs), np.asarray(split.train.targets))
    )
    name = f"{count:,} random kernels"
    return Fitted(name, partial(_predict, kernels, model), (kernels, model), seconds, {})


PEER = Peer("random kernels", SETTINGS, True, fit)


def _predict(kernels: Sequence[Kernel], model: object, series: Sequence[np.ndarray]) -> list[str]:
    return model.predict(transformed(kernels, series)).tolist()  # pyright: ignore[reportAttributeAccessIssue]


def _drawn(random: np.random.Generator, length: int, channels: int) -> Kernel:
    taps = int(random.choice(_TAPS))
    several = int(2 ** random.uniform(0, np.log2(min(channels, taps) + 1)))
    chosen = np.sort(random.choice(channels, several, replace=False))
    weights = random.normal(size=(several, taps))
    weights -= weights.mean(axis=1, keepdims=True)
    # For series shorter than the kernel, the dilation is 1.
    doublings = max(0.0, np.log2(max(1, length - 1) / (taps - 1)))
    dilation = int(2 ** random.uniform(0, doublings))
    padding = (taps - 1) * dilation // 2 if random.random() < 0.5 else 0
    bias = float(random.uniform(-1, 1))
    return Kernel(weights.astype(np.float32), chosen, bias, dilation, padding)


def _features(kernel: Kernel, stacked: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return both features `[B, 2]` of series `[F, B, T]`, which are 0 after their lengths."""
    taps = kernel.weights.shape[1]
    wider = 2 * kernel.padding - (taps - 1) * kernel.dilation
    steps = stacked.shape[2] + wider
    if steps < 1:
        return np.zeros((stacked.shape[1], 2), np.float32)
    sides = ((0, 0), (kernel.padding, kernel.padding))
    given = np.full((stacked.shape[1], steps), kernel.bias, np.float32)  # [B, steps]
    for channel, weights in zip(kernel.channels, kernel.weights, strict=True):
        padded = np.pad(stacked[channel], sides)
        for tap, weight in enumerate(weights):
            start = tap * kernel.dilation
            given += weight * padded[:, start : start + steps]
    counted = np.maximum(0, lengths + wider)  # [B]
    if (counted < steps).any():
        given[np.arange(steps) >= counted[:, None]] = -np.inf
    share = (given > 0).sum(axis=1) / np.maximum(1, counted)
    return np.stack([share, np.where(counted > 0, given.max(axis=1), 0.0)], axis=1)
