"""A listening socket that accepts connections while there is room for them."""

import asyncio
import contextlib
import errno
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from ..runtime.descriptors import limit
from .connection import HEAD_SECONDS, SHUTDOWN_SECONDS, Connection, Connections

_log = logging.getLogger(__name__)

_BACKLOG = 2048
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CLOSED = (errno.EINVAL, errno.EBADF)
# Seconds until the next look for room, or for a free descriptor.
_PAUSE_SECONDS = 0.1
_EXHAUSTED_SECONDS = 1.0
# When a connection arrives at an idle shared socket, a worker waits this long x log2(1 + its connections), so
# that workers with fewer come first. Connections that queue up meanwhile go to any worker that is awake.
_YIELD_SECONDS = 0.001
# A handshake that takes longer may be ended to make room for a new connection, and is when the server leaves.
_YIELD_HANDSHAKE_SECONDS = 1.0
# The next warning needs this time without a cause: clients that fill the server must not fill its log.
_SAYING_SECONDS = 60.0


class Listener:
    """Accept one connection in each turn of the event loop, so that workers on one socket share them.

    asyncio's own server accepts all waiting connections at once. If the process has no descriptor left, it
    logs a traceback for each of 2048 tries.

    Args:
        listening: a bound socket, which others may share.
        make: makes a connection's protocol.
        connections: the open connections, and their limit.
        shared: True if other processes listen on the socket, too.
        tls: encrypts the connections; None for none.

    Example:
        listener = Listener(listening, make, connections, shared=False)
        listener.start()
        listener.close()
        await listener.wait_closed()
    """

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], Connection],
        connections: Connections,
        shared: bool,
        tls: ssl.SSLContext | None = None,
    ):
        self._tls = tls
        self._socket = listening
        self._make = make
        self._connections = connections
        self._shared = shared
        self._accepting: asyncio.Task[None] | None = None
        # The connections that are not made yet, and since when; the longest wait first.
        self._opening: dict[asyncio.Task[None], float] = {}
        self._said = -_SAYING_SECONDS

    def start(self) -> None:
        """Begin to accept connections."""
        self._socket.setblocking(False)
        self._socket.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections."""
        if self._accepting is not None:
            self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Return when the socket is closed. Clients that have connected by then get answers."""
        if self._accepting is None:
            self._socket.close()
            return
        accepting, self._accepting = self._accepting, None
        await asyncio.wait({accepting})  # the task takes the socket out of the loop
        # Connections that wait at a shared socket are for the other workers.
        with contextlib.suppress(OSError):
            while not self._shared and self._connections.has_room(len(self._opening)):
                self._open(self._socket.accept()[0])
        self._socket.close()
        if self._opening:
            await asyncio.wait(self._opening, timeout=None if self._tls is None else _YIELD_HANDSHAKE_SECONDS)
        for task in [*self._opening]:
            task.cancel()

    async def _accept(self) -> None:
        while True:
            await self._wait_for_room()
            try:
                accepted, _ = self._socket.accept()
            except BlockingIOError:
                await self._wait_for_next()
            except OSError as error:
                if error.errno in _CLOSED:  # the supervisor has closed it for all workers
                    return
                await self._recover(error)
            else:
                self._open(accepted)
                await asyncio.sleep(0)

    async def _wait_for_next(self) -> None:
        loop, is_there = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, is_there.set)
        try:
            await is_there.wait()
        finally:
            loop.remove_reader(self._socket)
        if self._shared:
            await asyncio.sleep(_YIELD_SECONDS * math.log2(1 + self._connections.count))

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            self._say(
                f"REST has {self._connections.most} connections, its share of the {limit()} descriptors"
            )
            await asyncio.sleep(_PAUSE_SECONDS)

    def _has_room(self) -> bool:
        """Return True if one more connection is allowed; end the longest handshake or wait if necessary."""
        if self._connections.has_room(len(self._opening)):
            return True
        task, since = next(iter(self._opening.items()), (None, math.inf))
        if self._tls is not None and task is not None and _waited(since) > _YIELD_HANDSHAKE_SECONDS:
            task.cancel()
        return self._connections.make_room(len(self._opening))

    async def _recover(self, error: OSError) -> None:
        if error.errno not in _EXHAUSTED:  # an error of this one connection, which is gone
            await asyncio.sleep(0)
            return
        self._say(f"a connection cannot be accepted: {error.strerror}")
        await asyncio.sleep(_EXHAUSTED_SECONDS)

    def _say(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._said >= _SAYING_SECONDS:
            _log.warning("%s; new ones wait. `ulimit -n` says how many this process may have", reason)
        self._said = now

    def _open(self, accepted: socket.socket) -> None:
        task = asyncio.create_task(self._opened(accepted))
        self._opening[task] = asyncio.get_running_loop().time()
        task.add_done_callback(lambda done: self._opening.pop(done, None))

    async def _opened(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        of_tls: dict[str, Any] = {}
        if self._tls is not None:
            of_tls = {
                "ssl": self._tls,
                "ssl_handshake_timeout": HEAD_SECONDS,
                "ssl_shutdown_timeout": SHUTDOWN_SECONDS,
            }
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make, accepted, **of_tls)
        except OSError:  # it is gone already, or does not speak TLS
            accepted.close()


def _waited(since: float) -> float:
    return asyncio.get_running_loop().time() - since
