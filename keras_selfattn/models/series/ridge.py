"""Ridge regression in closed form, with the penalty that has the smallest error on left-out rows.

Axes: B (rows), N (features), R (directions), C (outputs).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

# Tried penalties for each row, for features whose variances sum to about 1.
PENALTIES = tuple(10.0 ** np.arange(-4, 4.01, 0.5))
# Deviations up to this are rounding of a constant.
_CONSTANT = 1e-6
# Below this share, the residual is rounding.
_ROUNDING = 1e-12


class Ridge(NamedTuple):
    """A regression: coefficients `[N, C]`, intercept `[C]`, and predictions `[B, C]` for left-out rows."""

    coefficients: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray


def fit_ridge(
    features: np.ndarray,
    targets: np.ndarray,
    sizes: Sequence[int] | None = None,
    shares: Sequence[float] = (1.0,),
    weights: np.ndarray | None = None,
    blocks: int | None = None,
) -> Ridge:
    """Return the ridge regression from features to targets with the smallest error on left-out rows.

    Features are standardised; a constant one is ignored. One row is left out at a time, in closed form; or a
    block of rows, if neighbours are alike.

    Args:
        features: float `[B, N]`.
        targets: float `[B, C]`.
        sizes: of each kind of features, N in all; by default they are of one kind.
        shares: the total weight of each kind, independent of its number of features.
        weights: of the rows, float `[B]`; by default all the same.
        blocks: the number of blocks of rows to leave out; by default, each row alone.

    Example:

        >>> features = np.arange(8.0)[:, None]
        >>> found = fit_ridge(features, 3 * features + 1)
        >>> print(np.round(found.coefficients, 3), np.round(found.intercept, 2))
        [[3.]] [1.]

    Reference: Hastie et al. 2009, "The Elements of Statistical Learning", section 7.10, equation 7.64.
    """
    wide, targets = features.astype(np.float64), targets.astype(np.float64)
    weights = _relative(weights, len(wide))
    _, deviation = _statistics(wide, weights)
    scale = _scale(deviation, [wide.shape[1]] if sizes is None else sizes, shares)
    wide *= scale
    path = _Path.of(wide, targets, weights)
    if blocks is None or len(wide) < 2:
        errors = path.left_out()
    else:
        errors = _blocks_left_out(wide, targets, weights, blocks)
    best = _best(errors, weights)
    coefficients = path.coefficients(PENALTIES[best])
    intercept = path.centre - path.mean @ coefficients
    return Ridge(coefficients * scale[:, None], intercept, targets - errors[best])


def kind_products(features: np.ndarray, sizes: Sequence[int], weights: np.ndarray) -> np.ndarray:
    """Return the products of rows in the features of each kind, for `left_out`, float64 `[kinds, B, B]`.

    Args:
        features: float `[B, N]`.
        sizes: of each kind of features, N in all.
        weights: of the rows, float `[B]`.
    """
    weights = _relative(weights, len(features))
    found = np.zeros((len(sizes), len(features), len(features)))
    starts = np.cumsum([0, *sizes])
    for kind, (start, stop) in enumerate(pairwise(starts)):
        wide = features[:, start:stop].astype(np.float64)
        mean, deviation = _statistics(wide, weights)
        wide = np.sqrt(weights)[:, None] * (wide - mean) * _scale(deviation, [stop - start], (1.0,))
        found[kind] = wide @ wide.T
    return found


def left_out(
    products: np.ndarray, shares: Sequence[float], targets: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the predictions of `fit_ridge` for left-out rows, `[B, C]`, for the shares of the kinds.

    Args:
        products: of the rows, as `kind_products` returns them, with the same weights.
        shares: the total weight of each kind.
        targets: float `[B, C]`.
        weights: of the rows, float `[B]`.
    """
    weights = _relative(weights, len(targets))
    root = np.sqrt(weights)[:, None]
    rest = root * (targets - np.average(targets, axis=0, weights=weights))
    errors = _left_out_errors(rest, root, *_kept(*np.linalg.eigh(np.tensordot(shares, products, 1))))
    return targets - errors[_best(errors, weights)]


class _Path(NamedTuple):
    """The common part of the regressions for all penalties."""

    mean: np.ndarray
    centre: np.ndarray
    root: np.ndarray
    scaled: np.ndarray
    rest: np.ndarray
    directions: np.ndarray
    variances: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> "_Path":
        mean, centre = (np.average(each, axis=0, weights=weights) for each in (features, targets))
        root = np.sqrt(weights)[:, None]
        scaled = features - mean
        scaled *= root  # in place: there can be 400 MB of them
        return cls(mean, centre, root, scaled, root * (targets - centre), *_directions(scaled))

    def coefficients(self, penalty: float) -> np.ndarray:
        turned = self.directions.T @ self.rest / (self.variances + penalty)[:, None]  # [R, C]
        return self.scaled.T @ (self.directions @ turned)

    def left_out(self) -> np.ndarray:
        """Return the errors on each row when only it is left out, by penalty, `[penalties, B, C]`."""
        return _left_out_errors(self.rest, self.root, self.variances, self.directions)


def _left_out_errors(
    rest: np.ndarray, root: np.ndarray, variances: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    turned, square = directions.T @ rest, root[:, 0] ** 2
    found = []
    for penalty in PENALTIES:
        kept = variances / (variances + penalty)
        # The leverage of each row's own target, beside its effect on the mean.
        own = square / square.sum() + directions**2 @ kept
        errors = rest - directions @ (kept[:, None] * turned)
        found.append(errors / np.maximum(1 - own, _ROUNDING)[:, None] / root)
    return np.stack(found)


def _best(errors: np.ndarray, weights: np.ndarray) -> int:
    """Return the place of the penalty with the smallest errors, `[penalties, B, C]`."""
    return int(np.argmin([np.average((each**2).mean(axis=1), weights=weights) for each in errors]))


def _relative(weights: np.ndarray | None, rows: int) -> np.ndarray:
    """Return weights of mean 1, none of them 0."""
    return np.ones(rows) if weights is None else np.maximum(weights / np.mean(weights), _ROUNDING)


def _statistics(features: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean and deviation of each feature."""
    mean = np.average(features, axis=0, weights=weights)
    centred = features - mean
    return mean, np.sqrt(np.einsum("b,bn,bn->n", weights, centred, centred) / weights.sum())


def _blocks_left_out(
    features: np.ndarray, targets: np.ndarray, weights: np.ndarray, blocks: int
) -> np.ndarray:
    """Return the errors on each row when its block of rows is left out, `[penalties, B, C]`."""
    found = np.zeros((len(PENALTIES), *targets.shape))
    for held in np.array_split(np.arange(len(features)), min(blocks, len(features))):
        path = _Path.of(*(np.delete(each, held, axis=0) for each in (features, targets, weights)))
        for place, penalty in enumerate(PENALTIES):
            answers = (features[held] - path.mean) @ path.coefficients(penalty) + path.centre
            found[place, held] = targets[held] - answers
    return found


def _scale(deviation: np.ndarray, sizes: Sequence[int], shares: Sequence[float]) -> np.ndarray:
    """Return the scales that make the variances of each kind of features sum to its share, `[N]`."""
    varies = deviation > _CONSTANT
    starts = np.cumsum([0, *sizes])
    each = [
        np.full(stop - start, share / max(1, varies[start:stop].sum()))
        for start, stop, share in zip(starts, starts[1:], shares, strict=False)
    ]
    return np.where(varies, np.sqrt(np.concatenate(each)) / np.maximum(deviation, _CONSTANT), 0.0)


def _directions(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the left singular vectors `[B, R]` of centred features, and the squared singular values."""
    rows, features = scaled.shape
    values, vectors = _kept(*np.linalg.eigh(scaled @ scaled.T if rows <= features else scaled.T @ scaled))
    return (vectors if rows <= features else scaled @ vectors / np.sqrt(values)), values


def _kept(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues above rounding, and their vectors."""
    kept = values > _ROUNDING * max(values[-1], 0.0)
    return values[kept], vectors[:, kept]
