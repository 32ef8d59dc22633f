"""Unicode's normalisation form C, as TensorFlow ops on code points.

Axes: N (characters), K (most characters that one becomes), A (characters after decomposition), M (marks).
"""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.subwords.byte_level_characters import (
    CODE_BITS,
    NONE,
    CanonicalForms,
    canonical_forms,
)
from keras_selfattn.models.subwords.character_file import in_pages

Tensor = Any

_RANKS = 256  # more than there are combining classes


@functools.cache
def _form_pages() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the tables of decompositions and of ranks."""
    forms = canonical_forms()
    return in_pages(forms.rows), in_pages(forms.ranks)


@functools.cache
def _unchanged() -> str:
    """Return the regular expression of texts that are in form C whatever the order of their characters."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], canonical_forms().inert, [0]]).astype(np.int8)))
    ranges = "".join(rf"\x{{{first:x}}}-\x{{{end - 1:x}}}" for first, end in edges.reshape(-1, 2))
    return f"[{ranges}]*"


class CanonicalComposition:
    """Normalisation form C of texts: characters in their shortest form, marks in one order.

    Texts that are in this form already, as nearly all are, are only scanned.

    Example:

        >>> composed = CanonicalComposition()
        >>> composed(tf.constant(["e\u0301te\u0301"])).numpy()[0].decode()
        'été'

    Reference: The Unicode Standard, section 3.11, D117; Unicode Standard Annex #15.
    """

    def __init__(self) -> None:
        self._forms = canonical_forms()
        self._rows, self._ranks = _form_pages()
        self._unchanged = _unchanged()

    def __call__(self, texts: Tensor) -> Tensor:
        """Return a string tensor `[B]` in form C; bytes that are not UTF-8 may become U+FFFD."""
        inert = tf.reduce_all(tf.strings.regex_full_match(texts, self._unchanged))
        return tf.cond(inert, lambda: texts, lambda: self._composed(texts))

    def changes(self, text: str) -> bool:
        """Return True if a character of a text can be changed, moved, or joined with one before."""
        return not all(self._forms.inert[ord(character)] for character in text)

    def _composed(self, texts: Tensor) -> Tensor:
        decoded = tf.raw_ops.UnicodeDecode(input=texts, input_encoding="UTF-8")
        forms, codes = self._forms, decoded.char_values
        found = tf.gather(forms.decomposed, _looked_up(self._rows, codes))  # [N, K]
        found = tf.concat([tf.where(found[:, :1] == NONE, codes[:, None], found[:, :1]), found[:, 1:]], 1)
        found = tf.reshape(found, [-1])
        place = tf.where(found != NONE)[:, 0]  # [A]
        splits = tf.searchsorted(place, decoded.row_splits * forms.decomposed.shape[1], out_type=tf.int64)
        # A text must not join the one before: none of its marks is in the run of that one's last character.
        rows = tf.cumsum(
            tf.scatter_nd(splits[1:, None], tf.ones_like(splits[1:]), tf.shape(place, tf.int64) + 1)
        )
        codes, ranks = self._in_order(tf.gather(found, place), rows[:-1])
        codes, kept = _joined(codes, ranks, rows[:-1], forms)
        return tf.raw_ops.UnicodeEncode(
            input_values=codes,
            input_splits=tf.searchsorted(kept, splits, out_type=tf.int64),
            output_encoding="UTF-8",
        )

    def _in_order(self, codes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Sort the marks between two other characters by their ranks, and return the ranks, int32 `[A]`."""
        ranks = _looked_up(self._ranks, codes)
        marks = tf.where(ranks > 0)[:, 0]  # [M]
        runs = tf.gather(tf.cumsum(tf.cast(ranks == 0, tf.int64)) + rows, marks)
        order = tf.argsort(runs * _RANKS + tf.cast(tf.gather(ranks, marks), tf.int64), stable=True)
        order = tf.gather(marks, order)
        codes = tf.tensor_scatter_nd_update(codes, marks[:, None], tf.gather(codes, order))
        return codes, tf.tensor_scatter_nd_update(ranks, marks[:, None], tf.gather(ranks, order))


def _looked_up(table: tuple[np.ndarray, np.ndarray], codes: Tensor) -> Tensor:
    """Return the entries of a table in two levels for code points `[N]`."""
    pages, blocks = table
    page = tf.gather(pages, tf.bitwise.right_shift(codes, 7)) * blocks.shape[1]
    return tf.gather(blocks.reshape(-1), page + (codes & blocks.shape[1] - 1))


def _joined(codes: Tensor, ranks: Tensor, rows: Tensor, forms: CanonicalForms) -> tuple[Tensor, Tensor]:
    """Join characters with those after them, and return what stays, int32, and the place of each, int64.

    Each step joins, for all characters that are no marks, the first one after it that can be joined and that
    earlier steps have not passed.

    Args:
        codes: int32 `[A]`, decomposed and in order.
        ranks: int32 `[A]`, 0 for a character that is no mark.
        rows: int64 `[A]`, numbers of the texts.
        forms: the pairs of characters that become one.
    """

    def joinable(
        _codes: Tensor, _ranks: Tensor, _rows: Tensor, _places: Tensor, _passed: Tensor, *pairs: Tensor
    ) -> Tensor:
        return tf.size(pairs[0]) > 0

    def step(
        codes: Tensor, ranks: Tensor, rows: Tensor, places: Tensor, passed: Tensor, *pairs: Tensor
    ) -> list[Tensor]:
        bases, second, joined = pairs
        codes = tf.tensor_scatter_nd_update(codes, bases[:, None], joined)
        passed = tf.tensor_scatter_nd_update(passed, bases[:, None], tf.gather(places, second))
        gone = tf.zeros_like(second, tf.bool)
        stays = tf.where(tf.tensor_scatter_nd_update(tf.ones_like(codes, tf.bool), second[:, None], gone))[
            :, 0
        ]
        state = [tf.gather(each, stays) for each in (codes, ranks, rows, places, passed)]
        return [*state, *_first_pairs(state, forms)]

    places = tf.range(tf.size(codes, tf.int64))
    state = [codes, ranks, rows, places, tf.fill(tf.shape(codes), tf.constant(-1, tf.int64))]
    state += _first_pairs(state, forms)
    codes, _, _, places, *_ = tf.while_loop(
        joinable, step, state, shape_invariants=[tf.TensorShape([None])] * len(state)
    )
    return codes, places


def _first_pairs(state: list[Tensor], forms: CanonicalForms) -> list[Tensor]:
    """Return places of characters, int64, those to join with them, int64, and what they become, int32.

    Args:
        state: codes, ranks, rows and places, each `[A]`, and the place that each character has passed.
        forms: the pairs of characters that become one.
    """
    codes, ranks, rows, places, passed = state
    bases = tf.where(ranks == 0)[:, 0]
    number = tf.cumsum(tf.cast(ranks == 0, tf.int64)) - tf.cast(ranks == 0, tf.int64) - 1
    after = tf.where(number >= 0)[:, 0]
    base = tf.gather(bases, tf.gather(number, after))  # the last one before that is no mark
    rank = tf.gather(ranks, after)
    near = (base == after - 1) | (tf.gather(ranks, after - 1) < rank)
    near &= (tf.gather(rows, base) == tf.gather(rows, after)) & (
        tf.gather(passed, base) < tf.gather(places, after)
    )
    chosen = tf.where(near)[:, 0]
    base, after = tf.gather(base, chosen), tf.gather(after, chosen)
    first, second = (tf.cast(tf.gather(codes, place), tf.int64) for place in (base, after))
    keys = first * 2**CODE_BITS + second
    index = tf.minimum(tf.searchsorted(forms.pairs, keys), len(forms.pairs) - 1)
    chosen = tf.where(tf.gather(forms.pairs, index) == keys)[:, 0]
    base, after, index = (tf.gather(each, chosen) for each in (base, after, index))
    chosen = tf.where(tf.concat([[True], base[1:] != base[:-1]], 0)[: tf.size(base)])[:, 0]
    base, after, index = (tf.gather(each, chosen) for each in (base, after, index))
    return [base, after, tf.gather(forms.composed, index)]
