"""Versions on disk: list them, and check if one is complete or still changing."""

import contextlib
import re
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2  # pyright: ignore[reportMissingImports]

from ..tflite.tflite_servable import TFLITE_FILE

_LARGEST = 2**63 - 1  # the largest number that a request can name
_GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")

# Each file's path, size and time. They differ between two looks during a copy.
Look = frozenset[tuple[str, int, int]]


def versions_in(base: Path) -> dict[int, Path] | None:
    """The folders in `base` with a number as their name; None if `base` cannot be listed."""
    try:
        children = list(base.iterdir())
    except (OSError, ValueError):  # ValueError for an impossible path
        return None
    numbered = [child for child in children if re.fullmatch("[0-9]{1,99}", child.name) and child.is_dir()]
    versions = {int(child.name): child for child in sorted(numbered)}
    return {number: path for number, path in versions.items() if number <= _LARGEST}


def look_at(path: Path) -> Look:
    """Return the current state of the files in a version's folder."""
    files = []
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # moved during the look
            known = file.stat()
            files.append((str(file.relative_to(path)), known.st_size, known.st_mtime_ns))
    return frozenset(files)


def missing_file(path: Path, prefer_tflite: bool = False) -> str | None:
    """Return the file that a version's folder still lacks to be loaded, or None.

    Args:
        path: the version's folder.
        prefer_tflite: True if a TFLite file is enough.

    Returns:
        The name of the missing file. A folder that is still being copied lacks its graph or the index of its
        variables, and TensorFlow would load a version without the index silently.
    """
    if prefer_tflite and (path / TFLITE_FILE).is_file():
        return None
    graph = next((path / name for name in _GRAPH_FILES if (path / name).is_file()), None)
    if graph is None:
        is_tflite = (path / TFLITE_FILE).is_file()
        return (
            f"{_GRAPH_FILES[0]}; --prefer_tflite_model takes its {TFLITE_FILE}"
            if is_tflite
            else _GRAPH_FILES[0]
        )
    if (path / "variables" / "variables.index").is_file() or not _has_variables(graph):
        return None
    return "variables/variables.index"


def _has_variables(graph: Path) -> bool:
    """Return True if a SavedModel restores variables: TensorFlow 1 writes none for a model without them."""
    if graph.suffix != ".pb":
        return True
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(graph.read_bytes())
    except DecodeError:  # half a file
        return True
    return any(meta_graph.saver_def.restore_op_name for meta_graph in saved_model.meta_graphs)
