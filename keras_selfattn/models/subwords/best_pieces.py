"""Split words into the pieces of a unigram language model with the greatest sum of scores, as TensorFlow ops.

The vocabulary is a trie. A walk from each character of each word finds every piece that begins there, all
walks side by side. Viterbi's algorithm then goes through all words at once, a character a step: each end of a
piece keeps the best sum so far. Sums are float64, added in the order of the text, and of equal ones the first
is kept, that of the longest last piece; so the pieces are those of the `tokenizers` package even where two
sums differ by their rounding alone.

A long word, such as a text without blanks, is cut into stretches where no piece goes on. Each begins with
the sum before it, which is known only after all of them: so they are gone through again until it stays the
same.

Axes: V (vocabulary), W (words), S (stretches), A (characters of all words), E (places where a piece may be),
P (pieces of all words).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from keras_selfattn.models.subwords.pieces import CHARACTERS, FIRST, trie

Tensor = Any

# The score of an unknown character, below the lowest of a piece.
_PENALTY = 10.0
# Characters of a word beyond which words are cut where all ways meet: time depends on the longest stretch.
_LONG = 64
# The greatest id that names an unknown character; -1 is no piece.
UNKNOWN = -2


class _Lattice(NamedTuple):
    """Where pieces may be, in waves: of those of wave w, w characters of their stretches are before them.

    Args:
        places: int64 `[E]`, the first character of each.
        rows: int64 `[E]`, whose stretch it is in, by the lengths of these, the longest first.
        lengths: int64 `[E]`, its characters.
        ids: int32 `[E]`.
        waves: int64, the first of each wave, and the end of the last.
        order: int64 `[S]`, the stretches, the longest first.
        sizes: int64 `[S]`, their characters, in this order.
        active: int64, how many stretches have a character in each wave.
    """

    places: Tensor
    rows: Tensor
    lengths: Tensor
    ids: Tensor
    waves: Tensor
    order: Tensor
    sizes: Tensor
    active: Tensor


class BestPieces:
    """The best segmentation of words by a unigram language model, and the ids of its pieces.

    A character that is no piece is unknown; of several in a row there is one id.

    Args:
        vocabulary: pieces in the order of their ids, which start at 0; all different.
        scores: the logarithm of the probability of each.
        unknown: id of the unknown piece; None to name each unknown character c by the id `UNKNOWN` - c.

    Example:

        >>> vocabulary = ["<unk>", "a", "b", "ab", "ba"]
        >>> pieces = BestPieces(vocabulary, [0.0, -2.0, -2.0, -3.0, -2.5], unknown=0)
        >>> codes = tf.strings.unicode_decode("abaxx", "UTF-8")
        >>> ids, places, _ = pieces(codes + tf.one_hot(0, 5, FIRST, 0), tf.constant([0, 5], tf.int64))
        >>> [vocabulary[number] for number in ids.numpy()], places.numpy().tolist()
        (['a', 'ba', '<unk>'], [0, 1, 3])

    Reference: Kudo 2018, "Subword Regularization", section 3.2; `tokenizers`, its model Unigram.
    """

    def __init__(self, vocabulary: Sequence[str], scores: Sequence[float], unknown: int | None) -> None:
        keys, nodes, self._root = trie(vocabulary, "")
        self._size, self._longest, self._unknown = len(vocabulary), max(map(len, vocabulary)), unknown
        known = np.array(scores, np.float64)
        # The score of a character that is no piece has the place after all others.
        self._scores = np.append(known, known.min() - _PENALTY)
        # Created outside any graph under construction, because the table outlives it.
        with tf.init_scope():
            initializer = tf.lookup.KeyValueTensorInitializer(keys, nodes)
            self.table = tf.lookup.StaticHashTable(initializer, default_value=-1)

    def __call__(self, codes: Tensor, splits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ids of the pieces of words, where these begin, and where stretches do.

        What is before a stretch has the same pieces whatever comes after it.

        Args:
            codes: int32 `[A]`, code points of words of at least one character; `FIRST` is added to the first
                of each word.
            splits: int64 `[W + 1]`, where each word begins.

        Returns:
            int32 `[P]`, and the places of characters, int64 `[P]` and `[S]`.
        """
        walked = self._walked(codes)
        longest = tf.reduce_max(tf.concat([splits[1:] - splits[:-1], [0]], 0))
        stretches = tf.cond(longest > _LONG, lambda: _cut(*walked[:2], splits), lambda: splits)
        lattice = _lattice(*walked, stretches)
        sums = tf.zeros_like(stretches[1:], tf.float64)

        def step(sums: Tensor, *_: Tensor) -> list[Tensor]:
            chosen = _followed(lattice, self._best(lattice, sums), tf.size(codes))
            after = tf.cond(
                tf.size(stretches) > tf.size(splits),
                lambda: self._sums(chosen, splits, stretches),
                lambda: tf.zeros_like(sums),
            )
            return [after, chosen, tf.reduce_all(after == sums)]

        state = [sums, tf.fill(tf.shape(codes), -1), tf.constant(False)]
        shapes = [tf.TensorShape(shape) for shape in ([None], [None], [])]
        _, chosen, _ = tf.while_loop(lambda *each: ~each[2], step, state, shape_invariants=shapes)
        return *self._fused(codes, chosen), stretches[:-1]

    def _walked(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the pieces of the vocabulary are, and each character that is none.

        Returns:
            the places of their first characters, their numbers of characters, and their ids.
        """
        size = tf.size(codes)
        codes = tf.concat([codes, [FIRST]], 0)  # no walk goes on from there
        places = tf.range(tf.cast(size, tf.int64))
        nodes = self._next(tf.fill([size], self._root), codes, places)
        single = tf.where((nodes >= 0) & (nodes < self._size), nodes, self._size)

        def walking(_places: Tensor, nodes: Tensor, *_: Tensor) -> Tensor:
            return tf.size(nodes) > 0

        def step(
            places: Tensor, nodes: Tensor, length: Tensor, starts: Tensor, lengths: Tensor, ids: Tensor
        ) -> list[Tensor]:
            alive = tf.where(nodes >= 0)[:, 0]
            places = tf.gather(places, alive)
            nodes = self._next(tf.gather(nodes, alive), codes, places + length)
            found = tf.where((nodes >= 0) & (nodes < self._size))[:, 0]
            return [
                places,
                nodes,
                length + 1,
                tf.concat([starts, tf.gather(places, found)], 0),
                tf.concat([lengths, tf.fill(tf.shape(found), length + 1)], 0),
                tf.concat([ids, tf.gather(nodes, found)], 0),
            ]

        state = [places, nodes, tf.constant(1, tf.int64), places, tf.ones_like(places), single]
        shapes = [tf.TensorShape(shape) for shape in ([None], [None], [], [None], [None], [None])]
        return tf.while_loop(walking, step, state, shape_invariants=shapes, maximum_iterations=self._longest)[
            3:
        ]

    def _next(self, nodes: Tensor, codes: Tensor, places: Tensor) -> Tensor:
        """Return the node of the trie after each of `nodes` and the character at its place; -1 for none."""
        ahead = tf.cast(tf.gather(codes, places), tf.int64)
        return self.table.lookup(tf.cast(nodes, tf.int64) * CHARACTERS + ahead)

    def _best(self, lattice: _Lattice, sums: Tensor) -> Tensor:
        """Return the last piece of the best way to each border of characters, int64 `[A]`, by waves.

        Args:
            lattice: where pieces may be; those of one wave end at different borders.
            sums: float64 `[S]`, the sum of the scores before each stretch.
        """
        scores = tf.gather(self._scores, lattice.ids)
        ahead = tf.reduce_max(tf.concat([lattice.lengths, [0]], 0))  # borders that a piece may reach
        least = tf.fill([tf.size(sums, tf.int64), ahead], tf.constant(-np.inf, tf.float64))
        # The best ways so far to this border, in the first column, and to those ahead.
        best = tf.concat([tf.gather(sums, lattice.order)[:, None], least], 1)
        waves = tf.size(lattice.active)
        # The first is of no wave: a list of none has no sum.
        lasts = tf.TensorArray(tf.int64, waves + 1, infer_shape=False, element_shape=[None])
        lasts = lasts.write(0, tf.zeros([0], tf.int64))

        def step(wave: Tensor, best: Tensor, last: Tensor, lasts: Any) -> list[Any]:
            count = lattice.active[wave]
            best, last = best[:count], last[:count]
            pieces = tf.range(lattice.waves[wave], lattice.waves[wave + 1])
            rows = tf.gather(lattice.rows, pieces)
            ends = tf.stack([rows, tf.gather(lattice.lengths, pieces)], 1)
            ways = tf.gather(best[:, 0], rows) + tf.gather(scores, pieces)
            so_far = tf.gather_nd(best, ends)
            better = ways > so_far
            best = tf.tensor_scatter_nd_update(best, ends, tf.where(better, ways, so_far))
            own = tf.where(better, pieces, tf.gather_nd(last, ends))
            last = tf.tensor_scatter_nd_update(last, ends, own)
            lasts = lasts.write(wave + 1, last[:, 1])
            none = tf.fill([count, 1], tf.constant(-np.inf, tf.float64))
            best = tf.concat([best[:, 1:], none], 1)
            return [wave + 1, best, tf.concat([last[:, 1:], tf.zeros([count, 1], tf.int64)], 1), lasts]

        state = [tf.constant(0), best, tf.zeros(tf.shape(best), tf.int64), lasts]
        grid, any_shape = tf.TensorShape([None, None]), tf.TensorShape(cast(Any, None))
        shapes = [tf.TensorShape([]), grid, grid, any_shape]
        *_, lasts = tf.while_loop(lambda wave, *_: wave < waves, step, state, shape_invariants=shapes)
        return lasts.concat()

    def _sums(self, chosen: Tensor, splits: Tensor, stretches: Tensor) -> Tensor:
        """Return the sum of the scores before each stretch, of the pieces of its word, float64."""
        scores = tf.gather(self._scores, tf.maximum(chosen, 0))
        scores = tf.where(chosen < 0, tf.zeros_like(scores), scores)  # [A]
        words = tf.searchsorted(splits, stretches[:-1], side="right", out_type=tf.int64) - 1
        within = tf.where(stretches[:-1] > tf.gather(splits, words))[:, 0]  # not at the begin of a word
        long, rows = tf.unique(tf.gather(words, within), tf.int64)
        begins, ends = tf.gather(splits, long), tf.gather(splits, long + 1)
        sums = tf.TensorArray(tf.float64, tf.size(long), infer_shape=False, element_shape=[None])

        def step(word: Tensor, sums: Any) -> list[Any]:
            # Added in the order of the text; a character within a piece adds 0.
            return [word + 1, sums.write(word, tf.cumsum(scores[begins[word] : ends[word]], exclusive=True))]

        _, sums = tf.while_loop(lambda word, _: word < tf.size(long), step, [tf.constant(0), sums])
        before = tf.cumsum(ends - begins, exclusive=True)  # where each word begins among these
        columns = tf.gather(stretches, within) - tf.gather(begins, rows)
        found = tf.gather(sums.concat(), tf.gather(before, rows) + columns)
        return tf.tensor_scatter_nd_update(tf.zeros_like(stretches[1:], tf.float64), within[:, None], found)

    def _fused(self, codes: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pieces of words and their places, of several unknown ones in a row the first."""
        if self._unknown is None:
            places = tf.where(chosen >= 0)[:, 0]
            ids = tf.gather(chosen, places)
            return tf.where(ids == self._size, UNKNOWN - (tf.gather(codes, places) & FIRST - 1), ids), places
        unknown = (chosen == self._size) | (chosen == self._unknown)
        places = tf.where(chosen >= 0)[:, 0]
        unknown = tf.gather(unknown, places)
        first = tf.gather(codes, places) >= FIRST
        follows = unknown & ~first & tf.concat([[False], unknown], 0)[: tf.size(places)]
        places = tf.gather(places, tf.where(~follows)[:, 0])
        ids = tf.gather(chosen, places)
        return tf.where(ids == self._size, self._unknown, ids), places


def _cut(places: Tensor, lengths: Tensor, splits: Tensor) -> Tensor:
    """Return where stretches begin, int64 `[S + 1]`: words, and in long ones where no piece goes on."""
    size = splits[-1]
    several = tf.where(lengths > 1)[:, 0]
    places, lengths = tf.gather(places, several), tf.gather(lengths, several)
    # How many pieces go on over each border.
    changes = tf.zeros([size + 1], tf.int32)
    changes = tf.tensor_scatter_nd_add(changes, places[:, None] + 1, tf.ones_like(places, tf.int32))
    changes = tf.tensor_scatter_nd_sub(changes, (places + lengths)[:, None], tf.ones_like(places, tf.int32))
    found = tf.where(tf.cumsum(changes) == 0)[:, 0]
    words = tf.searchsorted(splits, found, side="right", out_type=tf.int64) - 1
    first = tf.gather(splits, words)
    after = tf.gather(splits, tf.minimum(words + 1, tf.size(splits, tf.int64) - 1))
    return tf.boolean_mask(found, (found == first) | (after - first > _LONG))


def _lattice(places: Tensor, lengths: Tensor, ids: Tensor, splits: Tensor) -> _Lattice:
    """Return where pieces may be, in waves.

    Args:
        places, lengths, ids: as `_walked` returns them.
        splits: int64 `[S + 1]`, where stretches begin.
    """
    sizes = splits[1:] - splits[:-1]
    order = tf.cast(tf.argsort(sizes, direction="DESCENDING", stable=True), tf.int64)
    ranks = tf.cast(tf.math.invert_permutation(order), tf.int64)
    sizes = tf.gather(sizes, order)
    owners = tf.searchsorted(splits, places, side="right", out_type=tf.int64) - 1
    distances = places - tf.gather(splits, owners)
    by_wave = tf.argsort(distances, stable=True)
    count = tf.reduce_max(tf.concat([sizes, [0]], 0))
    waves = tf.searchsorted(tf.gather(distances, by_wave), tf.range(count + 1), out_type=tf.int64)
    active = tf.size(sizes, tf.int64) - tf.searchsorted(
        sizes[::-1], tf.range(count), side="right", out_type=tf.int64
    )
    return _Lattice(
        tf.gather(places, by_wave),
        tf.gather(tf.gather(ranks, owners), by_wave),
        tf.gather(lengths, by_wave),
        tf.gather(ids, by_wave),
        waves,
        order,
        sizes,
        active,
    )


def _followed(lattice: _Lattice, lasts: Tensor, size: Tensor) -> Tensor:
    """Return the id of the piece of the best way that begins at each character, int32 `[A]`; -1 for none.

    Args:
        lattice: where pieces may be.
        lasts: as `_best` returns them.
        size: of all characters.
    """
    begins = tf.concat([[0], tf.cumsum(lattice.active)], 0)  # of each wave in `lasts`

    def step(rows: Tensor, borders: Tensor, chosen: Tensor) -> list[Tensor]:
        last = tf.gather(lasts, tf.gather(begins, borders - 1) + rows)
        place = tf.gather(lattice.places, last)
        chosen = tf.tensor_scatter_nd_update(chosen, place[:, None], tf.gather(lattice.ids, last))
        borders -= tf.gather(lattice.lengths, last)
        more = tf.where(borders > 0)[:, 0]
        return [tf.gather(rows, more), tf.gather(borders, more), chosen]

    shapes = [tf.TensorShape([None])] * 3
    state = [tf.range(tf.size(lattice.sizes, tf.int64)), lattice.sizes, tf.fill([size], -1)]
    return tf.while_loop(lambda rows, *_: tf.size(rows) > 0, step, state, shape_invariants=shapes)[2]
