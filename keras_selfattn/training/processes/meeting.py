"""The meeting of the processes of one training, which says who did not come.

JAX's own service ends a process with a stack trace if not all come.
"""

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from keras_selfattn.errors import ConfigError, TrainingError
from keras_selfattn.machines.free_ports import free_port
from keras_selfattn.training.processes.channel import Channel, Lines

# For a stranger who connects and says nothing, or a machine that does not answer.
_HELLO_SECONDS = 5.0
_RETRY_SECONDS = 0.2
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


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


def meet(coordinator: str, count: int, index: int, timeout: float) -> tuple[Channel, int]:
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


def _gathered(listener: socket.socket, count: int, timeout: float, end: float) -> dict[int, Lines]:
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


def _here(met: dict[int, Lines]) -> dict[int, Lines]:
    """Remove the connections of processes that died while they waited, so that others can come for them."""
    for index, lines in list(met.items()):
        if lines.is_gone:
            met.pop(index).close()
    return met


def _missing(met: dict[int, Lines], count: int, timeout: float) -> str:
    missing = [str(other) for other in range(1, count) if other not in met]
    return (
        f"Within {timeout:g} s (--timeout) {1 + len(met)} of {count} processes met. These did not come "
        f"(--process-id): {', '.join(missing)}. Start them, or see why they ended."
    )


def _refused(hello: dict[str, Any], count: int, met: dict[int, Lines]) -> str | None:
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


def _refuse(lines: Lines, reason: str) -> None:
    with suppress(OSError):
        lines.send({"refused": reason})
    lines.close()


def _join(host: str, port: int, count: int, index: int, timeout: float, end: float) -> tuple[Lines, int]:
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
