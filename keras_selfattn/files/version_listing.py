"""The versions under a base path, as exports and the server see them: one rule, for folders and for stores.

The rule is TensorFlow Serving's: a name is a version if it is a number of 64 bits, not negative, with leading
zeros or without. Where two names are one number, as "007" and "7" are, the last in the order of names counts.

Two things of TensorFlow Serving are left out. It takes a file of such a name, too, fails to load it, and
serves nothing; here a version is a folder, or a link to one. And it reads "+3" and " 3" as 3, names that
nobody writes.

Reference: ParseVersionNumber (absl::SimpleAtoi) and IndexChildrenByVersion in TensorFlow Serving's
sources/storage_path/file_system_storage_path_source.cc; core/servable_id.h.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_selfattn.files.object_stores import StoreFolder

LARGEST_VERSION = 2**63 - 1
_MOST_DIGITS = len(str(LARGEST_VERSION))


def version_number(name: str) -> int | None:
    """Return the number of a version's folder, or None for a name that is no version.

    Example:

        >>> [version_number(name) for name in ("7", "007", "0", "-1", "1.5", "best", str(2**63))]
        [7, 7, 0, None, None, None, None]
    """
    if not (name.isascii() and name.isdigit()) or len(name.lstrip("0")) > _MOST_DIGITS:
        return None
    number = int(name.lstrip("0") or "0")
    return number if number <= LARGEST_VERSION else None


@dataclass(frozen=True)
class Listing:
    """The names in a base path.

    Args:
        folders: of folders, and of links to folders.
        files: of all else.

    Example:

        >>> Listing(["7", "007", "best"], ["8"]).versions
        {7: '7'}
    """

    folders: Sequence[str] = ()
    files: Sequence[str] = ()

    @property
    def versions(self) -> dict[int, str]:
        """The name of each version's folder, by its number."""
        numbers = {name: version_number(name) for name in sorted(self.folders)}
        return {number: name for name, number in numbers.items() if number is not None}

    def folders_of(self, version: int) -> list[str]:
        """Return all names of a version's number: the last of them is its folder."""
        return [name for name in sorted(self.folders) if version_number(name) == version]


def list_base_path(base: Path | StoreFolder) -> Listing:
    """Return the names in a base path: a folder of this machine, or of an object store.

    Raises:
        OSError, ValueError: a folder of this machine cannot be listed, or its path is impossible.
        StorageError: a store cannot be listed.
    """
    if isinstance(base, StoreFolder):
        return Listing(*base.children())
    names: tuple[list[str], list[str]] = [], []
    for child in base.iterdir():
        names[not child.is_dir()].append(child.name)
    return Listing(*names)
