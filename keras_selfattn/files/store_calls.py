"""Calls to a file system of fsspec: each has a deadline, and errors that name the place and no secret."""

import asyncio
import importlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from keras_selfattn.errors import StorageError

# Passwords and tokens before a host, but not the container of abfs://container@account; queries, such as a
# signature; and settings that libraries put into their errors.
_SECRETS = (
    (re.compile(r"://[^\s/:@'\"]*:(?!\d+/)[^\s'\"]*@"), "://"),
    (re.compile(r"(?<!abfs)(?<!abfss)(?<!az)(?<!wasb)(?<!wasbs)://[^\s/@'\"]*@"), "://"),
    (re.compile(r"(://[^\s?]*)\?[^\s'\")]*"), r"\1"),
    (re.compile(r"(?i)\b(\w*(?:key|token|secret|signature|sig|password)=)[^\s&;,'\"]+"), r"\1…"),
    (re.compile(r"(?i)\b(bearer )\S+"), r"\1…"),
)
CALL_SECONDS = 20.0
_STOP_SECONDS = 0.1
_MOST_HANGING = 8
_WORDS = 300


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


class StoreCalls:
    """The calls to the file system of a URI.

    Args:
        uri: the URI.
        stopping: returns True when a waiting call shall end.

    Attributes:
        root: the URI's path in its file system.
        shown: the URI without secrets.
        makes_folders: True for a file system with folders of its own.

    Raises:
        StorageError: no file system has this scheme, or its package is missing.

    Example:
        StoreCalls("s3://bucket/models").call("ls", "bucket/models", detail=True)
    """

    def __init__(self, uri: str, stopping: Callable[[], bool]):
        self.shown = without_secrets(uri)
        self._system, root = _file_system(uri, self.shown)
        self.root: str = root.rstrip("/")
        self.makes_folders = not self._system.async_impl
        self._stopping = stopping
        self._running: list[Future[Any]] = []
        self._loop = importlib.import_module("fsspec.asyn").get_loop()

    def call(self, method: str, *args: Any, seconds: float | None = None, **kwargs: Any) -> Any:
        """Return the result of a method of the file system.

        Args:
            method: its name.
            *args: its arguments.
            seconds: the longest wait; None for 20.
            **kwargs: its named arguments.

        Raises:
            StorageError: it failed, or has not answered in time.
            FileExistsError: a file that should be new exists.
        """
        with _errors_named(self.shown):
            if self.makes_folders:
                future = self._in_thread(getattr(self._system, method), *args, **kwargs)
            else:
                call = getattr(self._system, f"_{method}")(*args, **kwargs)
                future = asyncio.run_coroutine_threadsafe(call, self._loop)
            return _result_of(future, seconds or CALL_SECONDS, self._stopping)

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
