"""Base paths: folders of this machine, and URIs of object stores. TensorFlow is not needed."""

from pathlib import Path

from keras_selfattn.files.object_stores import StoreFolder
from keras_selfattn.files.store_calls import without_secrets

# An absolute folder of this machine, or a URI.
BasePath = Path | str


def is_stored(base: BasePath) -> bool:
    """Return True for a URI."""
    return isinstance(base, str)


def shown(base: BasePath) -> str:
    """Return a base path for a message: without secrets."""
    return without_secrets(base) if isinstance(base, str) else str(base)


def check_uri(uri: str) -> None:
    """Raise StorageError if no file system has this URI's scheme, or its package is missing."""
    StoreFolder(uri)
