"""Ragged rows of tokens: cut, merged and joined by stock TensorFlow operations.

Axes: B (texts), T (tokens), P (pieces, or tokens, of all texts).
"""

from typing import Any

import tensorflow as tf

Tensor = Any


def pair_shares(first: Tensor, second: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return how many pieces of two texts are kept, int64 `[B]` each, so that a pair has `most` at most.

    Reference: "longest_first" of Hugging Face's `tokenizers`.
    """
    half = most // 2
    shorter = tf.minimum(first, second)
    less = tf.where(first + second > most, tf.minimum(shorter, half), shorter)
    more = tf.minimum(tf.maximum(first, second), most - less)
    swapped = first > second
    return tf.where(swapped, more, less), tf.where(swapped, less, more)


def first_of_rows(ids: Tensor, rows: Tensor, most: Any) -> tuple[Tensor, Tensor]:
    """Return the first ids of each row, at most so many (one number, or `[B]`), and where each row begins."""
    kept, rows = ranges(rows[:-1], rows[1:], most)  # [P], [B + 1]
    return tf.gather(ids, kept), rows


def ranges(starts: Tensor, ends: Tensor, most: Any = None) -> tuple[Tensor, Tensor]:
    """Return the numbers from each start to its end, `most` at most, int64 `[numbers]`, and their splits."""
    limits = ends if most is None else tf.minimum(ends, starts + most)
    found = tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=tf.constant(1, tf.int64))
    return found.rt_dense_values, found.rt_nested_splits


def merged(places: list[Tensor], values: list[Tensor]) -> Tensor:
    """Return values at their int64 places; of two at one place, the later in the list."""
    return tf.dynamic_stitch([tf.cast(each, tf.int32) for each in places], values)


def ragged(values: Tensor, splits: Tensor) -> Any:
    """Return the rows of values `[P, ...]` that begin at the int64 splits `[B + 1]`."""
    of_splits: Any = tf.RaggedTensor
    return of_splits.from_row_splits(values, splits, validate=False)
