"""The start of a model of texts or tokens from a pretrained encoder: config, tokenizer and weights."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.files.hub_folders import located
from keras_selfattn.models.config import EncoderConfig, differing
from keras_selfattn.models.heads.class_heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.heads.score_heads import BoundedScoreHead, ScoreHead
from keras_selfattn.models.pretrained.fine_tuning_config import (
    FineTunedConfig,
    FineTunedScoreConfig,
    FineTunedTokenConfig,
    FineTuningConfig,
    MaskedPiecesConfig,
    TextEncoderConfig,
)
from keras_selfattn.models.pretrained.masked_head import copy_masked_head, holds_masked_head
from keras_selfattn.models.pretrained.word_pieces import WordPieces
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.folder_head import FolderHead, read_head
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.pretrained_folders.sentence_settings import dense_paths, read_config
from keras_selfattn.models.pretrained_folders.weights import check_size, copy_dense, copy_weights
from keras_selfattn.rows.label_names import may_bear_several
from keras_selfattn.rows.targets import NUMBERS
from keras_selfattn.rows.text_groups import texts_of_row

Kind = type[FineTuningConfig] | type[MaskedPiecesConfig] | type[TextEncoderConfig]


class EncoderStart(ABC):
    """A pretrained encoder from which a model starts.

    Args:
        path: where it is.
        kind: the config of the model that begins with it.
        config: of the encoder.
        tokenizer: its tokenizer.
        guessing: the fields of `MaskedPiecesConfig` that describe its head for hidden tokens, or a new one.

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
        self,
        path: Any,
        kind: Kind,
        config: PretrainedConfig,
        tokenizer: Any,
        guessing: Mapping[str, Any],
    ) -> None:
        self.path, self._kind = str(path), kind
        self.encoder_config, self.tokenizer = config, tokenizer
        self._fields = config.to_dict()
        if issubclass(kind, FineTunedConfig):
            none = {"hidden_head": None, "hidden_bias": True, "hidden_norm": False, "hidden_first": False}
            self._fields |= none
        if kind is MaskedPiecesConfig:
            span = min(MaskedPiecesConfig.training_span, config.positions)
            self._fields |= {**guessing, "training_span": span}
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

    def has_output_layer_for(self, head: Head) -> bool:
        """Return True if the output layer of a model with this head is copied, too."""
        return False

    @abstractmethod
    def copy_head(self, core: keras.Model) -> None:
        """Copy the weights of the head for hidden tokens, if there is one, to that of a core."""

    def described(self, inputs: Sequence[Any], targets: Sequence[Any] = (), *, bounded: bool = False) -> str:
        """Return a line about the copied weights and the pieces of the rows.

        Args:
            inputs: the training rows: texts, pairs of texts, or lists of tokens.
            targets: their labels by name; a list for each row that may have several.
            bounded: True for a model of scores in [0, 1].
        """
        rows = self._pieces_of(inputs)
        settings = self.tokenizer.settings
        pieces, config = np.concatenate(rows), self.encoder_config
        head = self._head_in_words(targets, bounded=bounded)
        subject = "pair" if self._of_pairs(inputs) else self._kind.subject
        mean = f"{len(pieces) / len(rows):.{2 if self._of_tokens else 0}f}"
        unknown = ""
        if settings.unknown is not None and not getattr(settings, "byte_fallback", False):
            share = np.mean(pieces == self.tokenizer.id_in_text(settings.unknown))
            unknown = f", of which {share:.2%} are unknown"
        return (
            f"Beginning with {self.path}: {self.record['kind']}, {config.num_layers} blocks of width "
            f"{config.width}{head}; {mean} pieces a {subject}{unknown}."
        )

    def _head_in_words(self, targets: Sequence[Any], *, bounded: bool) -> str:
        """Return the parts of the start's head that a model of these targets begins with; "" for none."""
        return ""

    @property
    def _of_tokens(self) -> bool:
        return self._kind is FineTunedTokenConfig

    def _of_pairs(self, inputs: Sequence[Any]) -> bool:
        """Return True for pairs that are read together; tokens and groups of texts may be tuples, too."""
        return issubclass(self._kind, FineTunedConfig) and isinstance(inputs[0], tuple)

    def _pieces_of(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the ids of the pieces of each text, pair of texts, or token."""
        if self._of_pairs(inputs):
            return [row[:, 0] for row in self.tokenizer.rows_of_pairs(inputs)[0]]
        if not self._of_tokens:
            texts = [text for row in inputs for text in texts_of_row(row) if text is not None]
            return self.tokenizer.rows(texts)[0]
        of_words = WordPieces(self.tokenizer).of_words({token for row in inputs for token in row})
        return [of_words[token] for row in inputs for token in row]

    def _bound(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields.items() if name not in self._kind.free}


class PretrainedStart(EncoderStart):
    """The pretrained model in a folder of the Hugging Face kind.

    If the folder holds a classifier of texts, a classifier begins with the hidden layer of its head; with the
    output layer as well, if the labels are the same in any order.

    Args:
        path: its folder, or its name in the Hugging Face hub, as for `TextEncoder`. The attribute `path`
            of a name is `hf://NAME@COMMIT`, which gives the same model again.
        kind: the config of the model that begins with it.
        vectors: True if the vectors of texts are wanted, and a folder whose outputs are others is refused.

    Raises:
        RunError, ConfigError: as `TextEncoder` does.
    """

    def __init__(self, path: Any, kind: Kind = FineTunedConfig, *, vectors: bool = False) -> None:
        path = located(path)
        self._folder = ModelFolder(path)
        self._family, config, tokenizer = read_config(self._folder, vectors=vectors)
        guessing = _guessing(self._family, config, self._folder.config) if kind is MaskedPiecesConfig else {}
        super().__init__(path, kind, config, tokenizer, guessing)
        self._head: FolderHead | ConfigError | None = None
        if issubclass(kind, FineTunedConfig):
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
        normal = "hidden_norm" if self._fields.get("hidden_norm") else "hidden_head"
        last = "logits" if found else normal if hidden else "encoder"
        ids: Any = core.get_layer("embedding").input
        if isinstance(ids, list | tuple | dict):  # of pairs of texts: ids and types, of one input
            ids = core.inputs[0]
        body = keras.Model(ids, core.get_layer(last).output, name=core.name)
        with self._folder.tensors() as tensors:
            copy_weights(tensors, self._family, body, self.path)
        for place, path in enumerate(dense_paths(self._folder) if self._kind is TextEncoderConfig else ()):
            with self._folder.tensors(path) as tensors:
                copy_dense(tensors, core.get_layer(f"dense_{place}"), f"{self.path}/{path}")
        if found is not None and head is not None and found.target_kind.has_labels:
            order = [found.labels.index(label) for label in head.state["labels"]]
            output = core.get_layer("logits")
            output.set_weights([weight[..., order] for weight in output.get_weights()])

    def has_output_layer_for(self, head: Head) -> bool:
        return self._head_for(head) is not None

    def folder_head(self, *, scores: bool) -> FolderHead:
        """Return the head of the folder's classifier, or of its scores.

        Raises:
            ConfigError: if it has none that can be read, or one of the other kind; it names the reason.
        """
        head = self._head
        if not isinstance(head, FolderHead):
            raise head or ConfigError(f"{self.path} was not read as a classifier of texts.")
        if scores != (head.target_kind == NUMBERS):
            count, model = len(head.labels), "TextClassifier" if scores else "TextRegressor"
            what = (
                f"{count} labels" if scores else f"{count} output{'s' * (count > 1)}, a number and no class"
            )
            raise ConfigError(
                f"{self.path} has {what} (id2label and problem_type in config.json). Read it with "
                f"`{model}.from_folder`."
            )
        return head

    def copy_head(self, core: keras.Model) -> None:
        if not self.new_head:
            with self._folder.tensors() as tensors:
                copy_masked_head(tensors, self._family, core, self.path)

    def _head_for(self, wanted: Head) -> FolderHead | None:
        """Return the folder's head if its outputs mean the same as those of a model's head.

        Those are the same labels in any order, and as many of them for a text; or as many scores, in [0, 1]
        of both, or in no other units than the folder's.
        """
        head = self._head
        if not isinstance(head, FolderHead) or wanted.target_kind != head.target_kind:
            return None
        if isinstance(wanted, ScoreHead):
            same = (
                len(wanted.mean) == len(head.labels) and isinstance(wanted, BoundedScoreHead) == head.bounded
            )
            return head if same and (head.bounded or wanted.unscaled) else None
        return head if set(head.labels) == set(wanted.state["labels"]) else None

    def _head_in_words(self, targets: Sequence[Any], *, bounded: bool) -> str:
        """Return the parts of the folder's head that a model of these targets begins with."""
        if self._head is None:
            return ""
        if isinstance(self._head, ConfigError):
            return ", and a new head"
        if issubclass(self._kind, FineTunedScoreConfig):
            count = len(targets[0]) if len(targets) else 0
            if bounded and self._head_for(BoundedScoreHead([0.0] * count, [1.0] * count)):
                return ", and its head for scores in [0, 1]"
            return ", the hidden layer of its head, and a new output layer"
        several = may_bear_several(targets)
        labels = sorted({name for target in targets for name in (target if several else [target])})
        if self._head_for(MultiLabelHead(labels) if several else ClassHead(labels)):
            return f", and its head for the same {len(labels)} labels"
        return ", the hidden layer of its head, and a new output layer for other labels than its own"


def _guessing(family: Family, config: PretrainedConfig, folder_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `MaskedPiecesConfig` that describe a family's head for hidden tokens."""
    names = family.masked_head
    if names is None:
        return {}
    activation = names.activation(folder_config) if callable(names.activation) else names.activation
    biased = folder_config.get(names.dense_bias, False) if names.dense_bias else True
    return {"guess_activation": activation or config.activation, "guess_bias": biased}


def _head_if_any(folder: ModelFolder, family: Family) -> FolderHead | ConfigError:
    """Return the head of a folder's classifier, or the reason that there is none."""
    try:
        return read_head(folder, family)
    except ConfigError as error:
        return error
