"""Texts as rows of symbols, and back: pieces, characters or words, of sources and answers alike.

Both sides share one vocabulary. The ids 0 to 3 are padding, the unknown symbol, the beginning and the end of
an answer, of all kinds of symbols.

Axes: B (texts), S (symbols of a source), L (symbols of an answer), V (vocabulary).
"""

import abc
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.subwords.learned_byte_pairs import SPECIAL_PIECES, LearnedBytePairs
from keras_selfattn.models.subwords.piece_texts import PieceTexts
from keras_selfattn.models.subwords.ragged_rows import merged, ragged, ranges
from keras_selfattn.models.text.learned_pieces import PieceSettings, learned
from keras_selfattn.models.text.tokenizer import SPACE
from keras_selfattn.models.vocabulary import as_strings, chunks, lookup_table, most_frequent

Tensor = Any

PADDING, UNKNOWN, BEGIN, END = range(len(SPECIAL_PIECES))
"""The ids of the special symbols: those of `SPECIAL_PIECES`."""
_MOST_SYMBOLS = 20_000
# As `SPACE`: Python's own blanks without control characters, which are symbols.
_BLANKS = re.compile(r"[^\S\x1c-\x1f\x85]+")
# Texts whose unknown symbols are named.
_NAMED = 5
# Texts and characters read at once, to bound the memory of the tensors between.
_CHUNK, _CHARACTERS = 4096, 2**24


class Unknown(NamedTuple):
    """The symbols of texts that a vocabulary lacks.

    texts: bool `[B]`, True for a text that has some.
    symbols: a few of them, in the order of the texts.
    """

    texts: np.ndarray
    symbols: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of texts that have some."""
        return int(self.texts.sum())

    @property
    def named(self) -> str:
        """The few symbols, for a message."""
        return ", ".join(map(repr, self.symbols))


class SymbolSettings(PieceSettings, Protocol):
    """The settings of symbols: fields of `SequenceConfig`."""

    @property
    def tokens(self) -> str: ...


class Symbols(abc.ABC):
    """Texts as rows of ids, and ids as texts.

    Case, blanks and the form of Unicode are kept. Bytes that are no UTF-8 are read, and come out, as U+FFFD;
    a lone surrogate, which has no UTF-8 form, is read as "?".

    Args:
        vocabulary: what a model saves: merges of pieces, characters, or words, by their ids.
        max_tokens: the most symbols of a source, the end symbol included; longer ones are cut at the end.

    Call arguments:
        texts: string `[B]`.

    Returns:
        The ids of sources, int32 ragged `[B, S]`: the symbols and the end symbol.

    Raises:
        ConfigError: if a source has no room.

    Example:

        >>> symbols = Words(["AH0", "HH"], max_tokens=8)
        >>> ids = symbols(tf.constant(["HH AH0  OW1"]))
        >>> ids.to_list(), symbols.texts(ids.numpy())
        ([[5, 4, 1, 3]], ['HH AH0'])
    """

    # What one text consists of, in the plural: a value of `tokens`.
    unit: ClassVar[str]

    def __init__(self, vocabulary: Sequence[str], max_tokens: int) -> None:
        self.vocabulary = list(vocabulary)
        self.max_tokens = _checked_bound(max_tokens)

    @property
    @abc.abstractmethod
    def names(self) -> list[str]:
        """The text of each id `[V]`, to be shown."""

    @property
    @abc.abstractmethod
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""

    @property
    @abc.abstractmethod
    def _written(self) -> PieceTexts:
        """Ids as texts."""

    @abc.abstractmethod
    def symbols(self, texts: Tensor, most: int) -> Any:
        """Return the ids of the first symbols of texts, no special ones around them.

        Args:
            texts: string `[B]`.
            most: symbols of a text.

        Returns:
            int32 ragged `[B, most or fewer]`.
        """

    @property
    def size(self) -> int:
        """Number of ids V, special ones included."""
        return len(self.names)

    def __call__(self, texts: Tensor) -> Any:
        ids = self.symbols(texts, self.max_tokens - 1)
        splits = ids.row_splits + tf.range(ids.nrows() + 1, dtype=tf.int64)  # [B + 1]
        ends = splits[1:] - 1
        inner, _ = ranges(splits[:-1], ends)
        return ragged(merged([inner, ends], [ids.values, tf.fill(tf.shape(ends), END)]), splits)

    def rows(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Return the ids of each source with its end symbol, int32 `[S]`, and how many sources were cut."""
        found = self._first_symbols(texts, self.max_tokens)
        kept = [row[: self.max_tokens - 1] for row in found]
        return [np.append(row, np.int32(END)) for row in kept], _longer(found, self.max_tokens - 1)

    def answers(self, texts: Sequence[str], most: int) -> tuple[list[np.ndarray], int]:
        """Return the ids of each answer, int32 `[L]`, begin first and end last, and how many were cut.

        A model reads all but the last, and learns all but the first. An answer that was cut has no end
        symbol, so that nothing says that answers end there.

        Args:
            texts: the answers.
            most: symbols of an answer, the end symbol included; L is one more at most.
        """
        found = self._first_symbols(texts, most)
        around = np.array([BEGIN, END], np.int32)
        whole = [np.concatenate([around[:1], row, around[1:]])[: most + 1] for row in found]
        return whole, _longer(found, most - 1)

    def prefixes(self, texts: Sequence[str], most: int) -> list[np.ndarray]:
        """Return the ids of each beginning of an answer, int32 `[P]`, no special ones around them.

        Args:
            texts: the beginnings; "" for none.
            most: symbols of an answer.

        Raises:
            ConfigError: for a beginning with a symbol that no answer can have, or too many of them.
        """
        found = self._first_symbols(texts, most + 1)
        for text, row in zip(texts, found, strict=True):
            if len(row) > most:
                raise ConfigError(
                    f"`prefix` must have at most max_new_tokens={most} symbols. Received {text!r:.60}."
                )
            if (row == UNKNOWN).any():
                raise ConfigError(
                    "`prefix` must consist of symbols that the model has learned: answers have no others. "
                    f"Received {text!r:.60}."
                )
        return found

    def unknown_in(self, texts: Sequence[str], most: int = 2**31 - 1) -> Unknown:
        """Return which texts have symbols that no id stands for, and a few of these.

        Args:
            texts: sources or answers.
            most: symbols of a text that are looked at.
        """
        return Unknown(np.zeros(len(texts), bool))

    def comparable(self, text: str) -> str:
        """Return a text in the form in which it is compared with an answer: with one blank between words.

        Pieces and characters write any blanks, so of these it is the text itself.
        """
        return text

    def texts(self, ids: Any) -> list[str]:
        """Return the text of each row of ids, int `[B, L]` or B rows of any lengths.

        Nothing after the first end symbol comes out, and no special symbol does.

        Raises:
            DataError: for ids that are no integers, or of no symbol.
        """
        return self._written.of(ids)

    def graph_texts(self, ids: Tensor) -> Tensor:
        """Return the texts of ids, int32 or int64 `[B, L]`, dense or ragged, as string `[B]`; see `texts`."""
        return self._written(ids)

    def _first_symbols(self, texts: Sequence[str], most: int) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for chunk in chunks(texts, _CHUNK, _CHARACTERS):
            ids = self.symbols(as_strings(chunk), most)
            found += np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])
        return found


def _checked_bound(max_tokens: int) -> int:
    if max_tokens < 2:
        raise ConfigError(
            f"`max_tokens` must be at least 2, a symbol and the end of the source. Received {max_tokens}."
        )
    return max_tokens


def _longer(rows: Sequence[np.ndarray], most: int) -> int:
    return sum(len(row) > most for row in rows)


class Pieces(Symbols):
    """Byte-level byte pairs that were learned from texts: every text has them, and none is unknown."""

    unit = "pieces"

    def __init__(self, vocabulary: Sequence[str], max_tokens: int) -> None:
        super().__init__(vocabulary, max_tokens)
        self._tokenizer = LearnedBytePairs(vocabulary, max_tokens + 1)  # it counts a begin symbol, too
        self._texts = PieceTexts(self._tokenizer)

    @property
    def size(self) -> int:
        return self._tokenizer.size

    @property
    def names(self) -> list[str]:
        return self._tokenizer.names[: self.size]

    @property
    def tables(self) -> list[Any]:
        return self._tokenizer.tables

    @property
    def _written(self) -> PieceTexts:
        return self._texts

    def symbols(self, texts: Tensor, most: int) -> Any:
        around = 2
        more = most + around - self._tokenizer.settings.max_tokens
        return self._tokenizer(texts, more=more)[:, 1:-1]


class _Listed(Symbols):
    """Symbols of a vocabulary; all others are unknown."""

    def __init__(self, vocabulary: Sequence[str], max_tokens: int) -> None:
        super().__init__(vocabulary, max_tokens)
        self._table = lookup_table(vocabulary, first=len(SPECIAL_PIECES))
        self._texts = PieceTexts(self)

    @classmethod
    @abc.abstractmethod
    def split(cls, texts: Tensor, most: int) -> Any:
        """Return the first symbols of texts, string `[B]`, as string ragged `[B, most or fewer]`."""

    @property
    def names(self) -> list[str]:
        return [*SPECIAL_PIECES, *self.vocabulary]

    @property
    def bytes_of_ids(self) -> list[bytes]:
        """The bytes of each id `[V]`; none of a special one."""
        return [b"" for _ in SPECIAL_PIECES] + [symbol.encode() for symbol in self.vocabulary]

    def id_of(self, token: str) -> int:
        """Return the id of a special symbol."""
        return SPECIAL_PIECES.index(token)

    @property
    def tables(self) -> list[Any]:
        return [self._table]

    @property
    def _written(self) -> PieceTexts:
        return self._texts

    def symbols(self, texts: Tensor, most: int) -> Any:
        found = self._split(texts, most)
        return found.with_values(self._table.lookup(found.values))

    def unknown_in(self, texts: Sequence[str], most: int = 2**31 - 1) -> Unknown:
        lacks = [(ids == UNKNOWN).any() for ids in self._first_symbols(texts, most)]
        first = [text for text, lacking in zip(texts, lacks, strict=True) if lacking][:_NAMED]
        symbols = self._split(as_strings(first), most).values
        unknown = symbols.numpy()[self._table.lookup(symbols).numpy() == UNKNOWN]
        named = dict.fromkeys(symbol.decode() for symbol in unknown.tolist())
        return Unknown(np.array(lacks, bool), tuple(named)[:_NAMED])

    def _split(self, texts: Tensor, most: int) -> Any:
        return self.split(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace"), most)


class Characters(_Listed):
    """Characters of Unicode, blanks and line ends included; in an answer nothing is between them."""

    unit = "characters"

    @classmethod
    def split(cls, texts: Tensor, most: int) -> Any:
        # The cut is before the split, so a megabyte of text costs no more than so many characters.
        return tf.strings.unicode_split(tf.strings.substr(texts, 0, most, unit="UTF8_CHAR"), "UTF-8")


class Words(_Listed):
    """Symbols between blanks, such as the phonemes "HH AH0"; in an answer one blank is between them."""

    unit = "words"

    @classmethod
    def split(cls, texts: Tensor, most: int) -> Any:
        return tf.strings.split(tf.strings.regex_replace(texts, SPACE, " "))[:, :most]

    @property
    def bytes_of_ids(self) -> list[bytes]:
        return [each and b" " + each for each in super().bytes_of_ids]

    def comparable(self, text: str) -> str:
        return _BLANKS.sub(" ", text).strip(" ")

    def texts(self, ids: Any) -> list[str]:
        return [text.removeprefix(" ") for text in super().texts(ids)]

    def graph_texts(self, ids: Tensor) -> Tensor:
        return tf.strings.regex_replace(super().graph_texts(ids), "^ ", "")


_KINDS: dict[str, type[Symbols]] = {kind.unit: kind for kind in (Pieces, Characters, Words)}


def symbols_of(config: SymbolSettings, vocabulary: Sequence[str]) -> Symbols:
    """Return the symbols of a vocabulary that was learned: `learn_symbols(…).vocabulary`."""
    return _KINDS[config.tokens](vocabulary, config.max_tokens)


def learn_symbols(config: SymbolSettings, texts: Sequence[str]) -> Symbols:
    """Return the symbols of training texts, those of both sides.

    Args:
        config: of a model; `vocabulary_size` counts special symbols and bytes of pieces, as of all models,
            and is that of characters or words without special ones.
        texts: sources and answers.

    Raises:
        DataError: if all texts are blank.
        MissingExtraError: for pieces, if the package `tokenizers` is not installed.
    """
    _checked_bound(config.max_tokens)  # before anything is learned
    if not any(text.strip() for text in texts):
        raise DataError(f"The {len(texts)} texts hold no {config.tokens}: all of them are blank.")
    if config.tokens == "pieces":
        return symbols_of(config, learned(config, texts))
    return symbols_of(config, _listed(config, texts))


def _listed(config: SymbolSettings, texts: Sequence[str]) -> list[str]:
    """Return the characters or words of texts, most frequent first."""
    kind: Any = _KINDS[config.tokens]
    counts: Counter[bytes] = Counter()
    for chunk in chunks(texts, _CHUNK, _CHARACTERS):
        whole = max(map(len, chunk)) or 1  # more than a text has
        counts.update(kind.split(as_strings(chunk), whole).values.numpy().tolist())
    return most_frequent(counts, config.min_count, config.vocabulary_size or _MOST_SYMBOLS)
