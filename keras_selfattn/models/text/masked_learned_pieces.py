"""The text side of a model of masked tokens whose pieces of words are learned from its texts.

Axes: T (tokens).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.models.subwords.learned_byte_pairs import (
    BEGIN,
    END,
    HIDDEN,
    PAD,
    SPECIAL_PIECES,
    LearnedBytePairs,
)
from keras_selfattn.models.text.learned_pieces import learned
from keras_selfattn.models.text.masked_prediction import MASK, Masking
from keras_selfattn.models.text.masked_words import MaskedWords


class MaskedLearnedPieces(MaskedWords):
    """The text side of a model of masked tokens whose pieces of words are learned from its texts."""

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Any:
        """Return the tokenizer of merges."""
        # A window's characters are four bytes at most, each of which may be a piece.
        return LearnedBytePairs(vocabulary, 2 * self._whole.max_tokens + len(SPECIAL_PIECES))

    def learn_tokenizer(self, texts: Sequence[str], start: Any) -> Any:
        """Return the tokenizer of the training texts."""
        return self.tokenizer_of(learned(self._whole, texts))

    def rows(self, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)[0]

    def masked(self, tokenizer: Any, text: str) -> np.ndarray:
        """Return the ids of a text with `[mask]` in place of hidden pieces, int32 `[T]`."""
        *before, last = text.split(MASK)
        # The blank before a word is part of its piece.
        rows = tokenizer.whole_rows([*(part.removesuffix(" ") for part in before), last])
        mask = np.array([tokenizer.id_of(HIDDEN)], np.int32)
        first, *others = [row[1:-1] for row in rows]
        inner = np.concatenate([first, *(each for other in others for each in (mask, other))])
        return np.concatenate([rows[0][:1], inner, rows[0][-1:]])

    def masking(self, tokenizer: Any) -> Masking:
        """Return the ids that hiding needs."""
        never = [tokenizer.id_of(piece) for piece in (PAD, BEGIN, END)]
        others = np.arange(len(SPECIAL_PIECES), tokenizer.size, dtype=np.int32)
        return Masking(tokenizer.id_of(HIDDEN), never, others)

    def names(self, tokenizer: Any) -> list[str]:
        """Return the piece of each id; "" for an id that is never guessed."""
        special = len(SPECIAL_PIECES)
        return ["" for _ in range(special)] + tokenizer.names[special : tokenizer.size]
