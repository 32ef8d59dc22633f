"""The REST API's port."""

import asyncio
import logging
import socket

import uvicorn

from ...errors import ServerStartError
from ..config import ServerConfig
from .app import RestApi

_FREE_PORT = -1
_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep idle connections, so that they close them
_BACKLOG = 2048


class RestServer:
    """Serves a RestApi on the port of the config. For one event loop.

    Args:
        app: answers.
        config: host, port and grace.

    Attributes:
        port: the port it listens on.

    Raises:
        ServerStartError: the port cannot be opened.

    Example:
        rest = RestServer(app, config)
        await rest.start()
        await rest.stop()
    """

    def __init__(self, app: RestApi, config: ServerConfig):
        self._socket = _listening_socket(config)
        self.port: int = self._socket.getsockname()[1]
        settings = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._server = uvicorn.Server(settings)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to answer."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Closes the port and all connections."""
        self._server.should_exit = True
        self._server.force_exit = True
        if self._task is not None:
            await self._task


def _listening_socket(config: ServerConfig) -> socket.socket:
    host = config.rest_host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    port = 0 if config.rest_api_port == _FREE_PORT else config.rest_api_port
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).split(" (while attempting")[0]
        raise ServerStartError(
            f"cannot listen on {host}:{port} (REST): {reason}. Stop what uses the port, or choose another "
            f"rest_api_port (-1 takes any free one) or host"
        ) from error
