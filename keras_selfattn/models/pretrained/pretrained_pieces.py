"""The text side of a classifier whose pieces and encoder come from a pretrained model.

Axes: B (batch), T (tokens), D (features).
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.long_rows import SPECIAL, warn_of_cut
from keras_selfattn.models.pretrained.embedding import ACTIVATIONS
from keras_selfattn.models.pretrained.fine_tuning import FineTuning
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedConfig
from keras_selfattn.models.pretrained.pretrained_body import pooled, pretrained_body, saved_settings
from keras_selfattn.rows.text_pairs import TextPair


class PretrainedPieces(FineTuning):
    """The text side of a classifier whose pieces and encoder come from a pretrained model.

    Args:
        config: of the classifier.
    """

    # Fine-tuned attention is right more often than the wide path, unlike attention trained from scratch.
    shares = Shares(deep=1.0, wide=0.1)

    def __init__(self, config: FineTunedConfig) -> None:
        super().__init__(config)
        self.ngrams = TextConfig(lowercase=saved_settings(config).lowercase, symmetric=config.symmetric)

    def alternatives(self) -> list[dict[str, Any]]:
        pooling = "mean" if self._config.pooling == "first" else "first"
        return [*super().alternatives(), {"pooling": pooling}]

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Any:
        """Return the tokenizer of a vocabulary."""
        return self._saved_tokenizer(vocabulary)

    def learn_tokenizer(self, texts: Sequence[Any], start: Any) -> Any:
        """Return the tokenizer of the model to start from; warn of training texts, or pairs, that it cuts."""
        tokenizer = self.tokenizer_of(self._vocabulary(start))
        pairs = isinstance(texts[0], tuple)
        rows, cut = (tokenizer.rows_of_pairs if pairs else tokenizer.rows)(texts)
        if not pairs and max(map(len, rows)) <= SPECIAL:  # as of an empty text
            raise DataError(f"The {len(texts)} texts hold no words: all of them are blank.")
        warn_of_cut(cut, len(texts), self._config.max_tokens, pairs=pairs)
        return tokenizer

    def rows(self, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)[0]

    def rows_of_pairs(self, tokenizer: Any, pairs: Sequence[TextPair]) -> list[np.ndarray]:
        """Return ids and types of each pair, int32 `[T, 2]`; of both orders `[T, 4]`."""
        return tokenizer.rows_of_pairs(pairs, both_orders=self._config.symmetric)[0]

    def encoder(self, tokenizer: Any, policy: Any, *, pairs: bool = False) -> keras.Model:
        """Return the layers from ids `[B, T]`, of pairs with types `[B, T, 2]`, to vectors `[B, D]`."""
        config = self._config
        body = pretrained_body(config, tokenizer, policy, pairs=pairs, symmetric=config.symmetric)
        self.freeze(body)
        x = body.output  # [B, T, D]
        x = self._hidden(x, policy) if config.hidden_first else x
        x = pooled(x, config, policy)  # [B, D]
        x = x if config.hidden_first else self._hidden(x, policy)
        x = keras.layers.Dropout(config.head_dropout, dtype=policy, name="head_dropout")(x)
        return keras.Model(body.input, x)

    def _hidden(self, x: Any, policy: Any) -> Any:
        """Return the outputs of the hidden layer of the head, if it has one: of tokens, or of vectors."""
        config = self._config
        if config.hidden_head is not None:
            x = keras.layers.Dropout(config.hidden_dropout, dtype=policy, name="hidden_dropout")(x)
            hidden = Dense(
                config.width,
                ACTIVATIONS.get(config.hidden_head, config.hidden_head),
                use_bias=config.hidden_bias,
                dtype=policy,
                name="hidden_head",
            )
            x = hidden(x)
        if config.hidden_norm:
            norm = keras.layers.LayerNormalization(
                epsilon=config.norm_epsilon, center=config.norm_shift, dtype=policy, name="hidden_norm"
            )
            x = norm(x)
        return x
