"""The versions that are under a base path: listed, read, removed; `publishing` writes new ones.

A base path is a folder of this machine, or the URI of one in an object store. `files.version_listing` has the
rule of what a version is. In a store a version's card is written last, its graph just before it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ExportError, StorageError
from keras_selfattn.files.atomic import remove_dead_drafts, remove_directory
from keras_selfattn.files.object_stores import StoreFolder, uri_of
from keras_selfattn.files.store_calls import without_secrets
from keras_selfattn.files.version_files import (
    CARD,
    FORMATS,
    card_in,
    format_in,
    format_of,
    read_card,
    size_of,
)
from keras_selfattn.files.version_listing import LARGEST_VERSION, Listing, list_base_path, version_number


def list_versions(base_path: str | Path) -> list[int]:
    """Return the version numbers under a base path, in order; none if the path does not exist.

    A version is a folder whose name is a number from 0 and below 2**63. In an object store a version that is
    half uploaded, without its graph, is none.

    Example:

        >>> list_versions("no/such/path")
        []
    """
    return sorted(version_folders(base_path))


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
    listing, known = listing_of(base_path), list_versions(base_path)
    # What a killed upload left is no version, but can be removed.
    removable = listing.versions
    for version in versions:
        if version not in removable:
            raise ExportError(
                f"{_shown(base_path)} has no version {version!r}. It has: {_joined(known)}."
                f"{_why_none(listing, version)}"
            )
    for version in dict.fromkeys(versions):
        _remove(base_path, listing, version)


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
    listing = listing_of(base_path) if old else Listing()
    for version in old:
        _remove(base_path, listing, version)
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
    listing = listing_of(base_path)
    names = [*listing.folders, *(listing.files if uri_of(base_path) is None else ())]
    numbers = (version_number(name) for name in names)
    return 1 + max((each for each in numbers if each is not None and each < LARGEST_VERSION), default=0)


def formats_of(base_path: str | Path) -> set[str]:
    """Return the formats of the versions under a base path: "savedmodel", "onnx", "litert".

    Example:

        >>> formats_of("no/such/path")
        set()
    """
    uri, names = uri_of(base_path), version_folders(base_path).values()
    if uri is None:
        found = [format_of(Path(base_path, name)) for name in names]
    else:
        files = _stored_files(uri)
        found = [format_in(_below(name, files)) for name in names]
    return {name for name in found if name is not None}


def read_version(base_path: str | Path, name: str) -> tuple[dict[str, Any] | None, int]:
    """Return the card of a version's folder, or None, and the bytes of its other files."""
    uri, path = uri_of(base_path), Path(base_path, name)
    if uri is None:
        return read_card(path), size_of(path)
    with _errors_named():
        store = StoreFolder(uri)
        sizes = {file: found.size for file, found in store.files(name).items()}
        content = store.read(f"{name}/{CARD}", 0, sizes[CARD]) if CARD in sizes else b""
    return card_in(content), sum(sizes.values()) - sizes.get(CARD, 0)


def version_folders(base_path: str | Path) -> dict[int, str]:
    """Return the name of each version's folder by number; in a store, of those that have their graph.

    Example:

        >>> version_folders("no/such/path")
        {}
    """
    uri, versions = uri_of(base_path), listing_of(base_path).versions
    if uri is None or not versions:
        return versions
    files = _stored_files(uri)
    return {number: name for number, name in versions.items() if format_in(_below(name, files))}


def listing_of(base_path: str | Path) -> Listing:
    """Return the names under a base path, of half-uploaded versions too; none if it does not exist.

    Raises:
        ExportError: there is no such bucket, the store refuses, or it does not answer.
    """
    uri, base = uri_of(base_path), Path(base_path)
    if uri is None:
        return list_base_path(base) if base.is_dir() else Listing()
    with _errors_named():
        store = StoreFolder(uri)
        try:
            return list_base_path(store)
        except StorageError as error:
            if store.makes_folders and isinstance(error.__cause__, FileNotFoundError):
                return Listing()
            raise


def _stored_files(uri: str) -> list[str]:
    with _errors_named():
        return list(StoreFolder(uri).files())


def _below(name: str, files: list[str]) -> list[str]:
    """Return the files of a folder, relative to it."""
    return [file.removeprefix(f"{name}/") for file in files if file.startswith(f"{name}/")]


def _remove(base_path: str | Path, listing: Listing, version: int) -> None:
    """Remove all folders of a version's number: its own last, or an older one would take its place."""
    uri = uri_of(base_path)
    for name in listing.folders_of(version):
        try:
            if uri is None:
                remove_directory(Path(base_path, name))
            else:
                _remove_stored(StoreFolder(uri), name)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as error:
            raise ExportError(
                f"Version {version} of {_shown(base_path)} cannot be removed: {error}."
            ) from error


def _remove_stored(store: StoreFolder, version: str) -> None:
    """Remove a version's files: its graph first, so that no reader takes the rest for a version."""
    names = sorted(store.files(version), key=lambda name: name not in FORMATS)
    store.remove(f"{version}/{name}" for name in names)


def _why_none(listing: Listing, version: int) -> str:
    """Return a sentence on a folder or file that has the name of a version, and is none; or nothing."""
    if str(version) in listing.folders and version_number(str(version)) is None:
        return f" No server reads its folder {version}: a version is a number from 0 and below 2**63."
    return f" Its file {version} is none: a version is a folder." if str(version) in listing.files else ""


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
