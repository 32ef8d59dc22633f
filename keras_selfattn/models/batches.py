"""Batches of rows of unequal length: like lengths together, each batch padded to its own longest row."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

# Batches whose rows are sorted by length together: enough that a batch holds like lengths, few enough that
# every epoch mixes the rows anew.
_POOL = 50
# Pairs of positions in a batch, which attention's memory grows with: 64 rows of 362 tokens, or 1 of 2,896.
_MAX_PAIRS = 2**23


class LengthSortedBatches:
    """Yields int32 ids `[batch, longest row]`, padded with 0, with the rows' labels and weights.

    Args:
        rows: token ids of each row, int32 `[T]`.
        labels: int `[rows]`, or None.
        weights: float `[rows]`, or None.
        batch_size: rows in a batch at most. The last may hold fewer; and where rows are long, so that
            attention's memory would grow with their square, batches are a quarter of the size for each
            doubling of the length.
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
        self._columns = [column for column in (labels, weights) if column is not None]
        self._random = np.random.default_rng(seed) if shuffle else None
        # Rows of a class are batched together, so that the number of batches is the same in every epoch.
        longest = math.sqrt(_MAX_PAIRS / batch_size)
        doublings = np.ceil(np.log2(np.maximum(self._lengths, 1) / longest)).clip(0).astype(int)
        self._classes = [
            (np.flatnonzero(doublings == count), max(1, batch_size // 4 ** int(count)))
            for count in np.unique(doublings)
        ]
        self.order = np.argsort(self._lengths, kind="stable")

    def __len__(self) -> int:
        return sum(math.ceil(len(rows) / size) for rows, size in self._classes)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        for chosen in self._chosen():
            ids = np.zeros((len(chosen), self._lengths[chosen].max(initial=0)), dtype=np.int32)
            for place, index in enumerate(chosen):
                ids[place, : self._lengths[index]] = self._rows[index]
            yield (ids, *(column[chosen] for column in self._columns))

    def dataset(self) -> tf.data.Dataset:
        """Returns the batches as Keras wants them: their number known, both axes of the ids unknown."""
        columns = [tf.TensorSpec([None], tf.as_dtype(column.dtype)) for column in self._columns]
        signature = (tf.TensorSpec([None, None], tf.int32), *columns)
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=signature)
        return dataset.apply(tf.data.experimental.assert_cardinality(len(self))).prefetch(2)

    def _chosen(self) -> list[np.ndarray]:
        """Returns the row indices of each batch."""
        if self._random is None:
            return [batch for rows, size in self._classes for batch in _slices(self._by_length(rows), size)]
        batches: list[np.ndarray] = []
        for rows, size in self._classes:
            for pool in _slices(self._random.permutation(rows), size * _POOL):
                batches += _slices(self._by_length(pool), size)
        return [batches[index] for index in self._random.permutation(len(batches))]

    def _by_length(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(self._lengths[rows], kind="stable")]


def _slices(array: np.ndarray, size: int) -> list[np.ndarray]:
    return [array[start : start + size] for start in range(0, len(array), size)]
