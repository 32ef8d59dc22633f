"""The REST API's port."""

import asyncio
import logging

import uvicorn

from ..config import ServerConfig
from ..listening import bind, rest_port
from .app import RestApi

_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep idle connections, so that they close them


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
        self._socket = bind(config.rest_host, rest_port(config), "rest_api_port")
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
