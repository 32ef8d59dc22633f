"""Split texts into words as GPT-2 or Llama 3 does, as TensorFlow ops on code points.

Axes: B (texts), N (characters of all texts), A (characters of all words), W (words of all texts).
"""

import functools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.byte_level_characters import (
    CODE_BITS,
    LETTER,
    NUMBER,
    OTHER,
    SPACE,
    character_classes,
)
from keras_selfattn.models.subwords.byte_pair_settings import LLAMA_3, MARK, BytePairSettings
from keras_selfattn.models.subwords.canonical_composition import CanonicalComposition
from keras_selfattn.models.subwords.character_file import PAGE, in_pages

Tensor = Any

# Kinds of characters beside the classes: the first of an added token, and the others.
_TOKEN, _INNER = 4, 5
_BLANK = ord(" ") | SPACE << CODE_BITS
_CODE = 2**CODE_BITS - 1
_MARK = ord(MARK)
# A token before each text: its end is a place for a blank, and no word goes on from one text to the next.
_START = f"{MARK}.{MARK}"
WHITE = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"


class ByteLevelWords(NamedTuple):
    """The words of texts.

    Args:
        codes: int32 `[A]`, code points. The words that are added tokens begin with `MARK`.
        splits: int64 `[W + 1]`, where each word begins.
        rows: int64 `[B + 1]`, the first word of each text; it begins the text and is no part of it.
    """

    codes: Tensor
    splits: Tensor
    rows: Tensor

    def strings(self) -> Tensor:
        """Return the words as a string tensor `[W]`."""
        return tf.raw_ops.UnicodeEncode(
            input_values=self.codes, input_splits=self.splits, output_encoding="UTF-8"
        )


@functools.cache
def _class_pages() -> tuple[np.ndarray, np.ndarray]:
    """Return the table of all classes, which takes a tenth of a second to make."""
    return in_pages(character_classes())


class ByteLevelSplit:
    """Normalise texts and split them into words, with the blank before a word as its first character.

    Args:
        settings: sets the normalisation and the added tokens, each of which is a word as it is.

    Raises:
        ConfigError: for an added token that the normalisation would change.

    Example:

        >>> split = ByteLevelSplit(BytePairSettings(max_tokens=8))
        >>> split(tf.constant(["It's  so good!"])).strings().numpy()[1:].tolist()
        [b'It', b"'s", b' ', b' so', b' good', b'!']

    Reference: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2; its
    encoder.py has the regular expression. Grattafiori et al. 2024, "The Llama 3 Herd of Models", section 3.2;
    its tokenizer.py has the other.
    """

    def __init__(self, settings: BytePairSettings) -> None:
        self._prefixed, self._of_llama = settings.add_prefix_space, settings.words == LLAMA_3
        self._classes = _class_pages()
        self._composed = CanonicalComposition() if settings.composed else None
        late = set(settings.normalized_tokens)
        stripping = settings.lstrip_tokens, settings.rstrip_tokens
        self._early_tokens = token_pattern(set(settings.added_tokens) - late, *stripping)
        self._late_tokens = token_pattern(late, *stripping)
        for token in settings.added_tokens if self._composed else ():
            if self._composed and self._composed.changes(token):
                raise ConfigError(f"the added token {token!r} is not in Unicode's form C: not supported.")

    def __call__(self, texts: Tensor) -> ByteLevelWords:
        """Return the words of a string tensor `[B]`."""
        decoded = tf.raw_ops.UnicodeDecode(input=self._marked(texts), input_encoding="UTF-8")
        found, place = self._kinds(decoded.char_values)
        kinds = tf.bitwise.right_shift(found, CODE_BITS)  # [A]
        if self._of_llama:
            begins = _contracted(found, _llama_begins(found, kinds), folded=True)
        else:
            begins = _contracted(found, _begins(found, kinds))
        splits = tf.where(tf.concat([begins, [True]], 0))[:, 0]
        rows = tf.searchsorted(place, decoded.row_splits, out_type=tf.int64)
        rows = tf.searchsorted(splits, rows, out_type=tf.int64)
        return ByteLevelWords(found & _CODE, splits, rows)

    def _marked(self, texts: Tensor) -> Tensor:
        """Return texts `[B]` in normal form with a `MARK` before and after each added token.

        Two of them without anything between stand for one that was there.
        """
        texts = tf.strings.regex_replace(texts, MARK, MARK * 2)
        if self._early_tokens:
            texts = tf.strings.regex_replace(texts, *self._early_tokens)
        if self._composed:
            texts = self._composed(texts)
        if self._late_tokens:
            texts = tf.strings.regex_replace(texts, *self._late_tokens)
        return tf.strings.join([_START, texts])

    def _kinds(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return characters of words, their kinds from bit 21 on, int32 `[A]`, and their places, int64.

        Args:
            codes: int32 `[N]`, code points of marked texts.
        """
        pages, blocks = self._classes
        page = tf.gather(pages, tf.bitwise.right_shift(codes, 7)) * PAGE
        kinds = tf.gather(blocks.reshape(-1), page + (codes & PAGE - 1))
        mark = codes == _MARK
        inside = tf.cumsum(tf.cast(mark, tf.int32)) & 1 == 1  # an opening mark, and what follows
        after = tf.concat([codes[1:], [_MARK]], 0)[: tf.size(codes)]
        literal: Any = mark & inside & (after == _MARK)  # one of the text
        closing = mark & ~inside
        kinds = tf.where(inside & ~literal, tf.where(mark, _TOKEN, _INNER), kinds)
        kept = ~closing
        if self._prefixed:
            literals: Any = tf.concat([[False], literal, [False]], 0)
            begun = (after != ord(" ")) & ((after != _MARK) | literals[2:]) & ~literals[:-2]
            kept |= begun
            codes, kinds = tf.where(closing, ord(" "), codes), tf.where(closing, SPACE, kinds)
        place = tf.where(kept)[:, 0]
        return tf.gather(codes | tf.bitwise.left_shift(kinds, CODE_BITS), place), place


def _begins(found: Tensor, kinds: Tensor) -> Tensor:
    """Return True for characters that begin a word, bool `[A]`, contractions apart.

    A blank begins the word after it. All white space before it is a word, and so is the last one before a
    word if it is no blank.
    """
    size = tf.size(kinds)
    before = tf.concat([[_INNER], kinds], 0)[:size]
    after = tf.concat([kinds[1:], [_TOKEN]], 0)[:size]
    joined = tf.concat([[False], found == _BLANK], 0)[:size] & (kinds < SPACE)
    apart = (kinds != before) & ~joined & (kinds != _INNER)
    return tf.where(kinds == SPACE, apart | (after < SPACE), apart)


def _llama_begins(found: Tensor, kinds: Tensor) -> Tensor:
    """Return the same by the rule of Llama 3.

    Signs own the ends of lines right after them. All other white space up to the last end of a line is a
    word, and what is left of it, without its last character where something follows. That one is of the word
    after it if this is of letters, or if it is a blank and signs follow. A single sign is of the letters
    after it, unless a blank is before it.
    """
    places = tf.range(tf.size(kinds))
    before, after = _before(kinds, _INNER), tf.concat([kinds[1:], [_TOKEN]], 0)[: tf.size(kinds)]
    codes = found & _CODE
    line = (kinds == SPACE) & ((codes == ord("\n")) | (codes == ord("\r")))
    owner = tf.gather(before, _latest(line & ~_before(line, False), places))  # what is before lines in a row
    white = (kinds == SPACE) & ~(line & (owner == OTHER))
    white_before, line_before = _before(white, False), _before(line, False)
    # White space:
    first = white & ~white_before
    runs = tf.cumsum(tf.cast(first, tf.int32))
    lines = tf.where(line & white, places, -1)
    ended = tf.gather(tf.math.unsorted_segment_max(lines, runs, tf.size(runs) + 1), runs)
    spaces = white & (first | (places == ended + 1) | (~line & (after < SPACE)))
    # Words:
    blank_before = white_before & (_before(codes, 0) == ord(" "))
    signs = (kinds == OTHER) & (before != OTHER) & ~blank_before
    single = signs & (after == LETTER)
    joined = white_before & ~line_before | _before(single, False)
    letters = (kinds == LETTER) & (before != LETTER) & ~joined
    digit = kinds == NUMBER
    digits = digit & ((places - _latest(digit & (before != NUMBER), places)) % 3 == 0)
    return spaces | signs | letters | digits | (kinds == _TOKEN)


def _before(values: Tensor, first: Any) -> Tensor:
    """Return the value of the character before each."""
    return tf.concat([[first], values], 0)[: tf.size(values)]


def _latest(flags: Tensor, places: Tensor) -> Tensor:
    """Return the place of the last flag that is True up to each character; 0 before the first."""
    # A sum of the steps from flag to flag: TensorFlow has no running maximum.
    marked = tf.boolean_mask(places, flags)
    steps = marked - _before(marked, 0)
    return tf.cumsum(tf.tensor_scatter_nd_update(tf.zeros_like(places), marked[:, None], steps))


def _contracted(found: Tensor, begins: Tensor, *, folded: bool = False) -> Tensor:
    """Return where words begin if 's, 't, 're, 've, 'm, 'll and 'd are words; `folded` for either case."""
    quotes = tf.where(begins & (found == ord("'")))[:, 0]
    ahead = tf.concat([found, [0, 0]], 0)
    one, two = tf.gather(ahead, quotes + 1), tf.gather(ahead, quotes + 2)
    short, long = _one_of(one, "stmd", folded), tf.zeros_like(quotes, tf.bool)
    for letters in ("re", "ve", "ll"):
        long |= _one_of(one, letters[0], folded) & _one_of(two, letters[1], folded)
    chosen = tf.where(short | long)[:, 0]
    quotes, ends = tf.gather(quotes, chosen), tf.gather(quotes + 3 - tf.cast(short, tf.int64), chosen)
    begins = tf.tensor_scatter_nd_update(begins, quotes[:, None] + 1, tf.zeros_like(quotes, tf.bool))
    padded = tf.concat([begins, [True]], 0)
    return tf.tensor_scatter_nd_update(padded, ends[:, None], tf.ones_like(quotes, tf.bool))[:-1]


def _one_of(found: Tensor, letters: str, folded: bool) -> Tensor:
    """Return True for characters that are one of some letters; `folded` for either case, and the long s."""
    known = {*letters, *(letters.upper() if folded else ""), *("\u017f" if folded and "s" in letters else "")}
    codes = np.array([ord(letter) | LETTER << CODE_BITS for letter in sorted(known)], np.int32)
    return tf.reduce_any(found[:, None] == codes, 1)


def token_pattern(tokens: Iterable[str], left: Iterable[str], right: Iterable[str]) -> tuple[str, str] | None:
    """Return the regular expression that finds tokens, and what it puts there; None without tokens.

    Args:
        tokens: as they are in a text.
        left, right: those that take the white space before them, and after them.
    """
    left, right = set(left), set(right)
    # The longest first: the first alternative that fits is taken.
    ordered = sorted(tokens, key=len, reverse=True)
    found = []
    for before, after in ((True, True), (True, False), (False, True), (False, False)):
        kind = [re.escape(each) for each in ordered if (each in left, each in right) == (before, after)]
        if kind:
            found.append(f"{WHITE if before else ''}({'|'.join(kind)}){WHITE if after else ''}")
    groups = "".join(rf"\{number}" for number in range(1, len(found) + 1))
    return ("|".join(found), f"{MARK}{groups}{MARK}") if found else None
