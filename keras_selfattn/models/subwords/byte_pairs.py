"""Byte-level byte-pair encoding as stock TensorFlow operations: raw text to the ids of pieces.

RoBERTa and ModernBERT have such a tokenizer. The ids are those of the `tokenizers` package, for each script
and for bytes that are not UTF-8.

Axes: B (texts), W (words of all texts), A (bytes of words), P (pieces of all texts).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.byte_level_words import WHITE, ByteLevelSplit, ByteLevelWords
from keras_selfattn.models.subwords.byte_pair_files import read_byte_pairs
from keras_selfattn.models.subwords.byte_pair_settings import MARK, BytePairSettings
from keras_selfattn.models.subwords.merges import FIRST, Merges
from keras_selfattn.models.subwords.subword_tokenizer import (
    SubwordTokenizer,
    longer,
    ranges,
    with_split_words,
    word_table,
)
from keras_selfattn.models.subwords.tokenizer_class import FILE, TokenizerClass

Tensor = Any

# Bytes that no UTF-8 text has.
_NEVER = frozenset([0xC0, 0xC1, *range(0xF5, 0x100)])
# Characters at the end of what was read of a text that more of it can change, beside an added token; and
# bytes at the end of a word.
_EDGE, _WORD_EDGE = 32, 512


class BytePairs(SubwordTokenizer):
    """Split texts into pieces by byte-level byte-pair encoding, and look up their ids.

    A text becomes `<s>`, its pieces and `</s>`, `max_tokens` at most. Bytes that are not UTF-8 become the
    replacement character U+FFFD, as in Python. Of a long text only as much is read as the pieces need. The
    pieces of a word of which only a part is read are those at least 512 bytes before its end; in theory, more
    of the word could change even these.

    Args:
        settings: sets the merges, the normalisation, the special tokens and the cut.
        vocabulary: pieces and added tokens in the order of their ids, which start at 0; all different. Each
            byte of a piece is a character, as GPT-2 has it: "Ġ" is a blank.

    Raises:
        ConfigError: if the vocabulary lacks a byte, a special token or a piece of a merge, or has a piece
            twice or an empty one.

    Example:

        >>> vocabulary = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", *byte_letters(), "fi", "lm", "film"]
        >>> settings = BytePairSettings(max_tokens=8, merges=("f i", "l m", "fi lm"))
        >>> tokenizer = BytePairs(settings, vocabulary)
        >>> [tokenizer.names[piece] for piece in tokenizer(tf.constant(["film fi"])).to_list()[0]]
        ['<s>', 'film', ' ', 'fi', '</s>']

    Reference: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2; Liu et
    al. 2019, "RoBERTa", section 4.4; Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
    Subword Units", algorithm 1.
    """

    def __init__(self, settings: BytePairSettings, vocabulary: Sequence[str]) -> None:
        super().__init__(settings, vocabulary)
        self._split = ByteLevelSplit(settings)
        # A word between others has a blank before it, even where a text does not begin with one.
        self._split_word = ByteLevelSplit(dataclasses.replace(settings, add_prefix_space=True))
        letters = byte_letters()
        missing = [byte for byte in range(256) if byte not in _NEVER and letters[byte] not in self._ids]
        if missing:
            raise ConfigError(
                f"each byte must be a piece of `vocabulary`. It lacks {len(missing)} of them, first "
                f"{letters[missing[0]]!r} for the byte {missing[0]}."
            )
        self._bytes = np.array([self._ids.get(letter, -1) for letter in letters], np.int32)
        made = [tuple(merge.split(" ")) for merge in settings.merges]
        self._merges = Merges(self._merge_ids(made), max((len(a + b) for a, b in made), default=1))
        self._edge = _EDGE + max(map(len, settings.added_tokens), default=0)
        self._word_edge = _WORD_EDGE + 2 * max((len(a + b) for a, b in made), default=1)
        self._table = word_table(self._whole_words())

    @classmethod
    def from_folder(cls, folder: str | Path, max_tokens: int, usual: TokenizerClass = FILE) -> "BytePairs":
        """Return the tokenizer of a model folder, from `tokenizer.json`, or `vocab.json` and `merges.txt`.

        Args:
            folder: a model's.
            max_tokens: longer texts are cut at the end; the tokens around a text count.
            usual: the class of the model's family, which opens the tokenizer where the folder names none.

        Raises:
            ConfigError: for a missing or broken file, and for a tokenizer of another kind; it names the file,
                what was found and what is supported.
        """
        settings, vocabulary = read_byte_pairs(Path(folder), max_tokens, usual)
        try:
            return cls(settings, vocabulary)
        except ConfigError as error:
            raise ConfigError(f"the tokenizer of {folder}: {error}") from error

    @property
    def names(self) -> list[str]:
        """The text of each id's piece, or the added token; bytes that are no text as "\\xf0"."""
        added, found = self.settings.added_tokens, super().names
        spelled = [None if name in added else bytes_of(name) for name in found]
        return [
            name if piece is None else piece.decode(errors="backslashreplace")
            for name, piece in zip(found, spelled, strict=True)
        ]

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return [self._table, self._merges.table]

    @property
    def unknown_id(self) -> int:
        """The id that stands for a word that has no pieces, a blank one."""
        found = self.settings.unknown
        return self.id_in_text(byte_letters()[ord(" ")] if found is None else found)

    def word_pieces(self, words: Tensor) -> Any:
        """Return the ids of the pieces of single words `[W]`, without special tokens, as int32 ragged.

        A word has `max_tokens` - 2 pieces at most, and none if it is blank. It is split with a blank before
        it, as in a text, whether `add_prefix_space` is True or not.

        Returns:
            int32 ragged `[W, pieces]`.
        """
        return super().word_pieces(tf.where(tf.strings.regex_full_match(words, WHITE), "", words))

    def _text_pieces(self, texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
        return self._read_pieces(self._split, texts, most)

    def _pieces_of_words(self, words: Tensor, most: int) -> tuple[Tensor, Tensor]:
        return self._read_pieces(self._split_word, words, most)

    def _read_pieces(self, split: ByteLevelSplit, texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
        lengths = tf.strings.length(texts)  # [B], bytes

        def lacking(reach: Tensor, _ids: Tensor, _rows: Tensor, settled: Tensor) -> Tensor:
            return tf.reduce_any((lengths > reach) & (settled < most))

        def read(reach: Tensor, *_: Tensor) -> list[Tensor]:
            reach = longer(reach, most)
            words = split(tf.strings.substr(texts, 0, reach))
            kept, rows = ranges(words.rows[:-1] + 1, words.rows[1:], most)  # [W], [B + 1]
            ids, splits = self._piece_ids(words, kept)
            settled = tf.cond(
                tf.reduce_any(lengths > reach),
                lambda: self._settled(words, kept, rows, splits),
                lambda: tf.zeros_like(rows[1:]),
            )
            return [reach, ids, tf.gather(splits, rows), settled]

        nothing = tf.zeros([tf.size(texts) + 1], tf.int64)
        state = [tf.constant(0), tf.zeros([0], tf.int32), nothing, nothing[1:]]
        shapes = [tf.TensorShape(shape) for shape in ([], [None], [None], [None])]
        # Without a first reading before the loop, so that the graph has the tables once.
        _, ids, rows, _ = tf.while_loop(lacking, read, state, shape_invariants=shapes)
        return ids, rows

    def _piece_ids(self, words: ByteLevelWords, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the pieces of words, int32 `[P]`, and where each word begins, int64 `[W + 1]`.

        Args:
            words: of all texts.
            kept: int64 `[W]`, which of them.
        """
        strings = tf.gather(words.strings(), kept)
        ids = self._table.lookup(strings)  # [W]
        split = tf.where(ids < 0)[:, 0]  # the words to split
        return with_split_words(ids, split, *self._merges(*self._symbols(tf.gather(strings, split))))

    def _symbols(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the bytes of words `[W]`, int32 `[A]`, and where each begins, int64 `[W + 1]`."""
        splits = tf.concat([[0], tf.cumsum(tf.cast(tf.strings.length(words), tf.int64))], 0)
        letters = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._bytes, tf.cast(letters, tf.int32))
        return tf.tensor_scatter_nd_add(ids, splits[:-1, None], tf.fill(tf.shape(words), FIRST)), splits

    def _settled(self, words: ByteLevelWords, kept: Tensor, rows: Tensor, splits: Tensor) -> Tensor:
        """Return how many of the first pieces of each text no more of the text can change, int64 `[B]`.

        The last words can be another one's beginning, or the beginning of an added token, which may take the
        white space before it. Of a long word among them only the end can change.

        Args:
            words: of what was read of the texts.
            kept: int64 `[W]`, the first of them.
            rows: int64 `[B + 1]`, where each text's begin.
            splits: int64 `[W + 1]`, where their pieces begin.
        """
        ends = tf.gather(words.splits, words.rows[1:]) - self._edge
        # White space is two words at most.
        unsettled = tf.searchsorted(words.splits, ends, side="right", out_type=tf.int64) - 3  # [B]
        texts = tf.searchsorted(rows, tf.range(tf.size(kept, tf.int64)), side="right") - 1  # [W]
        counts = splits[1:] - splits[:-1]
        # Added tokens can be of white space, too: a mark stands before them.
        white = tf.strings.regex_full_match(tf.gather(words.strings(), kept), f"{MARK}?{WHITE}")
        inner = tf.where(white, tf.zeros_like(counts), tf.maximum(counts - self._word_edge, 0))
        solid = tf.where(~white & (kept < tf.gather(unsettled, texts)), kept, -1)
        last = tf.math.unsorted_segment_max(solid, texts, tf.size(rows) - 1)  # [B]
        counts = tf.where(kept <= tf.gather(last, texts), counts, inner)
        before = tf.concat([[0], tf.cumsum(counts)], 0)
        return tf.gather(before, rows[1:]) - tf.gather(before, rows[:-1])

    def _merge_ids(self, merges: list[tuple[str, ...]]) -> list[tuple[int, int, int]]:
        found = {}
        for left, right in merges:
            lacking = [piece for piece in (left, right, left + right) if piece not in self._ids]
            if lacking or (left, right) in found:
                reason = f"lacks {lacking[0]!r}" if lacking else "has it once"
                raise ConfigError(
                    f"each of `merges` must be of pieces of `vocabulary`, and there once. Received "
                    f"'{left} {right}'; the vocabulary {reason}."
                )
            found[left, right] = (self._ids[left], self._ids[right], self._ids[left + right])
        return list(found.values())

    def _whole_words(self) -> dict[bytes, int]:
        """Return the ids of the words that are one piece, and of added tokens after `MARK`."""
        spelled = {bytes_of(piece): number for number, piece in enumerate(self.vocabulary)}
        found = {piece: number for piece, number in spelled.items() if piece}
        if not self.settings.whole_words:
            with tf.init_scope():
                ids, splits = self._merges(*self._symbols(tf.constant(list(found), tf.string)))
            firsts, counts = ids.numpy()[splits.numpy()[:-1]], np.diff(splits.numpy())
            found = {
                piece: number
                for (piece, number), first, count in zip(found.items(), firsts, counts, strict=True)
                if count == 1 and first == number
            }
        added = {(MARK + token).encode(): number for token, number in self.settings.added_tokens.items()}
        return {**found, **added}


def byte_letters() -> list[str]:
    """Return the character that stands for each of the 256 bytes in a vocabulary.

    Bytes that are printable in Latin-1 stand for themselves.

    Reference: Radford et al. 2019; its encoder.py, `bytes_to_unicode`.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_BYTES = {letter: byte for byte, letter in enumerate(byte_letters())}


def bytes_of(piece: str) -> bytes | None:
    """Return the bytes of a piece; None if a character stands for none."""
    found = [_BYTES.get(letter) for letter in piece]
    return None if None in found else bytes(byte for byte in found if byte is not None)
