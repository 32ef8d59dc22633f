"""The meeting of the processes of one training, and their connections for small values and for a failure.

JAX's own service ends a process with a stack trace if not all come, or if another one dies. Here the reason
is one line. JAX cannot carry it: the client of its key-value store is in `jax._src`, and its public API has
`initialize`, `shutdown`, collectives and `live_devices`, which wait for all and know no reasons.
Values are JSON, a line each; arrays go through JAX.
"""

import errno
import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from keras_selfattn.errors import ConfigError, OtherProcessError, TrainingError
from keras_selfattn.machines.free_ports import free_port

# For a stranger who connects and says nothing, or a machine that does not answer.
_HELLO_SECONDS = 5.0
_RETRY_SECONDS = 0.2
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SEND_SECONDS = 30
# Of the first line that another process, or a stranger, sends.
_FIRST_BYTES = 10_000
# A machine that has gone is noticed after 10 s and 4 questions, 5 s apart.
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


def host_and_port(coordinator: str) -> tuple[str, int]:
    """Return the parts of an address.

    Raises:
        ConfigError: if it is not HOST:PORT.

    Example:

        >>> host_and_port("[::1]:1234")
        ('::1', 1234)
    """
    host, _, port = str(coordinator).rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(
            "`coordinator` (--coordinator) must be HOST:PORT, the address where process 0 listens. "
            f"Received {coordinator!r}."
        )
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return True for a host that only this machine reaches."""
    return host in _LOOPBACK


def meet(coordinator: str, count: int, index: int, timeout: float) -> "tuple[Channel, int]":
    """Return the connections of this process, and a free port of process 0's machine, the same for all.

    Args:
        coordinator: HOST:PORT, where process 0 listens until all have come.
        count: the number of processes.
        index: which of them this is.
        timeout: seconds until all must have come.

    Raises:
        TrainingError: if not all came, process 0 cannot listen or was not found, or another count was given.
    """
    host, port = host_and_port(coordinator)
    end = time.monotonic() + timeout
    if index:
        lines, free = _join(host, port, count, index, timeout, end)
        return Channel(index, {0: lines}), free
    with _listening(host, port) as listener:
        met = _gathered(listener, count, timeout, end)
        free = free_port(listener.getsockname()[0])
    for lines in met.values():
        with suppress(OSError):  # the channel tells that it has gone
            lines.send({"port": free})
    return Channel(0, met), free


def _is_own_name(host: str) -> bool:
    first, _, _ = host.partition(".")
    return first == socket.gethostname().partition(".")[0] and first != "localhost" and not first.isdecimal()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, *_, (address, *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Many machines know their own name as an address that only they reach.
        all_addresses = _is_own_name(host) and str(address).startswith("127.")
        try:
            listener = socket.create_server(("" if all_addresses else host, port), family=family)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            listener = socket.create_server(("", port))  # behind an address that a router translates
    except OSError as error:
        raise TrainingError(
            f"Process 0 cannot listen at {host}:{port} (--coordinator): {error.strerror or error}. Give an "
            "address of its machine, and a free port."
        ) from error
    with listener:
        yield listener


def _gathered(listener: socket.socket, count: int, timeout: float, end: float) -> "dict[int, Lines]":
    """Return the connections of all other processes, by their index."""
    met: dict[int, Lines] = {}
    while len(_here(met)) < count - 1:
        listener.settimeout(max(0.001, end - time.monotonic()))
        try:
            lines = Lines(listener.accept()[0])
        except OSError as error:
            if not isinstance(error, TimeoutError) and time.monotonic() < end:
                continue  # it has gone already
            reason = _missing(met, count, timeout)
            for lines in met.values():
                _refuse(lines, reason)
            raise TrainingError(reason) from None
        try:
            hello = lines.first(min(_HELLO_SECONDS, end - time.monotonic()))
            refused = _refused(hello, count, _here(met))
        except (OSError, ValueError, KeyError, RecursionError):  # a stranger
            lines.close()
            continue
        if refused is None:
            met[hello["index"]] = lines
        else:
            _refuse(lines, refused)
    return met


def _here(met: "dict[int, Lines]") -> "dict[int, Lines]":
    """Remove the connections of processes that died while they waited, so that others can come for them."""
    for index, lines in list(met.items()):
        if lines.is_gone:
            met.pop(index).close()
    return met


def _missing(met: "dict[int, Lines]", count: int, timeout: float) -> str:
    missing = [str(other) for other in range(1, count) if other not in met]
    return (
        f"Within {timeout:g} s (--timeout) {1 + len(met)} of {count} processes met. These did not come "
        f"(--process-id): {', '.join(missing)}. Start them, or see why they ended."
    )


def _refused(hello: dict[str, Any], count: int, met: "dict[int, Lines]") -> str | None:
    """Return why a process that says hello cannot join, or None."""
    index = hello["index"]
    if hello["count"] != count:
        return (
            f"Process {index} expects {hello['count']} processes, and process 0 {count} (--process-count). "
            "Give all the same."
        )
    if index not in range(1, count):
        raise ValueError(hello)
    if index in met:
        return f"Two processes are number {index} (--process-id). Give each another one, below {count}."
    return None


def _refuse(lines: "Lines", reason: str) -> None:
    with suppress(OSError):
        lines.send({"refused": reason})
    lines.close()


def _join(host: str, port: int, count: int, index: int, timeout: float, end: float) -> "tuple[Lines, int]":
    """Return the connection to process 0, and the port that it sends once all have come."""
    reason = "nobody answered"
    while (left := end - time.monotonic()) > 0:
        try:
            lines = Lines(socket.create_connection((host, port), timeout=min(_HELLO_SECONDS, left)))
        except OSError as error:
            reason = error.strerror or "it did not answer"
            time.sleep(_RETRY_SECONDS)
            continue
        try:
            if lines.is_own:
                raise ConnectionRefusedError
            lines.send({"index": index, "count": count})
            # Process 0 answers when its own time is over.
            answer = lines.first(timeout + _HELLO_SECONDS)
        except (OSError, ValueError):
            answer = {}
        if "port" in answer:
            return lines, answer["port"]
        lines.close()
        if "refused" in answer:
            raise TrainingError(answer["refused"])
        reason = "what listens there is no process 0, or it has ended"
        time.sleep(_RETRY_SECONDS)
    raise TrainingError(
        f"Process {index} found no process 0 at {host}:{port} (--coordinator) within {timeout:g} s "
        f"(--timeout): {reason}. Start it, or give its address."
    )


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
