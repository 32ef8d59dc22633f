"""Base paths, folders of this machine or URIs of object stores, and the versions that the server sees there.

TensorFlow is not needed.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from keras_selfattn.files.object_stores import StoreFolder
from keras_selfattn.files.store_calls import without_secrets

# An absolute folder of this machine, or a URI.
BasePath = Path | str

# Each file's path, size, and time or tag. They differ between two looks during a copy.
Look = frozenset[tuple[str, int, str]]


def is_stored(base: BasePath) -> bool:
    """Return True for a URI."""
    return isinstance(base, str)


def shown(base: BasePath) -> str:
    """Return a base path for a message: without secrets."""
    return without_secrets(base) if isinstance(base, str) else str(base)


def check_uri(uri: str) -> None:
    """Raise StorageError if no file system has this URI's scheme, or its package is missing."""
    StoreFolder(uri)


class Version(Protocol):
    """A version that may be loaded."""

    @property
    def place(self) -> str:
        """The place of its files: another one means another version, even of the same number."""
        ...

    def look(self) -> Look:
        """Return the current state of its files."""
        ...

    def settled(self, look: Look, before: Look | None, first: bool) -> bool:
        """Return True if its files do not change any more.

        Args:
            look: the current state.
            before: the previous state; None if there is none.
            first: True for the first look at the base path, which need not wait for a second one.
        """
        ...

    def missing(self, look: Look) -> str | None:
        """Return the file that it still lacks to be loaded, or None."""
        ...

    def local(self, look: Look) -> AbstractContextManager[Path]:
        """A folder of this machine with its files, for the time of a load.

        Raises:
            StorageError: they cannot be had now, or are damaged.
        """
        ...


class Versions(Protocol):
    """The versions under a base path."""

    def versions(self) -> dict[int, Version]:
        """Return the versions by number.

        Raises:
            StorageError: the place cannot be listed.
        """
        ...

    def is_version(self) -> bool:
        """Return True if the place is itself a version; after `versions` found none."""
        ...
