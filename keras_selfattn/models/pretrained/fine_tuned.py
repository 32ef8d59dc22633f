"""Fine-tuning: a classifier's text side and start, from a pretrained model's folder.

Axes: B (batch), T (tokens), D (features).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import TextConfig, differing
from keras_selfattn.models.pretrained.body import POOLINGS, pretrained_body, saved_tokenizer
from keras_selfattn.models.pretrained.config import FineTunedConfig
from keras_selfattn.models.pretrained.folder import ModelFolder
from keras_selfattn.models.pretrained.sentence_settings import read_config
from keras_selfattn.models.pretrained.weights import check_size, copy_weights
from keras_selfattn.models.probabilities import Shares
from keras_selfattn.models.raw_inputs import warn_of_cut

# Fields that a folder does not determine.
_FREE = frozenset(
    {
        "dropout",
        "attention_dropout",
        "head_dropout",
        "max_tokens",
        "training_span",
        "pooling",
        "frozen_layers",
        "wide",
    }
)
_RATE, _BATCH = 2e-4, 32
# The learning rate of a block over that of the block after it.
_DECAY = 0.9
# Few rows need more passes to make as many steps; passes are at least and at most so many.
_STEPS, _EPOCHS = 500, (4, 20)
# Up to so many rows, the model is trained again with those that were held out.
_REFITTED = 20_000


class PretrainedPieces:
    """The text side of a classifier whose pieces and encoder come from a pretrained model.

    Args:
        config: of the classifier.
    """

    # Fine-tuned attention is right more often than the wide path, unlike attention trained from scratch.
    shares = Shares(deep=1.0, wide=0.1)

    def __init__(self, config: FineTunedConfig) -> None:
        self._config = config
        lowercase = config.pieces.get("lowercase", True)
        self.ngrams = TextConfig(lowercase=bool(lowercase))

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
        """Return the tokenizer of the model to start from; tell of training texts that it cuts."""
        if start is None:
            raise ConfigError("A FineTunedConfig needs `start`, the folder of a pretrained model.")
        tokenizer = self.saved(start.vocabulary)
        warn_of_cut(tokenizer.rows(texts)[1], len(texts), self._config.max_tokens)
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


class PretrainedStart:
    """The pretrained model from which a classifier starts.

    Args:
        path: its folder, as for `TextEncoder`.

    Attributes:
        path: as given.
        record: the entry in a run folder: path and family.

    Raises:
        RunError, ConfigError: as `TextEncoder` does.
    """

    def __init__(self, path: Any) -> None:
        self.path = str(path)
        self._folder = ModelFolder(path)
        self._family, self._config, self._tokenizer = read_config(self._folder)
        # Before any row is read, so that a folder without weights fails at once.
        with self._folder.tensors() as tensors:
            check_size(tensors, self._config, self.path)
        self.record = {"path": self.path, "kind": self._family.name}

    @property
    def vocabulary(self) -> list[str]:
        """Pieces in the order of their ids."""
        return self._tokenizer.vocabulary

    def foreign(self, given: Mapping[str, Any]) -> list[str]:
        """Return the given fields that no fine-tuned model has."""
        return [name for name in given if name not in _FREE and name not in self._bound()]

    def contradicted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that must change, by name, with their required values."""
        bound = self._bound()
        return {
            name: bound.get(name) for name in given if name not in _FREE and given[name] != bound.get(name)
        }

    def config(self, given: FineTunedConfig | TextConfig | Mapping[str, Any] | None) -> FineTunedConfig:
        """Return the folder's config with the given free fields.

        Raises:
            ConfigError: for a field that the folder determines, or that no pretrained model has.
        """
        fields = {} if given is None else dict(given) if isinstance(given, Mapping) else differing(given)
        for name in self.foreign(fields):
            raise ConfigError(
                f"`{name}` is for text models that learn their own words. {self.path} is a pretrained model, "
                f"with which {', '.join(sorted(_FREE))} can be chosen. Leave it out."
            )
        for name, bound in self.contradicted(fields).items():
            raise ConfigError(
                f"`{name}` is {bound!r} in {self.path}, whose weights the model begins with. Received "
                f"{fields[name]!r}: leave it out."
            )
        return FineTunedConfig(**{**self._config.to_dict(), **fields})

    def copy_to(self, core: keras.Model) -> None:
        """Copy the folder's weights to the layers "embedding" and "encoder" of a core."""
        ids = core.inputs[0]
        body = keras.Model(ids, core.get_layer("encoder").output, name=core.name)
        with self._folder.tensors() as tensors:
            copy_weights(tensors, self._family, body, self.path)

    def described(self, texts: Sequence[str]) -> str:
        """Return a line about the copied weights and the texts' pieces."""
        rows, _ = self._tokenizer.rows(texts)
        unknown = self._tokenizer.id_of(self._tokenizer.settings.unknown)
        pieces = np.concatenate(rows)
        return (
            f"Beginning with {self.path}: {self._family.name}, {self._config.num_layers} blocks of width "
            f"{self._config.width}; {len(pieces) / len(rows):.0f} pieces a text, of which "
            f"{np.mean(pieces == unknown):.2%} are unknown."
        )

    def _bound(self) -> dict[str, Any]:
        return {name: value for name, value in self._config.to_dict().items() if name not in _FREE}
