"""The start of a model of texts or tokens from a pretrained encoder: config, tokenizer and weights."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.folder_kinds import holds_pretrained
from keras_selfattn.label_names import may_bear_several
from keras_selfattn.models.config import EncoderConfig, differing
from keras_selfattn.models.heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.model_folders.family import Family
from keras_selfattn.models.model_folders.folder_head import FolderHead, read_head
from keras_selfattn.models.model_folders.model_folder import ModelFolder
from keras_selfattn.models.model_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.model_folders.sentence_settings import read_config
from keras_selfattn.models.model_folders.weights import check_size, copy_weights
from keras_selfattn.models.pretrained.fine_tuning_config import (
    FineTunedConfig,
    FineTunedTokenConfig,
    FineTuningConfig,
    MaskedPiecesConfig,
)
from keras_selfattn.models.pretrained.masked_head import HEAD_LAYERS, copy_masked_head, holds_masked_head
from keras_selfattn.models.pretrained.word_pieces import WordPieces
from keras_selfattn.models.saved_file import load_file, run_figures

Kind = type[FineTuningConfig] | type[MaskedPiecesConfig]

_SPAN = 128


class EncoderStart(ABC):
    """A pretrained encoder from which a model starts.

    Args:
        path: where it is.
        kind: the config of the model that begins with it.
        config: of the encoder.
        tokenizer: its tokenizer.
        guess_activation: of the hidden layer of its head for hidden tokens, or of a new one.

    Attributes:
        path: as given, a str.
        encoder_config: of the encoder alone.
        tokenizer: as given.
        record: the entry in a run folder.
        new_head: True if it has no head for hidden tokens.
    """

    record: Mapping[str, Any]
    new_head: bool

    def __init__(
        self, path: Any, kind: Kind, config: PretrainedConfig, tokenizer: Any, guess_activation: str
    ) -> None:
        self.path, self._kind = str(path), kind
        self.encoder_config, self.tokenizer = config, tokenizer
        self._fields = config.to_dict()
        if kind is FineTunedConfig:
            self._fields["hidden_head"] = None
        if kind is MaskedPiecesConfig:
            span = min(_SPAN, config.positions)
            self._fields |= {"guess_activation": guess_activation, "training_span": span}
            if tokenizer.settings.mask is None:
                raise ConfigError(
                    f"The tokenizer of {self.path} has no mask token, which stands for a hidden piece in "
                    "pretraining. Begin with a model that has one, as those of masked tokens do."
                )

    @property
    def vocabulary(self) -> list[str]:
        """Pieces in the order of their ids."""
        return self.tokenizer.vocabulary

    def foreign(self, given: Mapping[str, Any]) -> list[str]:
        """Return the given fields that no model with a pretrained encoder has."""
        return [name for name in given if name not in self._kind.free and name not in self._bound()]

    def contradicted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that must change, by name, with their required values."""
        bound = self._bound()
        return {name: bound[name] for name in given if name in bound and given[name] != bound[name]}

    def config(self, given: EncoderConfig | Mapping[str, Any] | None) -> Any:
        """Return the model's config: the encoder's, with the given free fields.

        Raises:
            ConfigError: for a field that the encoder determines, or that no pretrained model has.
        """
        free = ", ".join(sorted(self._kind.free))
        if isinstance(given, PretrainedConfig):
            raise ConfigError(
                f"With `start`, a pretrained model's folder, `config` is a dict of the fields to choose: "
                f"{free}. Received a {type(given).__name__}."
            )
        chosen = {} if given is None else dict(given) if isinstance(given, Mapping) else differing(given)
        for name in self.foreign(chosen):
            raise ConfigError(
                f"`{name}` is for {self._kind.subject} models that learn their own words. {self.path} is a "
                f"pretrained model, with which {free} can be chosen. Leave it out."
            )
        for name, bound in self.contradicted(chosen).items():
            raise ConfigError(
                f"`{name}` is {bound!r} in {self.path}, whose weights the model begins with. Received "
                f"{chosen[name]!r}: leave it out."
            )
        return self._kind(**{**self._fields, **chosen})

    @abstractmethod
    def copy_to(self, core: keras.Model, head: Head | None = None) -> None:
        """Copy the weights to the layers "embedding" and "encoder" of a core, and those of its head that fit.

        Args:
            core: with these layers, "logits", and if its head has a hidden layer, "hidden_head".
            head: of the core; None for the encoder alone.
        """

    @abstractmethod
    def copy_head(self, core: keras.Model) -> None:
        """Copy the weights of the head for hidden tokens, if there is one, to that of a core."""

    def described(self, inputs: Sequence[Any], targets: Sequence[Any] = ()) -> str:
        """Return a line about the copied weights and the pieces of the rows.

        Args:
            inputs: the training rows, texts or lists of tokens.
            targets: their labels by name; a list for each row that may have several.
        """
        rows = self._pieces_of(inputs)
        unknown = self.tokenizer.id_of(self.tokenizer.settings.unknown)
        pieces, config = np.concatenate(rows), self.encoder_config
        mean = f"{len(pieces) / len(rows):.{2 if self._of_tokens else 0}f}"
        return (
            f"Beginning with {self.path}: {self.record['kind']}, {config.num_layers} blocks of width "
            f"{config.width}{self._head_in_words(targets)}; {mean} pieces a {self._kind.subject}, of which "
            f"{np.mean(pieces == unknown):.2%} are unknown."
        )

    def _head_in_words(self, targets: Sequence[Any]) -> str:
        """Return the parts of the start's head that a model of these labels begins with; "" for none."""
        return ""

    @property
    def _of_tokens(self) -> bool:
        return self._kind is FineTunedTokenConfig

    def _pieces_of(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the ids of the pieces of each text or token."""
        if not self._of_tokens:
            return self.tokenizer.rows(inputs)[0]
        of_words = WordPieces(self.tokenizer).of_words({token for row in inputs for token in row})
        return [of_words[token] for row in inputs for token in row]

    def _bound(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields.items() if name not in self._kind.free}


class PretrainedStart(EncoderStart):
    """The pretrained model in a folder of the Hugging Face kind.

    If the folder holds a classifier of texts, a classifier begins with the hidden layer of its head; with the
    output layer as well, if the labels are the same in any order.

    Args:
        path: its folder, as for `TextEncoder`.
        kind: the config of the model that begins with it.

    Raises:
        RunError, ConfigError: as `TextEncoder` does.
    """

    def __init__(self, path: Any, kind: Kind = FineTunedConfig) -> None:
        self._folder = ModelFolder(path)
        self._family, config, tokenizer = read_config(self._folder)
        names = self._family.masked_head
        activation = config.activation if names is None else names.activation or config.activation
        super().__init__(path, kind, config, tokenizer, activation)
        self._head: FolderHead | ConfigError | None = None
        if kind is FineTunedConfig:
            self._head = _head_if_any(self._folder, self._family)
            if isinstance(self._head, FolderHead):
                self._fields = {**self._fields, **self._head.settings}
        # Before any row is read, so that a folder without weights fails at once.
        with self._folder.tensors() as tensors:
            check_size(tensors, config, self.path)
            self.new_head = not holds_masked_head(tensors, self._family, self._folder.config)
        self.record = {"path": self.path, "kind": self._family.name}
        if kind is MaskedPiecesConfig:
            self.record = {**self.record, "new_head": self.new_head}

    def copy_to(self, core: keras.Model, head: Head | None = None) -> None:
        found = None if head is None else self._head_for(head)
        hidden = head is not None and self._fields.get("hidden_head")
        last = "logits" if found else "hidden_head" if hidden else "encoder"
        body = keras.Model(core.get_layer("embedding").input, core.get_layer(last).output, name=core.name)
        with self._folder.tensors() as tensors:
            copy_weights(tensors, self._family, body, self.path)
        if found is not None and head is not None:
            order = [found.labels.index(label) for label in head.state["labels"]]
            output = core.get_layer("logits")
            output.set_weights([weight[..., order] for weight in output.get_weights()])

    def classifier(self) -> FolderHead:
        """Return the head of the folder's classifier.

        Raises:
            ConfigError: if it has none that can be read; it names the reason.
        """
        if isinstance(self._head, FolderHead):
            return self._head
        raise self._head or ConfigError(f"{self.path} was not read as a classifier of texts.")

    def copy_head(self, core: keras.Model) -> None:
        if not self.new_head:
            with self._folder.tensors() as tensors:
                copy_masked_head(tensors, self._family, core, self.path)

    def _head_for(self, wanted: Head) -> FolderHead | None:
        """Return the folder's head if it has the same labels in any order, and as many of them for a text."""
        head = self._head
        if not isinstance(head, FolderHead) or head.multi_label != isinstance(wanted, MultiLabelHead):
            return None
        return head if set(head.labels) == set(wanted.state["labels"]) else None

    def _head_in_words(self, targets: Sequence[Any]) -> str:
        """Return the parts of the folder's head that a model of these labels begins with."""
        if self._head is None:
            return ""
        if isinstance(self._head, ConfigError):
            return ", and a new head"
        several = may_bear_several(targets)
        labels = sorted({name for target in targets for name in (target if several else [target])})
        if self._head_for(MultiLabelHead(labels) if several else ClassHead(labels)):
            return f", and its head for the same {len(labels)} labels"
        return ", the hidden layer of its head, and a new output layer for other labels than its own"


class AdaptedStart(EncoderStart):
    """The pretrained model whose training `pretrain` went on with.

    Args:
        path: the run folder, or the `.keras` file.
        kind: the config of the model that begins with it.
        model: that of the file, if it has been read.

    Raises:
        RunError: if it is another model.
    """

    new_head = False

    def __init__(self, path: Any, kind: Kind = FineTunedConfig, model: Any = None) -> None:
        self._model: Any = load_file(path) if model is None else model
        found = getattr(self._model, "config", None)
        if not isinstance(found, MaskedPiecesConfig):
            raise RunError(
                f"{path} holds a {type(self._model).__name__} that is no pretrained encoder. Give a "
                "pretrained model's folder, or a run of `keras-selfattn pretrain --from FOLDER`."
            )
        config = {field.name: getattr(found, field.name) for field in fields(PretrainedConfig)}
        tokenizer = self._model.tokenizer
        super().__init__(path, kind, PretrainedConfig(**config), tokenizer, found.guess_activation)
        self.record = {"path": self.path, "kind": type(self._model).__name__, **run_figures(path)}

    def copy_to(self, core: keras.Model, head: Head | None = None) -> None:
        self._copy(core, ("embedding", "encoder"))

    def copy_head(self, core: keras.Model) -> None:
        self._copy(core, HEAD_LAYERS)

    def _copy(self, core: keras.Model, names: Sequence[str]) -> None:
        for name in names:
            core.get_layer(name).set_weights(self._model.core.get_layer(name).get_weights())


def encoder_start(path: str | Path) -> EncoderStart:
    """Return the pretrained encoder in a folder, or in a run that went on with its training."""
    place = Path(path)
    saved = place.suffix == ".keras" or (place / "model.keras").is_file()
    return AdaptedStart(path) if saved else PretrainedStart(path)


def token_starting_point(path: Any) -> EncoderStart:
    """Return the start of a labeller of tokens: a pretrained encoder, as it is or after more training.

    Args:
        path: a pretrained model's folder, or a run that went on with its training; or a start, which is
            returned.

    Raises:
        RunError: for another run or file, and as `PretrainedStart` does.
    """
    if isinstance(path, EncoderStart):
        return path
    if holds_pretrained(path) or not Path(path).exists():
        return PretrainedStart(path, FineTunedTokenConfig)
    return AdaptedStart(path, FineTunedTokenConfig)


def _head_if_any(folder: ModelFolder, family: Family) -> FolderHead | ConfigError:
    """Return the head of a folder's classifier, or the reason that there is none."""
    try:
        return read_head(folder, family)
    except ConfigError as error:
        return error
