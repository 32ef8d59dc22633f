"""Untrained copies of models with changed settings, and the parts that trainings treat differently."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_selfattn.models.heads.probabilities import Mixture
from keras_selfattn.models.raw_model import RawModel


def copy_of(model: RawModel, changes: Mapping[str, Any]) -> RawModel:
    """Return an untrained model of the same kind, with changed fields of its config."""
    config = changed(model.config, changes).to_dict()
    return type(model).from_config({**model.get_config(), "config": config})


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """Return a config with the changes that are for its fields."""
    fields = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{name: value for name, value in changes.items() if name in fields})


def members_of(model: RawModel) -> int:
    """Return the number of encoders of a model."""
    return getattr(model.config, "members", 1)


def has_two_paths(model: Any) -> bool:
    """Return True if a model has another path beside attention; training steps change attention only."""
    # A part of a model, which is trained on pairs, has no core.
    return any(isinstance(layer, Mixture) for layer in getattr(model, "core", model).layers)


def named_history(model: RawModel, history: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the values of each epoch under clear names.

    If a model has two paths, training loss and accuracy are of attention alone, so their names begin with
    "attention_"; validation loss and accuracy are of both paths.
    """
    if not has_two_paths(model):
        return dict(history)
    return {
        name if name.startswith("val_") or name == "learning_rate" else f"attention_{name}": values
        for name, values in history.items()
    }
