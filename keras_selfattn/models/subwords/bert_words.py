"""Normalise texts and split them into words as BERT does, as TensorFlow ops on code points.

Axes: B (texts), N (characters of all texts), K (most characters that one becomes), A (characters of all
words), W (words of all texts).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_selfattn.errors import ConfigError
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
        """Return the words as a string tensor `[W]`; `MARK` stands before those that are added tokens."""
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
        self._clean = settings.clean_text
        early = [token for token in settings.added_tokens if token not in settings.normalized_tokens]
        self._early = (f"({_alternatives(early)})", rf" {MARK}\1{MARK}") if early else None
        self._late: tuple[str, str] | None = None
        self._normal_names: dict[str, str] = {}
        if settings.normalized_tokens:
            # The second table finds the words of texts that are normalised, and changes nothing.
            self._split_table = characters.character_table(
                clean=False, ideographs=settings.handle_chinese_chars, accents=False, lowercase=False
            )
            self._ideographs = characters.ideographs() if settings.handle_chinese_chars else None
            self._normal_names = self._normal_forms(settings.normalized_tokens)
            # What was found before stays as it is.
            others = f"{MARK}([^{MARK}]*){MARK}|({_alternatives(self._normal_names)})"
            self._late = others, rf" {MARK}\1\2{MARK}"
        longest = map(len, [*settings.added_tokens, *self._normal_names])
        self._longest = max(longest, default=0)

    @property
    def normal_names(self) -> dict[str, str]:
        """The tokens that are found in the normalised text, by their normal forms, which are found."""
        return self._normal_names

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
        table = self._table
        codes, splits, added = _decoded(self._marked(texts))
        found = self._normalised(table, codes, added)  # [N * K]
        if self._late:
            texts = self._normal_texts(found, codes, splits, added)
            table = self._split_table
            codes, splits, added = _decoded(tf.strings.regex_replace(texts, *self._late))
            found = self._normalised(table, codes, added)
        splits *= table.effects.shape[1]
        place = tf.where(found >= 0)[:, 0]
        found, rows = tf.gather(found, place), tf.searchsorted(place, splits, out_type=tf.int64)
        kinds = tf.bitwise.right_shift(found, characters.CODE_BITS) & 2**characters.KIND_BITS - 1
        letter = kinds == characters.LETTER
        begins = ~(letter & tf.concat([[False], letter[:-1]], 0))
        place = tf.where(kinds != characters.SPACE)[:, 0]  # [A]
        begins = tf.gather(begins, place)
        codes = (tf.gather(found, place) & _CODE) + tf.where(begins, FIRST, 0)
        starts = tf.where(begins)[:, 0]  # [W]
        ends = tf.concat([starts, [tf.size(codes, tf.int64)]], 0)
        rows = tf.searchsorted(starts, tf.searchsorted(place, rows, out_type=tf.int64), out_type=tf.int64)
        return Words(codes, ends, rows)

    def _marked(self, texts: Tensor) -> Tensor:
        """Return texts `[B]` with `MARK` on either side of each added token that is found as it is.

        `MARK` in the texts is a separator, and becomes another one.
        """
        # Where white space is not made blanks, it is not one: an added token may hold a blank.
        texts = tf.strings.regex_replace(texts, MARK, " " if self._clean else "\u2029")
        return tf.strings.regex_replace(texts, *self._early) if self._early else texts

    def _normalised(self, table: characters.CharacterTable, codes: Tensor, added: Tensor) -> Tensor:
        """Return the characters that code points `[N]` become, int32 `[N * K]`; those below 0 are none."""
        pages = tf.gather(table.pages, tf.bitwise.right_shift(codes, 7)) * PAGE
        numbers = tf.gather(table.blocks.reshape(-1), pages + (codes & PAGE - 1))
        numbers = tf.where(added, characters.UNCHANGED, numbers)
        found = tf.reshape(codes[:, None] + tf.gather(table.effects, numbers), [-1])
        if not self._ordered or table is not self._table:
            return found
        ranked = tf.where(found >= 1 << characters.CODE_BITS + characters.KIND_BITS)[:, 0]
        return tf.cond(tf.size(ranked) > 1, lambda: _in_order(found, ranked), lambda: found)

    def _normal_texts(self, found: Tensor, codes: Tensor, splits: Tensor, added: Tensor) -> Tensor:
        """Return normalised texts as strings `[B]`, with a blank on either side of each ideograph.

        Args:
            found: int32 `[N * K]`, what the characters become.
            codes: int32 `[N]`, the characters.
            splits: int64 `[B + 1]`, where each text begins.
            added: bool `[N]`, True in added tokens.
        """
        found = tf.reshape(found, [-1, self._table.effects.shape[1]])  # [N, K]
        if self._ideographs is not None:
            pages, blocks = self._ideographs
            page = tf.gather(pages, tf.bitwise.right_shift(codes, 7)) * PAGE
            apart = tf.gather(blocks.reshape(-1), page + (codes & PAGE - 1)) == 1
            blank = tf.where(apart & ~added, ord(" "), characters.REMOVED)[:, None]
            found = tf.concat([blank, found, blank], 1)  # [N, K + 2]
        size, found = found.shape[1], tf.reshape(found, [-1])
        if self._clean:
            kinds = tf.bitwise.right_shift(found, characters.CODE_BITS) & 2**characters.KIND_BITS - 1
            white = (found >= 0) & (kinds == characters.SPACE) & (found & _CODE != ord(MARK))
            found = tf.where(white, ord(" "), found)
        place = tf.where(found >= 0)[:, 0]
        return tf.raw_ops.UnicodeEncode(
            input_values=tf.gather(found, place) & _CODE,
            input_splits=tf.searchsorted(place, splits * size, out_type=tf.int64),
            output_encoding="UTF-8",
        )

    def _normal_forms(self, tokens: Sequence[str]) -> dict[str, str]:
        """Return tokens by their normal forms.

        Raises:
            ConfigError: for a token that is nothing then, and for two with one form.
        """
        with tf.init_scope():
            codes, splits, added = _decoded(tf.constant(list(tokens)))
            found = self._normalised(self._table, codes, added)
            forms = [form.decode()[:-1] for form in self._normal_texts(found, codes, splits, added).numpy()]
        for place, form in enumerate(forms):
            if not form.strip() or form in forms[:place]:
                raise ConfigError(
                    f"the added token {tokens[place]!r} is found in normalised texts, where it is {form!r}: "
                    "it must not be blank, and no other token's."
                )
        return dict(zip(forms, tokens, strict=True))


def _decoded(texts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return int32 code points `[N]`, int64 splits `[B + 1]`, and True in added tokens, bool `[N]`.

    A separator ends each text. An added token is between two of `MARK`, of which the first counts as its
    beginning.
    """
    decoded = tf.raw_ops.UnicodeDecode(input=tf.strings.join([texts, " "]), input_encoding="UTF-8")
    codes = decoded.char_values
    return codes, decoded.row_splits, tf.cumsum(tf.cast(codes == ord(MARK), tf.int32)) & 1 == 1


def _alternatives(tokens: Iterable[str]) -> str:
    """Return the regular expression of any of some tokens."""
    # The longest first: the first alternative that fits is taken.
    return "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))


def _in_order(found: Tensor, ranked: Tensor) -> Tensor:
    """Sort the marks at places `ranked` by their classes, where no other character is between them."""
    others = (found >= 0) & (found < 1 << characters.CODE_BITS + characters.KIND_BITS)
    others |= found < characters.REMOVED
    runs = tf.gather(tf.cumsum(tf.cast(others, tf.int64)), ranked)
    marks = tf.gather(found, ranked)
    ranks = tf.bitwise.right_shift(marks, characters.CODE_BITS + characters.KIND_BITS)
    order = tf.argsort(runs * 8 + tf.cast(ranks, tf.int64), stable=True)
    return tf.tensor_scatter_nd_update(found, ranked[:, None], tf.gather(marks, order))
