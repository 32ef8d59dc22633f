"""A gRPC server that accepts several calls at a time.

grpc.aio accepts one call from gRPC's core, and the next one some turns of the event loop later. Under load,
calls then wait in the core, without refusals and without our deadlines, although the loop has time: with 200
callers and a limit of 20, a refusal took 100 ms instead of 42.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import grpc.aio
from grpc._cython import cygrpc

# Calls accepted at a time. With more, refusals are faster and leave less time for answers. With 200 callers
# and a limit of 20, a refusal took 100 ms for 1 call at a time, 48 for 16, 42 for 20, 23 for 64. The rate of
# answers, relative to that of 20 callers alone, was 86 % for 20 and 75 % for 64.
_AHEAD = 20

_cygrpc: Any = cygrpc
_AioServer: Any = cygrpc.AioServer
_replacing = threading.Lock()


class _Ahead(_AioServer):
    """gRPC's own server, which accepts several calls at a time instead of one.

    `_request_call` is private to gRPC. If it disappears, this class has no effect: calls are accepted singly.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._asked_for: deque[asyncio.Task[Any]] = deque()

    async def _request_call(self) -> Any:
        while len(self._asked_for) < _AHEAD:
            asked_for = asyncio.create_task(super()._request_call())
            asked_for.add_done_callback(_look_at)
            self._asked_for.append(asked_for)
        return await self._asked_for.popleft()


def grpc_server(
    options: Sequence[tuple[str, int | str]], interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
) -> grpc.aio.Server:
    """Return a server for the running event loop.

    Args:
        options: of gRPC's core.
        interceptors: see each call before its handler.

    Example:
        server = grpc_server([("grpc.so_reuseport", 0)])
    """
    with _replacing:
        _cygrpc.AioServer = _Ahead
        try:
            return grpc.aio.server(options=options, interceptors=interceptors or None)
        finally:
            _cygrpc.AioServer = _AioServer


def _look_at(asked_for: asyncio.Task[Any]) -> None:
    # When the server ends, the remaining requests for a call fail; asyncio would log that.
    if not asked_for.cancelled():
        asked_for.exception()
