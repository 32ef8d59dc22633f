"""Copies of untrained models: with changed settings here, and in parts on another machine and back.

Another machine has none of the files that a model starts from, so they travel with it.
"""

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.models.heads.probabilities import Mixture
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.saved_file import load_file

_FILES = (".json", ".txt", ".safetensors")


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


@dataclass(frozen=True)
class Packed:
    """An untrained model in parts: its class, config, and the files that it starts from."""

    kind: type[RawModel]
    config: dict[str, Any]
    files: dict[str, bytes]

    @contextmanager
    def unpacked(self) -> Iterator[RawModel]:
        """Yield the model, whose files are there until the end of the block."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            start = self.config.get("start")
            place = {} if start is None else {"start": str(Path(folder, Path(start).name))}
            yield self.kind.from_config({**self.config, **place})


def packed(model: RawModel) -> Packed:
    """Return an untrained model in parts that a machine without its files can put together."""
    config = model.get_config()
    start = config.get("start")
    return Packed(type(model), config, {} if start is None else _files(Path(start)))


def _files(start: Path) -> dict[str, bytes]:
    """Return the files that a model starts from, by their path from the folder around `start`."""
    if holds_pretrained(start):
        found = [each for each in sorted(start.rglob("*")) if each.suffix in _FILES and each.is_file()]
    else:
        found = [start if start.is_file() else start / "model.keras"]
    return {os.path.relpath(each, start.parent): each.read_bytes() for each in found}


def bytes_of(model: RawModel) -> bytes:
    """Return a trained model as the bytes of a `.keras` file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        return path.read_bytes()


def loaded(content: bytes, given: Any) -> Any:
    """Return a trained model from its bytes; `given` is the model that it was a copy of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        path.write_bytes(content)
        model: Any = load_file(path)
    if hasattr(given, "start"):
        model.start = given.start  # for the record of the run
    return model
