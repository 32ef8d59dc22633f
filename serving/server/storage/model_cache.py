"""Versions fetched from object stores, on this machine's disk; shared by processes.

Each entry is a folder that appears whole and is never changed. One process fetches it while others wait. When
all entries together are too large, those that were not loaded for the longest time are removed, but none that
is being loaded.
"""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_selfattn.errors import StorageError
from keras_selfattn.files.atomic import new_directory, remove_dead_drafts, remove_directory

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
# A disk that is full may be emptied.
_MAY_PASS = (errno.ENOSPC, errno.EDQUOT)
_ENTRY = r"[\w-][\w.-]*-[0-9a-f]{16}"
_LONGEST_LABEL = 80


class ModelCache:
    """A folder of fetched versions.

    Args:
        folder: it is created, for this user alone, when the first version is fetched.
        most_bytes: entries are removed after a load while all have more bytes; 0 keeps none.

    Example:
        cache = ModelCache(Path("~/.cache/models").expanduser(), 2**34)
        with cache.entry("half-1", ["s3://bucket/half/1"], 4096, fetch=download_into) as path:
            load(path)
    """

    def __init__(self, folder: Path, most_bytes: int):
        self._folder = folder
        self._most = most_bytes

    @contextmanager
    def entry(
        self,
        label: str,
        key: Iterable[str],
        size: int,
        fetch: Callable[[Path], None],
        stopping: Callable[[], bool] = lambda: False,
    ) -> Iterator[Path]:
        """The folder of an entry, which stays at least until the block ends.

        Args:
            label: a readable part of its name.
            key: everything that its content depends on.
            size: the bytes of its content.
            fetch: writes the content into an empty folder; the entry appears when it returns.
            stopping: returns True when waiting for another process shall end.

        Raises:
            StorageError: the cache cannot be written, or `fetch` raised it.
        """
        path = self._folder / _name(label, key)
        try:
            with contextlib.ExitStack() as stack:
                with _errors_named(self._folder):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    while (lock := _lock_entry(path)) is None:
                        self._fetch(path, size, fetch, stopping)
                    stack.callback(os.close, lock)
                    os.utime(path)  # the time of its last use
                yield path
        finally:
            with contextlib.suppress(OSError):  # of another process that removes, too
                self._remove_oldest()

    def _fetch(
        self, path: Path, size: int, fetch: Callable[[Path], None], stopping: Callable[[], bool]
    ) -> None:
        """Make an entry appear, by this process or by another one."""
        if stopping():
            raise StorageError("stopped before it was fetched", may_pass=True)
        lock = _lock(_lock_file(path), fcntl.LOCK_EX)
        if lock is None:
            time.sleep(_LOOK_SECONDS)
            return
        try:
            if not path.is_dir():
                remove_dead_drafts(self._folder, _ENTRY)
                free = shutil.disk_usage(self._folder).free
                if free < size:
                    raise OSError(
                        errno.ENOSPC, f"{size / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} are free"
                    )
                with new_directory(path) as draft:
                    fetch(draft)
        finally:
            os.close(lock)

    def _remove_oldest(self) -> None:
        """Remove entries that no process uses, the oldest first, until the rest is small enough."""
        entries = [child for child in self._folder.iterdir() if re.fullmatch(_ENTRY, child.name)]
        sizes = {entry: _bytes_of(entry) for entry in entries}
        total = sum(sizes.values())
        for entry in sorted(entries, key=_last_use):
            if total <= self._most:
                return
            if _removed(entry):
                total -= sizes[entry]
                _log.info("removed %s from the cache of models", entry.name)


def _name(label: str, key: Iterable[str]) -> str:
    whole = hashlib.sha256("\n".join(key).encode()).hexdigest()
    # TensorFlow reads brackets in a path as patterns.
    return f"{re.sub(r'[^A-Za-z0-9_]+', '-', label)[-_LONGEST_LABEL:] or 'model'}-{whole[:16]}"


def _lock_file(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.lock")


def _lock_entry(path: Path) -> int | None:
    """Keep an entry from being removed, and return the descriptor that does; None if there is no entry."""
    if not path.is_dir():
        return None
    lock = _lock(_lock_file(path), fcntl.LOCK_SH)
    if lock is not None and not path.is_dir():  # removed in between
        os.close(lock)
        return None
    return lock


def _lock(file: Path, how: int) -> int | None:
    """Lock a file, and return its descriptor; None if another process has it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        # Whoever removes the entry removes the file as well: then another file has this name, or none.
        if os.fstat(descriptor).st_ino == file.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _removed(entry: Path) -> bool:
    """Remove an entry and its lock file, unless a process uses it. Return True if it is gone."""
    file = _lock_file(entry)
    descriptor = _lock(file, fcntl.LOCK_EX)
    if descriptor is None:
        return False
    try:
        with contextlib.suppress(FileNotFoundError):
            remove_directory(entry)
        file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return 0.0


def _bytes_of(entry: Path) -> int:
    total = 0
    for file in entry.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.lstat().st_size
    return total


@contextmanager
def _errors_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:  # a full disk, a folder of another user
        may_pass = error.errno in _MAY_PASS
        raise StorageError(
            f"model_cache_path {folder} cannot be written: {error}", may_pass=may_pass
        ) from error
