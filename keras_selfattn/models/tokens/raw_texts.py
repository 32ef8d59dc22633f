"""Raw texts to their tokens, as TensorFlow ops: the rule of `rows/text_tokens.py`, by which files are read.

For graphs of your own that take texts: the exported models take tokens, and none of them splits texts.

Axes: B (texts), N (characters of all texts), A (characters of all tokens), T (tokens of a text), W (tokens of
all texts), P (pages of 128 code points), Q (distinct pages).
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.models.subwords.character_file import PAGE, in_pages
from keras_selfattn.rows.text_tokens import MARK, SINGLE, SPACE, WORD, character_kinds

Tensor = Any


class TextTokens(NamedTuple):
    """The tokens of texts, and the characters of each text (code points) where they begin and end.

    Args:
        tokens: string ragged `[B, T]`.
        starts: int64 ragged `[B, T]`, the place of a token's first character in its text.
        ends: int64 ragged `[B, T]`, the place after its last one.
    """

    tokens: Tensor
    starts: Tensor
    ends: Tensor


def text_tokens(texts: Tensor) -> TextTokens:
    """Return the tokens of a string tensor `[B]`; bytes that are not UTF-8 are U+FFFD, a token.

    Example:

        >>> found = text_tokens(tf.constant(["Ada's cat"]))
        >>> found.tokens.to_list(), found.ends.to_list()
        ([[b'Ada', b"'", b's', b'cat']], [[3, 4, 5, 9]])
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    codes, rows = decoded.flat_values, decoded.row_splits  # [N], [B + 1]
    kinds = _marks_joined(_kinds(codes), rows)  # [N]
    is_word = kinds == WORD
    begins_row = _is_row_start(codes, rows)
    follows_word = tf.concat([[False], is_word[:-1]], 0) & ~begins_row
    begins = (kinds == SINGLE) | (is_word & ~follows_word)
    place = tf.where(kinds != SPACE)[:, 0]  # [A]
    firsts = tf.where(tf.gather(begins, place))[:, 0]  # [W], among the characters of tokens
    splits = tf.concat([firsts, [tf.size(place, tf.int64)]], 0)  # [W + 1]
    words = tf.raw_ops.UnicodeEncode(
        input_values=tf.gather(codes, place), input_splits=splits, output_encoding="UTF-8"
    )  # [W]
    first, last = tf.gather(place, splits[:-1]), tf.gather(place, splits[1:] - 1)  # [W]
    token_rows = tf.searchsorted(first, rows, out_type=tf.int64)  # [B + 1]
    ragged: Any = tf.RaggedTensor
    starts, ends = (ragged.from_row_splits(each, token_rows) for each in (first, last + 1))
    return TextTokens(starts.with_values(words), starts - rows[:-1, None], ends - rows[:-1, None])


def _kinds(codes: Tensor) -> Tensor:
    """Return the kinds of code points `[N]`, int32 `[N]`."""
    pages, blocks = _kind_pages()
    page = tf.gather(pages, tf.bitwise.right_shift(codes, 7)) * PAGE
    return tf.gather(blocks.reshape(-1), page + (codes & PAGE - 1))


@functools.cache
def _kind_pages() -> tuple[np.ndarray, np.ndarray]:
    """Return the kinds of all characters, in two levels: int32 `[P]` and `[Q, 128]`."""
    return in_pages(character_kinds().astype(np.int32))


def _marks_joined(kinds: Tensor, rows: Tensor) -> Tensor:
    """Return kinds `[N]` without marks of words: a mark stays one only where its token is a single character.

    Marks after white space, or at the beginning of a text, are a word.
    """
    place = tf.range(tf.size(kinds, tf.int64))
    row_starts = tf.repeat(rows[:-1], rows[1:] - rows[:-1])  # [N]
    # The last character before that is no mark: a running maximum of places.
    before = _running_maximum(tf.where(kinds == MARK, tf.constant(-1, tf.int64), place))
    same_row = before >= row_starts
    base = tf.where(same_row, tf.gather(kinds, tf.maximum(before, 0)), SPACE)
    return tf.where((kinds == MARK) & (base != SINGLE), WORD, kinds)


def _running_maximum(places: Tensor) -> Tensor:
    """Return the largest of the values so far, at each place of `[N]`; -1 stands for no value.

    The values that are not -1 ascend, so that counting them finds the last.
    """
    found = tf.boolean_mask(places, places >= 0)
    count = tf.cumsum(tf.cast(places >= 0, tf.int32))  # [N]
    return tf.gather(tf.concat([tf.constant([-1], places.dtype), found], 0), count)


def _is_row_start(codes: Tensor, rows: Tensor) -> Tensor:
    """Return True for the first character of each text, bool `[N]`."""
    size = tf.size(codes, tf.int64)
    starts = tf.boolean_mask(rows[:-1], rows[1:] > rows[:-1])
    return tf.scatter_nd(starts[:, None], tf.ones_like(starts), tf.stack([size])) > 0
