"""The versions under a base path: folders named by an integer, as TensorFlow Serving reads them.

A base path is a folder of this machine, or the URI of one in an object store.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ExportError, StorageError
from keras_selfattn.files.atomic import remove_dead_drafts, remove_directory
from keras_selfattn.files.object_stores import uri_of
from keras_selfattn.files.store_calls import without_secrets
from keras_selfattn.files.version_files import card_in, format_of, read_card, size_of

from . import stored_versions

MOST = 2**63 - 1  # TensorFlow Serving's versions have 64 bits


def list_versions(base_path: str | Path) -> list[int]:
    """Return the version numbers under a base path, in order; none if the path does not exist.

    In an object store a version that is half uploaded, without its graph, is none.

    Example:

        >>> list_versions("no/such/path")
        []
    """
    uri = uri_of(base_path)
    if uri is None:
        base = Path(base_path)
        names = [child.name for child in base.iterdir() if child.is_dir()] if base.is_dir() else []
    else:
        names = _stored_names(uri, stored_versions.whole_names)
    return sorted(int(name) for name in names if _is_number(name))


def latest_version(base_path: str | Path) -> int | None:
    """Return the highest version number under a base path, or None if there is none.

    Example:

        >>> latest_version("no/such/path") is None
        True
    """
    return max(list_versions(base_path), default=None)


def remove_versions(base_path: str | Path, *versions: int) -> None:
    """Remove versions; a reader sees each of them whole or not at all.

    Args:
        base_path: the folder of all versions.
        versions: their numbers.

    Raises:
        ExportError: if there is no such version, before any is removed, or if one cannot be removed.

    Example:

        >>> import tempfile
        >>> base = Path(tempfile.mkdtemp())
        >>> (base / "1").mkdir(), (base / "2").mkdir()
        (None, None)
        >>> remove_versions(base, 1)
        >>> list_versions(base)
        [2]
    """
    known = removable = list_versions(base_path)
    uri = uri_of(base_path)
    if uri is not None:
        # What a killed upload left is no version, but can be removed.
        names = _stored_names(uri, stored_versions.folder_names)
        removable = [int(name) for name in names if _is_number(name)]
    for version in versions:
        if version not in removable:
            raise ExportError(f"{_shown(base_path)} has no version {version!r}. It has: {_joined(known)}.")
    for version in dict.fromkeys(versions):
        _remove(base_path, version)


def keep_newest(base_path: str | Path, count: int, always: int | None = None) -> list[int]:
    """Remove all versions but the `count` highest, and return the numbers of those removed.

    Args:
        base_path: the folder of all versions.
        count: the number of versions to keep.
        always: a version to keep even if it is not among them.

    Raises:
        ExportError: if `count` is not a positive integer, or a version cannot be removed.

    Example:

        >>> keep_newest("no/such/path", 3)
        []
    """
    check_keep(count)
    old = [version for version in list_versions(base_path)[:-count] if version != always]
    for version in old:
        _remove(base_path, version)
    return old


def check_keep(count: int | None) -> None:
    """Raise ExportError if `count` is neither None nor a positive integer."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ExportError(f"`keep` must be a positive integer or None. Received {count!r}.")


def clean(base_path: str | Path) -> None:
    """Remove the hidden folders of killed exports under a base path."""
    if uri_of(base_path) is None and Path(base_path).is_dir():
        remove_dead_drafts(Path(base_path), r"[0-9]+")


def next_version(base_path: str | Path) -> int:
    """Return a number above every name in a base path, files included.

    Example:

        >>> next_version("no/such/path")
        1
    """
    uri, base = uri_of(base_path), Path(base_path)
    if uri is not None:
        names = _stored_names(uri, stored_versions.folder_names)
    else:
        names = [child.name for child in base.iterdir()] if base.is_dir() else []
    numbers = (int(name) for name in names if name.isascii() and name.isdigit())
    return 1 + max((number for number in numbers if number < MOST), default=0)


def formats_of(base_path: str | Path) -> set[str]:
    """Return the formats of the versions under a base path: "savedmodel", "onnx", "litert".

    Example:

        >>> formats_of("no/such/path")
        set()
    """
    uri = uri_of(base_path)
    if uri is None:
        folders = [Path(base_path, str(number)) for number in list_versions(base_path)]
        found = [format_of(folder) for folder in folders]
    else:
        with _errors_named():
            found = stored_versions.formats(uri)
    return {name for name in found if name is not None}


def _is_number(name: str) -> bool:
    # Not "007": a server would read it as 7, and there might be one.
    return name.isascii() and name.isdigit() and name == str(int(name))


def read_version(base_path: str | Path, version: int) -> tuple[dict[str, Any] | None, int]:
    """Return a version's card, or None, and the bytes of its other files."""
    uri, path = uri_of(base_path), Path(base_path, str(version))
    if uri is None:
        return read_card(path), size_of(path)
    with _errors_named():
        content, size = stored_versions.read_stored(uri, version)
    return card_in(content), size


def _stored_names(uri: str, names: Callable[[str], list[str]]) -> list[str]:
    with _errors_named():
        return names(uri)


def _remove(base_path: str | Path, version: int) -> None:
    uri, path = uri_of(base_path), Path(base_path, str(version))
    try:
        if uri is None:
            remove_directory(path)
        else:
            stored_versions.remove(uri, version)
    except FileNotFoundError:
        pass  # another process was faster
    except OSError as error:
        raise ExportError(f"Version {version} of {_shown(base_path)} cannot be removed: {error}.") from error


@contextmanager
def _errors_named() -> Iterator[None]:
    """Raise errors of an object store as ExportError."""
    try:
        yield
    except StorageError as error:
        raise ExportError(f"{error}.") from error


def _shown(base_path: str | Path) -> str:
    return without_secrets(uri_of(base_path) or base_path)


def _joined(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
