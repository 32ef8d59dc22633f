"""The text side of a classifier whose pieces and encoder come from a pretrained model.

Axes: B (batch), T (tokens), D (features).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.pretrained.body import POOLINGS, pretrained_body, saved_settings, saved_tokenizer
from keras_selfattn.models.pretrained.config import FineTunedConfig
from keras_selfattn.models.pretrained.fine_tuning_adamw import FineTuningAdamW
from keras_selfattn.models.probabilities import Shares
from keras_selfattn.models.raw_inputs import warn_of_cut

_RATE, _BATCH = 2e-4, 32
# The learning rate of a block over that of the block after it.
_DECAY = 0.9
# Few rows need more epochs for as many steps. Epochs are clipped to this range.
_STEPS, _EPOCHS = 500, (4, 20)
# Up to so many rows, the model is trained again with those that were held out. On the 5,452 rows of TREC this
# doubled the time, for 96.2 % on the test rows instead of 96.4.
_REFITTED = 2_000
# Tokens of an empty text: the first and the last one.
_SPECIAL = 2


class PretrainedPieces:
    """The text side of a classifier whose pieces and encoder come from a pretrained model.

    Args:
        config: of the classifier.
    """

    # Fine-tuned attention is right more often than the wide path, unlike attention trained from scratch.
    shares = Shares(deep=1.0, wide=0.1)

    def __init__(self, config: FineTunedConfig) -> None:
        self._config = config
        self.ngrams = TextConfig(lowercase=saved_settings(config).lowercase)

    @property
    def training_span(self) -> int | None:
        """Tokens of a text that a training step reads; None for all, where the first one is needed."""
        return None if self._config.pooling == "first" else self._config.training_span

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path: lower layers learn slower."""
        blocks = self._config.num_layers
        found = {f"encoder/block_{place}": _DECAY ** (blocks - 1 - place) for place in range(blocks)}
        return {**found, "embedding": _DECAY**blocks}

    def optimizer(self) -> FineTuningAdamW:
        """Return the optimizer of `fit`, whose rate stays the same: half of the peak that a schedule has."""
        return FineTuningAdamW(_RATE / 2, rates=self.rates, weight_decay=0.01, global_clipnorm=1.0)

    def advised_training(self, rows: int) -> dict[str, Any]:
        epochs = int(np.clip(np.ceil(_STEPS * _BATCH / max(1, rows)), *_EPOCHS))
        settings = {"learning_rate": _RATE, "batch_size": _BATCH, "patience": 3, "epochs": epochs}
        return settings | {"refit": rows <= _REFITTED}

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"learning_rate": _RATE / 2},
            {"learning_rate": 2 * _RATE},
            {"batch_size": 16},
            {"pooling": "mean" if self._config.pooling == "first" else "first"},
        ]

    def saved(self, vocabulary: Sequence[str]) -> Any:
        """Return the tokenizer of a vocabulary."""
        return saved_tokenizer(self._config, vocabulary)

    def learned(self, texts: Sequence[str], start: Any) -> Any:
        """Return the tokenizer of the model to start from; warn of training texts that it cuts."""
        if start is None:
            raise ConfigError("A FineTunedConfig needs `start`, the folder of a pretrained model.")
        tokenizer = self.saved(start.vocabulary)
        rows, cut = tokenizer.rows(texts)
        if max(map(len, rows)) <= _SPECIAL:
            raise DataError(f"The {len(texts)} texts hold no words: all of them are blank.")
        warn_of_cut(cut, len(texts), self._config.max_tokens)
        return tokenizer

    def rows(self, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        return tokenizer.rows(texts)[0]

    def encoder(self, tokenizer: Any, policy: Any) -> keras.Model:
        """Return the layers from ids `[B, T]` to the vectors of texts `[B, D]`."""
        config = self._config
        body = pretrained_body(config, policy)
        if config.frozen_layers:
            body.get_layer("embedding").trainable = False
            for block in body.get_layer("encoder").blocks[: config.frozen_layers]:
                block.trainable = False
        x = POOLINGS[config.pooling](dtype=policy, name="pooling")(body.output)  # [B, D]
        x = keras.layers.Dropout(config.head_dropout, dtype=policy, name="head_dropout")(x)
        return keras.Model(body.input, x)
