"""SentencePiece's unigram tokenizer as stock TensorFlow operations: raw text to the ids of pieces.

XLM-RoBERTa has such a tokenizer. The ids are those of the `tokenizers` package, for each
script and for bytes that are not UTF-8.

Axes: B (texts), W (words of all texts), A (characters of all words), P (pieces of all texts).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.best_pieces import UNKNOWN, BestPieces
from keras_selfattn.models.subwords.character_file import CODE_POINTS
from keras_selfattn.models.subwords.pieces import FIRST
from keras_selfattn.models.subwords.ragged_rows import ranges
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer, longer
from keras_selfattn.models.subwords.tokenizer_class import FILE, TokenizerClass
from keras_selfattn.models.subwords.unigram_files import read_unigram
from keras_selfattn.models.subwords.unigram_settings import UnigramSettings
from keras_selfattn.models.subwords.unigram_words import UnigramSplit, UnigramWords, is_white

Tensor = Any

# Characters at the end of what was read of a text that more of it can change, beside an added token.
_EDGE = 64


class Unigram(SubwordTokenizer):
    """Split texts into the pieces of a unigram language model, and look up their ids.

    A text becomes `<s>`, its pieces and `</s>`, `max_tokens` at most. Bytes that are not UTF-8 become the
    replacement character U+FFFD, as in Python. Of a long text only as much is read as the pieces need.

    Args:
        settings: sets the scores, the normalisation, the special tokens and the cut.
        vocabulary: pieces and added tokens in the order of their ids, which start at 0; all different. "▁"
            stands for the blank before a word. Those without a score are added tokens alone.

    Raises:
        ConfigError: if the vocabulary lacks a special token, or has a piece twice or an empty one.

    Example:

        >>> vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁a", "▁go", "o", "d", "▁film"]
        >>> scores = (0.0, 0.0, 0.0, 0.0, -3.0, -2.0, -4.0, -3.0, -3.0, -4.0)
        >>> settings = UnigramSettings(max_tokens=8, scores=scores, mask=None)
        >>> tokenizer = Unigram(settings, vocabulary)
        >>> [tokenizer.names[piece] for piece in tokenizer(tf.constant(["a good film"])).to_list()[0]]
        ['<s>', ' a', ' go', 'o', 'd', ' film', '</s>']

    Reference: Kudo 2018, "Subword Regularization"; Kudo and Richardson 2018, "SentencePiece"; Conneau et al.
    2020, "Unsupervised Cross-lingual Representation Learning at Scale", section 3.
    """

    def __init__(self, settings: UnigramSettings, vocabulary: Sequence[str]) -> None:
        super().__init__(settings, vocabulary)
        if not 0 < len(settings.scores) <= len(vocabulary):
            raise ConfigError(
                f"`scores` must be of 1 to {len(vocabulary):,} pieces, those of the vocabulary. Received "
                f"{len(settings.scores):,}."
            )
        self._split = UnigramSplit(settings)
        pieces = self.vocabulary[: len(settings.scores)]
        self._bytes = self._ids_of_bytes() if settings.byte_fallback else None
        unknown = None if settings.byte_fallback else self.id_of(settings.unknown)
        self._pieces = BestPieces(pieces, settings.scores, unknown)
        # A piece that more of the text would allow can begin so much before the end.
        longest = max(map(len, pieces), default=0)
        self._edge = _EDGE + longest + max(map(len, settings.added_tokens), default=0)

    @classmethod
    def from_folder(cls, folder: str | Path, max_tokens: int, usual: TokenizerClass = FILE) -> "Unigram":
        """Return the tokenizer of a model folder, from `tokenizer.json` or a model of SentencePiece.

        Args:
            folder: a model's.
            max_tokens: longer texts are cut at the end; the tokens around a text count.
            usual: the class of the model's family, which opens the tokenizer where the folder names none.

        Raises:
            ConfigError: for a missing or broken file, and for a tokenizer of another kind; it names the file,
                what was found and what is supported.
        """
        settings, vocabulary = read_unigram(Path(folder), max_tokens, usual)
        try:
            return cls(settings, vocabulary)
        except ConfigError as error:
            raise ConfigError(f"the tokenizer of {folder}: {error}") from error

    def swapped(self, first: int, second: int) -> "Unigram":
        """Return the tokenizer in which two ids have changed places, with their scores."""
        scores = list(self.settings.scores)
        if max(first, second) >= len(scores):
            raise ConfigError(f"the ids {first} and {second} cannot change places: not both are pieces.")
        scores[first], scores[second] = scores[second], scores[first]
        found = super().swapped(first, second)
        return type(self)(dataclasses.replace(found.settings, scores=tuple(scores)), found.vocabulary)

    @property
    def names(self) -> list[str]:
        """The text of each id's piece, or the added token."""
        added, found = self.settings.added_tokens, super().names
        return [name if name in added else name.replace("▁", " ") for name in found]

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return [self._pieces.table, *self._split.tables]

    def _text_pieces(self, texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
        lengths = tf.strings.length(texts)  # [B], bytes

        def lacking(reach: Tensor, _ids: Tensor, _rows: Tensor, settled: Tensor) -> Tensor:
            return tf.reduce_any((lengths > reach) & (settled < most))

        def read(reach: Tensor, *_: Tensor) -> list[Tensor]:
            reach = longer(reach, most)
            words = self._split(tf.strings.substr(texts, 0, reach))
            ids, places, stretches = self._pieces_of(words)
            begins = tf.gather(words.splits, words.rows)  # [B + 1]
            rows = tf.searchsorted(places, begins, out_type=tf.int64)
            settled = tf.cond(
                tf.reduce_any(lengths > reach),
                lambda: tf.searchsorted(places, self._settled(words, stretches), out_type=tf.int64),
                lambda: rows[:-1],
            )
            return [reach, ids, rows, settled - rows[:-1]]

        nothing = tf.zeros([tf.size(texts) + 1], tf.int64)
        state = [tf.constant(0), tf.zeros([0], tf.int32), nothing, nothing[1:]]
        shapes = [tf.TensorShape(shape) for shape in ([], [None], [None], [None])]
        # Without a first reading before the loop, so that the graph has the tables once.
        _, ids, rows, _ = tf.while_loop(lacking, read, state, shape_invariants=shapes)
        return ids, rows

    def _pieces_of(self, words: UnigramWords) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ids of pieces, int32 `[P]`, where these begin, and where stretches do, int64, sorted."""
        firsts = words.splits[:-1]
        tokens = tf.gather(words.codes, firsts) - (FIRST + CODE_POINTS)  # ids of added tokens
        split = tf.where(tokens < 0)[:, 0]
        characters, borders = ranges(tf.gather(firsts, split), tf.gather(words.splits, split + 1))
        ids, places, stretches = self._pieces(tf.gather(words.codes, characters), borders)
        # The ids of words, and then those of their pieces where these begin; -1 for no piece.
        found = tf.fill(tf.shape(words.codes), -1)
        found = tf.tensor_scatter_nd_update(found, firsts[:, None], tf.maximum(tokens, -1))
        found = tf.tensor_scatter_nd_update(found, tf.gather(characters, places)[:, None], ids)
        begins = tf.scatter_nd(firsts[:, None], tf.ones_like(firsts), tf.shape(found, tf.int64))
        inner = tf.gather(characters, stretches)[:, None]
        begins = tf.tensor_scatter_nd_update(begins, inner, tf.ones_like(stretches))
        places = tf.where(found != -1)[:, 0]
        ids, stretches = tf.gather(found, places), tf.where(begins > 0)[:, 0]
        if self._bytes is not None:
            ids, places = _with_bytes(ids, places, self._bytes)
        return ids, places, stretches

    def _ids_of_bytes(self) -> np.ndarray:
        """Return the ids of the pieces of all bytes, int32 `[256]`."""
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        held = {piece: number for number, piece in enumerate(self.vocabulary)}
        missing = [name for name in names if name not in held]
        if missing:
            raise ConfigError(
                "With `byte_fallback` the vocabulary must have all bytes as pieces. It lacks "
                f"{len(missing)}, such as {missing[0]}."
            )
        return np.array([held[name] for name in names], np.int32)

    def _settled(self, words: UnigramWords, stretches: Tensor) -> Tensor:
        """Return the place up to which no more of each text can change its pieces, int64 `[B]`.

        It is the last begin of a stretch before the end of what was read, and before its white space.
        """
        ends = tf.gather(words.splits, words.rows)  # [B + 1]
        places = tf.range(tf.size(words.codes, tf.int64))
        solid = tf.where(is_white(words.codes & FIRST - 1), tf.constant(-1, tf.int64), places)
        texts = tf.searchsorted(ends, places, side="right") - 1
        last = tf.math.unsorted_segment_max(solid, texts, tf.size(ends) - 1)
        most = tf.minimum(ends[1:] - self._edge, last)
        found = tf.searchsorted(stretches, most, side="right", out_type=tf.int64) - 1
        known = tf.concat([stretches, [0]], 0)
        return tf.maximum(tf.gather(known, tf.maximum(found, 0)), ends[:-1])


def _with_bytes(ids: Tensor, places: Tensor, of_bytes: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return ids and places, sorted, in which the bytes of UTF-8 stand for each unknown character."""
    codes = UNKNOWN - ids  # [P], negative for pieces
    counts = 1 + tf.add_n([tf.cast(codes >= least, tf.int32) for least in (0x80, 0x800, 0x10000)])
    rows = tf.repeat(tf.range(tf.size(ids)), counts)
    place = tf.range(tf.size(rows)) - tf.gather(tf.cumsum(counts, exclusive=True), rows)  # in the character
    codes, counts = tf.gather(codes, rows), tf.gather(counts, rows)
    bits = tf.bitwise.right_shift(codes, 6 * (counts - 1 - place))
    first = tf.gather([0, 0, 0xC0, 0xE0, 0xF0], counts) + bits
    found = tf.gather(of_bytes, tf.maximum(tf.where(place == 0, first, 0x80 + (bits & 0x3F)), 0))
    return tf.where(codes < 0, tf.gather(ids, rows), found), tf.gather(places, rows)
