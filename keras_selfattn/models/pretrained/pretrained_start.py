"""The start of a model of texts or tokens from a pretrained model's folder: config, tokenizer and weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.folder_kinds import holds_pretrained
from keras_selfattn.models.config import EncoderConfig, differing
from keras_selfattn.models.pretrained.config import (
    FineTunedConfig,
    FineTunedTokenConfig,
    FineTuningConfig,
    PretrainedConfig,
)
from keras_selfattn.models.pretrained.folder import ModelFolder
from keras_selfattn.models.pretrained.sentence_settings import read_config
from keras_selfattn.models.pretrained.weights import check_size, copy_weights
from keras_selfattn.models.pretrained.word_pieces import WordPieces


class PretrainedStart:
    """The pretrained model from which a classifier of texts starts.

    Args:
        path: its folder, as for `TextEncoder`.

    Attributes:
        config_type: the kind of the config that the folder determines in part.
        path: as given.
        record: the entry in a run folder: path and family.

    Raises:
        RunError, ConfigError: as `TextEncoder` does.
    """

    config_type: ClassVar[type[FineTuningConfig]] = FineTunedConfig
    _decimals: ClassVar[int] = 0  # of the pieces of a row, in words

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
        return [name for name in given if name not in self.config_type.free and name not in self._bound()]

    def contradicted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that must change, by name, with their required values."""
        bound = self._bound()
        return {name: bound[name] for name in given if name in bound and given[name] != bound[name]}

    def config(self, given: EncoderConfig | Mapping[str, Any] | None) -> Any:
        """Return the folder's config with the given free fields.

        Raises:
            ConfigError: for a field that the folder determines, or that no pretrained model has.
        """
        free, subject = ", ".join(sorted(self.config_type.free)), self.config_type.subject
        if isinstance(given, PretrainedConfig):
            raise ConfigError(
                f"With `start`, a pretrained model's folder, `config` is a dict of the fields to choose: "
                f"{free}. Received a {type(given).__name__}."
            )
        fields = {} if given is None else dict(given) if isinstance(given, Mapping) else differing(given)
        for name in self.foreign(fields):
            raise ConfigError(
                f"`{name}` is for {subject} models that learn their own words. {self.path} is a "
                f"pretrained model, with which {free} can be chosen. Leave it out."
            )
        for name, bound in self.contradicted(fields).items():
            raise ConfigError(
                f"`{name}` is {bound!r} in {self.path}, whose weights the model begins with. Received "
                f"{fields[name]!r}: leave it out."
            )
        return self.config_type(**{**self._config.to_dict(), **fields})

    def copy_to(self, core: keras.Model) -> None:
        """Copy the folder's weights to the layers "embedding" and "encoder" of a core."""
        ids = core.inputs[0]
        body = keras.Model(ids, core.get_layer("encoder").output, name=core.name)
        with self._folder.tensors() as tensors:
            copy_weights(tensors, self._family, body, self.path)

    def described(self, inputs: Sequence[Any]) -> str:
        """Return a line about the copied weights and the pieces of the rows."""
        rows = self._pieces_of(inputs)
        unknown = self._tokenizer.id_of(self._tokenizer.settings.unknown)
        pieces = np.concatenate(rows)
        each = f"{len(pieces) / len(rows):.{self._decimals}f} pieces a {self.config_type.subject}"
        return (
            f"Beginning with {self.path}: {self._family.name}, {self._config.num_layers} blocks of width "
            f"{self._config.width}; {each}, of which "
            f"{np.mean(pieces == unknown):.2%} are unknown."
        )

    def _pieces_of(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the ids of the pieces of each text."""
        return self._tokenizer.rows(inputs)[0]

    def _bound(self) -> dict[str, Any]:
        free = self.config_type.free
        return {name: value for name, value in self._config.to_dict().items() if name not in free}


class PretrainedTokenStart(PretrainedStart):
    """The pretrained model from which a labeller of tokens starts: as `PretrainedStart`.

    Args:
        path: its folder.
    """

    config_type = FineTunedTokenConfig
    _decimals = 2

    def _pieces_of(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the ids of the pieces of each token."""
        of_words = WordPieces(self._tokenizer).of_words({token for row in inputs for token in row})
        return [of_words[token] for row in inputs for token in row]


def token_starting_point(path: str | Path) -> PretrainedTokenStart:
    """Return the start of a labeller of tokens: a pretrained model's folder.

    Raises:
        RunError: for a run or another file, and as `PretrainedStart` does.
    """
    if Path(path).exists() and not holds_pretrained(path):
        raise RunError(
            f"{path} is not a pretrained model's folder. A labeller of tokens begins with one (config.json, "
            "model.safetensors and the tokenizer), not with a run. Give such a folder, or leave `start` "
            "(--from) out."
        )
    return PretrainedTokenStart(path)
