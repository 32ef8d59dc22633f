"""Ridge regression in closed form, with the penalty that errs least on rows left out.

Axes: B (rows), N (features), R (directions), C (outputs).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Penalties tried, on features whose variances add up to about 1, a row.
_PENALTIES = tuple(10.0 ** np.arange(-4, 4.01, 0.5))
# Deviations that are rounding of a constant.
_CONSTANT = 1e-6
# A share below which what is left is rounding.
_ROUNDING = 1e-12


class Ridge(NamedTuple):
    """A regression: coefficients `[N, C]`, intercept `[C]`, and what it answers `[B, C]` to rows left out."""

    coefficients: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray


def fit_ridge(
    features: np.ndarray,
    targets: np.ndarray,
    sizes: Sequence[int] | None = None,
    shares: Sequence[float] = (1.0,),
    weights: np.ndarray | None = None,
) -> Ridge:
    """Returns the ridge regression from features to targets that errs least on rows left out, one at a time.

    Features are standardised; a constant one has no part. What is left out and answered has a closed form.

    Args:
        features: float `[B, N]`.
        targets: float `[B, C]`.
        sizes: of each kind of features, N in all; by default they are of one kind.
        shares: what each kind weighs as a whole, however many features it has.
        weights: of the rows, float `[B]`; by default all the same.

    Example:

        >>> features = np.arange(8.0)[:, None]
        >>> found = fit_ridge(features, 3 * features + 1)
        >>> print(np.round(found.coefficients, 3), np.round(found.intercept, 2))
        [[3.]] [1.]

    Reference: Hastie et al. 2009, "The Elements of Statistical Learning", section 7.10, equation 7.64.
    """
    wide, targets = features.astype(np.float64), targets.astype(np.float64)
    weights = np.ones(len(wide)) if weights is None else np.maximum(weights / np.mean(weights), _ROUNDING)
    mean, centre = (np.average(each, axis=0, weights=weights) for each in (wide, targets))
    deviation = np.sqrt(np.average((wide - mean) ** 2, axis=0, weights=weights))
    scale = _scale(deviation, [wide.shape[1]] if sizes is None else sizes, shares)
    root = np.sqrt(weights)[:, None]
    scaled, rest = root * (wide - mean) * scale, root * (targets - centre)
    directions, variances = _directions(scaled)  # [B, R], [R]
    turned = directions.T @ rest  # [R, C]
    best = (np.inf, np.zeros_like(rest), np.zeros_like(turned))
    for penalty in _PENALTIES:
        dual = turned / (variances + penalty)[:, None]
        answers = directions @ (variances[:, None] * dual)
        # How far each row's own target draws its answer, beside what it draws the mean.
        own = weights / weights.sum() + directions**2 @ (variances / (variances + penalty))
        errors = (rest - answers) / np.maximum(1 - own, _ROUNDING)[:, None]
        if (error := float((errors**2).mean())) < best[0]:
            best = (error, errors, dual)
    coefficients = (scaled.T @ (directions @ best[2])) * scale[:, None]
    return Ridge(coefficients, centre - mean @ coefficients, targets - best[1] / root)


def _scale(deviation: np.ndarray, sizes: Sequence[int], shares: Sequence[float]) -> np.ndarray:
    """Returns what makes the variances of each kind of features add up to its share, `[N]`."""
    varies = deviation > _CONSTANT
    starts = np.cumsum([0, *sizes])
    each = [
        np.full(stop - start, share / max(1, varies[start:stop].sum()))
        for start, stop, share in zip(starts, starts[1:], shares, strict=False)
    ]
    return np.where(varies, np.sqrt(np.concatenate(each)) / np.maximum(deviation, _CONSTANT), 0.0)


def _directions(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the left singular vectors `[B, R]` of centred features, and the squares of their values."""
    rows, features = scaled.shape
    values, vectors = np.linalg.eigh(scaled @ scaled.T if rows <= features else scaled.T @ scaled)
    kept = values > _ROUNDING * max(values[-1], 0.0)
    values, vectors = values[kept], vectors[:, kept]
    return (vectors if rows <= features else scaled @ vectors / np.sqrt(values)), values
