"""The files of an exported version: its model card, and the digest that the card has of all others.

Exports write them; the server reads them. TensorFlow and Keras are not needed.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CARD = "assets.extra/model_card.json"
GRAPHS = ("saved_model.pb", "saved_model.pbtxt")
PORTABLE = {"onnx": "model.onnx", "litert": "model.tflite"}
"""The file of a version for another runtime, by its format."""
FORMATS = {**dict.fromkeys(GRAPHS, "savedmodel"), **{file: name for name, file in PORTABLE.items()}}
"""The format of a version by the file that holds its graph."""
VARIABLES_INDEX = "variables/variables.index"


def format_in(files: Iterable[str]) -> str | None:
    """Return the format of a version with files of these names: "savedmodel", "onnx", "litert", or None.

    Example:

        >>> format_in(["assets.extra/model_card.json", "model.onnx"])
        'onnx'
    """
    names = set(files)
    return next((name for file, name in FORMATS.items() if file in names), None)


def format_of(folder: Path) -> str | None:
    """Return the format of the version in a folder, or None if there is no graph.

    Example:

        >>> format_of(Path("no/such/folder")) is None
        True
    """
    return format_in(file for file in FORMATS if (folder / file).is_file())


def read_card(folder: str | Path) -> dict[str, Any] | None:
    """Return the card of a SavedModel's folder, or None if it has none that can be read.

    Example:

        >>> read_card(Path("no/such/folder")) is None
        True
    """
    try:
        return card_in(Path(folder, CARD).read_bytes())
    except OSError:
        return None


def card_in(content: bytes) -> dict[str, Any] | None:
    """Return the card in a file's content, or None if it is none."""
    try:
        card = json.loads(content)
    except (ValueError, RecursionError):
        return None
    # Other tools may write files of this name; ours have these keys.
    files = card.get("files") if isinstance(card, dict) and "format" in card else None
    ours = (
        isinstance(files, dict) and isinstance(files.get("digest"), str) and type(files.get("bytes")) is int
    )
    return card if ours else None


def digest(folder: Path) -> str:
    """Return the SHA-256 of names, sizes and contents of all files but the card, as "sha256:…"."""
    whole = hashlib.sha256()
    for path in _files(folder):
        name = path.relative_to(folder).as_posix().encode()
        whole.update(b"%d:%s%d:" % (len(name), name, path.stat().st_size))
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{whole.hexdigest()}"


def size_of(folder: Path) -> int:
    """Return the bytes of all files but the card."""
    return sum(path.stat().st_size for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CARD)
