"""The connections on which processes of one training exchange small values, and learn of a failure.

JAX's own service ends a process with a stack trace if another one dies. Here the reason is one line.
Values are JSON, a line each; arrays go through JAX.
"""

import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TextIO

from keras_selfattn.errors import OtherProcessError

_SEND_SECONDS = 30
# Of the first line that another process, or a stranger, sends.
_FIRST_BYTES = 10_000
# A machine that has gone is noticed after 10 s and 4 questions, 5 s apart.
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class Channel:
    """The connections of one process: of process 0 to each other one, of these to process 0.

    Args:
        index: which process this is.
        lines: a stream for reading and one for writing, by the process at the other end.

    Attributes:
        failure: why another process has ended, once that is known, else None.
        failed: set when `failure` is.
    """

    def __init__(self, index: int, lines: dict[int, "Lines"]) -> None:
        self.failure: str | None = None
        self.failed = threading.Event()
        self._index, self._lines, self._closing = index, lines, False
        self._values: dict[int, queue.Queue[Any]] = {other: queue.Queue() for other in lines}
        self._readers = [
            threading.Thread(target=self._read, args=(other,), daemon=True, name=f"process {other}")
            for other in lines
        ]
        for reader in self._readers:
            reader.start()

    def from_first(self, value: Any) -> Any:
        """Return the JSON value of process 0, on every process."""
        if self._index:
            return self._next(0)
        for other in self._lines:
            self._send(other, value)
        return value

    def all_to_first(self, value: Any) -> list[Any]:
        """Return on process 0 the JSON values of all, in their order, and an empty list on the others."""
        if self._index:
            self._send(0, value)
            return []
        return [value, *(self._next(other) for other in sorted(self._lines))]

    def tell_failure(self, reason: str) -> None:
        """Tell the other processes why this one ends."""
        with suppress(OSError):
            self._pass_on(f"Process {self._index} failed: {reason}")

    def close(self, seconds: float = 0.0) -> None:
        """Say that this process ends as it should; on process 0 wait for the others to leave, if asked."""
        self._closing = True
        for lines in self._lines.values():
            with suppress(OSError):
                lines.send({"bye": True})
        end = time.monotonic() + seconds
        for reader in self._readers:
            reader.join(max(0.0, end - time.monotonic()))
        for lines in self._lines.values():
            lines.close()

    def _pass_on(self, failure: str) -> None:
        for lines in self._lines.values():
            with suppress(OSError):
                lines.send({"failed": failure})

    def _send(self, other: int, value: Any) -> None:
        try:
            self._lines[other].send({"value": value})
        except OSError as error:
            self._fail(f"Process {other} takes nothing any more: {error.strerror or error}.")
            raise OtherProcessError(self.failure) from error

    def _next(self, other: int) -> Any:
        while True:
            try:
                return self._values[other].get(timeout=1)
            except queue.Empty:
                if self.failure is not None:
                    raise OtherProcessError(self.failure) from None

    def _read(self, other: int) -> None:
        """Take what another process sends until it leaves; if that is without a word, it has died."""
        explained = False
        with suppress(OSError, ValueError):
            for message in self._lines[other].messages():
                if "value" in message:
                    self._values[other].put(message["value"])
                else:
                    explained = True
                    if "failed" in message:
                        self._fail(message["failed"])
        if not (explained or self._closing):
            self._fail(
                f"Process {other} has gone without a word. It was killed, or its machine or network failed."
            )

    def _fail(self, failure: str) -> None:
        if not self.failed.is_set():
            self.failure = failure
            self.failed.set()
            self._pass_on(failure)


class Lines:
    """A connection on which each line is a JSON object."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._connection = connection
        self._file: TextIO = connection.makefile("r", encoding="utf-8")
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send an object; OSError if the other end takes nothing for long, or has gone."""
        with self._sending:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the objects that come, until the other end closes."""
        return map(json.loads, self._file)

    def first(self, seconds: float) -> dict[str, Any]:
        """Return the first object; OSError or ValueError if none comes in time. Only before `messages`."""
        end = time.monotonic() + seconds
        line = b""
        try:
            # A byte at a time: what follows the line is left to `messages`.
            while not line.endswith(b"\n"):
                self._connection.settimeout(max(end - time.monotonic(), 0.001))
                byte = self._connection.recv(1)
                line += byte
                if not byte or len(line) > _FIRST_BYTES or time.monotonic() > end:
                    raise ConnectionError("no line")
        finally:
            self._connection.settimeout(None)
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError(message)
        return message

    @property
    def is_own(self) -> bool:
        """True if nobody listened, and the operating system connected the port with itself."""
        return self._connection.getsockname() == self._connection.getpeername()

    @property
    def is_gone(self) -> bool:
        """True if the other end has closed, or broken, the connection."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection, which also ends a thread that reads from it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()
