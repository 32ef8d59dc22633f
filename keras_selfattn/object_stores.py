"""Folders of object stores and other remote file systems, by URI: list, read, write and remove.

fsspec speaks to them: `s3://`, `gs://`, `abfs://` and many more. Credentials and endpoints come from where
the store's own tools look for them (environment, files, instance metadata), and are in no message. Every call
has a deadline.

Reference: https://filesystem-spec.readthedocs.io.
"""

import asyncio
import importlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.errors import StorageError

# A scheme has at least two letters: one letter is a Windows drive.
_URI = re.compile(r"(?!file:)([A-Za-z][\w+.-]+):/+(.*)", re.DOTALL)
# Passwords and tokens before a host, but not the container of abfs://container@account; queries, such as a
# signature; and settings that libraries put into their errors.
_SECRETS = (
    (re.compile(r"://[^\s/:@'\"]*:(?!\d+/)[^\s'\"]*@"), "://"),
    (re.compile(r"(?<!abfs)(?<!abfss)(?<!az)(?<!wasb)(?<!wasbs)://[^\s/@'\"]*@"), "://"),
    (re.compile(r"(://[^\s?]*)\?[^\s'\")]*"), r"\1"),
    (re.compile(r"(?i)\b(\w*(?:key|token|secret|signature|sig|password)=)[^\s&;,'\"]+"), r"\1…"),
    (re.compile(r"(?i)\b(bearer )\S+"), r"\1…"),
)
# Fields of a listing that change with an object's content; stores have some of them.
_TAGS = ("ETag", "etag", "generation", "md5Hash", "mtime", "LastModified", "last_modified", "created")

_CALL_SECONDS = 20.0
_PIECE_SECONDS = 60.0
# The slowest upload to wait for.
_SLOWEST_BYTES_PER_SECOND = 2**18
_STOP_SECONDS = 0.1
_MOST_HANGING = 8
# A fetch reads so many bytes at a time, and so many pieces at once; each again after a failure.
_PIECE = 2**23
_FETCHES = 4
_PAUSES_SECONDS = (0.25, 0.5, 1.0)
_WORDS = 300


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


def without_secrets(text: object) -> str:
    """Return a text without the passwords and queries of its URIs.

    Example:

        >>> without_secrets("no answer from https://ann:pass@store/models?sig=secret")
        'no answer from https://store/models'
    """
    words = str(text)
    for pattern, replacement in _SECRETS:
        words = pattern.sub(replacement, words)
    return words


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
        self.shown = without_secrets(self.uri)
        self._stopping = stopping
        self._system, root = _file_system(self.uri, self.shown)
        self._root = root.rstrip("/")
        self.makes_folders = not self._system.async_impl
        self._running: list[Future[Any]] = []
        self._loop = importlib.import_module("fsspec.asyn").get_loop()

    def children(self) -> tuple[list[str], list[str]]:
        """Return the names of the folders and of the files in it; one call for each 1,000 of them.

        An object store has no empty folders: it returns none for one that nothing was written to yet.
        """
        try:
            entries = self._call("ls", self._root, detail=True)
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
        found = self._call("find", self._path(below), detail=True)
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
        return self._call("cat_file", self._path(name), start=start, end=end, seconds=_PIECE_SECONDS)

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
            self._call("makedirs", path.rpartition("/")[0], exist_ok=True)
        mode = {"mode": "create"} if new else {}
        if source.stat().st_size:
            self._call("put_file", str(source), path, seconds=seconds, **mode)
        else:  # some file systems upload no empty stream
            self._call("pipe_file", path, b"", seconds=seconds, **mode)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, one after the other, in their order; those that are gone already are no error."""
        for name in names:
            try:
                self._call("rm_file", self._path(name))
            except StorageError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise

    def _bucket_exists(self) -> bool:
        bucket, _, below = self._root.partition("/")
        if self.makes_folders or not below:
            return False
        try:
            self._call("ls", bucket, detail=True)
        except StorageError:
            return False
        return True

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _relative(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self._root).lstrip("/")

    def _check_name(self, name: str) -> None:
        """Raise StorageError for a name that leads out of the folder: an object's name can be any text."""
        if not name or "\\" in name or "\0" in name or {"", ".", ".."} & set(name.split("/")):
            raise StorageError(f"{self.shown} holds a file that no folder can hold: {name!r:.200}. Remove it")

    def _call(self, method: str, *args: Any, seconds: float | None = None, **kwargs: Any) -> Any:
        with _errors_named(self.shown):
            if self.makes_folders:
                future = self._in_thread(getattr(self._system, method), *args, **kwargs)
            else:
                call = getattr(self._system, f"_{method}")(*args, **kwargs)
                future = asyncio.run_coroutine_threadsafe(call, self._loop)
            return _result_of(future, seconds or _CALL_SECONDS, self._stopping)

    def _in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function that nothing can interrupt; nor does it keep the process from ending."""
        self._running = [future for future in self._running if not future.done()]
        if len(self._running) >= _MOST_HANGING:
            raise TimeoutError("earlier calls have no answer yet")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # or a cancel would make it look done

        def run() -> None:
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        self._running.append(future)
        threading.Thread(target=run, name="store", daemon=True).start()
        return future


def _file_system(uri: str, shown: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it."""
    try:
        # By name: it is there only with the extra, for the type checker too.
        url_to_fs = importlib.import_module("fsspec.core").url_to_fs
    except ImportError as error:
        raise StorageError(
            f"{shown} needs fsspec: pip install 'keras-selfattn[stores]', or name a folder of this machine"
        ) from error
    try:
        # No cache of listings: another process writes.
        return url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        raise StorageError(f"{shown} needs a package that is not installed: {error}") from error
    except Exception as error:  # each file system checks its settings in its own way
        raise StorageError(f"{shown} cannot be opened: {_words(error)}") from error


def _result_of(future: Future[Any], seconds: float, stopping: Callable[[], bool]) -> Any:
    """Return the result of a call in another thread; cancel it if nobody waits."""
    ends = time.monotonic() + seconds
    try:
        while True:
            try:
                return future.result(min(_STOP_SECONDS, max(0.0, ends - time.monotonic())))
            except TimeoutError:
                if future.done():
                    return future.result()  # which may be a TimeoutError of the store's own
            if stopping():
                raise TimeoutError("stopped")
            if time.monotonic() >= ends:
                raise TimeoutError(f"no answer in {seconds:.0f} s")
    finally:
        future.cancel()


@contextmanager
def _errors_named(shown: str) -> Iterator[None]:
    """Raise every error of a file system as StorageError, but FileExistsError."""
    try:
        yield
    except FileExistsError:
        raise
    except Exception as error:  # file systems raise those of their libraries
        kind = type(error).__name__
        may_pass = False
        if isinstance(error, FileNotFoundError):
            summary = f"{shown} does not exist, or lacks a file"
        elif isinstance(error, PermissionError) or "Credential" in kind or "Authentication" in kind:
            summary = f"{shown} refuses the credentials that were found, or found none"
        else:
            summary, may_pass = f"{shown} cannot be reached", True
        raise StorageError(f"{summary}: {_words(error)}", may_pass=may_pass, summary=summary) from error


def _words(error: BaseException) -> str:
    """Return an error's text on one line, without secrets."""
    words = " ".join(without_secrets(error).split()) or type(error).__name__
    return words if len(words) <= _WORDS else f"{words[:_WORDS]}…"


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, _PIECE):
        yield start, start + _PIECE


def _tag(entry: Mapping[str, Any]) -> str:
    return next((str(entry[name]) for name in _TAGS if entry.get(name)), "")
