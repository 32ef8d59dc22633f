"""The REST API's port: connections accepted while there is room for them, uvicorn, and traces of requests.

Reference: opentelemetry.io/docs/specs/semconv/http/http-spans.
"""

import asyncio
import contextlib
import errno
import json
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import uvicorn

from ...errors import ServerStartError
from ..config import ServerConfig
from ..runtime.descriptors import connections_of_a_port, limit
from ..runtime.listening import CONNECTION_SECONDS, bind, rest_port
from ..runtime.tracing import RequestTrace, Tracing, current
from .connection import HEAD_SECONDS, SHUTDOWN_SECONDS, Connection, Connections
from .routes import http_route, sent_path

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

_Receive = Callable[[], Awaitable[dict[str, Any]]]
App = Callable[[dict[str, Any], _Receive, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_FIRST_ERROR, _FIRST_OWN_FAULT = 400, 500
# Of a path in a span: collectors may refuse what is very long.
_PATH_BYTES = 1024
_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep idle connections: they close first

# All uvicorn servers of a program share this logger, so its level and handlers must stay as they are.
_uvicorn_log = logging.getLogger("uvicorn.error")


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


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that accepts with a Listener, and stops when it is told to.

    Args:
        settings: uvicorn's settings.
        listening: a bound socket.
        connections: the open connections, and their limit.
        shared: True if other processes listen on the socket, too.
        tls: encrypts the connections; None for none.
    """

    def __init__(
        self,
        settings: uvicorn.Config,
        listening: socket.socket,
        connections: Connections,
        shared: bool,
        tls: ssl.SSLContext | None,
    ):
        super().__init__(settings)
        make = partial(Connection, connections, config=settings, server_state=self.server_state, app_state={})
        self.listener = Listener(listening, make, connections, shared, tls)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        # uvicorn closes these servers and waits for them.
        self.servers = [self.listener]  # pyright: ignore[reportAttributeAccessIssue]
        self.listener.start()
        self.started = True


class _QuietThread(logging.Filter):
    """Drop uvicorn's records below ERROR in the thread that makes this filter: start, end and warnings.

    Warnings are about bytes that strangers send, who could fill a disk with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or record.thread != self._thread


class RestServer:
    """Serve an ASGI application on the config's port. For one event loop.

    Args:
        app: answers the requests.
        config: the host and the port.
        listening: a socket that other processes listen on, too; None to open one.
        tls: encrypts the connections; None for none.
        shares_port: True if other processes may listen on the port with sockets of their own.
        tracing: traces the requests; None for no traces.

    Attributes:
        port: the port it listens on.

    Raises:
        ServerStartError: the port cannot be opened.

    Example:
        rest = RestServer(app, config)
        await rest.start()
        await rest.stop()
    """

    def __init__(
        self,
        app: App,
        config: ServerConfig,
        listening: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
        tracing: Tracing | None = None,
    ):
        shared = listening is not None
        port = rest_port(config)
        listening = listening or bind(config.rest_host, port, "rest_api_port", shared=shares_port)
        self.port: int = listening.getsockname()[1]
        settings = uvicorn.Config(
            app if tracing is None else TracedApp(app, tracing),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        oldest = CONNECTION_SECONDS if shares_port or config.workers > 1 else math.inf
        self._connections = Connections(connections_of_a_port(), oldest)
        self._server = _Uvicorn(settings, listening, self._connections, shared, tls)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer requests."""
        quiet = _QuietThread()
        _uvicorn_log.addFilter(quiet)
        self._task = asyncio.create_task(self._server.serve())
        self._task.add_done_callback(lambda _: _uvicorn_log.removeFilter(quiet))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)
        if not self._server.started:
            error = self._task.exception()
            raise ServerStartError(f"cannot listen for REST on port {self.port}: {error}") from error

    async def leave(self) -> None:
        """Close the port, so that new clients go elsewhere. Connections end with their next answer."""
        self._connections.leave()
        self._server.listener.close()
        await self._server.listener.wait_closed()

    async def stop(self, timeout: float) -> None:
        """Close the port, and each connection when its answer has been written.

        Args:
            timeout: seconds for the answers; those that are still being written then are cut off.
        """
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=timeout)
        await self.abort()

    async def abort(self) -> None:
        """Close the port and all connections at once."""
        self._server.should_exit = self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._server.listener.wait_closed()


class TracedApp:
    """Trace the requests to an ASGI application that go to the protocols' paths.

    Args:
        app: the application.
        tracing: starts the traces.

    Example:
        uvicorn.run(TracedApp(rest_api, Tracing("1.0")))
    """

    def __init__(self, app: App, tracing: Tracing):
        self._app = app
        self._tracing = tracing

    async def __call__(
        self, scope: dict[str, Any], receive: _Receive, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        trace = self._start(scope)
        # Without a trace, too: uvicorn begins a pipelined request in the context of the one before it.
        current.set(trace)
        if trace is None:
            await self._app(scope, receive, send)
            return
        sent = _Sent(send, trace, scope["path"])
        try:
            await self._app(scope, receive, sent)
        finally:
            sent.tell()
            trace.end()

    def _start(self, scope: dict[str, Any]) -> RequestTrace | None:
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        route = http_route(sent_path(scope))
        if not route:
            return None
        attributes = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        return self._tracing.request(f"{method} {route}", attributes, headers)


class _Sent:
    """Sends an answer, and tells a trace its status and its error."""

    def __init__(self, send: Callable[[dict[str, Any]], Awaitable[None]], trace: RequestTrace, path: str):
        self._send = send
        self._trace = trace
        self._path = path
        self._status = _FIRST_OWN_FAULT  # of an application that sends nothing
        self._error = ""
        self._has_told = False

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            if self._status >= _FIRST_ERROR and message.get("body"):
                self._error = json.loads(message["body"])["error"]
            self.tell()  # an instrumentation ends its span with the answer
        await self._send(message)

    def tell(self) -> None:
        """Complete the request's span, once."""
        if self._has_told:
            return
        self._has_told = True
        path = self._path.encode(errors="replace")[:_PATH_BYTES].decode(errors="ignore")
        told = {"url.path": path, "http.response.status_code": self._status}
        failed = str(self._status) if self._status >= _FIRST_ERROR else ""
        self._trace.tell(told, failed, self._error, is_own_fault=self._status >= _FIRST_OWN_FAULT)
