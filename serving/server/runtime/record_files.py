"""Files of TFRecords that appear whole.

Records are written to a draft, whose name begins with a dot. It is renamed when it is closed. A draft stays
locked while its process lives; another process takes over a draft whose lock is free.

Reference: tensorflow/core/lib/io/record_writer.h.
"""

import contextlib
import itertools
import os
import re
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: drafts of dead processes stay
    fcntl = None

_SUFFIX = ".tfrecord"
_DRAFT_SUFFIX = f"{_SUFFIX}.tmp"
# A name has a time, a process and a number.
_NAME = r"-\d{8}T\d{6}\.\d{6}Z-\d+-\d+"
# Of a record: 8 bytes of length and 4 of its checksum before the data, 4 of a checksum after it.
_HEAD, _AROUND = 12, 16
# Another server that starts takes a draft that is not locked yet for a dead one, and removes it.
_DRAFT_TRIES = 3

# One sequence for all servers in a process.
_numbers = itertools.count(1)


class RecordFile:
    """A new file of records, which appears when it is published. For one thread.

    Args:
        prefix: the beginning of its path; the folder is created.

    Raises:
        OSError: the file cannot be created.

    Example:
        file = RecordFile("/logs/reviews")
        file.write(b"a record")
        file.publish()
    """

    def __init__(self, prefix: str):
        Path(prefix).parent.mkdir(parents=True, exist_ok=True)
        self.path, self._draft, self._descriptor = _locked_draft(prefix)
        self.opened = time.monotonic()
        """The time of `time.monotonic` at which it was opened."""
        self.size = 0
        """The bytes of the records written."""
        self._flushed = 0
        try:
            self._writer = _record_writer(self._draft)
        except BaseException:
            os.close(self._descriptor)
            self._draft.unlink(missing_ok=True)
            raise

    def write(self, record: bytes) -> None:
        """Add a record.

        Raises:
            Exception: the disk is full, or has failed; call `salvage`.
        """
        self._writer.write(record)
        self.size += len(record) + _AROUND

    def flush(self) -> None:
        """Hand all records to the system; raises what `write` does."""
        self._writer.flush()
        if os.fstat(self._descriptor).st_size != self.size or not self._draft.exists():
            raise OSError(f"{self._draft} is not what was written")
        self._flushed = self.size

    def publish(self) -> None:
        """Close the file, and let it appear under its name; raises what `write` does."""
        self.flush()
        self._writer.close()
        self._reveal()
        os.close(self._descriptor)

    def salvage(self) -> None:
        """Publish the records of the last `flush`, after a failure; remove the file if there are none."""
        with contextlib.suppress(Exception):  # it fails as before
            self._writer.close()
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._flushed)
            if self._flushed:
                self._reveal()
            else:
                self._draft.unlink()
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _reveal(self) -> None:
        os.fsync(self._descriptor)
        self._draft.rename(self.path)


def _record_writer(path: Path) -> Any:
    # Imported late: the supervisor of workers checks prefixes, and leaves TensorFlow to the workers.
    from tensorflow.python.lib.io import _pywrap_record_io

    records: Any = _pywrap_record_io
    return records.RecordWriter(os.fsencode(path), records.RecordWriterOptions(""))


def _locked_draft(prefix: str) -> tuple[Path, Path, int]:
    """Create a draft and lock it; return the path to publish it at, its own, and its descriptor."""
    for _ in range(_DRAFT_TRIES):
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = Path(f"{prefix}-{now}-{os.getpid()}-{next(_numbers)}{_SUFFIX}")
        draft = path.with_name(f".{path.stem}{_DRAFT_SUFFIX}")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if draft.exists():
                return path, draft, descriptor
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        os.close(descriptor)
    raise FileNotFoundError(f"each draft at {prefix} was removed before it was locked")


def check_prefix(prefix: str) -> None:
    """Raise OSError if no file could be created at a prefix. The folder is created."""
    path = Path(prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Flags of the folder are not enough: file systems can be read-only, names too long.
    longest = f".{path.name}-{'0' * 60}-"
    descriptor, probe = tempfile.mkstemp(prefix=longest, suffix=_DRAFT_SUFFIX, dir=path.parent)
    try:
        if fcntl is not None:  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
        Path(probe).unlink()


def publish_dead_drafts(prefix: str) -> list[Path]:
    """Publish the whole records of drafts at a prefix whose processes have died.

    Returns:
        The files that have appeared.
    """
    published: list[Path] = []
    if fcntl is None:
        return published
    for draft in _drafts(Path(prefix)):
        with contextlib.suppress(OSError), draft.open("rb+") as file:  # published or removed meanwhile
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = _whole_bytes(file.fileno())
            if not whole:
                draft.unlink()
                continue
            file.truncate(whole)
            os.fsync(file.fileno())
            path = draft.with_name(f"{draft.name[1:].removesuffix(_DRAFT_SUFFIX)}{_SUFFIX}")
            draft.rename(path)
            published.append(path)
    return published


def _drafts(prefix: Path) -> Iterator[Path]:
    name = re.compile(rf"\.{re.escape(prefix.name)}{_NAME}{re.escape(_DRAFT_SUFFIX)}")
    with contextlib.suppress(OSError):
        yield from [path for path in prefix.parent.iterdir() if name.fullmatch(path.name)]


def _whole_bytes(descriptor: int) -> int:
    """Return the bytes of the records at a file's beginning that are whole, by their lengths."""
    size, end = os.fstat(descriptor).st_size, 0
    while True:
        head = os.pread(descriptor, _HEAD, end)
        length = int.from_bytes(head[:8], "little")
        # A system that went down may leave zeros.
        if len(head) < _HEAD or not length or end + length + _AROUND > size:
            return end
        end += length + _AROUND
