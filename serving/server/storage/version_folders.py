"""Versions in a folder of this machine: list them, check if one is complete or still changing."""

import contextlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2  # pyright: ignore[reportMissingImports]

from keras_selfattn.errors import StorageError
from keras_selfattn.files.version_files import GRAPHS, PORTABLE, VARIABLES_INDEX
from keras_selfattn.files.version_listing import list_base_path

from ..tflite.tflite_servable import TFLITE_FILE
from .base_paths import Look, Version


class VersionFolders:
    """The versions in a folder: its children that have a number as their name.

    Args:
        base: the folder.
        prefer_tflite: True if a TFLite file is enough for a version.

    Example:
        VersionFolders(Path("/models/half")).versions()
    """

    def __init__(self, base: Path, prefer_tflite: bool = False):
        self._base = base
        self._prefer_tflite = prefer_tflite

    def versions(self) -> dict[int, Version]:
        """Return the versions by number.

        Raises:
            StorageError: the folder cannot be listed.
        """
        try:
            versions = list_base_path(self._base).versions
        except (OSError, ValueError) as error:  # ValueError for an impossible path
            # pathlib's methods raise if a path is too long, or a folder is not readable for this user.
            kind = "is a file, not a folder" if os.path.isfile(self._base) else "cannot be listed"
            kind = kind if os.path.exists(self._base) else "does not exist"
            raise StorageError(f"{self._base} {kind}") from error
        return {
            number: VersionFolder(self._base / name, self._prefer_tflite) for number, name in versions.items()
        }

    def is_version(self) -> bool:
        """Return True if the folder is itself a version."""
        return missing_file(self._base) is None


class VersionFolder:
    """A version's folder; see `Version`."""

    def __init__(self, path: Path, prefer_tflite: bool = False):
        self._path = path
        self._prefer_tflite = prefer_tflite

    @property
    def place(self) -> str:
        """The folder; resolved: a changed link leads to another version of the same number."""
        return str(self._path.resolve())

    def look(self) -> Look:
        """Return the path, size and time of each file."""
        files = []
        for file in self._path.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # moved during the look
                known = file.stat()
                files.append((str(file.relative_to(self._path)), known.st_size, str(known.st_mtime_ns)))
        return frozenset(files)

    def settled(self, look: Look, before: Look | None, first: bool) -> bool:
        """Return True if its files have stopped changing; those of the first look are taken as they are."""
        return first or look == before

    def missing(self, look: Look) -> str | None:
        """Return the file that it lacks, or None."""
        return missing_file(self._path, self._prefer_tflite)

    @contextmanager
    def local(self, look: Look) -> Iterator[Path]:
        """The folder."""
        yield self._path


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
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    if graph is None:
        return lacking_graph({name for name in PORTABLE.values() if (path / name).is_file()})
    if (path / VARIABLES_INDEX).is_file() or not has_variables(graph.name, graph.read_bytes()):
        return None
    return VARIABLES_INDEX


def lacking_graph(names: Collection[str]) -> str:
    """Return the name of the graph that a version lacks, and what to do with another runtime's file in it.

    Args:
        names: of its files.
    """
    if TFLITE_FILE in names:
        return f"{GRAPHS[0]}; --prefer_tflite_model takes its {TFLITE_FILE}"
    if PORTABLE["onnx"] in names:
        return f"{GRAPHS[0]}: its {PORTABLE['onnx']} is for ONNX Runtime; export the model without --format"
    return GRAPHS[0]


def has_variables(name: str, graph: bytes) -> bool:
    """Return True if a SavedModel restores variables: TensorFlow 1 writes none for a model without them.

    Args:
        name: the name of its file.
        graph: the content of this file.
    """
    if not name.endswith(".pb"):
        return True
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(graph)
    except DecodeError:  # half a file
        return True
    return any(meta_graph.saver_def.restore_op_name for meta_graph in saved_model.meta_graphs)
