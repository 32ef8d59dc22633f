"""Batches of rows of unequal length: like lengths together, each batch padded to its own longest row."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

# Batches whose rows are sorted by length together: enough that a batch holds like lengths, few enough that
# every epoch mixes the rows anew.
_POOL = 50


class LengthSortedBatches:
    """Yields int32 ids `[batch, longest row]`, padded with 0, with the rows' labels and weights.

    Args:
        rows: token ids of each row, int32 `[T]`.
        labels: int `[rows]`, or None.
        weights: float `[rows]`, or None.
        batch_size: rows in a batch (the last may hold fewer).
        shuffle: draw a new order at each iteration; otherwise the longest rows come last, and `order` tells
            which row is where.
        seed: of the shuffling. The nth iteration of equal seeds is the same.

    Example:

        >>> batches = LengthSortedBatches([np.array([7, 8]), np.array([9])], np.array([0, 1]), batch_size=2)
        >>> [ids.tolist() for ids, labels in batches]
        [[[9, 0], [7, 8]]]
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        labels: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        self._rows = rows
        self._lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.columns = [column for column in (labels, weights) if column is not None]
        self._batch_size = batch_size
        self._random = np.random.default_rng(seed) if shuffle else None
        self.order = np.argsort(self._lengths, kind="stable")

    def __len__(self) -> int:
        return math.ceil(len(self._rows) / self._batch_size)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        for chosen in self._chosen():
            ids = np.zeros((len(chosen), self._lengths[chosen].max(initial=0)), dtype=np.int32)
            for place, index in enumerate(chosen):
                ids[place, : self._lengths[index]] = self._rows[index]
            yield (ids, *(column[chosen] for column in self.columns))

    def _chosen(self) -> list[np.ndarray]:
        """Returns the row indices of each batch."""
        size = self._batch_size
        if self._random is None:
            return _slices(self.order, size)
        batches: list[np.ndarray] = []
        for pool in _slices(self._random.permutation(len(self._rows)), size * _POOL):
            batches += _slices(pool[np.argsort(self._lengths[pool], kind="stable")], size)
        return [batches[index] for index in self._random.permutation(len(batches))]


def _slices(array: np.ndarray, size: int) -> list[np.ndarray]:
    return [array[start : start + size] for start in range(0, len(array), size)]
