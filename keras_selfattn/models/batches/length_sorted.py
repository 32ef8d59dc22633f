"""Batches of rows of similar length, each padded to its own longest row or to one of few lengths."""

import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Weights
from keras_selfattn.models.batches.shapes import FewLengths, few_groups
from keras_selfattn.models.batches.shares import WHOLE, Share

# Number of batches whose rows are sorted by length together: enough that a batch holds similar lengths, few
# enough that every epoch mixes the rows.
SORTED_TOGETHER = 50
_BATCH_SIZE = 32  # Keras' own
# Most attention pairs in a batch, which determine its memory: 64 rows of 362 tokens, or 1 of 2,896.
_MAX_PAIRS = 2**23
# The target of padding in batches of few lengths, which no position has.
PADDED_TARGET = -1


class LengthSortedBatches:
    """Yield padded rows `[batch, longest row, ...]` with their targets and weights.

    Rows of integers are padded with 0, rows of floats with NaN: neither is a value that a row can hold.
    Targets with one array for each row are padded with 0, or with `lengths` with -1; the mask of the outputs
    excludes the padding.

    Args:
        rows: an array for each row, `[T, ...]`, all of one dtype and rank. Axes after the first that differ
            in size are padded, too.
        targets: `[rows, ...]`, or an array `[T]` for each row, or None.
        weights: float `[rows]`; with targets of positions an array `[T]` for each row, padded with 0; or
            None.
        beside: `[rows, ...]`, other inputs of the model; the inputs of a batch are then a pair.
        batch_size: the most rows in a batch. The last batch may hold fewer. If rows are long, batches have a
            half, a quarter, … of the size, so that memory stays bounded.
        window: positions to attend to on either side; by default the whole row.
        parts: rows of so many positions that the model reads for each row, such as the texts of a group.
        costs: share of a batch's memory that each row takes, float `[rows]`; by default that of the pairs of
            positions that attend to each other.
        even: the most positions in a batch, as a multiple of those in a batch of mean rows; None for no such
            bound. One batch of the longest rows can need several times the memory of all others.
        span: positions of a longer row in a batch: a random span in each iteration; by default all. For
            targets of whole rows.
        shuffle: True draws a new order at each iteration; otherwise the longest rows come last, and `order`
            has the positions of the rows.
        seed: of the shuffling and of the spans. The nth iterations of equal seeds are equal.
        pool: with `shuffle`, the batches whose rows are sorted by length together; 1 for batches whose rows
            have any length.
        lengths: the most lengths of batches; by default each batch is as long as its longest row. With it,
            all batches of a length have one number of rows, except the last of the longest rows. Without
            targets that one is filled with copies of its last row, whose outputs are to be left out.
        share: the part of each batch to yield; by default all. All shares are of the same batches and have
            the same shapes, so an incomplete batch leaves out the rows that cannot be shared equally.

    Raises:
        DataError: if there are fewer rows than shares.

    Attributes:
        lengths: T of each row in a batch, int64 `[rows]`.
        order: the order of the rows without shuffling, int64 `[rows]`.

    Example:

        >>> batches = LengthSortedBatches([np.array([7, 8]), np.array([9])], np.array([0, 1]), batch_size=2)
        >>> [ids.tolist() for ids, labels in batches]
        [[[9, 0], [7, 8]]]
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        targets: np.ndarray | list[np.ndarray] | None = None,
        weights: Weights | None = None,
        beside: np.ndarray | None = None,
        *,
        batch_size: int,
        window: int | None = None,
        parts: int = 1,
        costs: np.ndarray | None = None,
        even: float | None = None,
        span: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        pool: int = SORTED_TOGETHER,
        lengths: int | None = None,
        share: Share = WHOLE,
    ) -> None:
        self._rows, self._share, self._pool = rows, share, pool
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        if span is not None:
            self.lengths = np.minimum(self.lengths, span)
        self._targets, self._weights, self._side_inputs = targets, weights, beside
        self._random = np.random.default_rng(seed) if shuffle else None
        self._starts = np.random.default_rng([seed, 2])
        # Rows with the same batch size are batched together, so that all epochs have as many batches.
        if costs is None:
            costs = shares_of_pairs(self.lengths, window)
        if lengths is not None and targets is None:
            batch_size = min(batch_size, 2 ** math.ceil(math.log2(len(rows))))
        halvings = np.ceil(np.log2(batch_size * parts * costs)).clip(0).astype(int)
        if even is not None and len(rows):
            real = np.maximum(self.lengths, 1)
            halvings = np.maximum(halvings, np.ceil(np.log2(real / (even * real.mean()))).astype(int))
            halvings = np.minimum(halvings, int(np.log2(batch_size)))
        self._classes = [
            (np.flatnonzero(halvings == count), share.size(batch_size // 2 ** int(count)))
            for count in np.unique(halvings)
        ]
        self._few: FewLengths | None = None
        if lengths is not None:
            self._classes = few_groups(self._classes, self.lengths)
            self._few = FewLengths(self._classes, self.lengths, lengths)
        self._widest = np.max([row.shape[1:] for row in rows], axis=0, initial=0)
        self.order = np.argsort(self.lengths, kind="stable")
        if len(self.lengths) and not len(self):
            raise DataError(
                f"{share.count} processes cannot share {len(rows)} training rows. Start fewer processes."
            )

    def __len__(self) -> int:
        return sum(
            len(rows) // size + (self._share.divisible(len(rows) % size) > 0) for rows, size in self._classes
        )

    @property
    def smallest_size(self) -> int:
        """The most rows in a batch of the longest rows."""
        return min(size for _, size in self._classes)

    def skip(self, iterations: int) -> None:
        """Draw what so many iterations draw, so that the next one is as it is after them."""
        for _ in range(iterations):
            for _batch in self:
                pass

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        fills = self._few is not None and self._targets is None
        for drawn in self._chosen():
            chosen = self._filled(drawn) if fills else drawn
            # Drawn and padded as a whole, so that all processes go on alike.
            batch = self._batch(chosen)
            if self._share.divisible(len(chosen)):
                yield self._share.of(batch)

    def whole(self) -> tuple[Any, ...]:
        """Return all rows as one batch in the order of `order`, however much memory its length needs."""
        return self._share.of(self._batch(self.order))

    def _batch(self, chosen: np.ndarray) -> tuple[Any, ...]:
        """Return the batch of the rows at the chosen places."""
        rows: Any = self.padded_rows(chosen)
        if self._side_inputs is not None:
            rows = (rows, self._side_inputs[chosen])
        return (rows, *self._columns(chosen))

    def padded_rows(self, chosen: np.ndarray) -> np.ndarray:
        """Return the rows at the chosen places, padded, without other inputs."""
        return padded([self._spanned(row) for row in chosen], self._least_shape(chosen))

    def _least_shape(self, chosen: np.ndarray) -> tuple[int, ...]:
        """Return the least size of each axis of a batch of rows after the first."""
        if self._few is None:
            return ()
        return self._few.of(self.lengths[chosen]), *self._widest.tolist()

    def _filled(self, chosen: np.ndarray) -> np.ndarray:
        """Return the rows of a batch, the last one repeated if they are too few."""
        lacking = self.smallest_size - len(chosen)
        return np.append(chosen, np.repeat(chosen[-1:], max(0, lacking)))

    def dataset(self) -> tf.data.Dataset:
        """Return the batches in Keras' form: with a known number, and unknown sizes where they vary."""
        others = zip(*(row.shape[1:] for row in self._rows), strict=True)
        sizes = [size if {size}.issuperset(more) else None for size, *more in others]
        of_rows: Any = tf.TensorSpec([None, None, *sizes], tf.as_dtype(self._rows[0].dtype))
        if self._side_inputs is not None:
            shape = [None, *self._side_inputs.shape[1:]]
            of_rows = (of_rows, tf.TensorSpec(shape, tf.as_dtype(self._side_inputs.dtype)))
        specs = [of_rows]
        if self._targets is not None:
            first = self._targets[0]
            shape = [None, None] if self._per_position else [None, *first.shape]
            specs.append(tf.TensorSpec(shape, tf.as_dtype(first.dtype)))
        if self._weights is not None:
            shape = [None, None] if isinstance(self._weights, list) else [None]
            specs.append(tf.TensorSpec(shape, tf.float32))
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=tuple(specs))
        return dataset.apply(tf.data.experimental.assert_cardinality(len(self))).prefetch(2)

    @property
    def _per_position(self) -> bool:
        return isinstance(self._targets, list)

    def _spanned(self, place: int) -> np.ndarray:
        """Return a row, or a random span of a longer one."""
        row, length = self._rows[place], self.lengths[place]
        start = 0 if len(row) == length else self._starts.integers(len(row) - length + 1)
        return row[start : start + length]

    def _columns(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Yield targets and weights of a batch."""
        if self._targets is not None and not self._per_position:
            yield np.asarray(self._targets)[chosen]
        elif self._targets is not None:
            # Compiled steps hand no mask to the metrics.
            fill = 0 if self._few is None else PADDED_TARGET
            yield padded([self._targets[row] for row in chosen], self._least_shape(chosen)[:1], fill)
        if isinstance(self._weights, list):
            least = self._least_shape(chosen)[:1]
            # 0 in place of the NaN of padding: no position's weight is NaN.
            yield np.nan_to_num(padded([self._weights[row] for row in chosen], least))
        elif self._weights is not None:
            yield self._weights[chosen]

    def _chosen(self) -> list[np.ndarray]:
        """Return the row indices of each batch."""
        if self._random is None:
            return [batch for rows, size in self._classes for batch in _slices(self._by_length(rows), size)]
        batches: list[np.ndarray] = []
        for rows, size in self._classes:
            for pool in _slices(self._random.permutation(rows), size * self._pool):
                batches += _slices(self._by_length(pool), size)
        return [batches[index] for index in self._random.permutation(len(batches))]

    def _by_length(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(self.lengths[rows], kind="stable")]


def shares_of_pairs(lengths: np.ndarray, window: int | None = None) -> np.ndarray:
    """Return the share of a batch's memory that the attention pairs of each row take, float `[rows]`."""
    real = np.maximum(lengths, 1)
    return real * (real if window is None else np.minimum(real, 2 * window + 1)) / _MAX_PAIRS


def checked_size(batch_size: int | None) -> int:
    """Return the number of rows of a batch: the given one, or 32 for None.

    Raises:
        ConfigError: if it is not a positive integer.
    """
    if batch_size is None:
        return _BATCH_SIZE
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ConfigError(f"`batch_size` must be a positive integer. Received {batch_size!r}.")
    return int(batch_size)


def padded(rows: Sequence[np.ndarray], least: Sequence[int] = (), fill: int = 0) -> np.ndarray:
    """Return rows `[T, ...]` as one array `[rows, longest, ...]`, filled with `fill` or, for floats, NaN.

    Every axis has the size of its longest row, and at least that of `least`, if it is given.
    """
    dtype = rows[0].dtype
    sizes = np.max([row.shape for row in rows] + ([tuple(least)] if least else []), axis=0)
    found = np.full((len(rows), *sizes), np.nan if dtype.kind == "f" else fill, dtype=dtype)
    for place, row in enumerate(rows):
        found[(place, *map(slice, row.shape))] = row
    return found


def _slices(array: np.ndarray, size: int) -> list[np.ndarray]:
    return [array[start : start + size] for start in range(0, len(array), size)]
