"""The record in a file of weights: the words, labels and settings that give the weights their meaning.

Weights alone fit any model of their shapes. With other words or labels of the same number, or with another
number of heads, they would give other answers without an error.
"""

import hashlib
import json
import math
import zipfile
from collections.abc import Callable, Collection, Mapping
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.user_warnings import warn_user

# The name of the record beside a model's own variables, as UTF-8 of JSON, uint8.
_NAME = "learned"
# Of a model's config: what says nothing of the weights, or is in them.
_ASIDE = frozenset({"name", "trainable", "dtype", "start", "quantized", "split_otherwise"})
# Longer lists and texts are recorded by their digest, so that a file of weights stays small.
_LONGEST = 1000
# Statistics of the same rows differ by less on other machines.
_ROUNDING = 1e-6


def record_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a model from what its `get_config` returns, as JSON types."""
    found = {name: value for name, value in config.items() if name not in _ASIDE}
    # Two ways to say the same.
    if "labels" in found and "multi_label" in found:
        found["multi_label"] = bool(found["multi_label"])
    if found.get("spans") is True:  # as in files of earlier versions
        found["spans"] = "IOB2"
    config = found.get("config", {})
    if config.get("feed_forward_dim", 0) is None:
        found["config"] = {**config, "feed_forward_dim": 4 * config["width"]}
    # Settings of a subclass of the user's may be of any type.
    return json.loads(json.dumps(_shortened(found), default=lambda value: type(value).__name__))


def write(store: Any, record: Mapping[str, Any]) -> None:
    """Add a record to Keras' store of a model's own variables."""
    store[_NAME] = np.frombuffer(json.dumps(record).encode(), np.uint8)


def read(store: Any) -> dict[str, Any] | None:
    """Return the record in Keras' store of a model's own variables, if there is one."""
    return json.loads(np.asarray(store[_NAME]).tobytes()) if _NAME in store else None


def without_record(store: Any) -> dict[str, Any]:
    """Return the variables in Keras' store."""
    return {name: store[name] for name in store.keys() if name != _NAME}  # noqa: SIM118  Keras' store is no dict


def check_file(path: Any, own: Mapping[str, Any], free: Collection[str]) -> bool:
    """Check that a file's weights belong to a model, before any of them is changed.

    Returns:
        False for a file without a record, of which nothing can be said.

    Args:
        path: the file that `keras.Model.load_weights` is to read.
        own: the record of the model.
        free: fields of the model's settings that have no effect on its answers.

    Raises:
        ConfigError: if they do not.
    """
    found = _record_in(str(path))
    if found is not None:
        check(found, own, free, str(path))
    return found is not None


def warn_of_no_record(path: Any) -> None:
    """Warn that weights were loaded from a file without a record."""
    warn_user(
        f"{path} does not say of which words, labels and settings its weights are, as files of earlier "
        "versions do not. They are loaded, but it could not be checked that they belong to this model."
    )


def check(found: Mapping[str, Any], own: Mapping[str, Any], free: Collection[str], where: str) -> None:
    """Raise ConfigError if a record is of another model than `own`; `where` names its file."""
    # Models of earlier versions read one text. A pretrained encoder has the same layers for two.
    found = {"text_pairs": False, **found}
    differing = _differences(
        "", {**found, "config": _bound(found, free)}, {**own, "config": _bound(own, free)}
    )
    if differing:
        raise ConfigError(
            f"{where} has weights that do not belong to what this model has learned: {'; '.join(differing)}. "
            "Its answers would be wrong. Load the whole model, its .keras file, with `models.load`; or make "
            "this one with the same settings and `adapt` it on the same rows. `skip_mismatch=True` loads the "
            "weights nevertheless, with a warning."
        )


class Refusal:
    """The refusal of weights that are being loaded, and are not the model's.

    A model that is a part of another is visited by Keras once for each name that it has there, and with an
    empty store from the second visit on. A refusal must last till then, because a visit without an error
    would count as loaded.
    """

    def __init__(self) -> None:
        self._error: ConfigError | None = None

    def check(self, store: Any, own: Mapping[str, Any] | None, free: Collection[str]) -> None:
        """Raise ConfigError if the record in Keras' store is of another model, or that of a visit before was.

        Args:
            store: Keras' store of the model's own variables.
            own: the record of the model; None before it has learned from rows.
            free: as for `check_file`.
        """
        found = read(store)
        if found is None:
            if self._error is not None:
                raise self._error
        elif own is not None:
            self._error = None
            try:
                check(found, own, free, "The file")
            except ConfigError as error:
                self._error = error
                raise


def _bound(record: Mapping[str, Any], free: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in dict(record.get("config", {})).items() if name not in free}


def _record_in(path: str) -> dict[str, Any] | None:
    """Return the record in a file that Keras reads; of an older `.keras` file, from its config."""
    if not path.endswith((".weights.h5", ".weights.json", ".keras")):
        return None
    found: list[dict[str, Any] | None] = []
    _Reader(found.append).load_weights(path)
    if found == [None] and path.endswith(".keras"):
        with zipfile.ZipFile(path) as file:
            return record_of(_without_tuples(json.loads(file.read("config.json")).get("config", {})))
    return found[0]


class _Reader(keras.Model):
    """A model without weights, with which Keras finds the record in any of its files of weights.

    Args:
        keep: called with the record, or None.
    """

    def __init__(self, keep: Callable[[dict[str, Any] | None], None]) -> None:
        super().__init__(name="reader")
        self.built, self._keep = True, keep

    def load_own_variables(self, store: Any) -> None:
        self._keep(read(store))


def _without_tuples(value: Any) -> Any:
    """Return a value of Keras' JSON with lists for tuples, which are dicts there."""
    if isinstance(value, list):
        return [_without_tuples(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "__tuple__":
        return _without_tuples(value["config"])
    return {name: _without_tuples(each) for name, each in value.items()}


def _shortened(value: Any) -> Any:
    """Return a value with the digests of long lists and texts in it."""
    if isinstance(value, Mapping):
        return {str(name): _shortened(each) for name, each in value.items()}
    if isinstance(value, list | tuple | str) and len(value) > _LONGEST:
        content = json.dumps(value, default=str).encode()
        return {"sha256": hashlib.sha256(content).hexdigest(), "length": len(value)}
    return [_shortened(each) for each in value] if isinstance(value, list | tuple) else value


def _differences(name: str, found: Any, own: Any) -> list[str]:
    """Return a line about each part that two records have in common, and that differs."""
    if isinstance(found, dict) and isinstance(own, dict) and "sha256" not in {*found, *own}:
        # A part that one of them lacks is of another version, or of another kind of model, which has other
        # layers.
        shared = [part for part in own if part in found]
        return [line for part in shared for line in _differences(_joined(name, part), found[part], own[part])]
    if _equal(found, own):
        return []
    if isinstance(found, list) and isinstance(own, list):
        for index, (one, other) in enumerate(zip(found, own, strict=False)):
            if not _equal(one, other):
                return [f"`{name}` has {one!r:.80} at index {index} in the file and {other!r:.80} here"]
    lengths = [_length(value) for value in (found, own)]
    if None not in lengths:
        others = "others of " if lengths[0] == lengths[1] else ""
        return [f"`{name}` has {lengths[0]:,} entries in the file and {others}{lengths[1]:,} here"]
    return [f"`{name}` is {found!r:.80} in the file and {own!r:.80} here"]


def _joined(name: str, part: str) -> str:
    """Return the name of a part: of the settings, which have their own names, and of anything else."""
    return part if name in ("", "config") else f"{name}.{part}"


def _length(value: Any) -> int | None:
    if isinstance(value, dict):
        return value.get("length")
    return len(value) if isinstance(value, list) else None


def _equal(found: Any, own: Any) -> bool:
    """Return True for equal values, and for numbers that differ by rounding."""
    if isinstance(found, list) and isinstance(own, list):
        return len(found) == len(own) and all(map(_equal, found, own))
    if isinstance(found, float) and isinstance(own, float):
        return math.isclose(found, own, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return found == own
