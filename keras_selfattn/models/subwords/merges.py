"""Merge the bytes of words to pieces by byte-pair encoding, as TensorFlow ops.

All words are merged side by side. Each step merges, of each stretch of a word, the pairs that come first in
the list of merges; so the number of steps depends on the longest word, and beyond some hundred bytes no more.

Axes: R (merges), W (words), A (symbols of all words), K (stretches of all words), M (pairs of one step).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any

# Added to the first symbol of each word: no merge has such a symbol at its right, so none joins two words.
_FIRST_BIT = 24
FIRST = 2**_FIRST_BIT
# The order of a pair: its rank, and below it 0, or the place of a pair that only merges one at a time.
_RANK_BITS = 32
_NONE = 2**62


class Merges:
    """Byte-pair encoding of words, given as symbols.

    The pair of the lowest rank is merged first, of several the leftmost, until no pair of the word is in the
    list. The pairs of a step are those that this order cannot change any more: no pair has a lower rank
    within the length of the longest piece, which is as far as other merges can reach before.

    Args:
        merges: the id of the left symbol, of the right one and of both together, in the order of the ranks.
            Each pair is there once.
        longest: bytes of the longest piece that they make.

    Example:

        >>> merges = Merges([(2, 1, 3), (0, 3, 4)], longest=3)  # l o w: "ow", then "low"; no merge is "wl"
        >>> symbols = tf.constant([0, 2, 1, 2, 1]) + tf.constant([FIRST, 0, 0, FIRST, 0])
        >>> ids, splits = merges(symbols, tf.constant([0, 3, 5], tf.int64))
        >>> ids.numpy().tolist(), splits.numpy().tolist()
        ([4, 3], [0, 1, 2])

    Reference: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", algorithm
    1.
    """

    def __init__(self, merges: Sequence[tuple[int, int, int]], longest: int) -> None:
        found = np.array(merges, np.int64).reshape(-1, 3)
        self._merged = found[:, 2]  # [R]
        single = _early(found)
        self._single = bool(single.any())
        # Wide enough for a pair, and pieces of the longest kind on both sides of it.
        self._stretch = 2 * longest
        # A table must have a key; no pair has a negative one.
        keys = np.append(found[:, 0] * 2 * FIRST + found[:, 1], -1)
        orders = np.append(np.arange(len(found), dtype=np.int64) * 2**_RANK_BITS + single, _NONE)
        # Created outside any graph under construction, because the table outlives it.
        with tf.init_scope():
            initializer = tf.lookup.KeyValueTensorInitializer(keys, orders)
            self.table = tf.lookup.StaticHashTable(initializer, default_value=_NONE)

    def __call__(self, symbols: Tensor, splits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the pieces of words, and where the pieces of each word begin.

        Args:
            symbols: int32 `[A]`, ids of single bytes; `FIRST` is added to the first of each word.
            splits: int64 `[W + 1]`, where each word begins; none is empty.

        Returns:
            int32 `[pieces]` and int64 `[W + 1]`.
        """
        places, before, after = self._stretches(symbols, splits)
        stretches = tf.size(before)
        # One that merges with none, so that each symbol has one after it.
        symbols = tf.concat([tf.cast(symbols, tf.int64), [FIRST]], 0)

        def mergeable(_symbols: Tensor, _places: Tensor, orders: Tensor) -> Tensor:
            return tf.reduce_any(orders < _NONE)

        def step(symbols: Tensor, places: Tensor, orders: Tensor) -> list[Tensor]:
            lowest = tf.minimum(tf.math.unsorted_segment_min(orders, places, stretches), _NONE - 1)  # [K]
            near = tf.minimum(tf.gather(lowest, before), tf.gather(lowest, after))
            least = tf.gather(tf.minimum(lowest, near), places)  # [A]
            symbols, kept = self._merge(symbols, orders, _apart(orders == least, orders))
            symbols = tf.gather(symbols, kept)
            return [symbols, tf.gather(places, kept[:-1]), self._orders(symbols)]

        state = [symbols, places, self._orders(symbols)]
        shapes = [tf.TensorShape([None])] * 3
        symbols, *_ = tf.while_loop(mergeable, step, state, shape_invariants=shapes)
        return tf.cast(symbols[:-1] & FIRST - 1, tf.int32), tf.where(symbols >= FIRST)[:, 0]

    def _stretches(self, symbols: Tensor, splits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the stretch of each symbol, int32 `[A]`, and those beside each, int32 `[K]`.

        At the ends of a word it is the stretch itself.
        """
        words = tf.cumsum(tf.cast(symbols >= FIRST, tf.int32)) - 1  # [A]
        within = tf.range(tf.size(symbols, tf.int64)) - tf.gather(splits, words)
        begins = within % self._stretch == 0
        places = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        words = tf.gather(words, tf.where(begins)[:, 0])  # [K]
        follows = tf.cast(words[1:] == words[:-1], tf.int32)
        own = tf.range(tf.size(words))
        return (
            places,
            own - tf.pad(follows, [[1, 0]])[: tf.size(words)],
            own + tf.pad(follows, [[0, 1]])[: tf.size(words)],
        )

    def _orders(self, symbols: Tensor) -> Tensor:
        """Return the order of each of symbols `[A + 1]` and the one after it, int64 `[A]`.

        It is `_NONE` if they do not merge.
        """
        orders = self.table.lookup((symbols[:-1] & FIRST - 1) * (2 * FIRST) + symbols[1:])
        if self._single:
            orders += (orders & 1) * 2 * tf.range(tf.size(orders, tf.int64))
        return orders

    def _merge(self, symbols: Tensor, orders: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the symbols with the left ones of pairs `[M]` merged, and the places of those that stay."""
        ranks = tf.bitwise.right_shift(tf.gather(orders, pairs), tf.constant(_RANK_BITS, tf.int64))
        merged = tf.gather(self._merged, ranks) + (tf.gather(symbols, pairs) & FIRST)
        gone = tf.tensor_scatter_nd_update(
            tf.ones_like(symbols, tf.bool), pairs[:, None] + 1, tf.zeros_like(pairs, tf.bool)
        )
        return tf.tensor_scatter_nd_update(symbols, pairs[:, None], merged), tf.where(gone)[:, 0]


def _apart(chosen: Tensor, orders: Tensor) -> Tensor:
    """Return the places of the pairs of a step, without those that overlap one at their left, int64 `[M]`.

    Args:
        chosen: bool `[A]`, True for the pairs.
        orders: int64 `[A]`.
    """
    pairs = tf.where(chosen)[:, 0]
    repeated = chosen & (orders == tf.concat([[_NONE], orders[:-1]], 0))
    return tf.cond(tf.reduce_any(repeated), lambda: _every_other(pairs, orders), lambda: pairs)


def _every_other(pairs: Tensor, orders: Tensor) -> Tensor:
    """Return the pairs of a step without those that overlap one at their left, int64 `[M]`.

    In "aaaa" the first and the third pair are merged. Where the pair before a run of such pairs is equal,
    too, but not yet of this step, the whole run waits.
    """
    begins = tf.concat([[True], pairs[1:] > pairs[:-1] + 1], 0)  # [M]
    firsts = tf.gather(pairs, tf.where(begins)[:, 0])
    firsts = tf.gather(firsts, tf.cumsum(tf.cast(begins, tf.int32)) - 1)  # [M]
    waits = tf.gather(tf.concat([[_NONE], orders], 0), firsts) == tf.gather(orders, firsts)
    return tf.gather(pairs, tf.where(((pairs - firsts) & 1 == 0) & ~waits)[:, 0])


def _early(merges: np.ndarray) -> np.ndarray:
    """Return 1 for each merge whose result has a merge of a lower rank, int64 `[R]`.

    Such a merge comes before the next one of the same pair, so only the leftmost is merged in a step.

    Args:
        merges: int64 `[R, 3]`.
    """
    first: dict[int, int] = {}
    for rank, (left, right, _) in enumerate(merges.tolist()):
        first.setdefault(left, rank)
        first.setdefault(right, rank)
    earliest = [first.get(merged, len(merges)) for merged in merges[:, 2].tolist()]
    return (np.array(earliest, np.int64) < np.arange(len(merges))).astype(np.int64)
