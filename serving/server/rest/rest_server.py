"""The REST API's port: uvicorn on a Listener."""

import asyncio
import logging
import math
import socket
import ssl
import threading
from functools import partial

import uvicorn

from ...errors import ServerStartError
from ..config import ServerConfig
from ..runtime.descriptors import connections_of_a_port
from ..runtime.listening import CONNECTION_SECONDS, bind, rest_port
from .connection import Connection, Connections
from .listener import Listener
from .traced_app import App

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
    ):
        shared = listening is not None
        port = rest_port(config)
        listening = listening or bind(config.rest_host, port, "rest_api_port", shared=shares_port)
        self.port: int = listening.getsockname()[1]
        settings = uvicorn.Config(
            app,
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
