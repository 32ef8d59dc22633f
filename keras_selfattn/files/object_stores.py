"""Folders of object stores and other remote file systems, by URI: list, read, write and remove.

fsspec speaks to them: `s3://`, `gs://`, `abfs://` and many more. Credentials and endpoints come from where
the store's own tools look for them (environment, files, instance metadata), and are in no message. Every call
has a deadline.

Reference: https://filesystem-spec.readthedocs.io.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.errors import StorageError
from keras_selfattn.files.store_calls import StoreCalls

# A scheme has at least two letters: one letter is a Windows drive.
_URI = re.compile(r"(?!file:)([A-Za-z][\w+.-]+):/+(.*)", re.DOTALL)
# Fields of a listing that change with an object's content; stores have some of them.
_TAGS = ("ETag", "etag", "generation", "md5Hash", "mtime", "LastModified", "last_modified", "created")

_PIECE_SECONDS = 60.0
# The slowest upload to wait for.
_SLOWEST_BYTES_PER_SECOND = 2**18
# A fetch reads so many bytes at a time, and so many pieces at once; each again after a failure.
_PIECE = 2**23
_FETCHES = 4
_PAUSES_SECONDS = (0.25, 0.5, 1.0)


def uri_of(place: object) -> str | None:
    """Return the URI of a remote folder; None for a path or file:// URI of this machine.

    Args:
        place: a text, or a Path, which has lost a slash of its URI.

    Example:

        >>> uri_of("s3://bucket/models/"), uri_of(Path("s3://bucket/models")), uri_of("/srv/models")
        ('s3://bucket/models', 's3://bucket/models', None)
    """
    found = _URI.match(str(place))
    return None if found is None else f"{found[1]}://{found[2].rstrip('/')}"


@dataclass(frozen=True)
class StoredFile:
    """An object: its size in bytes, and a tag that differs for different content."""

    size: int
    tag: str


class StoreFolder:
    """A folder of an object store.

    Args:
        uri: its place, such as "s3://bucket/models/languages", as `uri_of` returns it.
        stopping: returns True when a waiting call shall end.

    Attributes:
        uri: the same.
        shown: the same, without secrets, for messages.
        makes_folders: True for a file system with folders of its own; object stores have buckets instead,
            which somebody else makes.

    Raises:
        StorageError: no file system has this scheme, or its package is missing. Every method raises it, too:
            the store does not answer in time, refuses, or lacks the file.

    Example:
        folder = StoreFolder("s3://bucket/models/languages")
        folder.children()
    """

    def __init__(self, uri: str, stopping: Callable[[], bool] = lambda: False):
        self.uri = uri
        self._calls = StoreCalls(uri, stopping)
        self.shown = self._calls.shown
        self.makes_folders = self._calls.makes_folders
        self._stopping = stopping

    def children(self) -> tuple[list[str], list[str]]:
        """Return the names of the folders and of the files in it; one call for each 1,000 of them.

        An object store has no empty folders: it returns none for one that nothing was written to yet.
        """
        try:
            entries = self._calls.call("ls", self._calls.root, detail=True)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError) and self._bucket_exists():
                return [], []
            raise
        names: tuple[list[str], list[str]] = [], []
        for entry in entries:
            name = self._relative(entry["name"])
            if name and "/" not in name:
                names[entry["type"] != "directory"].append(name)
        return names

    def files(self, below: str = "") -> dict[str, StoredFile]:
        """Return all files below a folder, by relative path; none if the folder does not exist."""
        found = self._calls.call("find", self._path(below), detail=True)
        prefix = f"{below}/" if below else ""
        files = {
            self._relative(path).removeprefix(prefix): StoredFile(int(entry["size"] or 0), _tag(entry))
            for path, entry in found.items()
            if entry["type"] != "directory" and not path.endswith("/")  # a marker of an empty folder
        }
        for name in files:
            self._check_name(name)
        return files

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` to before `end`."""
        if start == end:  # an empty range is refused by stores
            return b""
        return self._calls.call("cat_file", self._path(name), start=start, end=end, seconds=_PIECE_SECONDS)

    def fetch(self, below: str, sizes: Mapping[str, int], target: Path) -> None:
        """Copy files of known sizes into a local folder, some megabytes at a time, several at once.

        Args:
            below: the folder of the files, in this one.
            sizes: the bytes of each file, by path in it.
            target: the local folder.

        Raises:
            StorageError: a piece could not be read, or had too few bytes, several times.
            OSError: a local file cannot be written.
        """
        for name, size in sizes.items():
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as empty:
                empty.truncate(size)
        with ThreadPoolExecutor(_FETCHES, "fetch") as pool:
            pieces = [
                pool.submit(self._fetch_piece, f"{below}/{name}", target / name, start, min(size, end))
                for name, size in sizes.items()
                for start, end in _pieces(size)
            ]
            try:
                for piece in pieces:
                    piece.result()
            finally:
                for piece in pieces:
                    piece.cancel()

    def _fetch_piece(self, name: str, file: Path, start: int, end: int) -> None:
        content = self._read_whole(name, start, end)
        with file.open("r+b") as whole:
            whole.seek(start)
            whole.write(content)

    def _read_whole(self, name: str, start: int, end: int) -> bytes:
        """Return exactly the bytes from `start` to before `end`, tried several times."""
        for pause in _PAUSES_SECONDS:
            try:
                return self._read_once(name, start, end)
            except StorageError as error:
                if not error.may_pass or self._stopping():
                    raise
            time.sleep(pause)
        return self._read_once(name, start, end)

    def _read_once(self, name: str, start: int, end: int) -> bytes:
        content = self.read(name, start, end)
        if len(content) != end - start:
            words = f"{self.shown}/{name} ended early: {len(content)} of {end - start} bytes"
            raise StorageError(words, may_pass=True)
        return content

    def write(self, name: str, source: Path, *, new: bool = False) -> None:
        """Write a local file; it appears whole.

        Args:
            name: its path in this folder.
            source: the local file.
            new: True refuses to replace a file, where the store can check that.

        Raises:
            FileExistsError: `new`, and there is such a file.
        """
        seconds = _PIECE_SECONDS + source.stat().st_size / _SLOWEST_BYTES_PER_SECOND
        path = self._path(name)
        if self.makes_folders:
            self._calls.call("makedirs", path.rpartition("/")[0], exist_ok=True)
        mode = {"mode": "create"} if new else {}
        if source.stat().st_size:
            self._calls.call("put_file", str(source), path, seconds=seconds, **mode)
        else:  # some file systems upload no empty stream
            self._calls.call("pipe_file", path, b"", seconds=seconds, **mode)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, one after the other, in their order; those that are gone already are no error."""
        for name in names:
            try:
                self._calls.call("rm_file", self._path(name))
            except StorageError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise

    def _bucket_exists(self) -> bool:
        bucket, _, below = self._calls.root.partition("/")
        if self.makes_folders or not below:
            return False
        try:
            self._calls.call("ls", bucket, detail=True)
        except StorageError:
            return False
        return True

    def _path(self, name: str) -> str:
        return f"{self._calls.root}/{name}" if name else self._calls.root

    def _relative(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self._calls.root).lstrip("/")

    def _check_name(self, name: str) -> None:
        """Raise StorageError for a name that leads out of the folder: an object's name can be any text."""
        if not name or "\\" in name or "\0" in name or {"", ".", ".."} & set(name.split("/")):
            raise StorageError(f"{self.shown} holds a file that no folder can hold: {name!r:.200}. Remove it")


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, _PIECE):
        yield start, start + _PIECE


def _tag(entry: Mapping[str, Any]) -> str:
    return next((str(entry[name]) for name in _TAGS if entry.get(name)), "")
