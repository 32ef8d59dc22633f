"""Pieces of words learned from the training rows: the text side of a model trained from scratch on them.

Axes: B (batch), T (positions).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.models.long_rows import warn_of_cut
from keras_selfattn.models.subwords.learned_byte_pairs import MOST_PIECES, LearnedBytePairs, learn_merges
from keras_selfattn.models.text.learned_words import LearnedWords
from keras_selfattn.rows.text_pairs import TextPair
from keras_selfattn.user_warnings import warn_user


class LearnedPieces(LearnedWords):
    """The text side of a model whose pieces of words and encoder are learned from its rows.

    Its vocabulary, as it is saved, is the merges that make the pieces.

    Args:
        config: of the model.
    """

    def alternatives(self) -> list[dict[str, Any]]:
        # Pieces keep the case, and fewer of them are another vocabulary.
        others = [each for each in super().alternatives() if not {"tokens", "lowercase"} & each.keys()]
        return [{"vocabulary_size": 2_000}, *others]

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Any:
        """Return the tokenizer of merges."""
        return LearnedBytePairs(vocabulary, self._config.max_tokens)

    def learn_tokenizer(self, texts: Sequence[Any], start: Any) -> Any:
        """Return the tokenizer of the training texts, or pairs, or of the model to start from."""
        pairs = isinstance(texts[0], tuple)
        self.tokenizer_of([])  # refuses a limit without room before the pieces are learned
        single = [text for pair in texts for text in pair] if pairs else texts
        if not any(text.strip() for text in single):
            raise DataError(f"The {len(single)} texts hold no pieces: all of them are blank.")
        tokenizer = self.tokenizer_of(learned(self._config, single) if start is None else start.vocabulary)
        cut = (tokenizer.rows_of_pairs if pairs else tokenizer.rows)(texts)[1]
        warn_of_cut(cut, len(texts), self._config.max_tokens, pairs=pairs)
        return tokenizer

    def rows(self, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)[0]

    def rows_of_pairs(self, tokenizer: Any, pairs: Sequence[TextPair]) -> list[np.ndarray]:
        """Return ids and types of each pair, int32 `[T, 2]`; of both orders `[T, 4]`."""
        return tokenizer.rows_of_pairs(pairs, both_orders=self._config.symmetric)[0]


class PieceSettings(Protocol):
    """The settings of pieces that are learned: fields of `TextConfig`."""

    @property
    def vocabulary_size(self) -> int | None: ...

    @property
    def min_count(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...


def learned(config: PieceSettings, texts: Sequence[str]) -> list[str]:
    """Return the merges of texts; warn if they are too few for the vocabulary that was asked for."""
    merges = learn_merges(texts, config.vocabulary_size or MOST_PIECES, config.min_count)
    found = LearnedBytePairs(merges, config.max_tokens).size
    if config.vocabulary_size is not None and found < config.vocabulary_size:
        warn_user(
            f"The {len(texts)} texts have {found} pieces of at least {config.min_count} occurrences, fewer "
            f"than vocabulary_size={config.vocabulary_size}."
        )
    return merges
