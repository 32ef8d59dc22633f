"""The pieces of each token of a row, with the tokenizer of a pretrained model.

Axes: B (rows), T (tokens), N (tokens of all rows), K (pieces of a token).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.vocabulary import PADDING_ID, as_strings, chunks

Tensor = Any

# Tokens and characters at once, to bound the memory of the intermediate tensors.
_CHUNK, _CHARACTERS = 8192, 2**20


class WordPieces:
    """Split each token of a row into the pieces of a pretrained model.

    A token without any piece (a blank, control characters) is the unknown piece: each token has at least one.
    None of them is padding: that of a token "[PAD]" has the id `written_padding` of the tokenizer.

    Args:
        tokenizer: a model's; its ids of padding are 0.

    Example:

        >>> from keras_selfattn.models.subwords.wordpiece import WordPiece, WordPieceSettings
        >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "##s"]
        >>> pieces = WordPieces(WordPiece(WordPieceSettings(max_tokens=8), vocabulary))
        >>> pieces(tf.constant([["Good", "films", " ", ""]])).numpy().tolist()
        [[[5, 0], [6, 7], [1, 0], [0, 0]]]
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._unknown = tokenizer.unknown_id

    @property
    def vocabulary(self) -> list[str]:
        """Pieces in the order of their ids."""
        return self.tokenizer.vocabulary

    @property
    def size(self) -> int:
        """Number of ids."""
        return self.tokenizer.size

    @property
    def tables(self) -> list[Any]:
        """The lookup tables, which a SavedModel must track."""
        return self.tokenizer.tables

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the ids of the pieces of a string tensor `[...]`, int32 `[..., K]`, padded with 0.

        K is that of the token with the most pieces, at least 1. The token "" is padding, all 0.
        """
        flat = tf.reshape(tokens, [-1])
        found = self.tokenizer.word_pieces(flat)
        lacking = (found.row_lengths() == 0) & (flat != "")
        ids = found.to_tensor(PADDING_ID)  # [N, K], or [N, 0]
        missing = tf.cast(tf.shape(ids)[1] == 0, tf.int32)
        ids = tf.concat([ids, tf.zeros([tf.size(flat), missing], tf.int32)], axis=1)  # [N, K]
        first = tf.range(tf.shape(ids)[1]) == 0
        ids = tf.where(lacking[:, None] & first, self._unknown, ids)
        return tf.reshape(ids, tf.concat([tf.shape(tokens), tf.shape(ids)[1:]], axis=0))

    def rows(self, rows: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return the ids of the pieces of the tokens of each row, int32 `[T, K]`, padded with 0."""
        of_words = self.of_words({token for row in rows for token in row})
        none = np.zeros((0, 1), np.int32)
        return [padded([of_words[token] for token in row]) if row else none for row in rows]

    def of_words(self, words: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the ids of the pieces of each word, int32 `[pieces]`."""
        found: dict[str, np.ndarray] = {}
        for chunk in chunks(list(words), _CHUNK, _CHARACTERS):
            for word, ids in zip(chunk, self(as_strings(chunk)).numpy(), strict=True):
                # A copy, so that the word with the most pieces does not determine the memory of all.
                found[word] = ids[: np.count_nonzero(ids)].copy()
        return found
