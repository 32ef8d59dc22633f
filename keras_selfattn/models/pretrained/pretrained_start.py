"""The start of a text model from a pretrained model's folder: config, tokenizer and weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import TextConfig, differing
from keras_selfattn.models.pretrained.config import FineTunedConfig
from keras_selfattn.models.pretrained.folder import ModelFolder
from keras_selfattn.models.pretrained.sentence_settings import read_config
from keras_selfattn.models.pretrained.weights import check_size, copy_weights

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
        return {name: bound[name] for name in given if name in bound and given[name] != bound[name]}

    def config(self, given: TextConfig | Mapping[str, Any] | None) -> FineTunedConfig:
        """Return the folder's config with the given free fields.

        Raises:
            ConfigError: for a field that the folder determines, or that no pretrained model has.
        """
        if isinstance(given, FineTunedConfig):
            raise ConfigError(
                f"With `start`, a pretrained model's folder, `config` is a dict of the fields to choose: "
                f"{', '.join(sorted(_FREE))}. Received a FineTunedConfig."
            )
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
