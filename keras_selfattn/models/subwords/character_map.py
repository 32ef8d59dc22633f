"""Normalise characters by the map that a SentencePiece model carries, as TensorFlow ops on code points.

A cluster of less than six bytes, such as a letter with an accent, is replaced as a whole by what the shortest
mapped beginning of it becomes; all other characters are replaced one by one. This is what the `tokenizers`
package does; SentencePiece replaces the longest mapped text at each place, whatever the clusters.

Axes: N (characters), C (short clusters of several characters), M (mapped texts), K (characters that they
become).
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.character_file import CODE_POINTS, PAGE, in_pages
from keras_selfattn.models.subwords.joined_characters import (
    AFTER,
    ALONE,
    BEFORE,
    CONJOINING,
    CONSONANT,
    JOINER,
    LINKER,
    PICTURE,
    SPACING,
    joined_pages,
)
from keras_selfattn.models.subwords.ragged_rows import ranges

Tensor = Any

# Bytes of a cluster that is replaced as a whole, at most; three characters have so few.
_SHORT = 5
# Texts of a map that is not damaged, at most: equal ends are shared, so its size says little.
_MOST = 2**21
_BITS = 21
# Letters that join those before or after them, and syllables of them.
_HANGUL = frozenset(
    map(chr, [*range(0x1100, 0x1200), *range(0xA960, 0xA980), *range(0xAC00, 0xD7A4), *range(0xD7B0, 0xD800)])
)


class CharacterMap:
    """Replace characters and short clusters.

    Args:
        mapping: texts by what they become; those that no short cluster begins with have no effect.

    Example:

        >>> replaced = CharacterMap({"ﬁ": "fi", "e\\u0301": "é", "\\u00ad": ""})
        >>> codes = tf.strings.unicode_decode("ﬁne\\u00ad cafe\\u0301", "UTF-8")
        >>> found, sources = replaced(codes, tf.zeros([10], tf.int64))
        >>> tf.strings.unicode_encode(found, "UTF-8").numpy().decode()
        'fine café'

    Reference: Kudo and Richardson 2018, "SentencePiece", section 3.2; `tokenizers`, its normalizer
    Precompiled.
    """

    def __init__(self, mapping: Mapping[str, str]) -> None:
        texts = [text for text in mapping if len(text) == 1 or len(text.encode()) <= _SHORT]
        targets = [[ord(letter) for letter in mapping[text]] for text in texts]
        # Row 0 is of characters that stay as they are: one, which is the character itself.
        self._counts = np.array([1, *map(len, targets)], np.int64)
        self._begins = np.cumsum(self._counts) - self._counts
        self._targets = np.array([0, *(code for each in targets for code in each)], np.int32)
        rows = np.zeros(CODE_POINTS, np.int32)
        several = {}
        for row, text in enumerate(texts, start=1):
            _check_cluster(text)
            if len(text) == 1:
                rows[ord(text)] = row
            else:
                several[_key(text)] = row
        self._pages, self._blocks = in_pages(rows)
        self._joined = joined_pages()
        # A table must have a key; no cluster has a negative one.
        several[-1] = 0
        # Created outside any graph under construction, because the table outlives it.
        with tf.init_scope():
            initializer = tf.lookup.KeyValueTensorInitializer(
                np.array(list(several), np.int64), np.array(list(several.values()), np.int32)
            )
            self.table = tf.lookup.StaticHashTable(initializer, default_value=0)

    def __call__(self, codes: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
        """Return the characters that others become, and the place of each one's origin.

        Args:
            codes: int32 `[N]`, code points.
            owners: int64 `[N]`, in order: no cluster goes on from one owner to the next.

        Returns:
            int32 and int64, as many as there are.
        """
        rows = _looked_up(self._pages, self._blocks, codes)  # [N]
        rows = self._with_clusters(codes, owners, rows)
        counts = tf.where(rows < 0, tf.constant(0, tf.int64), tf.gather(self._counts, tf.maximum(rows, 0)))
        begins = tf.gather(self._begins, tf.maximum(rows, 0))
        places, splits = ranges(begins, begins + counts)
        sources = tf.repeat(tf.range(tf.size(codes, tf.int64)), splits[1:] - splits[:-1])
        found = tf.gather(self._targets, places)
        return tf.where(tf.gather(rows, sources) == 0, tf.gather(codes, sources), found), sources

    def _with_clusters(self, codes: Tensor, owners: Tensor, rows: Tensor) -> Tensor:
        """Return the rows of characters, with -1 for those of which their cluster leaves nothing."""
        firsts, lengths, ends = self._clusters(codes, owners)
        several = tf.where((ends - firsts > 1) & (lengths <= _SHORT))[:, 0]
        return tf.cond(
            tf.size(several) > 0,
            lambda: self._replaced(codes, rows, tf.gather(firsts, several), tf.gather(ends, several)),
            lambda: rows,
        )

    def _clusters(self, codes: Tensor, owners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where each cluster begins, its bytes, and where it ends."""
        flags = _looked_up(*self._joined, codes)
        before = tf.concat([[ALONE], flags], 0)[: tf.size(codes)]
        joins = (flags & AFTER > 0) & (before & ALONE == 0)
        joins |= (before & BEFORE > 0) & (flags & ALONE == 0)
        earlier = tf.concat([[0], codes], 0)[: tf.size(codes)]
        joins |= (earlier == ord("\r")) & (codes == ord("\n"))
        joins = tf.cond(
            tf.reduce_any(flags >= PICTURE), lambda: joins | _far_joins(codes, flags, owners), lambda: joins
        )
        joins &= owners == tf.concat([[-1], owners], 0)[: tf.size(codes)]
        firsts = tf.where(~joins)[:, 0]
        ends = tf.concat([firsts, [tf.size(codes, tf.int64)]], 0)[1:]
        # Bytes in UTF-8.
        sizes = 1 + tf.reduce_sum(tf.cast(codes[:, None] >= np.array([0x80, 0x800, 0x10000]), tf.int64), 1)
        sums = tf.concat([[0], tf.cumsum(sizes)], 0)
        return firsts, tf.gather(sums, ends) - tf.gather(sums, firsts), ends

    def _replaced(self, codes: Tensor, rows: Tensor, firsts: Tensor, ends: Tensor) -> Tensor:
        """Return the rows with those of short clusters of several characters; int64 `[C]` each."""
        codes = tf.cast(tf.concat([codes, [0]], 0), tf.int64)
        one, two = tf.gather(codes, firsts), tf.gather(codes, firsts + 1)
        three = tf.where(ends - firsts > 2, tf.gather(codes, tf.minimum(firsts + 2, ends)), 0)
        key = (one * 2**_BITS + two) * 2**_BITS
        pair, triple = self.table.lookup(key), self.table.lookup(key + three)
        alone = tf.gather(rows, firsts)
        row = tf.where(alone > 0, alone, tf.where(pair > 0, pair, triple))  # the shortest that is mapped
        whole = tf.where(row > 0)[:, 0]
        firsts, ends, row = (tf.gather(each, whole) for each in (firsts, ends, row))
        rest, _ = ranges(firsts + 1, ends)
        rows = tf.tensor_scatter_nd_update(rows, firsts[:, None], row)
        return tf.tensor_scatter_nd_update(rows, rest[:, None], tf.fill(tf.shape(rest), -1))


def read_compiled(content: bytes) -> dict[str, str]:
    """Return the map that SentencePiece has compiled: texts of five bytes at most by what they become.

    Args:
        content: the size of a double array in bytes, the array, and the texts that it leads to.

    Raises:
        ConfigError: if the content has another form.

    Example:

        >>> from keras_selfattn.models.subwords.joined_characters import compiled
        >>> read_compiled(compiled({"ﬁ": "fi", "\\u00ad": ""}))
        {'\\xad': '', 'ﬁ': 'fi'}

    Reference: sentencepiece's `normalizer.cc`; Darts-clone, by Yata.
    """
    try:
        (size,) = struct.unpack_from("<I", content)
        if size < 4 or size % 4:
            raise ValueError(f"its array has {size} bytes")
        units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
        texts = content[4 + size :]
        return {
            text.decode(): texts[begin : texts.index(b"\0", begin)].decode() for text, begin in _ends(units)
        }
    except (struct.error, ValueError, IndexError) as error:
        raise ConfigError(f"the map of characters (precompiled_charsmap) is damaged: {error}.") from error


def _ends(units: np.ndarray) -> Iterator[tuple[bytes, int]]:
    """Yield the texts of `_SHORT` bytes at most of a double array, and where each leads to.

    Args:
        units: int64. A unit has the byte that leads to it, and the offset of its node: the unit of each
            further byte is at the node, exclusive or the byte.
    """
    places = np.arange(len(units))
    bytes_of = units & (1 << 31 | 0xFF)
    nodes = places ^ (units >> 10 << ((units & 1 << 9) >> 6))
    inner = places[(bytes_of > 0) & (bytes_of < 256)]
    origins = inner ^ bytes_of[inner]
    inner, origins = inner[np.argsort(origins, kind="stable")], np.sort(origins)
    level, prefixes = nodes[:1], np.zeros((1, 0), np.uint8)
    for _ in range(_SHORT):
        if len(level) > _MOST:
            raise ValueError("it has millions of texts")
        first, last = (np.searchsorted(origins, level, side=side) for side in ("left", "right"))
        counts = last - first
        parents = np.repeat(np.arange(len(level)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = inner[first[parents] + within]
        prefixes = np.column_stack([prefixes[parents], bytes_of[found].astype(np.uint8)])
        level = nodes[found]
        for row in np.flatnonzero(units[found] >> 8 & 1):
            yield prefixes[row].tobytes(), int(units[level[row]] & (1 << 31) - 1)


def _check_cluster(text: str) -> None:
    """Raise ConfigError for letters of Hangul, which join each other in ways that are not known here."""
    if text[0] in _HANGUL:
        raise ConfigError(
            f"the map of characters (precompiled_charsmap) replaces {text!r}, which begins with a letter of "
            "Hangul: not supported. Give the folder of a model whose map leaves it as it is."
        )


def _looked_up(pages: np.ndarray, blocks: np.ndarray, codes: Tensor) -> Tensor:
    # Beyond the code points are added tokens, for which the tables have nothing.
    known = tf.minimum(codes, CODE_POINTS - 1)
    page = tf.gather(pages, tf.bitwise.right_shift(known, 7)) * PAGE
    return tf.where(codes < CODE_POINTS, tf.gather(blocks.reshape(-1), page + (known & PAGE - 1)), 0)


def _far_joins(codes: Tensor, flags: Tensor, owners: Tensor) -> Tensor:
    """Return True for pictures and consonants that join one before the marks before them.

    Reference: Unicode Standard Annex #29, rules GB9c and GB11.
    """
    places = tf.range(tf.size(codes, tf.int64))

    def last(chosen: Tensor, away: int) -> Tensor:
        """Return the last place at least so far before each character that is chosen; -1 for none."""
        found = tf.concat([[-1], tf.where(chosen)[:, 0]], 0)
        return tf.gather(found, tf.maximum(tf.searchsorted(found, places - away, side="right") - 1, 0))

    def is_before(place: Tensor, flag: int) -> Tensor:
        known = tf.maximum(place, 0)
        return (place >= 0) & (tf.gather(flags, known) & flag > 0) & (tf.gather(owners, known) == owners)

    picture = last((flags & AFTER == 0) | (flags & SPACING > 0), 2)  # before the joiner
    joined = (flags & PICTURE > 0) & is_before(picture, PICTURE)
    joined &= tf.concat([[0], codes], 0)[: tf.size(codes)] == JOINER
    consonant = last(flags & (LINKER | CONJOINING) == 0, 1)
    linked = last(flags & LINKER > 0, 1) > consonant
    return joined | (flags & CONSONANT > 0) & is_before(consonant, CONSONANT) & linked


def _key(text: str) -> int:
    """Return the key of two or three characters."""
    one, two, three = (*map(ord, text), 0)[:3]
    return (one << _BITS | two) << _BITS | three
