"""The start of a text model: vocabulary, config and weights of a trained one."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.hub_folders import located
from keras_selfattn.models.config import TextConfig, checked_config, differing
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.pretrained.adapted_start import AdaptedStart
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedConfig, MaskedPiecesConfig
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart, PretrainedStart
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.saved_file import load_file, refuse_quantized, run_figures
from keras_selfattn.models.subwords.learned_byte_pairs import saved_vocabulary
from keras_selfattn.models.text.learned_words import TYPES_LAYER
from keras_selfattn.models.text.tokenizer import learn_vocabulary

# Fields of a config that do not affect the copied weights and the vocabulary.
_FREE = frozenset(
    {
        "dropout",
        "embedding_dropout",
        "head_dropout",
        "word_dropout",
        "max_tokens",
        "window",
        "training_span",
        "members",
        "wide",
        "symmetric",
        "bounded",
    }
)


class StartingModel:
    """The trained model from which another starts.

    Args:
        path: its `.keras` file, or run folder: of `pretrain`, or of a text classifier.
        model: that of the file.
        kind: the config of the model that begins with it.

    Attributes:
        path: as given.
        record: the entry in a run folder: path, kind, and figures if its run folder has them.

    Raises:
        RunError: if it is not a model of text that learned its own words.
    """

    def __init__(self, path: Any, model: keras.Model, kind: type[TextConfig] = TextConfig) -> None:
        self.path, self._kind = str(path), kind
        if isinstance(model, RawModel) and isinstance(model.config, FineTunedConfig):
            raise RunError(
                f"{path} was fine-tuned from a pretrained encoder. Begin with that encoder's folder, which "
                "its config.json names as `start`."
            )
        if not (isinstance(model, RawModel) and isinstance(model.config, TextConfig)):
            raise RunError(
                f"{path} holds a {type(model).__name__}, with which no model of text begins. Give a "
                "pretrained model's folder, a run of `keras-selfattn pretrain`, or of a text classifier that "
                "was not fine-tuned."
            )
        refuse_quantized(path, model)
        self._model: Any = model
        self.record = {"path": self.path, "kind": type(model).__name__, **run_figures(path)}

    @property
    def vocabulary(self) -> list[str]:
        """Tokens in the order of their ids, or the merges of pieces."""
        return saved_vocabulary(self._model.tokenizer)

    def foreign(self, given: Mapping[str, Any]) -> list[str]:
        """Return the given fields that its kind of config does not have."""
        known = {field.name for field in dataclasses.fields(self._kind)}
        return [name for name in given if name not in known]

    def contradicted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that must change, by name, with their required values."""
        bound = self._bound()
        return {name: bound[name] for name in given if name in bound and given[name] != bound[name]}

    def config(self, given: TextConfig | FineTunedConfig | Mapping[str, Any] | None) -> TextConfig:
        """Return the given config with the weights' values in all fields that have their defaults.

        Raises:
            ConfigError: for a field that contradicts the weights.
        """
        fields = dict(given) if isinstance(given, Mapping) else differing(checked_config(self._kind, given))
        for name in self.foreign(fields):
            raise ConfigError(
                f"`{name}` is not a field of {self._kind.__name__}. {self.path} is a model of text: leave it "
                "out."
            )
        for name, bound in self.contradicted(fields).items():
            raise ConfigError(
                f"`{name}` is {bound!r} in {self.path}, whose weights the model begins with. Received "
                f"{fields[name]!r}: leave it out, or pretrain with it."
            )
        return self._kind(**{**fields, **self._bound()})

    def copy_to(self, core: keras.Model, _head: Head) -> None:
        """Copy this model's weights, of all layers from ids to positions, to each encoder of a core."""
        members = [layer for layer in core.layers if isinstance(layer, keras.Model)]
        for encoder in (core, *members):
            known = {layer.name for layer in encoder.layers}
            for layer in self._body():
                # Types of tokens are of models of pairs alone; all else is in each of them.
                if layer.name != TYPES_LAYER or layer.name in known:
                    encoder.get_layer(layer.name).set_weights(layer.get_weights())

    def described(self, texts: Sequence[Any], _targets: Sequence[Any] = (), **_of_head: Any) -> str:
        """Return a line with the number of copied weights and of unknown distinct tokens in the texts."""
        weights = [weight for layer in self._body() for weight in layer.trainable_weights]
        numbers = sum(math.prod(weight.shape) for weight in weights)
        copied = f"Beginning with {self.path}: {len(weights)} weights, {numbers:,} numbers"
        if self.config(None).tokens == "pieces":
            return f"{copied}; the bytes are pieces, so it knows every text."
        # Both of a pair.
        texts = [text for row in texts for text in (row if isinstance(row, tuple) else (row,))]
        config = dataclasses.replace(self.config(None), min_count=1, vocabulary_size=2**31 - 1)
        tokens = set(learn_vocabulary(config, texts)[0])
        unknown = len(tokens - set(self.vocabulary))
        return (
            f"{copied}; of {len(tokens):,} different {config.tokens} of the rows it does not know "
            f"{unknown:,}."
        )

    def _bound(self) -> dict[str, Any]:
        fields = self._model.config.to_dict()
        return {name: value for name, value in fields.items() if name not in _FREE}

    def _body(self) -> list[keras.layers.Layer]:
        """Return the layers with weights up to the encoder's outputs."""
        core = self._model.core
        body = keras.Model(core.inputs, core.get_layer("encoder").output)
        return [layer for layer in body.layers if layer.weights]


def starting_point(
    path: Any, kind: Any = FineTunedConfig, learned: type[TextConfig] = TextConfig
) -> StartingModel | EncoderStart:
    """Return the start of a text model: a pretrained model, or one that this library trained.

    Args:
        path: a pretrained model's folder or its name in the Hugging Face hub, a run folder or a `.keras`
            file; or a start, which is returned.
        kind: the config of a model that begins with a pretrained one.
        learned: the config of a model that begins with one of this library.
    """
    if isinstance(path, StartingModel | EncoderStart):
        return path
    path = located(path)
    if holds_pretrained(path):
        return PretrainedStart(path, kind)
    model = load_file(path)
    if isinstance(getattr(model, "config", None), MaskedPiecesConfig):
        return AdaptedStart(path, kind, model)
    return StartingModel(path, model, learned)
