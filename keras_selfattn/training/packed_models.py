"""Models on their way to another machine and back, which has none of the files that they start from."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saved_file import load_file

_FILES = (".json", ".txt", ".safetensors")


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
