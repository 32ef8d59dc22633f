"""The REST API's port."""

import asyncio
import logging
import socket
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..config import ServerConfig
from ..listening import bind, rest_port
from .app import RestApi

_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep idle connections, so that they close them

# Shared by all of a program's uvicorns: whoever sets its level or handlers sets those of the others.
_uvicorn_log = logging.getLogger("uvicorn.error")


class _Protocol(HttpToolsProtocol):
    """A connection whose requests are not logged, whatever the program does with those of its own uvicorn."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.access_log = False


class _QuietThread(logging.Filter):
    """Drops what the thread that makes it says of its start and its end, and its warnings.

    These are of what strangers send: whoever wants to could fill a disk with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or record.thread != self._thread


class RestServer:
    """Serves a RestApi on the port of the config. For one event loop.

    Args:
        app: answers.
        config: host and port.
        listening: a socket that other processes listen on, too; None to open one.

    Attributes:
        port: the port it listens on.

    Raises:
        ServerStartError: the port cannot be opened.

    Example:
        rest = RestServer(app, config)
        await rest.start()
        await rest.stop()
    """

    def __init__(self, app: RestApi, config: ServerConfig, listening: socket.socket | None = None):
        self._socket = listening or bind(config.rest_host, rest_port(config), "rest_api_port")
        self.port: int = self._socket.getsockname()[1]
        settings = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        self._server = uvicorn.Server(settings)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to answer."""
        quiet = _QuietThread()
        _uvicorn_log.addFilter(quiet)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        self._task.add_done_callback(lambda _: _uvicorn_log.removeFilter(quiet))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)

    async def stop(self, timeout: float) -> None:
        """Closes the port, and each connection when its answer has been written.

        Args:
            timeout: seconds for that; what is still being written then is cut off.
        """
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=timeout)
        await self.abort()

    async def abort(self) -> None:
        """Closes the port and all connections at once."""
        self._server.should_exit = self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()
        if self._task is not None:
            await asyncio.wait({self._task})
