"""The start of a model of answers: symbols, config and weights of one that was trained before."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.models.config import SequenceConfig, checked_config, differing
from keras_selfattn.models.pretrained_folders.families import refuse_decoders
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.saved_file import load_file, refuse_quantized, run_figures
from keras_selfattn.models.sequences.symbols import Symbols

# Fields of a config that change neither weights nor symbols.
_FREE = frozenset({"dropout", "max_tokens", "max_new_tokens", "beams", "length_penalty"})


class SequenceStart:
    """The trained model of answers from which another goes on.

    Args:
        path: its `.keras` file, or run folder.
        model: that of the file.

    Attributes:
        path: as given.
        record: the entry in a run folder: path, kind, and figures if its run folder has them.

    Raises:
        RunError: if it is no model of answers, has not been trained, or is quantized.
    """

    def __init__(self, path: Any, model: keras.Model) -> None:
        self.path = str(path)
        if not (isinstance(model, RawModel) and isinstance(model.config, SequenceConfig)):
            raise RunError(
                f"{path} holds a {type(model).__name__}, with which no model of answers begins. Give a run "
                "of `keras-selfattn train --task seq2seq`, or leave it out."
            )
        if model.get_config()["vocabulary"] is None:
            raise RunError(f"{path} has not been trained, so there is nothing to go on from. Leave it out.")
        refuse_quantized(path, model)
        self._model: Any = model
        self.record = {"path": self.path, "kind": type(model).__name__, **run_figures(path)}

    @property
    def symbols(self) -> Symbols:
        """The symbols of both sides."""
        return self._model.symbols

    def foreign(self, given: Mapping[str, Any]) -> list[str]:
        """Return the given fields that the config does not have."""
        known = {field.name for field in dataclasses.fields(SequenceConfig)}
        return [name for name in given if name not in known]

    def contradicted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that must change, by name, with their required values."""
        own = self._model.config.to_dict()
        return {
            name: own[name]
            for name, value in given.items()
            if name in own and name not in _FREE and value != own[name]
        }

    def config(self, given: SequenceConfig | Mapping[str, Any] | None) -> SequenceConfig:
        """Return the config of the trained model, with the given fields in place of its own.

        Args:
            given: fields; of a `SequenceConfig` those that differ from their defaults.

        Raises:
            ConfigError: for a field that contradicts weights or symbols.
        """
        fields = (
            dict(given) if isinstance(given, Mapping) else differing(checked_config(SequenceConfig, given))
        )
        for name in self.foreign(fields):
            raise ConfigError(f"`{name}` is not a field of SequenceConfig. Leave it out.")
        for name, bound in self.contradicted(fields).items():
            raise ConfigError(
                f"`{name}` is {bound!r} in {self.path}, whose weights and symbols the model begins with. "
                f"Received {fields[name]!r}: leave it out, or train without `start`."
            )
        return dataclasses.replace(self._model.config, **fields)

    def copy_to(self, core: keras.Model) -> None:
        """Copy all weights to a core of the same config and symbols."""
        core.set_weights(self._model.core.get_weights())

    def described(self, sources: Sequence[str], targets: Sequence[Sequence[str]], **_of_head: Any) -> str:
        """Return a line about the copied weights, and the rows with symbols that the model does not know.

        Args:
            sources: of the training rows.
            targets: the right answers of each.
        """
        weights = self._model.core.trainable_weights
        numbers = sum(math.prod(weight.shape) for weight in weights)
        kind = self._model.config.tokens
        copied = f"Beginning with {self.path}: {len(weights)} weights, {numbers:,} numbers"
        if kind == "pieces":
            return f"{copied}; the bytes are pieces, so it knows every text."
        answers = [text for each in targets for text in each]
        of_sources, of_answers = (self.symbols.unknown_in(texts) for texts in (sources, answers))
        named = " and ".join(
            f"{unknown.count:,} of {len(texts):,} {name}" + (f" ({unknown.named})" if unknown.count else "")
            for name, texts, unknown in (("sources", sources, of_sources), ("answers", answers, of_answers))
        )
        known = len(self.symbols.vocabulary)
        return f"{copied}, {known:,} {kind}; {named} have {kind} that it does not know."


def sequence_starting_point(path: Any) -> SequenceStart:
    """Return the start of a model of answers.

    Args:
        path: a run folder or a `.keras` file of another one; or a start, which is returned.

    Raises:
        RunError: for another model, or none.
        ConfigError: for a pretrained model's folder, by its name.
    """
    if isinstance(path, SequenceStart):
        return path
    if holds_pretrained(path):
        config = ModelFolder(path).config
        refuse_decoders(config, str(path))
        raise ConfigError(
            f"{path} holds a pretrained model of the family {config.get('model_type')!r}, with which no "
            "model of answers begins. Give a run of `keras-selfattn train --task seq2seq`, or leave it out."
        )
    return SequenceStart(path, load_file(path, folders=False))
