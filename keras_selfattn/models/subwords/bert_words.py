"""Normalise texts and split them into words as BERT does, as TensorFlow ops on code points.

Axes: B (texts), N (characters of all texts), K (most characters that one becomes), A (characters of all
words), W (words of all texts).
"""

import re
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.models.subwords import bert_characters as characters
from keras_selfattn.models.subwords.character_file import PAGE
from keras_selfattn.models.subwords.pieces import FIRST
from keras_selfattn.models.subwords.subword_tokenizer import longer
from keras_selfattn.models.subwords.wordpiece_settings import MARK, WordPieceSettings

Tensor = Any

_CODE = 2**characters.CODE_BITS - 1


class Words(NamedTuple):
    """The words of texts.

    Args:
        codes: int32 `[A]`, code points; `FIRST` is added to the first of each word.
        splits: int64 `[W + 1]`, where each word begins.
        rows: int64 `[B + 1]`, the first word of each text.
    """

    codes: Tensor
    splits: Tensor
    rows: Tensor

    def strings(self) -> Tensor:
        """Return the words as a string tensor `[W]`; those that are added tokens begin with `MARK`.

        It stands before an added token; of one that was found after normalisation, for its first character.
        """
        return tf.raw_ops.UnicodeEncode(
            input_values=self.codes & _CODE, input_splits=self.splits, output_encoding="UTF-8"
        )


class BertWords:
    """Normalise texts and split them into words.

    Args:
        settings: sets the normalisation and the added tokens, each of which is a word as it is.

    Example:

        >>> words = BertWords(WordPieceSettings(max_tokens=8))
        >>> words(tf.constant(["Élan vital!"]), 8).strings().numpy().tolist()
        [b'elan', b'vital', b'!']

    Reference: Devlin et al. 2019, "BERT"; its tokenization.py, `BasicTokenizer`. The Unicode Standard,
    section 3.11, for the order of marks.
    """

    def __init__(self, settings: WordPieceSettings) -> None:
        self._table = characters.character_table(
            clean=settings.clean_text,
            ideographs=settings.handle_chinese_chars,
            accents=settings.strips_accents,
            lowercase=settings.lowercase,
        )
        self._ordered = settings.strips_accents  # because NFD puts marks into an order
        # The longest first: the first alternative that fits is taken.
        added = sorted(settings.added_tokens, key=len, reverse=True)
        self._normal_tokens = [np.array([*map(ord, token)]) for token in settings.normalized_tokens]
        self._added = "|".join(re.escape(token) for token in added if token not in settings.normalized_tokens)
        self._longest = max(map(len, added), default=0)

    def __call__(self, texts: Tensor, most: int) -> Words:
        """Return the words of a string tensor `[B]`: of each text the first `most`, and maybe more.

        Of a long text only as much is read as these need.
        """
        # A cut changes at most the word at the end, with part of an added token or of a character.
        enough = most + self._longest + 2
        lengths = tf.strings.length(texts)  # [B], bytes

        def lacking(reach: Tensor, _codes: Tensor, _splits: Tensor, rows: Tensor) -> Tensor:
            return tf.reduce_any((lengths > reach) & (rows[1:] - rows[:-1] < enough))

        def read(reach: Tensor, *_: Tensor) -> list[Tensor]:
            reach = longer(reach, most)
            return [reach, *self._all_words(tf.strings.substr(texts, 0, reach))]

        nothing = tf.zeros([0], tf.int32), tf.zeros([1], tf.int64), tf.zeros([tf.size(texts) + 1], tf.int64)
        shapes = [tf.TensorShape(shape) for shape in ([], [None], [None], [None])]
        # Without a first reading before the loop, so that the graph has the tables once.
        return Words(*tf.while_loop(lacking, read, [tf.constant(0), *nothing], shape_invariants=shapes)[1:])

    def _all_words(self, texts: Tensor) -> Words:
        codes, splits, added = self._decoded(texts)
        found = self._normalised(codes, added)  # [N * K]
        place = tf.where(found >= 0)[:, 0]
        found, rows = tf.gather(found, place), tf.searchsorted(place, splits * self._most, out_type=tf.int64)
        kinds = tf.bitwise.right_shift(found, characters.CODE_BITS) & 2**characters.KIND_BITS - 1
        letter = kinds == characters.LETTER
        begins = ~(letter & tf.concat([[False], letter[:-1]], 0))
        for token in self._normal_tokens:
            found, begins = _as_one_word(token, found, begins)
        place = tf.where(kinds != characters.SPACE)[:, 0]  # [A]
        begins = tf.gather(begins, place)
        codes = (tf.gather(found, place) & _CODE) + tf.where(begins, FIRST, 0)
        starts = tf.where(begins)[:, 0]  # [W]
        ends = tf.concat([starts, [tf.size(codes, tf.int64)]], 0)
        rows = tf.searchsorted(starts, tf.searchsorted(place, rows, out_type=tf.int64), out_type=tf.int64)
        return Words(codes, ends, rows)

    def _decoded(self, texts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return int32 code points `[N]`, int64 splits `[B + 1]`, and True in added tokens, bool `[N]`.

        A separator ends each text. An added token is between two of `MARK`, of which the first counts as its
        beginning; `MARK` in the texts is a separator, and becomes another one.
        """
        texts = tf.strings.regex_replace(texts, MARK, " ")
        if self._added:
            texts = tf.strings.regex_replace(texts, f"({self._added})", rf" {MARK}\1{MARK}")
        decoded = tf.raw_ops.UnicodeDecode(input=tf.strings.join([texts, " "]), input_encoding="UTF-8")
        codes = decoded.char_values
        return codes, decoded.row_splits, tf.cumsum(tf.cast(codes == ord(MARK), tf.int32)) & 1 == 1

    @property
    def _most(self) -> int:
        """Most characters that one becomes."""
        return self._table.effects.shape[1]

    def _normalised(self, codes: Tensor, added: Tensor) -> Tensor:
        """Return the characters that code points `[N]` become, int32 `[N * K]`; those below 0 are none."""
        table = self._table
        pages = tf.gather(table.pages, tf.bitwise.right_shift(codes, 7)) * PAGE
        numbers = tf.gather(table.blocks.reshape(-1), pages + (codes & PAGE - 1))
        numbers = tf.where(added, characters.UNCHANGED, numbers)
        found = tf.reshape(codes[:, None] + tf.gather(table.effects, numbers), [-1])
        if not self._ordered:
            return found
        ranked = tf.where(found >= 1 << characters.CODE_BITS + characters.KIND_BITS)[:, 0]
        return tf.cond(tf.size(ranked) > 1, lambda: _in_order(found, ranked), lambda: found)


def _as_one_word(token: np.ndarray, found: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
    """Make each occurrence of an added token a word, and its first character `MARK`.

    Args:
        token: its code points `[L]`; brackets, each of which is a word by itself, begin and end it.
        found: int32 characters; a separator ends them.
        begins: bool, True where a word begins.
    """
    size = len(token)
    codes = tf.pad(found & _CODE, [[0, size]])
    same = [codes[place : place - size] == code for place, code in enumerate(token)]
    firsts = tf.where(tf.reduce_all(same, 0))  # [occurrences, 1]
    inner = tf.reshape(firsts + np.arange(1, size), [-1, 1])
    begins = tf.tensor_scatter_nd_update(begins, inner, tf.zeros_like(inner[:, 0], tf.bool))
    return tf.tensor_scatter_nd_update(found, firsts, tf.fill(tf.shape(firsts)[:1], ord(MARK))), begins


def _in_order(found: Tensor, ranked: Tensor) -> Tensor:
    """Sort the marks at places `ranked` by their classes, where no other character is between them."""
    others = (found >= 0) & (found < 1 << characters.CODE_BITS + characters.KIND_BITS)
    others |= found < characters.REMOVED
    runs = tf.gather(tf.cumsum(tf.cast(others, tf.int64)), ranked)
    marks = tf.gather(found, ranked)
    ranks = tf.bitwise.right_shift(marks, characters.CODE_BITS + characters.KIND_BITS)
    order = tf.argsort(runs * 8 + tf.cast(ranks, tf.int64), stable=True)
    return tf.tensor_scatter_nd_update(found, ranked[:, None], tf.gather(marks, order))
