"""The common part of models that train a pretrained encoder on: rates, epochs, tokenizer, frozen layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.models.pretrained.fine_tuning_config import FineTuningConfig, TextEncoderConfig
from keras_selfattn.models.pretrained.pretrained_body import saved_tokenizer

_RATE, _BATCH = 2e-4, 32
# The learning rate of a block over that of the block after it.
_DECAY = 0.9
# Few rows need more epochs for as many steps. Epochs are clipped to this range.
_STEPS, _EPOCHS = 500, (4, 20)
# Up to so many rows, the model is trained again with those that were held out. On the 5,452 rows of TREC this
# doubled the time, for 96.2 % on the test rows instead of 96.4.
_REFITTED = 2_000


class FineTuning:
    """The side of a model whose pieces and encoder come from a pretrained model.

    Args:
        config: of the model.
    """

    def __init__(self, config: FineTuningConfig | TextEncoderConfig) -> None:
        self._config: Any = config

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path: lower layers learn slower."""
        return rates_of_blocks(self._config.num_layers)

    def optimizer(self) -> FineTuningAdamW:
        """Return the optimizer of `fit`, whose rate stays the same: half of the peak that a schedule has."""
        return steady_optimizer(_RATE, self._config.num_layers)

    def advised_training(self, rows: int) -> dict[str, Any]:
        epochs = epochs_for(_STEPS * _BATCH, rows, *_EPOCHS)
        settings = {"learning_rate": _RATE, "batch_size": _BATCH, "patience": 3, "epochs": epochs}
        return settings | {"refit": rows <= _REFITTED}

    def alternatives(self) -> list[dict[str, Any]]:
        return [{"learning_rate": _RATE / 2}, {"learning_rate": 2 * _RATE}, {"batch_size": 16}]

    def _saved_tokenizer(self, vocabulary: Sequence[str]) -> Any:
        return saved_tokenizer(self._config, vocabulary)

    def _vocabulary(self, start: Any) -> list[str]:
        """Return the pieces of the model to start from."""
        if start is None:
            name = type(self._config).__name__
            raise ConfigError(f"A {name} needs `start`, the folder of a pretrained model.")
        return start.vocabulary

    def freeze(self, model: keras.Model) -> None:
        """Make the lower layers of a model with an "embedding" and an "encoder" untrainable."""
        if self._config.frozen_layers:
            model.get_layer("embedding").trainable = False
            for block in model.get_layer("encoder").blocks[: self._config.frozen_layers]:
                block.trainable = False


def epochs_for(rows_in_all: int, rows: int, least: int, most: int) -> int:
    """Return the epochs in which a model reads so many rows in all, from `least` to `most`."""
    return int(np.clip(np.ceil(rows_in_all / max(1, rows)), least, most))


def rates_of_blocks(blocks: int) -> dict[str, float]:
    """Return factors of the learning rate by the beginning of a weight's path: lower layers learn slower.

    Args:
        blocks: of the encoder.

    Reference: Howard & Ruder 2018, "Universal Language Model Fine-tuning", sections 3.2 and 3.3.
    """
    found = {f"encoder/block_{place}": _DECAY ** (blocks - 1 - place) for place in range(blocks)}
    return {**found, "embedding": _DECAY**blocks}


def steady_optimizer(peak: float, blocks: int) -> FineTuningAdamW:
    """Return the optimizer of `fit` without a schedule: its rate is half of the peak that one has.

    Args:
        peak: the highest learning rate of a schedule.
        blocks: of the encoder.
    """
    return FineTuningAdamW(peak / 2, rates=rates_of_blocks(blocks), weight_decay=0.01, global_clipnorm=1.0)
