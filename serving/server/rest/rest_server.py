"""The REST API's port: uvicorn on a Listener, and the traces of its requests.

Reference: opentelemetry.io/docs/specs/semconv/http/http-spans.
"""

import asyncio
import json
import logging
import math
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import uvicorn

from ...errors import ServerStartError
from ..config import ServerConfig
from ..runtime.descriptors import connections_of_a_port
from ..runtime.listening import CONNECTION_SECONDS, bind, rest_port
from ..runtime.tracing import RequestTrace, Tracing, current
from .connection import Connection, Connections
from .listener import Listener
from .routes import sent_path

_Receive = Callable[[], Awaitable[dict[str, Any]]]
App = Callable[[dict[str, Any], _Receive, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

_V1 = re.compile(
    r"/v1/models(?:/(?P<model>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?::(?:classify|regress|predict)|/metadata)?)?",
    re.IGNORECASE | re.ASCII,  # ASCII: its fixed text in lower case is the route
)
_V2 = re.compile(r"/v2(?:/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?:infer|ready))?)?")
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_FIRST_ERROR, _FIRST_OWN_FAULT = 400, 500
# Of a path in a span: collectors may refuse what is very long.
_PATH_BYTES = 1024
_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep idle connections: they close first

# All uvicorn servers of a program share this logger, so its level and handlers must stay as they are.
_uvicorn_log = logging.getLogger("uvicorn.error")


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


def http_route(path: str) -> str:
    """Return a path in lower case with placeholders for its names; empty if the protocols have no such path.

    Example:
        >>> http_route("/V1/models/half/versions/3:predict")
        '/v1/models/{model}/versions/{version}:predict'
    """
    found = _V1.fullmatch(path) or _V2.fullmatch(path)
    if found is None:
        return ""
    parts = {name: span for name in found.groupdict() if (span := found.span(name)) != (-1, -1)}
    for name, (start, end) in sorted(parts.items(), key=lambda part: part[1], reverse=True):
        path = f"{path[:start]}{{{name}}}{path[end:]}"
    return path.lower()
