"""Batches of sources and answers of similar lengths, bounded by the symbols of both.

Axes: B (rows), S (symbols of a source), T (symbols of an answer), V (vocabulary).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.batches.length_sorted import LengthSortedBatches, padded, shares_of_pairs
from keras_selfattn.models.batches.shapes import few_lengths
from keras_selfattn.models.sequences.sequence_head import labels_of

# Most symbols in a batch, and logits: 64 rows of 256 symbols on both sides together, or 4,096 symbols of
# answers from a vocabulary of 8,192.
_MAX_SYMBOLS, _MAX_LOGITS = 2**14, 2**25


class SequenceBatches(LengthSortedBatches):
    """Yield padded sources and answers with what is to be learned: `((source, target), labels)`.

    A target begins with the begin symbol and lacks the last symbol of its answer, labels lack the first.
    Without answers, batches are `(source,)`.

    Args:
        sources: int32 `[S]` each, the end symbol included.
        answers: of each source, int32 `[T + 1]`, the begin symbol first; None for sources alone.
        weights: float `[rows]`, or None.
        vocabulary_size: number of symbols V.
        settings: the other arguments of `LengthSortedBatches`; `lengths` bounds those of either side.

    Example:

        >>> sources, answers = [np.array([7, 3])], [np.array([2, 8, 9, 3])]
        >>> ((source, target), labels), = SequenceBatches(sources, answers, vocabulary_size=10, batch_size=2)
        >>> source.tolist(), target.tolist(), labels.tolist()
        ([[7, 3]], [[2, 8, 9]], [[8, 9, 3]])
    """

    def __init__(
        self,
        sources: Sequence[np.ndarray],
        answers: Sequence[np.ndarray] | None = None,
        weights: np.ndarray | None = None,
        *,
        vocabulary_size: int,
        lengths: int | None = None,
        **settings: Any,
    ) -> None:
        self._answers = answers
        read = np.array([len(source) for source in sources], np.int64)
        written = np.array([len(answer) - 1 for answer in answers or ()], np.int64)
        # The keys of `np.lexsort`: the last one decides first, and answers cost more than sources.
        self._keys = (read,) if answers is None else (read, written)
        symbols = read if answers is None else read + written
        costs = np.maximum(shares_of_pairs(symbols), np.maximum(symbols, 1) / _MAX_SYMBOLS)
        if answers is not None:
            costs = np.maximum(costs, written * vocabulary_size / _MAX_LOGITS)
        self._few_written = few_lengths(written, lengths) if lengths and len(written) else None
        # Targets of the base are those of rows; here they are a row's number, to find its answer.
        super().__init__(
            sources,
            None if answers is None else np.arange(len(sources)),
            weights,
            costs=costs,
            lengths=lengths,
            **settings,
        )
        if self._random is None:
            self.order = np.concatenate([np.zeros(0, np.int64), *self._chosen()])

    def dataset(self) -> tf.data.Dataset:
        """Return the batches in Keras' form: with a known number, and unknown sizes."""
        ids = tf.TensorSpec([None, None], tf.int32)
        specs: list[Any] = [ids] if self._answers is None else [(ids, ids), ids]
        if self._weights is not None:
            specs.append(tf.TensorSpec([None], tf.float32))
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=tuple(specs))
        return dataset.apply(tf.data.experimental.assert_cardinality(len(self))).prefetch(2)

    def _batch(self, chosen: np.ndarray) -> tuple[Any, ...]:
        source = self.padded_rows(chosen)
        if self._answers is None:
            return (source,)
        answers = [self._answers[row] for row in chosen]
        least = self._least_written(chosen)
        target = padded([answer[:-1] for answer in answers], least)
        labels = padded([labels_of(answer) for answer in answers], least)
        return (source, target), labels, *(() if self._weights is None else (self._weights[chosen],))

    def _least_written(self, chosen: np.ndarray) -> tuple[int, ...]:
        if self._few_written is None:
            return ()
        longest = self._keys[-1][chosen].max()
        return (next(length for length in self._few_written if length >= longest),)

    def _by_length(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.lexsort([key[rows] for key in self._keys])]
