"""Split words into the longest pieces of a vocabulary, as TensorFlow ops.

The vocabulary is a trie: a table from a node and a character to the next node. A walk from each character of
each word finds the longest piece that begins there, all walks side by side, so the number of steps is the
length of the longest piece. From the first character of a word the pieces then follow each other.

Axes: V (vocabulary), W (words), A (characters of all words), P (pieces of all words).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any

# Added to the first character of each word: the other nodes of the trie have no edge for one, so no walk
# leaves its word.
FIRST = 2**21
CHARACTERS = 2**22
_NOWHERE = -1


class Pieces:
    """Longest-match-first split of words, and the ids of the pieces.

    Args:
        vocabulary: pieces in the order of their ids, which start at 0; all different.
        prefix: begins each piece that is not the first of its word.
        most: most characters of a word, at least 1.

    Example:

        >>> pieces = Pieces(["un", "##able", "##a", "##ble"], "##", most=100)
        >>> codes = tf.strings.unicode_decode("unable", "UTF-8")
        >>> ids, splits = pieces(codes + tf.one_hot(0, 6, FIRST, 0), tf.constant([0, 6], tf.int64))
        >>> ids.numpy().tolist(), splits.numpy().tolist()
        ([0, 1], [0, 2])

    Reference: Wu et al. 2016, "Google's Neural Machine Translation System", section 4.1; Song et al. 2021,
    "Fast WordPiece Tokenization", section 3, for the trie.
    """

    def __init__(self, vocabulary: Sequence[str], prefix: str, most: int) -> None:
        keys, nodes, self._inside = trie(vocabulary, prefix)
        self._size, self._longest, self._most = len(vocabulary), max(map(len, vocabulary)), most
        # Created outside any graph under construction, because the table outlives it.
        with tf.init_scope():
            initializer = tf.lookup.KeyValueTensorInitializer(keys, nodes)
            self.table = tf.lookup.StaticHashTable(initializer, default_value=_NOWHERE)

    def __call__(self, codes: Tensor, splits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the pieces of words, and where the pieces of each word begin.

        Args:
            codes: int32 `[A]`, code points of words of at least one character; `FIRST` is added to the first
                of each word.
            splits: int64 `[W + 1]`, where each word begins.

        Returns:
            int32 `[P]` and int64 `[W + 1]`. A word that the pieces cannot spell has none.
        """
        ids, lengths = self._longest_pieces(codes)
        places = tf.range(tf.size(codes, tf.int64))  # [A]
        after = places + lengths
        ended = tf.gather(tf.concat([codes, [FIRST]], 0), after) >= FIRST
        following = tf.where(ended, places, after)  # [A]; itself after the last piece, or where none begins
        reached, last = _followed(following, splits[:-1], self._most)
        spelled = tf.gather(lengths, last) > 0  # [W]
        whole = tf.gather(spelled, tf.searchsorted(splits, places, side="right") - 1)  # [A]
        chosen = tf.where(reached & whole)[:, 0]  # [P]
        return tf.gather(ids, chosen), tf.searchsorted(chosen, splits, out_type=tf.int64)

    def _longest_pieces(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the id and the length of the longest piece from each character, int32 and int64 `[A]`.

        The length is 0 where no piece begins.
        """
        zeros = tf.zeros_like(codes)
        starts = tf.where(codes >= FIRST, self._size, self._inside)

        def walking(_ids: Tensor, _lengths: Tensor, nodes: Tensor, *_: Tensor) -> Tensor:
            return tf.reduce_any(nodes >= 0)

        def step(ids: Tensor, lengths: Tensor, nodes: Tensor, ahead: Tensor, walked: Tensor) -> list[Tensor]:
            nodes = self.table.lookup(tf.cast(nodes, tf.int64) * CHARACTERS + tf.cast(ahead, tf.int64))
            found = (nodes >= 0) & (nodes < self._size)
            ids, lengths = tf.where(found, nodes, ids), tf.where(found, walked, lengths)
            return [ids, lengths, nodes, tf.concat([ahead[1:], [FIRST]], 0), walked + 1]

        ids, lengths, *_ = tf.while_loop(
            walking, step, [zeros, zeros, starts, codes, tf.constant(1)], maximum_iterations=self._longest
        )
        return ids, tf.cast(lengths, tf.int64)


def _followed(following: Tensor, starts: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Follow the pieces of each word.

    Args:
        following: int64 `[A]`, where the next piece begins; itself after the last.
        starts: int64 `[W]`, where the words begin.
        most: pieces of a word.

    Returns:
        bool `[A]`, True where a piece begins, and int64 `[W]`, where the last of each word does.
    """

    def moving(reached: Tensor, places: Tensor, moved: Tensor) -> Tensor:
        return moved

    def step(reached: Tensor, places: Tensor, moved: Tensor) -> list[Tensor]:
        reached = tf.tensor_scatter_nd_update(reached, places[:, None], tf.ones_like(places, tf.bool))
        after = tf.gather(following, places)
        return [reached, after, tf.reduce_any(after != places)]

    nothing = tf.zeros_like(following, tf.bool)
    state = [nothing, starts, tf.size(starts) > 0]
    reached, last, _ = tf.while_loop(moving, step, state, maximum_iterations=most)
    return reached, last


def trie(vocabulary: Sequence[str], prefix: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the edges of the trie, and the node that all but the first pieces of words begin from.

    The node of a piece is its id; the root is node V, and the others come after it.

    Returns:
        int64 keys and int32 nodes, `[edges]`, and a node, -1 if no piece begins with the prefix.
    """
    nodes = {piece: number for number, piece in enumerate(vocabulary)}
    nodes[""] = root = len(vocabulary)
    edges: dict[int, int] = {}
    for piece in vocabulary:
        before = root
        for end, letter in enumerate(piece, start=1):
            node = nodes.setdefault(piece[:end], len(nodes) + 1)
            code = ord(letter)
            edges[before * CHARACTERS + code + (FIRST if before == root else 0)] = node
            if before == root and not prefix:
                edges[before * CHARACTERS + code] = node
            before = node
    keys, values = np.array(list(edges), np.int64), np.array(list(edges.values()), np.int32)
    return keys, values, nodes.get(prefix, _NOWHERE)
