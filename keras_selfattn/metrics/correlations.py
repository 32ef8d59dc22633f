"""Correlations of two columns of numbers, by value and by rank."""

import numpy as np


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Return Pearson's correlation of numbers, `[rows]` each; NaN if all numbers of either are equal.

    Example:

        >>> pearson(np.array([1, 2, 3]), np.array([6, 4, 2]))
        -1.0
    """
    columns = [np.asarray(each, np.float64) for each in (first, second)]
    # Of equal numbers the mean may differ in its last digit, so that their spread is not 0.
    if any((column == column[0]).all() for column in columns):
        return float("nan")
    x, y = (column - column.mean() for column in columns)
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return Pearson's correlation of the ranks, in which ties have their mean rank; NaN as `pearson`.

    Example:

        >>> spearman(np.array([1, 2, 5]), np.array([0.1, 0.2, 0.3]))
        1.0
    """
    return pearson(ranks(first), ranks(second))


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, counted from 1; ties have their mean rank, and beside NaN none has one.

    Example:

        >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse.ravel()]
