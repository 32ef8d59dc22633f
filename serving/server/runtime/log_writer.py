"""A thread that writes records into files, so that no request waits for a disk."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import grpc

from .metrics import Metrics
from .record_files import RecordFile, publish_dead_drafts

_log = logging.getLogger(__name__)

# A file appears when it has these bytes, or this age in seconds.
_FILE_BYTES = 2**26
_FILE_SECONDS = 60.0
# Bytes of the entries that wait; those of one entry may be more.
_WAITING_BYTES = 2**26
# Bytes of an entry beside its size: Python's objects, and the first block of each message.
_ENTRY_BYTES = 2**12
# Entries are written together: each wake-up of a thread takes time from the requests.
_PAUSE_SECONDS = 0.05
# Time without files at a prefix after a failure of its disk.
_FAILED_SECONDS = 1.0
# Time for the last entries when the server stops.
_CLOSING_SECONDS = 5.0


class Entry(NamedTuple):
    """A record to write."""

    prefix: str
    model: str
    size: int
    """The bytes that it takes until it is written."""
    record: Callable[[], bytes]
    """Makes the record, in the writer's thread."""


class _Open(NamedTuple):
    """A file, and the models of those of its records that the system does not have yet."""

    file: RecordFile
    models: list[str]


class LogWriter:
    """Write entries into files of records, one after the other for each prefix.

    An entry that finds too many waiting is dropped, as is one that cannot be written. `put`, `keep` and
    `close` can be called from several threads.

    Args:
        metrics: counts the entries by model and status.

    Example:
        writer = LogWriter(Metrics())
        writer.keep({"/logs/half"})
        writer.put(Entry("/logs/half", "half", 100, lambda: b"a record"))
        writer.close()
    """

    def __init__(self, metrics: Metrics):
        self._metrics = metrics
        self._changed = threading.Condition()
        self._closing = threading.Event()
        # The time at which `close` gives up; None before it is called.
        self._closed_by: float | None = None
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._prefixes: frozenset[str] = frozenset()
        # Of the thread alone.
        self._known: frozenset[str] = frozenset()
        self._open: dict[str, _Open] = {}
        # The prefixes that have failed since their last success, and the times of their next tries.
        self._failing: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="log-requests", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Add an entry to those that wait, or drop it; return at once."""
        with self._changed:
            becomes = self._bytes + entry.size + _ENTRY_BYTES
            if self._bytes and becomes > _WAITING_BYTES:
                self._metrics.logged(entry.model, grpc.StatusCode.RESOURCE_EXHAUSTED)
                return
            self._bytes = becomes
            self._entries.append(entry)
            if len(self._entries) == 1:
                self._changed.notify()

    def keep(self, prefixes: Collection[str]) -> None:
        """Keep the files at these prefixes open, and let all others appear; return at once."""
        with self._changed:
            self._prefixes = frozenset(prefixes)
            self._changed.notify()

    def close(self) -> None:
        """Write the entries that wait, let the files appear, and end the thread; wait at most five seconds.

        A second call waits for what the first has left of them: a server may stop twice.
        """
        self._closing.set()
        with self._changed:
            if self._closed_by is None:
                self._closed_by = time.monotonic() + _CLOSING_SECONDS
            self._changed.notify()
        self._thread.join(max(0.0, self._closed_by - time.monotonic()))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, self._seconds_to_oldest())
                entries, self._entries = self._entries, deque()
                prefixes, closing = self._prefixes, self._closing.is_set()
            try:
                self._step(entries, frozenset() if closing else prefixes)
            except Exception:  # noqa: BLE001 - requests go on, and so does the log
                _log.exception("logging requests failed")
            if closing and not self._entries:
                return
            self._closing.wait(_PAUSE_SECONDS)

    def _has_work(self) -> bool:
        return bool(self._entries) or self._prefixes != self._known or self._closing.is_set()

    def _seconds_to_oldest(self) -> float | None:
        """Return the seconds until the oldest file is to appear; None without a file."""
        opened = [each.file.opened for each in self._open.values()]
        return max(0.0, min(opened) + _FILE_SECONDS - time.monotonic()) if opened else None

    def _step(self, entries: deque[Entry], prefixes: frozenset[str]) -> None:
        """Write entries, and let files appear: those that are full or old, or whose prefix is not kept."""
        for prefix in prefixes - self._known:
            for path in publish_dead_drafts(prefix):
                _log.info("request log %s of a process that was killed has its whole records", path)
        self._known = prefixes
        while entries:
            entry = entries.popleft()
            try:
                self._write(entry)
            finally:
                with self._changed:
                    self._bytes -= entry.size + _ENTRY_BYTES
        for prefix, each in list(self._open.items()):
            old = time.monotonic() - each.file.opened >= _FILE_SECONDS
            self._finish(prefix, publish=old or prefix not in prefixes)

    def _write(self, entry: Entry) -> None:
        try:
            record = entry.record()
        except Exception:  # noqa: BLE001 - the request has its answer
            _log.exception("a request to model %s cannot be logged", entry.model)
            self._metrics.logged(entry.model, grpc.StatusCode.INTERNAL)
            return
        each = self._file_of(entry.prefix)
        if each is None:
            self._metrics.logged(entry.model, grpc.StatusCode.UNAVAILABLE)
            return
        each.models.append(entry.model)
        try:
            each.file.write(record)
        except Exception as error:  # noqa: BLE001 - TensorFlow has an error for each cause
            self._give_up(entry.prefix, error)
        else:
            if each.file.size >= _FILE_BYTES:
                self._finish(entry.prefix, publish=True)

    def _file_of(self, prefix: str) -> _Open | None:
        """Return the file at a prefix, a new one if need be; None if the disk fails."""
        if prefix not in self._open and time.monotonic() >= self._failing.get(prefix, 0.0):
            try:
                self._open[prefix] = _Open(RecordFile(prefix), [])
            except Exception as error:  # noqa: BLE001 - as above
                self._complain(prefix, error)
        return self._open.get(prefix)

    def _finish(self, prefix: str, publish: bool) -> None:
        """Hand a file's records to the system or, with `publish`, let it appear."""
        each = self._open[prefix]
        try:
            if publish:
                each.file.publish()
            elif each.models:
                each.file.flush()
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(prefix, error)
            return
        self._count(each, grpc.StatusCode.OK)
        self._failing.pop(prefix, None)
        if publish:
            del self._open[prefix]

    def _give_up(self, prefix: str, error: Exception) -> None:
        each = self._open.pop(prefix)
        each.file.salvage()
        self._count(each, grpc.StatusCode.UNAVAILABLE)
        self._complain(prefix, error)

    def _count(self, each: _Open, status: grpc.StatusCode) -> None:
        for model in each.models:
            self._metrics.logged(model, status)
        each.models.clear()

    def _complain(self, prefix: str, error: Exception) -> None:
        """Log a failure, unless the prefix has failed since its last success."""
        if prefix not in self._failing:
            _log.error("requests are not logged, and are counted: %s cannot be written: %s", prefix, error)
        self._failing[prefix] = time.monotonic() + _FAILED_SECONDS
