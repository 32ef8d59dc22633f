"""The versions under a base path, wherever it is."""

from collections.abc import Callable
from pathlib import Path

from keras_selfattn.errors import StorageError

from ..config import ServerConfig
from .base_path import BasePath, shown
from .version_folders import VersionFolders
from .versions import Versions

_CACHE = "~/.cache/keras-selfattn/models"


def versions_at(base: BasePath, config: ServerConfig, stopping: Callable[[], bool]) -> Versions:
    """Return the versions under a base path.

    Args:
        base: the base path.
        config: has the cache of object stores.
        stopping: returns True when waiting calls to a store shall end.

    Raises:
        StorageError: this machine cannot read such stores.
    """
    if isinstance(base, Path):
        return VersionFolders(base, config.prefer_tflite_model)
    try:
        from .model_cache import ModelCache
        from .stored_versions import StoredVersions
    except ImportError as error:  # file locks, which Windows lacks
        raise StorageError(f"{shown(base)} needs file locks, which this system lacks: {error}") from error
    try:
        folder = Path(str(config.model_cache_path) or _CACHE).expanduser()
    except RuntimeError as error:  # no home
        raise StorageError(f"model_cache_path must be a folder: {error}") from error
    cache = ModelCache(folder.absolute(), config.model_cache_max_bytes)
    return StoredVersions(base, cache, config.prefer_tflite_model, stopping)
