"""Tokens learned from the training rows, and the encoder that is trained from scratch on them.

Axes: B (batch), T (positions), D (features).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.core.both_orders import pair_input
from keras_selfattn.models.core.encoder_core import Neighbours, Sum, encoded, pooled
from keras_selfattn.models.heads.probabilities import FIRST_SHARES
from keras_selfattn.models.long_rows import warn_of_cut
from keras_selfattn.models.optimizers import adamw
from keras_selfattn.models.text.ngram_embedding import (
    AddedTypes,
    HiddenTokens,
    NGramEmbedding,
    SpellingEmbedding,
)
from keras_selfattn.models.text.tokenizer import TYPES, Tokenizer, learn_vocabulary
from keras_selfattn.models.tokens.token_features import PIECES, spellings
from keras_selfattn.models.vocabulary import FIRST_ID
from keras_selfattn.rows.text_pairs import TextPair

Tensor = Any

# For 22,500 texts (IMDB), the log loss on held-out ones was .214 after four passes and .213 after eight.
_MANY = 20_000
TYPES_LAYER = "types"
"""The name of the layer that models of pairs alone have."""


class LearnedWords:
    """The text side of a classifier whose vocabulary and encoder are learned from its rows.

    Args:
        config: of the classifier.
    """

    shares = FIRST_SHARES
    rates: Mapping[str, float] = {}

    def __init__(self, config: TextConfig) -> None:
        self._config = config
        self.ngrams = config

    def optimizer(self) -> Any:
        """Return the optimizer of `fit`."""
        return adamw()

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Beside the wide path, attention needs only a few passes, and fewer over many rows.
        settings = {"learning_rate": 2e-3, "patience": 3, "label_smoothing": 0.1, "refit": True}
        return settings | {"epochs": 8 if rows <= _MANY else 4}

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"tokens": "characters", "max_ngram": 3},
            {"dropout": 0.4},
            {"lowercase": not self._config.lowercase},
            {"learning_rate": 1e-3},
            {"max_ngram": 2},
            {"num_layers": 2},
            {"width": 256},
            {"batch_size": 32},
        ]

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Tokenizer:
        """Return the tokenizer of a vocabulary."""
        return Tokenizer(self._config, vocabulary)

    def learn_tokenizer(self, texts: Sequence[Any], start: Any) -> Tokenizer:
        """Return the tokenizer of the training texts, or pairs, or of the model to start from."""
        pairs = isinstance(texts[0], tuple)
        _check_room(self._config.max_tokens, pairs)
        single = [text for pair in texts for text in pair] if pairs else texts
        vocabulary, cut = learn_vocabulary(self._config, single)
        if not vocabulary:
            raise DataError(f"The {len(single)} texts hold no {self._config.tokens}: all of them are blank.")
        tokenizer = self.tokenizer_of(vocabulary if start is None else start.vocabulary)
        if pairs:
            cut = tokenizer.rows_of_pairs(texts)[1]
        warn_of_cut(cut, len(texts), self._config.max_tokens, pairs=pairs)
        return tokenizer

    def rows(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)

    def rows_of_pairs(self, tokenizer: Tokenizer, pairs: Sequence[TextPair]) -> list[np.ndarray]:
        """Return ids and types of each pair, int32 `[T, 2]`; of both orders `[T, 4]`."""
        return tokenizer.rows_of_pairs(pairs, both_orders=self._config.symmetric)[0]

    def encoder(self, tokenizer: Tokenizer, policy: Any, *, pairs: bool = False) -> keras.Model:
        """Return the layers from ids `[B, T]`, of pairs with types `[B, T, 2]`, to vectors `[B, D]`."""
        body = text_body(self._config, tokenizer, policy, pairs=pairs)
        return keras.Model(body.input, pooled(body.output, self._config.head_dropout, policy))


def _check_room(max_tokens: int, pairs: bool) -> None:
    """Raise ConfigError if two texts have no room around their separator."""
    if pairs and max_tokens < 3:
        raise ConfigError(
            f"`max_tokens` must be at least 3, for two texts and their separator. Received {max_tokens}."
        )


def text_body(config: TextConfig, tokenizer: Tokenizer, policy: Any, *, pairs: bool = False) -> keras.Model:
    """Return the common part of all text models: from the tokenizer's ids to encoded positions.

    Its layers have the same names in each of them, so that weights can be copied by name.

    Args:
        config: the model's settings.
        tokenizer: the tokenizer of its vocabulary.
        policy: the layers' dtype policy.
        pairs: True for two texts a row, whose tokens have types.

    Returns:
        From int32 ids `[B, T]`, 0 as padding, or of pairs ids and types `[B, T, 2]`, to masked float
        `[B, T, D]`; of both orders, if the config is `symmetric`, from `[B, T, 4]` to `[2 B, T, D]`.
    """
    given = ids = keras.Input((None,), dtype="int32", name="ids")
    if pairs:
        given, ids = pair_input(symmetric=config.symmetric)
    x = _embedded(ids, config, tokenizer, policy)  # [B, T, D]
    # Words and pieces have enough dropout already.
    dropout = config.dropout if config.tokens == "characters" else 0.0
    return keras.Model(given, encoded(x, config, policy, config.window, dropout), name="body")


def _embedded(ids: Tensor, config: TextConfig, tokenizer: Tokenizer, policy: Any) -> Tensor:
    """Return the vectors of ids `[B, T]`, `[B, T, D]`; those of words depend on their neighbours, too."""
    size, width, buckets = tokenizer.size, config.width, config.ngram_buckets
    embedding = NGramEmbedding(size, width, config.max_ngram, buckets, dtype=policy, name="embedding")
    ids, types = (ids, None) if len(ids.shape) == 2 else (ids[..., 0], ids[..., 1])
    if config.tokens == "characters":
        return _typed(embedding(ids), types, policy)
    spelling = SpellingEmbedding(size, PIECES, buckets + 1, width, dtype=policy, name="spelling")
    ids = HiddenTokens(config.word_dropout, name="hidden")(ids)
    x = Sum(dtype=policy, name="spelled")([embedding(ids), spelling(ids)])
    # Special pieces, which learned words have not, are spelled as nothing.
    known = spellings(tokenizer.vocabulary[len(tokenizer.vocabulary) + FIRST_ID - size :], buckets + 1)
    spelling.places.assign(np.pad(known, [[size - len(known), 0], [0, 0]]))
    x = _typed(x, types, policy)
    x = keras.layers.Dropout(config.embedding_dropout, dtype=policy, name="embedding_dropout")(x)
    return Neighbours(dtype=policy, name="neighbours")(x)


def _typed(x: Tensor, types: Tensor | None, policy: Any) -> Tensor:
    """Return vectors of tokens `[B, T, D]` with those of their types, if they have any."""
    return x if types is None else AddedTypes(TYPES, dtype=policy, name=TYPES_LAYER)(x, types)
