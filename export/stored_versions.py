"""The versions in a folder of an object store. A version's card is written last, its graph just before it."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_selfattn.errors import StorageError
from keras_selfattn.files.object_stores import StoreFolder
from keras_selfattn.files.version_files import CARD, FORMATS, format_in

_log = logging.getLogger(__name__)


def folder_names(uri: str) -> list[str]:
    """Return the names of the folders in a folder, of half-uploaded versions too; none if it does not exist.

    Raises:
        StorageError: there is no such bucket, the store refuses, or it does not answer.
    """
    store = StoreFolder(uri)
    try:
        return store.children()[0]
    except StorageError as error:
        if store.makes_folders and isinstance(error.__cause__, FileNotFoundError):
            return []
        raise


def whole_names(uri: str) -> list[str]:
    """Return the names of the folders that hold a graph, before which all else but the card is written.

    Raises:
        StorageError: as `folder_names`.
    """
    names = folder_names(uri)
    files = StoreFolder(uri).files() if names else {}
    return [name for name in names if any(f"{name}/{graph}" in files for graph in FORMATS)]


def formats(uri: str) -> list[str]:
    """Return the format of each version in a folder.

    Raises:
        StorageError: as `folder_names`.
    """
    names = folder_names(uri)
    files = StoreFolder(uri).files() if names else {}
    found = []
    for name in names:
        inner = [file.removeprefix(f"{name}/") for file in files if file.startswith(f"{name}/")]
        found.append(format_in(inner))
    return [each for each in found if each is not None]


def upload(folder: Path, uri: str, numbers: Iterator[int]) -> str:
    """Write a version's files as the first of `numbers` that is free, and return its URI.

    Where the store can refuse to replace an object, as S3, GCS and Azure can, two uploads never get the same
    number. A reader that does not wait for the card may see a version whose files are not all there.

    Raises:
        FileExistsError: none is free.
        StorageError: the store refuses, or does not answer; what was written is removed, but for a first
            object of which that is not known.
    """
    store = StoreFolder(uri)
    first, *rest = _in_order(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    for number in numbers:
        written: list[str] = []
        try:
            for name in (first, *rest):
                written.append(f"{number}/{name}")
                store.write(written[-1], folder / name, new=name == first)
        except FileExistsError:
            continue
        except BaseException:
            try:
                # A first write that failed has claimed nothing: the object may be another upload's.
                store.remove(written if len(written) > 1 else [])
            except StorageError as error:
                _log.warning("what was written to %s/%s is left there: %s", store.shown, number, error)
            raise
        return f"{uri}/{number}"
    raise FileExistsError(f"{uri} has this version already")


def remove(uri: str, version: int) -> None:
    """Remove a version: its graph first, so that no reader takes the rest for a version."""
    store = StoreFolder(uri)
    names = sorted(store.files(str(version)), key=lambda name: name not in FORMATS)
    store.remove(f"{version}/{name}" for name in names)


def read_stored(uri: str, version: int) -> tuple[bytes, int]:
    """Return the content of a version's card, empty without one, and the bytes of its other files."""
    store = StoreFolder(uri)
    sizes = {name: file.size for name, file in store.files(str(version)).items()}
    card = store.read(f"{version}/{CARD}", 0, sizes[CARD]) if CARD in sizes else b""
    return card, sum(sizes.values()) - sizes.get(CARD, 0)


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names of files in the order in which they are written."""
    return sorted(names, key=lambda name: (name == CARD, name in FORMATS, name))
