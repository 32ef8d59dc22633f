"""Subsamples of rows for a linear model, if all rows would be too many."""

import numpy as np

# Rows of each class that are taken first.
_FIRST = 10


def stratified_subsample(labels: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """Return rows in random order: all, or as many as cost at most `budget`.

    If some are left out, ten rows of each class come first, one of each class before the second of any, so no
    class with few rows is lost. At least one row is returned.

    Args:
        labels: True where a row has a label, bool `[rows, classes]`.
        costs: of each row, `[rows]`.
        budget: the limit of the total cost.

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
