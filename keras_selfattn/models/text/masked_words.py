"""The text side of a model of masked tokens whose words are learned from its texts.

Axes: B (batch), T (tokens), N (hidden tokens), D (features).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.long_rows import WINDOW
from keras_selfattn.models.optimizers import adamw
from keras_selfattn.models.text.learned_words import text_body
from keras_selfattn.models.text.masked_prediction import MASK, Masking, masked_token, validation_share
from keras_selfattn.models.text.tokenizer import Tokenizer, learn_vocabulary

Tensor = Any

# Training rows of all passes together, with 2 to 40 passes.
_ROWS_IN_ALL = 300_000


class MaskedWords:
    """The text side of a model of masked tokens whose words are learned from its texts.

    Args:
        config: of the model.
    """

    rates: Mapping[str, float] = {}

    def __init__(self, config: TextConfig) -> None:
        self._config = config
        # Windows are already cut by characters.
        self._whole = dataclasses.replace(config, max_tokens=2 * WINDOW)

    def optimizer(self) -> Any:
        """Return the optimizer of `fit`."""
        return adamw()

    def advised_training(self, rows: int) -> dict[str, Any]:
        epochs = int(np.clip(_ROWS_IN_ALL // max(1, rows), 2, 40))
        return {"epochs": epochs, "learning_rate": 2e-3, "validation": validation_share(rows)}

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Tokenizer:
        """Return the tokenizer of a vocabulary, the mask last."""
        return Tokenizer(self._whole, vocabulary)

    def learn_tokenizer(self, texts: Sequence[str], start: Any) -> Tokenizer:
        """Return the tokenizer of the training texts."""
        return self.tokenizer_of([*learn_vocabulary(self._whole, texts)[0], MASK])

    def rows(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)

    def masked(self, tokenizer: Tokenizer, text: str) -> np.ndarray:
        """Return the ids of a text with `[mask]` in place of hidden words, int32 `[T]`."""
        first, *others = self.rows(tokenizer, text.split(MASK))
        mask = masked_token(tokenizer.size - 1, first)[None]
        return np.concatenate([first, *(each for other in others for each in (mask, other))])

    def masking(self, tokenizer: Tokenizer) -> Masking:
        """Return the ids that hiding needs."""
        return Masking(tokenizer.size - 1)

    def names(self, tokenizer: Tokenizer) -> list[str]:
        """Return the token of each id; "" for an id that is never guessed."""
        others = tokenizer.size - len(tokenizer.vocabulary)
        return ["" for _ in range(others)] + [*tokenizer.vocabulary[:-1], ""]

    def body(self, tokenizer: Tokenizer, policy: Any) -> keras.Model:
        """Return the layers from ids `[B, T]` to encoded positions `[B, T, D]`."""
        return text_body(self._config, tokenizer, policy)

    def guessed(self, x: Tensor) -> Tensor:
        """Return the features to compare with the vectors of all tokens, float32 `[N, D]`."""
        x = keras.layers.Dense(x.shape[-1], "gelu", dtype="float32", name="guess")(x)
        return keras.layers.LayerNormalization(dtype="float32", name="guess_norm")(x)
