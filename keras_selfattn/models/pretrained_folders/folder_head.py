"""The head of a folder's classifier of texts: its labels, and the settings of its layers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.family import Family, FamilyHead
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.rows.label_names import as_names
from keras_selfattn.rows.targets import LABEL_SET, ONE_LABEL, TargetKind

_CLASSIFIER = "ForSequenceClassification"
_SEVERAL = "multi_label_classification"
_PROBLEMS = (None, "single_label_classification", _SEVERAL)
# Without names, config.json alone says how many labels there are; a wrong number must not take all memory.
_MOST_UNNAMED = 100_000


@dataclass(frozen=True)
class FolderHead:
    """A head as `config.json` describes it.

    Args:
        labels: label names in the order of their ids.
        multi_label: True if a text can have several labels, or none.
        settings: fields of `FineTunedConfig`.
    """

    labels: list[str]
    multi_label: bool
    settings: Mapping[str, Any]

    @property
    def target_kind(self) -> TargetKind:
        """The kind of its targets, as that of a model's head."""
        return LABEL_SET if self.multi_label else ONE_LABEL


def is_classifier(folder: ModelFolder) -> bool:
    """Return True if a folder holds a classifier of texts.

    One with a pooling of sentence-transformers is an encoder, whatever model it was made from.
    """
    modules = [str(each.get("type", "")) for each in folder.modules()]
    pooled = any(each.rpartition(".")[2] == "Pooling" for each in modules)
    return _architecture(folder).endswith(_CLASSIFIER) and not pooled


def read_head(folder: ModelFolder, family: Family) -> FolderHead:
    """Return the head of a folder's classifier.

    Raises:
        ConfigError: for a model without such a head, one whose outputs are numbers, and labels that are not
            names.
    """
    if not is_classifier(folder):
        raise ConfigError(
            f"{folder.path} holds no classifier of texts: its model is {_architecture(folder) or 'unnamed'} "
            f"(architectures in config.json), not one {_CLASSIFIER}. Serve the vectors of an encoder with "
            "`keras-selfattn export` and `embed`, or train a classifier that begins with it, with "
            f"`keras-selfattn train TABLE --from {folder.path}`."
        )
    problem = folder.config.get("problem_type")
    labels = _labels(folder)
    if problem not in _PROBLEMS or len(labels) < 2:
        what = "one label" if problem in _PROBLEMS else f"problem_type {problem!r}"
        raise ConfigError(
            f"{folder.path} has {what} in config.json: its output is a number, such as a score, and no "
            "probabilities of classes. Only classifiers with two labels or more can be read."
        )
    return FolderHead(labels, problem == _SEVERAL, _settings(folder.config, family.head))


def _settings(config: Mapping[str, Any], head: FamilyHead) -> dict[str, Any]:
    rates = [config[name] for name in head.dropout if config.get(name) is not None]
    rate = rates[0] if rates else head.rate
    found = {
        "pooling": "first",
        "hidden_head": head.activation,
        "head_dropout": rate,
        "hidden_dropout": rate if head.drops_twice else 0.0,
        "hidden_norm": bool(head.norm),
    }
    return found if head.settings is None else found | head.settings(config)


def _architecture(folder: ModelFolder) -> str:
    """Return the class of the folder's model; "" if it is not named."""
    found = folder.config.get("architectures")
    return str(found[0]) if isinstance(found, list) and found else ""


def _labels(folder: ModelFolder) -> list[str]:
    """Return the labels in the order of their ids; "LABEL_0", "LABEL_1", … if they have no names."""
    named = folder.config.get("id2label")
    if named is None:
        count = folder.config.get("num_labels", 2)
        if not is_count(count) or count > _MOST_UNNAMED:
            raise ConfigError(
                f"num_labels in the config.json of {folder.path} must be an integer from 1 to "
                f"{_MOST_UNNAMED:,}, unless id2label names the labels. Received {count!r}."
            )
        return [f"LABEL_{place}" for place in range(count)]
    wanted = f"id2label in the config.json of {folder.path} must give each id, from 0 on, a label's name"
    if not isinstance(named, dict) or not named:
        raise ConfigError(f"{wanted}. Received {named!r}.")
    ids = {str(place) for place in range(len(named))}
    if set(named) != ids:
        missing, unknown = sorted(ids - set(named), key=int), sorted(set(named) - ids)
        raise ConfigError(
            f"{wanted}. Of {len(named)} labels, {len(missing)} have another id, such as {unknown[0]!r}; the "
            f"id {missing[0]} is missing."
        )
    return _checked_names([named[str(place)] for place in range(len(named))], wanted)


def _checked_names(found: list[Any], wanted: str) -> list[str]:
    for place, name in enumerate(found):
        if not isinstance(name, str):
            raise ConfigError(f"{wanted}. Received {name!r} for {place}.")
    try:
        names = as_names(found)
    except DataError as error:
        raise ConfigError(f"{wanted}. {error}") from error
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ConfigError(f"{wanted}, all different. Received {repeated[0]!r} more than once.")
    return names
