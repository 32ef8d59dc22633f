"""Words and features of tokens learned from the training rows, and the encoder trained from scratch on them.

Axes: B (batch), T (positions), K (features of a token), D (features).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.models.config import TokenConfig
from keras_selfattn.models.core.encoder_core import Neighbours, encoded
from keras_selfattn.models.optimizers import adamw
from keras_selfattn.models.tokens.token_features import FEATURES, FeatureEmbedding, TokenFeatures, learn_words

# Rows of all passes together, from which on the smallest number of passes is advised.
_ROWS_IN_ALL = 50_000


class LearnedTokens:
    """The token side of a labeller whose vocabulary and encoder are learned from its rows.

    Args:
        config: of the labeller.
    """

    rates: Mapping[str, float] = {}

    def __init__(self, config: TokenConfig) -> None:
        self._config = config

    def optimizer(self) -> Any:
        """Return the optimizer of `fit`."""
        return adamw()

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Each token of a row is a training example, so few passes over many rows are enough.
        return {"batch_size": 32, "epochs": int(np.clip(_ROWS_IN_ALL // max(1, rows), 4, 20)), "refit": True}

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"dropout": 0.3},
            {"learning_rate": 2e-3},
            {"word_dropout": 0.25},
            {"width": 192},
            {"num_layers": 1},
            {"min_count": 1},
        ]

    def tokenizer_of(self, vocabulary: Sequence[str]) -> TokenFeatures:
        """Return the tokenizer of a vocabulary, which is of features."""
        return TokenFeatures(self._config, vocabulary)

    def learn_tokenizer(self, rows: Sequence[Sequence[str]], start: Any) -> TokenFeatures:
        """Return the tokenizer of the training rows' words."""
        return self.tokenizer_of(learn_words(self._config, rows))

    def encoder(self, features: TokenFeatures, policy: Any) -> keras.Model:
        """Return the layers from features `[B, T, K]` to the vectors of tokens `[B, T, D]`."""
        config = self._config
        inputs = keras.Input((None, FEATURES), dtype="int32", name="features")
        x = FeatureEmbedding(
            features.size,
            config.hash_buckets,
            config.width,
            config.word_dropout,
            dtype=policy,
            name="embedding",
        )(inputs)  # [B, T, D]
        x = keras.layers.Dropout(config.dropout, dtype=policy, name="embedding_dropout")(x)
        x = Neighbours(dtype=policy, name="neighbours")(x)
        x = encoded(x, config, policy, config.window)
        x = keras.layers.Dropout(config.dropout, dtype=policy, name="head_dropout")(x)
        return keras.Model(inputs, x)
