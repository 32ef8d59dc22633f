"""Raw texts to their tokens, as TensorFlow ops: the rule of `rows/text_tokens.py`, by which files are read.

The signature `spans` of an exported labeller splits texts by it.

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
    # Operations by themselves, not those of ragged tensors, which make a graph of a thousand more.
    rows, codes = tf.raw_ops.UnicodeDecode(
        input=texts, input_encoding="UTF-8", errors="replace"
    )  # [B + 1], [N]
    place = tf.range(tf.size(codes, tf.int64))
    row_starts = tf.gather(rows, rows_at(rows, place))  # [N]
    kinds = _marks_joined(_kinds(codes), place, row_starts)  # [N]
    is_word = kinds == WORD
    follows_word = tf.concat([[False], is_word[:-1]], 0) & (place != row_starts)
    begins = (kinds == SINGLE) | (is_word & ~follows_word)
    place = tf.where(kinds != SPACE)[:, 0]  # [A]
    firsts = tf.where(tf.gather(begins, place))[:, 0]  # [W], among the characters of tokens
    splits = tf.concat([firsts, [tf.size(place, tf.int64)]], 0)  # [W + 1]
    words = tf.raw_ops.UnicodeEncode(
        input_values=tf.gather(codes, place), input_splits=splits, output_encoding="UTF-8"
    )  # [W]
    first, last = tf.gather(place, splits[:-1]), tf.gather(place, splits[1:] - 1)  # [W]
    starts = tf.gather(row_starts, first)  # of the texts of the tokens
    token_rows = tf.raw_ops.LowerBound(sorted_inputs=first[None], values=rows[None], out_type=tf.int64)[0]
    ragged: Any = tf.RaggedTensor
    return TextTokens(
        *(
            ragged.from_row_splits(each, token_rows, validate=False)
            for each in (words, first - starts, last + 1 - starts)
        )
    )


def rows_at(splits: Tensor, places: Tensor) -> Tensor:
    """Return the row of each place among the values of ragged rows, int64 `[N]`.

    Args:
        splits: where the rows begin, and the number of all values, int64 `[B + 1]`.
        places: int64 `[N]`, ascending or not.
    """
    return tf.raw_ops.UpperBound(sorted_inputs=splits[None], values=places[None], out_type=tf.int64)[0] - 1


def _kinds(codes: Tensor) -> Tensor:
    """Return the kinds of code points `[N]`, int32 `[N]`."""
    pages, blocks = _kind_pages()
    page = tf.gather(pages, tf.bitwise.right_shift(codes, 7)) * PAGE
    return tf.gather(blocks.reshape(-1), page + (codes & PAGE - 1))


@functools.cache
def _kind_pages() -> tuple[np.ndarray, np.ndarray]:
    """Return the kinds of all characters, in two levels: int32 `[P]` and `[Q, 128]`."""
    return in_pages(character_kinds().astype(np.int32))


def _marks_joined(kinds: Tensor, place: Tensor, row_starts: Tensor) -> Tensor:
    """Return kinds `[N]` without marks of words: a mark stays one only where its token is a single character.

    Marks after white space, or at the beginning of a text, are a word.
    """
    others = kinds != MARK
    # The place of the last character that is no mark, -1 if there is none.
    count = tf.cumsum(tf.cast(others, tf.int32))  # [N]
    before = tf.gather(tf.concat([[tf.constant(-1, tf.int64)], tf.where(others)[:, 0]], 0), count)
    base = tf.where(before >= row_starts, tf.gather(kinds, tf.maximum(before, 0)), SPACE)
    return tf.where(~others & (base != SINGLE), WORD, kinds)
