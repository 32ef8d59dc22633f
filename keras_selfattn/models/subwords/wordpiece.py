"""BERT's tokenizer as stock TensorFlow operations: raw text to the ids of word pieces.

The ids are those of the `tokenizers` package, for each script and for bytes that are not UTF-8.

Axes: B (texts), T (tokens), W (words of all texts), P (pieces of all texts).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.bert_words import BertWords, Words
from keras_selfattn.models.subwords.pieces import FIRST, Pieces
from keras_selfattn.models.subwords.wordpiece_files import read_wordpiece
from keras_selfattn.models.subwords.wordpiece_settings import MARK, WordPieceSettings
from keras_selfattn.models.vocabulary import as_strings, chunks

Tensor = Any

# Texts and characters tokenised at once, to bound the memory of the intermediate tensors.
_CHUNK, _CHARACTERS = 1024, 2**20
_MISSING = -1


class WordPiece:
    """Split texts into word pieces as BERT does, and look up their ids.

    A text becomes [CLS], its pieces and [SEP], `max_tokens` at most. Bytes that are not UTF-8 become the
    replacement character U+FFFD, as in Python.

    Args:
        settings: sets the normalisation, the special tokens and the cut.
        vocabulary: pieces in the order of their ids, which start at 0; all different.

    Raises:
        ConfigError: if the vocabulary lacks a special token, or has a piece twice or an empty one.

    Example:

        >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "##s", "!"]
        >>> tokenizer = WordPiece(WordPieceSettings(max_tokens=8), vocabulary)
        >>> tokenizer(tf.constant(["Good films!", "Gut"])).to_list()
        [[2, 5, 6, 7, 8, 3], [2, 1, 3]]

    Reference: Devlin et al. 2019, "BERT", section 3, and its tokenization.py; Wu et al. 2016, "Google's
    Neural Machine Translation System", section 4.1, for the pieces.
    """

    def __init__(self, settings: WordPieceSettings, vocabulary: Sequence[str]) -> None:
        self.settings = settings
        self.vocabulary = list(vocabulary)
        self._ids = _checked_ids(settings, self.vocabulary)
        self._words = BertWords(settings)
        self._table = _word_table(settings, self.vocabulary)
        longest = settings.max_input_chars_per_word
        self._pieces = Pieces(self.vocabulary, settings.continuing_prefix, longest)

    @classmethod
    def from_folder(cls, folder: str | Path, max_tokens: int) -> "WordPiece":
        """Return the tokenizer of a model folder, from `tokenizer.json`, or `vocab.txt` and its config.

        Args:
            folder: a model's.
            max_tokens: longer texts are cut at the end; [CLS] and [SEP] count.

        Raises:
            ConfigError: for a missing or broken file, and for a tokenizer other than BERT's; it names the
                file, what was found and what is supported.
        """
        settings, vocabulary = read_wordpiece(Path(folder), max_tokens)
        try:
            return cls(settings, vocabulary)
        except ConfigError as error:
            raise ConfigError(f"the tokenizer of {folder}: {error}") from error

    def swapped(self, first: int, second: int) -> "WordPiece":
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
        return WordPiece(dataclasses.replace(self.settings, added_tokens=added), vocabulary)

    @property
    def size(self) -> int:
        """Number of ids, those of added tokens included."""
        return max(self._ids.values()) + 1

    @property
    def names(self) -> list[str]:
        """The piece or added token of each id; "" for an id without one."""
        found = [""] * self.size
        for token, place in self._ids.items():
            found[place] = token
        return found

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return [self._table, self._pieces.table]

    def id_of(self, token: str) -> int:
        """Return the id of a piece or an added token; KeyError if it is neither."""
        return self._ids[token]

    def __call__(self, texts: Tensor, more: int = 0) -> Any:
        """Return the ids of a string tensor `[B]`, [CLS] first and [SEP] last, as int32 ragged `[B, T]`.

        Args:
            texts: the strings.
            more: tokens that a text may have beyond `max_tokens`.
        """
        return self._with_special(*self._first_pieces(texts, self.settings.max_tokens + more - 2))

    def word_pieces(self, words: Tensor) -> Any:
        """Return the ids of the pieces of a string tensor of single words `[N]`, int32 ragged `[N, pieces]`.

        Each is split as a text, without [CLS] and [SEP]: of "don't" these are the pieces of "don", "'" and
        "t". A blank one has none. Of a longer word they are the first `max_tokens` - 2.
        """
        ids, rows = self._first_pieces(words, self.settings.max_tokens - 2)
        ragged: Any = tf.RaggedTensor
        return ragged.from_row_splits(ids, rows, validate=False)

    def padded(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]`, int32 `[B, T]`, padded with [PAD] to the longest row."""
        return self(texts).to_tensor(self.id_of(self.settings.pad))

    def rows(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Return the ids of each text, int32 `[T]`, and the number of texts that were cut."""
        found: list[np.ndarray] = []
        for chunk in chunks(texts, _CHUNK, _CHARACTERS):
            ids = self(as_strings(chunk), more=1)
            found += np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])
        cut = [place for place, row in enumerate(found) if len(row) > self.settings.max_tokens]
        for place in cut:
            found[place] = np.append(found[place][: self.settings.max_tokens - 1], found[place][-1])
        return found, len(cut)

    def _first_pieces(self, texts: Tensor, limit: int) -> tuple[Tensor, Tensor]:
        """Return the first pieces of each text, int32 ids `[P]` and int64 splits `[B + 1]`."""
        words = self._words(texts, limit)
        kept, rows = _range_of_rows(words.rows[:-1], words.rows[1:], limit)  # [W], [B + 1]
        ids, splits = self._piece_ids(words, kept)
        rows = tf.gather(splits, rows)
        kept, rows = _range_of_rows(rows[:-1], rows[1:], limit)  # [P], [B + 1]
        return tf.gather(ids, kept), rows

    def _piece_ids(self, words: Words, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the pieces of words, int32 `[P]`, and where each word begins, int64 `[W + 1]`.

        Args:
            words: of all texts.
            kept: int64 `[W]`, which of them.
        """
        starts, ends = tf.gather(words.splits, kept), tf.gather(words.splits, kept + 1)
        ids = self._table.lookup(tf.gather(words.strings(), kept))  # [W]
        added = tf.gather(words.codes, starts) == FIRST + ord(MARK)
        short = ends - starts <= self.settings.max_input_chars_per_word
        unknown = self.id_of(self.settings.unknown)
        split = tf.where(short & (ids < 0))[:, 0]  # the words to split
        ids = tf.where((ids >= 0) & (short | added), ids, unknown)
        places, borders = _range_of_rows(tf.gather(starts, split), tf.gather(ends, split))
        pieces, borders = self._pieces(tf.gather(words.codes, places), borders)
        # A word is one token unless it was split into more.
        counts = tf.tensor_scatter_nd_max(tf.ones_like(starts), split[:, None], borders[1:] - borders[:-1])
        splits = tf.concat([[0], tf.cumsum(counts)], 0)  # [W + 1]
        firsts = tf.gather(splits, split)
        targets, _ = _range_of_rows(firsts, firsts + borders[1:] - borders[:-1])
        return _merged([splits[:-1], targets], [ids, pieces]), splits

    def _with_special(self, ids: Tensor, rows: Tensor) -> Any:
        """Return ids `[P]` and their rows `[B + 1]` as ragged `[B, T]`, between [CLS] and [SEP]."""
        splits = rows + 2 * tf.range(tf.size(rows, tf.int64))
        starts, ends = splits[:-1], splits[1:] - 1
        cls = tf.fill(tf.shape(starts), self.id_of(self.settings.cls))  # [B]
        sep = tf.fill(tf.shape(starts), self.id_of(self.settings.sep))
        inner, _ = _range_of_rows(starts + 1, ends)
        flat = _merged([starts, inner, ends], [cls, ids, sep])
        ragged: Any = tf.RaggedTensor
        return ragged.from_row_splits(flat, splits, validate=False)


def _range_of_rows(starts: Tensor, ends: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the numbers from each start to its end, `most` at most, int64 `[numbers]`, and their splits."""
    limits = ends if most is None else tf.minimum(ends, starts + most)
    found = tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=tf.constant(1, tf.int64))
    return found.rt_dense_values, found.rt_nested_splits


def _merged(places: list[Tensor], values: list[Tensor]) -> Tensor:
    """Return values at their int64 places; of two at one place, the later in the list."""
    return tf.dynamic_stitch([tf.cast(each, tf.int32) for each in places], values)


def _checked_ids(settings: WordPieceSettings, vocabulary: list[str]) -> dict[str, int]:
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


def _word_table(settings: WordPieceSettings, vocabulary: list[str]) -> tf.lookup.StaticHashTable:
    """Return the table from whole words, and added tokens after `MARK`, to their ids."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    for token, number in settings.added_tokens.items():
        ids[f"{MARK}{token[1:] if token in settings.normalized_tokens else token}"] = number
    try:
        keys = tf.constant([word.encode() for word in ids], dtype=tf.string)
    except UnicodeEncodeError as error:
        raise ConfigError(f"the piece {error.object!r} of `vocabulary` has no UTF-8 form.") from error
    # Created outside any graph under construction, because the table outlives it.
    with tf.init_scope():
        initializer = tf.lookup.KeyValueTensorInitializer(keys, np.array(list(ids.values()), np.int32))
        return tf.lookup.StaticHashTable(initializer, default_value=_MISSING)
