"""The start of a text model from a pretrained model's folder: config, tokenizer and weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.label_names import may_bear_several
from keras_selfattn.models.config import TextConfig, differing
from keras_selfattn.models.heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.pretrained.config import FineTunedConfig
from keras_selfattn.models.pretrained.families import Family
from keras_selfattn.models.pretrained.folder import ModelFolder
from keras_selfattn.models.pretrained.folder_head import FolderHead, read_head
from keras_selfattn.models.pretrained.sentence_settings import read_config
from keras_selfattn.models.pretrained.weights import check_size, copy_weights

# Fields that a folder does not determine.
_FREE = frozenset(
    {
        "dropout",
        "attention_dropout",
        "head_dropout",
        "hidden_dropout",
        "max_tokens",
        "training_span",
        "pooling",
        "frozen_layers",
        "wide",
    }
)


class PretrainedStart:
    """The pretrained model from which a classifier starts.

    If the folder holds a classifier, the hidden layer of its head is copied with the encoder. So is the
    output layer, if the labels are the same in any order.

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
        self._family, encoder, self._tokenizer = read_config(self._folder)
        self._head: FolderHead | ConfigError = _head_if_any(self._folder, self._family)
        settings = {} if isinstance(self._head, ConfigError) else self._head.settings
        self._config = FineTunedConfig(**{**encoder.to_dict(), **settings})
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

    def config(self, given: TextConfig | FineTunedConfig | Mapping[str, Any] | None) -> FineTunedConfig:
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

    def classifier(self) -> FolderHead:
        """Return the head of the folder's classifier.

        Raises:
            ConfigError: if it has none that can be read; it names the reason.
        """
        if isinstance(self._head, ConfigError):
            raise self._head
        return self._head

    def copy_to(self, core: keras.Model, of_core: Head) -> None:
        """Copy the folder's weights to the layers of a core, and those of its head as far as they fit.

        Args:
            core: with the layers "embedding", "encoder", "logits" and, with a hidden layer, "hidden_head".
            of_core: the head of the core.
        """
        head = self._head_for(of_core)
        last = "logits" if head else "hidden_head" if self._config.hidden_head else "encoder"
        body = keras.Model(core.inputs[0], core.get_layer(last).output, name=core.name)
        with self._folder.tensors() as tensors:
            copy_weights(tensors, self._family, body, self.path)
        if head is not None:
            order = [head.labels.index(label) for label in of_core.state["labels"]]
            output = core.get_layer("logits")
            output.set_weights([weight[..., order] for weight in output.get_weights()])

    def _head_for(self, wanted: Head) -> FolderHead | None:
        """Return the folder's head if it has the same labels in any order, and as many of them for a text."""
        head = self._head
        if isinstance(head, ConfigError) or head.multi_label != isinstance(wanted, MultiLabelHead):
            return None
        return head if set(head.labels) == set(wanted.state["labels"]) else None

    def described(self, texts: Sequence[str], targets: Sequence[Any]) -> str:
        """Return a line about the copied weights and the texts' pieces.

        Args:
            texts: of the training rows.
            targets: their labels by name; a list for each row that may have several.
        """
        rows, _ = self._tokenizer.rows(texts)
        unknown = self._tokenizer.id_of(self._tokenizer.settings.unknown)
        pieces = np.concatenate(rows)
        return (
            f"Beginning with {self.path}: {self._family.name}, {self._config.num_layers} blocks of width "
            f"{self._config.width}, {self._head_in_words(targets)}; {len(pieces) / len(rows):.0f} pieces a "
            f"text, of which {np.mean(pieces == unknown):.2%} are unknown."
        )

    def _head_in_words(self, targets: Sequence[Any]) -> str:
        """Return the parts of the folder's head that a model of these labels begins with."""
        if isinstance(self._head, ConfigError):
            return "and a new head"
        several = may_bear_several(targets)
        labels = sorted({name for target in targets for name in (target if several else [target])})
        if self._head_for(MultiLabelHead(labels) if several else ClassHead(labels)):
            return f"and its head for the same {len(labels)} labels"
        return "the hidden layer of its head, and a new output layer for other labels than its own"

    def _bound(self) -> dict[str, Any]:
        return {name: value for name, value in self._config.to_dict().items() if name not in _FREE}


def _head_if_any(folder: ModelFolder, family: Family) -> FolderHead | ConfigError:
    """Return the head of a folder's classifier, or the reason that there is none."""
    try:
        return read_head(folder, family)
    except ConfigError as error:
        return error
