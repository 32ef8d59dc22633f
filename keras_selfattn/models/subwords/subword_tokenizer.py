"""The common part of the tokenizers of pretrained encoders, as stock TensorFlow operations.

Axes: B (texts), T (tokens), W (words), P (pieces).
"""

import abc
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.core.both_orders import in_one_order
from keras_selfattn.models.long_rows import WINDOW, cut_pieces, pieces_within
from keras_selfattn.models.subwords.ragged_rows import first_of_rows, merged, pair_shares, ragged, ranges
from keras_selfattn.models.vocabulary import as_strings, chunks

Tensor = Any

# Texts and characters tokenised at once, to bound the memory of the intermediate tensors.
_CHUNK, _CHARACTERS, _PAIRS = 1024, 2**20, 256
# Chunks whose operations run one by one. A graph costs as much to make as three to eight of these; a chunk in
# it costs an eighth to a sixteenth of one.
_EAGER = 4
# Bytes of each text that are read first: so many for each token, and no fewer than the least; then, where
# these are not enough, how many times more.
_BYTES, _LEAST, _MORE = 16, 4096, 8
_MANY = 2**27  # bytes; so many times more are within int32
# Pieces of each text of a pair that are counted, by those that a pair may have, and no fewer than the least.
# Of two texts that both have more, the longer one is not known, and the second has an odd token.
_COUNTED, _LEAST_COUNTED = 8, 1024


class SubwordSettings(Protocol):
    """Settings that all tokenizers have; `WordPieceSettings` explains them."""

    max_tokens: Any
    separators: Any
    second_type: Any
    unknown: Any
    cls: Any
    sep: Any
    pad: Any
    mask: Any
    added_tokens: Any


class SubwordTokenizer(abc.ABC):
    """Split texts into pieces of words, and look up their ids.

    A text becomes [CLS], its pieces and [SEP], `max_tokens` at most. Bytes that are not UTF-8 become the
    replacement character U+FFFD, as in Python. The id of [PAD] is padding alone: where a text itself has the
    padding token, that piece has the id `written_padding`.

    Args:
        settings: sets the special tokens and the cut.
        vocabulary: pieces in the order of their ids, which start at 0; all different.

    Attributes:
        prompt: put before each text, but not before pairs and single words; "" for none.

    Raises:
        ConfigError: if the vocabulary lacks a special token, or has a piece twice or an empty one.
    """

    def __init__(self, settings: Any, vocabulary: Sequence[str]) -> None:
        self.settings = settings
        self.vocabulary = list(vocabulary)
        self._ids = _checked_ids(settings, self.vocabulary)
        self._size = max(self._ids.values()) + 1
        self.prompt = ""
        # By what can differ between two calls: how many chunks there were, and the graph of many.
        self._counts: Counter[tuple[str, int]] = Counter()
        self._graphs: dict[tuple[str, int], Callable[[Tensor], Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A graph cannot be copied; a copy makes its own.
        return {**vars(self), "_counts": Counter(), "_graphs": {}}

    @property
    @abc.abstractmethod
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""

    @abc.abstractmethod
    def _text_pieces(self, texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Return ids of the pieces of a string tensor `[B]`, and where each text's begin.

        Args:
            texts: the strings.
            most: the first pieces of each text to return; there may be more.

        Returns:
            int32 `[P]` and int64 `[B + 1]`.
        """

    def _pieces_of_words(self, words: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Return the same of single words, which stand between others."""
        return self._text_pieces(words, most)

    def swapped(self, first: int, second: int) -> Any:
        """Return the tokenizer in which two ids have changed places; both must be of the vocabulary.

        Raises:
            ConfigError: if one of them is not.
        """
        if not 0 <= min(first, second) <= max(first, second) < len(self.vocabulary):
            raise ConfigError(
                f"the ids {first} and {second} cannot change places: the vocabulary has the ids 0 to "
                f"{len(self.vocabulary) - 1}."
            )
        places = {first: second, second: first}
        added = {token: places.get(number, number) for token, number in self.settings.added_tokens.items()}
        order = [places.get(number, number) for number in range(len(self.vocabulary))]
        vocabulary = [self.vocabulary[number] for number in order]
        return type(self)(dataclasses.replace(self.settings, added_tokens=added), vocabulary)

    @property
    def size(self) -> int:
        """Number of ids, those of added tokens included, without `written_padding`."""
        return self._size

    @property
    def written_padding(self) -> int:
        """The id of a padding token that a text itself has: the first one after those of the vocabulary.

        Models read it as a token, with the vector of padding; padding after a text's end is masked.
        """
        return self.size

    @property
    def tokens_of_prompt(self) -> int:
        """Number of the tokens of a text that are [CLS] and those of the prompt alone."""
        with tf.init_scope():
            return len(self(tf.constant([""])).flat_values) - 1

    @property
    def names(self) -> list[str]:
        """The piece or added token of each id, `written_padding` included; "" for an id without one."""
        found = [""] * self.size
        for token, place in self._ids.items():
            found[place] = token
        return [*found, self.settings.pad]

    def id_of(self, token: str) -> int:
        """Return the id of a piece or an added token; KeyError if it is neither."""
        return self._ids[token]

    def id_in_text(self, token: str) -> int:
        """Return the same where the token is part of a text: `written_padding` for that of padding."""
        found = self.id_of(token)
        return self.written_padding if found == self.id_of(self.settings.pad) else found

    @property
    def unknown_id(self) -> int:
        """The id that stands for a word that has no pieces."""
        return self.id_in_text(self.settings.unknown)

    def __call__(self, texts: Tensor, more: int = 0) -> Any:
        """Return the ids of a string tensor `[B]`, [CLS] first and [SEP] last, as int32 ragged `[B, T]`.

        Args:
            texts: the strings.
            more: tokens that a text may have beyond `max_tokens`.
        """
        if self.prompt:
            texts = tf.strings.join([self.prompt, texts])
        limit = pieces_within(self.settings.max_tokens + more)
        ids, rows = first_of_rows(*self._text_pieces(texts, limit), limit)
        return self._with_special(self._written(ids), rows)

    def pairs(self, first: Tensor, second: Tensor, *, both_orders: bool = False) -> Any:
        """Return ids and types of two texts a row, string `[B]` each, as int32 ragged `[B, T, 2]`.

        A row is [CLS], the first text, [SEP] (`settings.separators` times), the second text, [SEP]. The
        second text and the [SEP] after it have the type `settings.second_type`, all before them 0. Of more
        than `max_tokens`, the longer text is cut at its end down to the other's length, then both alike; an
        odd token is the longer one's, or the second's.

        Those of both orders are `[B, T, 4]`; which one is first is the same for a pair and its reverse.

        Raises:
            ConfigError: if the settings do not say what stands between two texts.
        """
        return self._pairs(first, second, both_orders=both_orders)[0]

    def rows_of_pairs(
        self, pairs: Sequence[tuple[str, str]], *, both_orders: bool = False
    ) -> tuple[list[np.ndarray], int]:
        """Return ids and types of each pair, int32 `[T, 2]`, and the number of pairs that were cut.

        Those of both orders are `[T, 4]`, as of `pairs`.
        """
        found: list[np.ndarray] = []
        cut = 0
        for start in range(0, len(pairs), _PAIRS):
            columns = zip(*pairs[start : start + _PAIRS], strict=True)
            texts = [as_strings(list(column)) for column in columns]
            ids, shortened = self._pairs(*texts, both_orders=both_orders)
            found += np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])
            cut += int(tf.math.count_nonzero(shortened))
        return found, cut

    def _pairs(self, first: Tensor, second: Tensor, *, both_orders: bool) -> tuple[Any, Tensor]:
        """Return the rows of `pairs`, and bool `[B]`, True for those that were cut."""
        between = self.settings.separators
        if between is None:
            raise ConfigError(
                "It is not known what stands between two texts. The tokenizer was saved before models read "
                "two texts: begin with the folder that it was made from. Or the `post_processor` of its "
                "folder has a template of pairs other than a text, separators and a text."
            )
        most = self.settings.max_tokens - 2 - between
        if most < 0:
            raise ConfigError(
                f"`max_tokens` must be at least {2 + between} for two texts, for the tokens around them. "
                f"Received {self.settings.max_tokens}."
            )
        if both_orders:
            first, second = in_one_order(first, second)
        read = [self._text_pieces(texts, max(_COUNTED * most, _LEAST_COUNTED)) for texts in (first, second)]
        whole = [splits[1:] - splits[:-1] for _, splits in read]  # [B] each
        kept = pair_shares(whole[0], whole[1], most)
        pieces = [first_of_rows(ids, splits, each) for (ids, splits), each in zip(read, kept, strict=True)]
        splits = pieces[0][1] + pieces[1][1] + (2 + between) * tf.range(tf.size(whole[0]) + 1, dtype=tf.int64)
        values = self._joined(pieces, splits, between)
        if both_orders:  # of the same pieces, so that rows are equally long in both
            values = tf.concat([values, self._joined(pieces[::-1], splits, between)], -1)
        return ragged(values, splits), whole[0] + whole[1] > most

    def _joined(self, pieces: Sequence[tuple[Tensor, Tensor]], splits: Tensor, between: int) -> Tensor:
        """Return ids and types of pairs, int32 `[tokens, 2]`, from the ids of each text and their splits."""
        # The parts of each row, by where they begin: [CLS], first text, separators, second text, [SEP].
        cls, text, last = splits[:-1], splits[:-1] + 1, splits[1:] - 1
        separators = text + pieces[0][1][1:] - pieces[0][1][:-1]
        other = separators + between
        places = [ranges(*part)[0] for part in ((text, separators), (separators, other), (other, last))]
        sep = self.id_in_text(self.settings.sep)
        values = [tf.fill(tf.shape(cls), self.id_in_text(self.settings.cls))]
        values += [self._written(pieces[0][0]), tf.fill(tf.shape(places[1]), sep)]
        values += [self._written(pieces[1][0]), tf.fill(tf.shape(last), sep)]
        ids = merged([cls, *places, last], values)
        after = tf.range(tf.size(ids, tf.int64)) >= tf.repeat(other, splits[1:] - splits[:-1])
        types = tf.where(after, self.settings.second_type, 0)
        return tf.stack([ids, types], -1)

    def word_pieces(self, words: Tensor) -> Any:
        """Return the ids of the pieces of single words `[W]`, without special tokens, as int32 ragged.

        Each word is split as a text, without special tokens: BERT's pieces of "don't" are those of "don", "'"
        and "t". A blank word has none, a long one its first `max_tokens` - 2.

        Returns:
            int32 ragged `[W, pieces]`.
        """
        limit = pieces_within(self.settings.max_tokens)
        ids, rows = first_of_rows(*self._pieces_of_words(words, limit), limit)
        return ragged(self._written(ids), rows)

    def padded(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]`, int32 `[B, T]`, padded with [PAD] to the longest row."""
        return self(texts).to_tensor(self.id_of(self.settings.pad))

    def rows(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Return the ids of each text, int32 `[T]`, and the number of texts that were cut."""
        return cut_pieces(self._rows(texts, lambda _: 1), self.settings.max_tokens)

    def whole_rows(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`, however many: none is cut."""
        # A character is split into four bytes, or a few signs, at most. A power of two: few different graphs.
        return self._rows(texts, lambda chunk: 8 << (max(WINDOW, *map(len, chunk)) - 1).bit_length())

    def _rows(self, texts: Sequence[str], more: Callable[[Sequence[str]], int]) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for chunk in chunks(texts, _CHUNK, _CHARACTERS):
            ids = self._run(as_strings(chunk), more(chunk))
            found += np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])
        return found

    def _run(self, texts: Tensor, more: int) -> Any:
        """Return what a call does, after many of them by a graph."""
        kind = self.prompt, more
        self._counts[kind] += 1
        if self._counts[kind] <= _EAGER:
            return self(texts, more=more)
        if kind not in self._graphs:
            self._graphs[kind] = tf.function(
                lambda texts: self(texts, more=more),
                input_signature=[tf.TensorSpec([None], tf.string)],
                autograph=False,
            )
        return self._graphs[kind](texts)

    def _written(self, ids: Tensor) -> Tensor:
        """Return ids of a text's pieces, none of which is padding."""
        return tf.where(ids == self.id_of(self.settings.pad), self.written_padding, ids)

    def _with_special(self, ids: Tensor, rows: Tensor) -> Any:
        """Return ids `[P]` and their rows `[B + 1]` as ragged `[B, T]`, between [CLS] and [SEP]."""
        splits = rows + 2 * tf.range(tf.size(rows, tf.int64))
        starts, ends = splits[:-1], splits[1:] - 1
        cls = tf.fill(tf.shape(starts), self.id_in_text(self.settings.cls))  # [B]
        sep = tf.fill(tf.shape(starts), self.id_in_text(self.settings.sep))
        inner, _ = ranges(starts + 1, ends)
        return ragged(merged([starts, inner, ends], [cls, ids, sep]), splits)


def longer(reach: Tensor, most: int) -> Tensor:
    """Return how many bytes of each text to read after `reach` of them were not enough; 0 before the first.

    Args:
        reach: int32.
        most: words or pieces that are needed of each text.
    """
    least = min(max(_BYTES * most, _LEAST), _MANY)
    return tf.where(reach < _MANY, tf.maximum(reach * _MORE, least), tf.int32.max)


def with_split_words(ids: Tensor, split: Tensor, pieces: Tensor, borders: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids of the pieces of words, some of which were split, int32 `[P]`, and where each word begins.

    Args:
        ids: int32 `[W]`, of words that are one piece.
        split: int64 `[S]`, the other words.
        pieces: int32, of these; a word without any stays one piece.
        borders: int64 `[S + 1]`, where the pieces of each of these begin.

    Returns:
        int32 `[P]` and int64 `[W + 1]`.
    """
    ones = tf.ones_like(ids, tf.int64)
    counts = tf.tensor_scatter_nd_max(ones, split[:, None], borders[1:] - borders[:-1])
    splits = tf.concat([[0], tf.cumsum(counts)], 0)  # [W + 1]
    firsts = tf.gather(splits, split)
    targets, _ = ranges(firsts, firsts + borders[1:] - borders[:-1])
    return merged([splits[:-1], targets], [ids, pieces]), splits


def word_table(words: dict[str, int] | dict[bytes, int]) -> tf.lookup.StaticHashTable:
    """Return the table from words to ids; -1 for others.

    Raises:
        ConfigError: for a word without a UTF-8 form.
    """
    try:
        keys = [word if isinstance(word, bytes) else word.encode() for word in words]
    except UnicodeEncodeError as error:
        raise ConfigError(f"the piece {error.object!r} of `vocabulary` has no UTF-8 form.") from error
    # Created outside any graph under construction, because the table outlives it.
    with tf.init_scope():
        initializer = tf.lookup.KeyValueTensorInitializer(
            tf.constant(keys, tf.string), np.array(list(words.values()), np.int32)
        )
        return tf.lookup.StaticHashTable(initializer, default_value=-1)


def _checked_ids(settings: SubwordSettings, vocabulary: list[str]) -> dict[str, int]:
    """Return the ids of all pieces and added tokens."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    for number, piece in enumerate(vocabulary):
        if not piece or ids[piece] != number:
            raise ConfigError(
                "the pieces of `vocabulary` must not be empty, and all must be different. "
                f"Received {piece!r} as number {number}."
            )
    for token, number in settings.added_tokens.items():
        if ids.setdefault(token, number) != number:
            raise ConfigError(
                f"the added token {token!r} has the id {number}, but {ids[token]} in the vocabulary."
            )
    for name in ("unknown", "cls", "sep", "pad", "mask"):
        token = getattr(settings, name)
        if token is not None and token not in ids:
            raise ConfigError(f"the vocabulary of {len(vocabulary)} pieces lacks `{name}`, {token!r}.")
    return ids
