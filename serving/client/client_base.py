"""The settings that both clients share."""

from collections.abc import Sequence
from typing import Any

import grpc

from .operations import Operations
from .task_calls import TaskCalls
from .transport.connection import ConnectionSettings
from .transport.proxies import proxy_advice
from .transport.security import TLS, MetadataSource
from .transport.shared_transport import TransportSettings, at_least_one
from .transport.targets import Targets


class BaseClient:
    """Base of the clients; see Client for the arguments."""

    def __init__(
        self,
        target: str | Sequence[str],
        model: str = "default",
        *,
        timeout: float = 10.0,
        max_batch_size: int | None = None,
        concurrency: int = 4,
        connections: int = 1,
        wait_for_ready: bool = False,
        tls: TLS | grpc.ChannelCredentials | None = None,
        insecure: bool = False,
        metadata: MetadataSource | None = None,
        credentials: grpc.CallCredentials | None = None,
        interceptors: Sequence[Any] = (),
    ):
        count = at_least_one("connections", connections)
        connection = ConnectionSettings(
            Targets.of(target), tls, insecure, metadata, credentials, interceptors, count
        )
        size = None if max_batch_size is None else at_least_one("max_batch_size", max_batch_size)
        self._operations = Operations(
            str(connection.targets),
            model,
            size,
            encrypted=tls is not None,
            proxy=proxy_advice(connection.targets),
        )
        self._tasks = TaskCalls(self._operations)
        self._timeout = timeout
        settings = TransportSettings(
            self._operations.server, connection, timeout, concurrency, bool(wait_for_ready)
        )
        self._connect(settings)

    def __repr__(self) -> str:
        server = self._operations.server
        return f"{type(self).__name__}({server.target!r}, {server.model!r}, timeout={self._timeout:g})"

    def _connect(self, settings: TransportSettings) -> None:
        """Create the transport; nothing is sent yet."""
        raise NotImplementedError
