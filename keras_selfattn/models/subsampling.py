"""Subsamples of rows to fit a linear model on, where all of them would be too many."""

import numpy as np

# Rows of each class that are taken before others, as far as they go.
_FIRST = 10


def stratified_subsample(labels: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """Return rows in random order: all, or as many as cost `budget` at most.

    Where some are left out, ten rows of each class come first, one of each before the second of any: a class
    with few rows is not lost. One row is returned in any case.

    Args:
        labels: whether a row bears a label, bool `[rows, classes]`.
        costs: of each row, `[rows]`.
        budget: for the costs together.

    Returns:
        int64 `[rows]`, the same for the same arguments.

    Example:

        >>> labels = np.array([[1, 0]] * 98 + [[0, 1]] * 2, dtype=bool)
        >>> sorted(stratified_subsample(labels, np.ones(100), 4).tolist())[2:]
        [98, 99]
    """
    order = np.random.default_rng(0).permutation(len(costs))
    if costs.sum() <= budget:
        return order
    rank = np.full(len(order), _FIRST)
    for column in labels.T:
        places = np.flatnonzero(column[order])[:_FIRST]
        rank[places] = np.minimum(rank[places], np.arange(len(places)))
    order = order[np.argsort(rank, kind="stable")]
    return order[: max(1, int((np.cumsum(costs[order]) <= budget).sum()))]
