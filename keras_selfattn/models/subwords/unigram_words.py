"""Normalise texts and split them into words as SentencePiece does, as TensorFlow ops on code points.

Axes: B (texts), N (characters of all texts), A (characters of all words), W (words of all texts).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords import unigram_settings as steps
from keras_selfattn.models.subwords.byte_level_words import token_pattern
from keras_selfattn.models.subwords.byte_pair_settings import MARK
from keras_selfattn.models.subwords.canonical_composition import CanonicalComposition
from keras_selfattn.models.subwords.character_file import CODE_POINTS
from keras_selfattn.models.subwords.character_map import CharacterMap, read_compiled
from keras_selfattn.models.subwords.pieces import FIRST
from keras_selfattn.models.subwords.ragged_rows import ranges
from keras_selfattn.models.subwords.subword_tokenizer import word_table
from keras_selfattn.models.subwords.unigram_settings import UnigramSettings

Tensor = Any

BLANK, WORD = ord(" "), ord("▁")
_MARK, _NONE = ord(MARK), 0x10FFFE
# Unicode's property White_Space, as Rust has it.
_WHITE = np.array(
    [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)
_LINES = np.array([ord(each) for each in "\n\r\t"])


class UnigramWords(NamedTuple):
    """The words of texts.

    Args:
        codes: int32 `[A]`, code points; `FIRST` is added to the first of each word. An added token is a word
            of one: `CODE_POINTS` and its id.
        splits: int64 `[W + 1]`, where each word begins.
        rows: int64 `[B + 1]`, the first word of each text.
    """

    codes: Tensor
    splits: Tensor
    rows: Tensor


class _Characters(NamedTuple):
    """Characters of texts, `[N]` each.

    Args:
        codes: int32, code points.
        owners: int64, in order: an owner is what stands between two added tokens, or one of these.
        texts: int64, whose they are.
        initial: bool, True for what the first character of a text became.
    """

    codes: Tensor
    owners: Tensor
    texts: Tensor
    initial: Tensor

    def at(self, places: Tensor, codes: Tensor | None = None) -> "_Characters":
        """Return the characters of some places, with other codes if these are given."""
        own, *others = (tf.gather(each, places) for each in self)
        return _Characters(own if codes is None else codes, *others)

    def after(self, flags: Tensor) -> Tensor:
        """Return True where the character before has the flag, and is of the same owner."""
        return tf.concat([[False], flags[:-1] & (self.owners[1:] == self.owners[:-1])], 0)[: tf.size(flags)]

    def before(self, flags: Tensor) -> Tensor:
        """Return True where the character after has the flag, and is of the same owner."""
        return tf.concat([flags[1:] & (self.owners[1:] == self.owners[:-1]), [False]], 0)[: tf.size(flags)]


class _Search(NamedTuple):
    """A search for added tokens: its regular expression, what it puts there, and the table of their ids."""

    pattern: str
    marked: str
    ids: Any


class UnigramSplit:
    """Normalise texts and split them into words, with "▁" for the blank before a word.

    Args:
        settings: sets the normalisation and the added tokens, each of which is a word as it is.

    Example:

        >>> split = UnigramSplit(UnigramSettings(max_tokens=8))
        >>> words = split(tf.constant(["so good"]))
        >>> "".join(map(chr, words.codes.numpy() % FIRST)), words.splits.numpy().tolist()
        ('▁so▁good', [0, 3, 8])

    Reference: Kudo and Richardson 2018, "SentencePiece", section 3; `tokenizers`, its pre-tokenizers
    WhitespaceSplit and Metaspace.
    """

    def __init__(self, settings: UnigramSettings) -> None:
        self._settings = settings
        early = settings.added_tokens.keys() - {*settings.normalized_tokens}
        self._early = self._search({token: token for token in settings.added_tokens if token in early})
        self._map = CharacterMap(read_compiled(settings.compiled)) if settings.characters else None
        self._composed = CanonicalComposition() if steps.COMPOSED in settings.steps else None
        known: dict[str, Callable[[_Characters], _Characters]] = {
            steps.MAP: self._mapped,
            steps.BLANKS: lambda found: _one_blank(found, BLANK),
            steps.BLANKS_TO_WORD: lambda found: _one_blank(found, WORD),
            steps.WHITE: _white_to_blanks,
            steps.COMPOSED: self._in_form_c,
            steps.STRIP: lambda found: _stripped(found, left=True),
            steps.STRIP_RIGHT: lambda found: _stripped(found, left=False),
        }
        self._steps = [known[name] for name in settings.steps]
        self._late = self._search(self._normal_forms(settings.normalized_tokens))

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        of_tokens = [each.ids for each in (self._early, self._late) if each is not None]
        return of_tokens if self._map is None else [*of_tokens, self._map.table]

    def __call__(self, texts: Tensor) -> UnigramWords:
        """Return the words of a string tensor `[B]`."""
        found = self._normalised(_characters(texts, self._early))
        if self._late is not None:
            found = self._with_late_tokens(found, self._late)
        return self._words(found, tf.size(texts, tf.int64))

    def _search(self, tokens: Mapping[str, str]) -> "_Search | None":
        """Return what finds tokens, by what they are in a text; None for none."""
        if not tokens:
            return None
        settings = self._settings
        left, right = (
            [form for form, token in tokens.items() if token in each]
            for each in (settings.lstrip_tokens, settings.rstrip_tokens)
        )
        pattern, marked = token_pattern(tokens, left, right) or ("", "")
        ids = {form: settings.added_tokens[token] for form, token in tokens.items()}
        return _Search(pattern, marked, word_table(ids))

    def _normal_forms(self, tokens: Sequence[str]) -> dict[str, str]:
        """Return tokens by what the normalisation makes of them.

        Raises:
            ConfigError: for a token that is nothing then, and for two with one form.
        """
        found: dict[str, str] = {}
        for token in tokens:
            with tf.init_scope():
                codes = self._normalised(_characters(tf.constant([token]), None)).codes.numpy()
            form = "".join(map(chr, codes))
            if not form.strip() or form in found:
                raise ConfigError(
                    f"the added token {token!r} is found in normalised texts, where it is {form!r}: it must "
                    "not be blank, and no other token's."
                )
            found[form] = token
        return found

    def _normalised(self, found: _Characters) -> _Characters:
        for step in self._steps:
            found = step(found)
        return found

    def _with_late_tokens(self, found: _Characters, search: "_Search") -> _Characters:
        """Return normalised characters with one for each added token that is found in them."""
        firsts = tf.where(~found.after(tf.ones_like(found.codes, tf.bool)))[:, 0]  # of each owner
        splits = tf.concat([firsts, [tf.size(found.codes, tf.int64)]], 0)
        token = found.codes >= CODE_POINTS
        # A noncharacter, which no token has, stands for those that were found before.
        texts = tf.raw_ops.UnicodeEncode(
            input_values=tf.where(token, _NONE, found.codes), input_splits=splits, output_encoding="UTF-8"
        )
        inner = _characters(texts, search)
        sources = tf.gather(firsts, inner.texts)
        codes = tf.where(tf.gather(token, sources), tf.gather(found.codes, sources), inner.codes)
        initial = inner.initial & tf.gather(found.initial, sources)
        return _Characters(codes, inner.owners, tf.gather(found.texts, sources), initial)

    def _mapped(self, found: _Characters) -> _Characters:
        """Replace characters by the map."""
        replaced: Any = self._map
        codes, sources = replaced(found.codes, found.owners)
        after = found.at(sources, codes)
        # What follows characters that the map removed begins its text, unlike what follows white space.
        size = tf.reduce_max(tf.concat([found.texts, [-1]], 0)) + 1
        begun = tf.math.unsorted_segment_max(tf.cast(found.initial, tf.int32), found.texts, size) > 0
        first = after.texts != tf.concat([[-1], after.texts], 0)[: tf.size(after.texts)]
        return after._replace(initial=first & tf.gather(begun, after.texts))

    def _in_form_c(self, found: _Characters) -> _Characters:
        """Compose the characters of each owner."""
        composed: Any = self._composed
        firsts = tf.where(~found.after(tf.ones_like(found.codes, tf.bool)))[:, 0]  # of each owner
        splits = tf.concat([firsts, [tf.size(found.codes, tf.int64)]], 0)
        # An added token has no code point of its own: a mark stands for it.
        token = found.codes >= CODE_POINTS
        texts = tf.raw_ops.UnicodeEncode(
            input_values=tf.where(token, _MARK, found.codes), input_splits=splits, output_encoding="UTF-8"
        )
        decoded = tf.raw_ops.UnicodeDecode(input=composed(texts), input_encoding="UTF-8")
        sources = tf.repeat(firsts, decoded.row_splits[1:] - decoded.row_splits[:-1])
        codes = tf.where(tf.gather(token, sources), tf.gather(found.codes, sources), decoded.char_values)
        after = sources == tf.concat([[-1], sources], 0)[: tf.size(sources)]
        found = found.at(sources, codes)
        return found._replace(initial=found.initial & ~after)

    def _words(self, found: _Characters, texts: Tensor) -> UnigramWords:
        """Return the words of normalised characters, with a "▁" before those that lack one."""
        settings = self._settings
        fresh = ~found.after(tf.ones_like(found.codes, tf.bool))
        if settings.splits_white:
            white = _is_one_of(found.codes, _WHITE)
            places = tf.where(~white)[:, 0]
            fresh, found = tf.gather(fresh | found.after(white), places), found.at(places)
        codes = tf.where(found.codes == BLANK, WORD, found.codes)
        lacks = fresh & (codes != WORD) & (codes < CODE_POINTS)
        if settings.prepends != steps.ALWAYS:
            before = tf.concat([[-1], found.texts], 0)[: tf.size(found.texts)]
            lacks &= (found.texts != before) & found.initial & (settings.prepends == steps.AT_FIRST)
        counts = 1 + tf.cast(lacks, tf.int64)
        sources = tf.repeat(tf.range(tf.size(codes, tf.int64)), counts)
        places = tf.cumsum(counts) - counts
        begins = tf.tensor_scatter_nd_update(
            tf.zeros_like(sources, tf.bool), places[:, None], fresh | (codes == WORD)
        )
        put = tf.gather(places, tf.where(lacks)[:, 0])
        codes = tf.gather(codes, sources)
        codes = tf.tensor_scatter_nd_update(codes, put[:, None], tf.fill(tf.shape(put), WORD))
        firsts = tf.where(begins)[:, 0]
        rows = tf.searchsorted(
            tf.gather(found.texts, tf.gather(sources, firsts)), tf.range(texts + 1), out_type=tf.int64
        )
        splits = tf.concat([firsts, [tf.size(codes, tf.int64)]], 0)
        return UnigramWords(codes + tf.where(begins, FIRST, 0), splits, rows)


def _characters(texts: Tensor, search: _Search | None) -> _Characters:
    """Return the characters of texts `[B]`, with one for each added token that is searched."""
    texts = tf.strings.regex_replace(texts, MARK, MARK * 2)
    if search is not None:
        texts = tf.strings.regex_replace(texts, search.pattern, search.marked)
    decoded = tf.raw_ops.UnicodeDecode(input=texts, input_encoding="UTF-8")
    codes, splits = decoded.char_values, decoded.row_splits
    rows = tf.repeat(tf.range(tf.size(splits, tf.int64) - 1), splits[1:] - splits[:-1])
    mark = codes == _MARK
    inside = tf.cumsum(tf.cast(mark, tf.int32)) & 1 == 1  # an opening mark, and what follows
    # Two marks without anything between stand for one of the text.
    literal = mark & inside & tf.concat([mark[1:], [False]], 0)[: tf.size(codes)]
    pair: Any = tf.concat([[False], literal], 0)[: tf.size(codes)]
    closing = mark & ~inside & ~pair
    opening = mark & inside & ~literal
    first = rows != tf.concat([[-1], rows], 0)[: tf.size(rows)]
    owners = tf.cumsum(tf.cast(opening, tf.int64) + tf.cast(closing | first, tf.int64))
    places = tf.where(~inside & ~mark | literal | opening)[:, 0]
    if search is not None:
        codes = _with_tokens(codes, tf.where(opening)[:, 0], tf.where(closing)[:, 0], search.ids)
    return _Characters(codes, owners, rows, first).at(places)


def _with_tokens(codes: Tensor, opening: Tensor, closing: Tensor, ids: Any) -> Tensor:
    """Return the codes with those of added tokens at their opening marks."""
    inner, splits = ranges(opening + 1, closing)
    tokens = tf.raw_ops.UnicodeEncode(
        input_values=tf.gather(codes, inner), input_splits=splits, output_encoding="UTF-8"
    )
    return tf.tensor_scatter_nd_update(codes, opening[:, None], CODE_POINTS + ids.lookup(tokens))


def _one_blank(found: _Characters, made: int) -> _Characters:
    """Make several blanks one character."""
    blank = found.codes == BLANK
    codes = tf.where(blank & found.before(blank), made, found.codes)
    return found._replace(codes=codes).at(tf.where(~(blank & found.after(blank)))[:, 0])


def _white_to_blanks(found: _Characters) -> _Characters:
    """Make each line's end, tab and run of white space a blank."""
    white = _is_one_of(found.codes, _WHITE)
    run = white & (found.after(white) | found.before(white))
    codes = tf.where(run | _is_one_of(found.codes, _LINES), BLANK, found.codes)
    return found._replace(codes=codes).at(tf.where(~(white & found.after(white)))[:, 0])


def _stripped(found: _Characters, *, left: bool) -> _Characters:
    """Remove the white space at the right end of each owner, or at both."""
    solid = ~_is_one_of(found.codes, _WHITE)
    places = tf.range(tf.size(solid, tf.int64))
    owners = found.owners - tf.reduce_min(tf.concat([found.owners, [0]], 0))
    count = tf.reduce_max(tf.concat([owners, [-1]], 0)) + 1
    last = tf.math.unsorted_segment_max(tf.where(solid, places, -1), owners, count)
    kept = places <= tf.gather(last, owners)
    if left:
        beyond = tf.size(solid, tf.int64)
        first = tf.math.unsorted_segment_min(tf.where(solid, places, beyond), owners, count)
        kept &= places >= tf.gather(first, owners)
    return found.at(tf.where(kept)[:, 0])


def is_white(codes: Tensor) -> Tensor:
    """Return True for white space, and for "▁", which stands for a blank."""
    return _is_one_of(codes, np.append(_WHITE, WORD))


def _is_one_of(codes: Tensor, few: np.ndarray) -> Tensor:
    return tf.reduce_any(codes[:, None] == few, 1)
