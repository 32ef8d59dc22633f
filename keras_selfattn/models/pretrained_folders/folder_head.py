"""The head of a folder's classifier of texts, or of scores: its outputs, and the settings of its layers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.cross_encoder import CrossEncoderMark, cross_encoder_mark
from keras_selfattn.models.pretrained_folders.family import Family, FamilyHead
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.rows.label_names import as_names
from keras_selfattn.rows.targets import LABEL_SET, NUMBERS, ONE_LABEL, TargetKind

_CLASSIFIER = "ForSequenceClassification"
_SEVERAL = "multi_label_classification"
_REGRESSION = "regression"
_PROBLEMS = (None, "single_label_classification", _SEVERAL, _REGRESSION)
# Without names, config.json alone says how many labels there are; a wrong number must not take all memory.
_MOST_UNNAMED = 100_000


@dataclass(frozen=True)
class FolderHead:
    """A head as the files of a folder describe it.

    Args:
        path: the folder, for messages.
        labels: label names in the order of their ids; of scores, too, where they count the outputs.
        target_kind: the kind of its targets, as that of a model's head: `NUMBERS` for scores.
        settings: fields of `FineTunedConfig`.
        mark: of a cross-encoder, whose rows are pairs of texts; None if no field says so.
        activation: of scores, "sigmoid" or "identity".
        reason: the field that says so, and its file.
    """

    path: str
    labels: list[str]
    target_kind: TargetKind
    settings: Mapping[str, Any]
    mark: CrossEncoderMark | None = None
    activation: str = ""
    reason: str = ""

    @property
    def bounded(self) -> bool:
        """True for scores in [0, 1]."""
        return self.activation == "sigmoid"

    def reads_pairs(self, asked: bool | None, *, symmetric: bool = False) -> bool:
        """Return True if a row is two texts.

        Args:
            asked: True or False as somebody says it, None for what the folder says. One with labels and
                without a mark reads one text.
            symmetric: True for both orders of a pair, which says it, too.

        Raises:
            ConfigError: if the folder contradicts it, and for scores if nobody says it.
        """
        if symmetric and asked is None:
            return True
        if self.mark is not None and asked is False:
            raise ConfigError(
                f"{self.path} holds a cross-encoder, whose rows are two texts ({self.mark.place}). Leave "
                "`text_pairs=False` (--one-text) out."
            )
        if self.mark is None and asked is None and self.target_kind == NUMBERS:
            raise ConfigError(
                f"The files of {self.path} do not say if its score is of one text or of two. Say it, with "
                f"`keras-selfattn import {self.path} --text-pairs` or --one-text; in Python with "
                "`text_pairs` of `TextRegressor.from_folder`."
            )
        return self.mark is not None if asked is None else asked


def is_classifier(folder: ModelFolder) -> bool:
    """Return True if a folder holds a classifier of texts.

    One with a pooling of sentence-transformers is an encoder, whatever model it was made from.
    """
    modules = [str(each.get("type", "")) for each in folder.modules()]
    pooled = any(each.rpartition(".")[2] == "Pooling" for each in modules)
    return _architecture(folder).endswith(_CLASSIFIER) and not pooled


def holds_scores(folder: ModelFolder) -> bool:
    """Return True if the outputs of a folder's classifier are numbers: a regression, or one output alone."""
    return folder.config.get("problem_type") == _REGRESSION or len(_labels(folder)) == 1


def read_head(folder: ModelFolder, family: Family) -> FolderHead:
    """Return the head of a folder's classifier, or of its scores.

    Raises:
        ConfigError: for a model without such a head, labels that are not names, and a function after the
            output layer that cannot be read.
    """
    if not is_classifier(folder):
        raise ConfigError(
            f"{folder.path} holds no classifier of texts: its model is {_architecture(folder) or 'unnamed'} "
            f"(architectures in config.json), not one {_CLASSIFIER}. Serve the vectors of an encoder with "
            "`keras-selfattn export` and `embed`, or train a classifier that begins with it, with "
            f"`keras-selfattn train TABLE --from {folder.path}`."
        )
    problem = folder.config.get("problem_type")
    if problem not in _PROBLEMS:
        known = ", ".join(each for each in _PROBLEMS if each is not None)
        raise ConfigError(
            f"{folder.path} has problem_type {problem!r} in config.json. Those that can be read are {known}."
        )
    labels, mark = _labels(folder), cross_encoder_mark(folder)
    settings = _settings(folder.config, family.head)
    if holds_scores(folder):
        activation, reason = _of_scores(folder, mark, len(labels))
        return FolderHead(str(folder.path), labels, NUMBERS, settings, mark, activation, reason)
    kind = LABEL_SET if problem == _SEVERAL else ONE_LABEL
    _check_classes(folder, kind, mark)
    return FolderHead(str(folder.path), labels, kind, settings, mark)


def _of_scores(folder: ModelFolder, mark: CrossEncoderMark | None, count: int) -> tuple[str, str]:
    """Return the function that follows the scores' logits, and the reason for it.

    Where no field names one, it is that of sentence-transformers and of the pipelines of transformers.
    """
    if mark is not None and mark.activation == "softmax":
        raise ConfigError(
            f"{folder.path}: {mark.place} is a softmax, but its outputs are scores. Scores with a sigmoid or "
            "without a function can be read."
        )
    if mark is not None and mark.activation is not None:
        return mark.activation, mark.place
    if mark is not None:
        chosen = "sigmoid" if count == 1 else "identity"
        return chosen, "sentence-transformers' default; no field names a function"
    if folder.config.get("problem_type") == _REGRESSION:
        return "identity", "`problem_type` of config.json"
    return "sigmoid", "the default of transformers' pipelines; no field names a function"


def _check_classes(folder: ModelFolder, kind: TargetKind, mark: CrossEncoderMark | None) -> None:
    """Raise ConfigError for a function of a cross-encoder that contradicts the probabilities of labels."""
    fitting = {None, "identity", "sigmoid" if kind == LABEL_SET else "softmax"}
    if mark is not None and mark.activation not in fitting:
        problem = folder.config.get("problem_type")
        raise ConfigError(
            f"{folder.path}: {mark.place} is a {mark.activation}, which does not fit the problem_type "
            f"{problem!r} of config.json: a sigmoid is of {_SEVERAL}, a softmax of all others."
        )


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
