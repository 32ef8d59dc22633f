"""BERT's tokenizer as stock TensorFlow operations: raw text to the ids of word pieces.

The ids are those of the `tokenizers` package, for each script and for bytes that are not UTF-8.

Axes: B (texts), T (tokens), W (words of all texts), P (pieces of all texts).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.bert_words import BertWords, Words
from keras_selfattn.models.subwords.pieces import FIRST, Pieces
from keras_selfattn.models.subwords.subword_tokenizer import (
    SubwordTokenizer,
    ranges,
    with_split_words,
    word_table,
)
from keras_selfattn.models.subwords.tokenizer_class import FILE, TokenizerClass
from keras_selfattn.models.subwords.wordpiece_files import read_wordpiece
from keras_selfattn.models.subwords.wordpiece_settings import MARK, WordPieceSettings

Tensor = Any


class WordPiece(SubwordTokenizer):
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
        super().__init__(settings, vocabulary)
        self._words = BertWords(settings)
        self._table = _word_table(settings, self.vocabulary, self._words.normal_names)
        longest = settings.max_input_chars_per_word
        self._pieces = Pieces(self.vocabulary, settings.continuing_prefix, longest)

    @classmethod
    def from_folder(cls, folder: str | Path, max_tokens: int, usual: TokenizerClass = FILE) -> "WordPiece":
        """Return the tokenizer of a model folder, from `tokenizer.json`, or `vocab.txt` and its config.

        Args:
            folder: a model's.
            max_tokens: longer texts are cut at the end; [CLS] and [SEP] count.
            usual: the class of the model's family, which opens the tokenizer where the folder names none.

        Raises:
            ConfigError: for a missing or broken file, and for a tokenizer other than BERT's; it names the
                file, what was found and what is supported.
        """
        settings, vocabulary = read_wordpiece(Path(folder), max_tokens, usual)
        try:
            return cls(settings, vocabulary)
        except ConfigError as error:
            raise ConfigError(f"the tokenizer of {folder}: {error}") from error

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return [self._table, self._pieces.table]

    def _text_pieces(self, texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
        words = self._words(texts, most)
        kept, rows = ranges(words.rows[:-1], words.rows[1:], most)  # [W], [B + 1]
        ids, splits = self._piece_ids(words, kept)
        return ids, tf.gather(splits, rows)

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
        places, borders = ranges(tf.gather(starts, split), tf.gather(ends, split))
        pieces, borders = self._pieces(tf.gather(words.codes, places), borders)
        return with_split_words(ids, split, pieces, borders)


def _word_table(
    settings: WordPieceSettings, vocabulary: list[str], normal_names: Mapping[str, str]
) -> tf.lookup.StaticHashTable:
    """Return the table from whole words, and added tokens after `MARK`, to their ids."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    late = set(settings.normalized_tokens)
    ids |= {f"{MARK}{token}": number for token, number in settings.added_tokens.items() if token not in late}
    ids |= {f"{MARK}{form}": settings.added_tokens[token] for form, token in normal_names.items()}
    return word_table(ids)
