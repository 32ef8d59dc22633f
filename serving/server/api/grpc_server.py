"""The gRPC server: it accepts several calls at a time, refuses those without a token, and traces them.

grpc.aio accepts one call from gRPC's core, and the next one some turns of the event loop later. Under load,
calls then wait in the core, without refusals and without our deadlines, although the loop has time: with 200
callers and a limit of 20, a refusal took 100 ms instead of 42.

Reference: opentelemetry.io/docs/specs/semconv/rpc/grpc.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from grpc._cython import cygrpc
from grpc_health.v1 import health

from ...errors import UnauthenticatedError
from ..runtime.bearer_tokens import BearerTokens
from ..runtime.tracing import RequestTrace, Tracing, current
from .grpc_services import SERVICES, refusing
from .open_inference import SERVICE

# Calls accepted at a time. With more, refusals are faster and leave less time for answers. With 200 callers
# and a limit of 20, a refusal took 100 ms for 1 call at a time, 48 for 16, 42 for 20, 23 for 64. The rate of
# answers, relative to that of 20 callers alone, was 86 % for 20 and 75 % for 64.
_AHEAD = 20

_cygrpc: Any = cygrpc
_AioServer: Any = cygrpc.AioServer
_replacing = threading.Lock()
# Health checks need no token.
_OPEN = {
    *(f"/{health.SERVICE_NAME}/{name}" for name in ("Check", "Watch", "List")),
    *(f"/{SERVICE}/{name}" for name in ("ServerLive", "ServerReady")),
}
_TRACED = {*SERVICES} - {health.SERVICE_NAME}
# The others are the caller's: the specification leaves a server's status unset for them.
_OWN_FAULTS = (
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
)

_Handler = grpc.RpcMethodHandler
_Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]


def grpc_server(
    options: Sequence[tuple[str, int | str]],
    tokens: BearerTokens | None = None,
    tracing: Tracing | None = None,
) -> grpc.aio.Server:
    """Return a server for the running event loop.

    Args:
        options: of gRPC's core.
        tokens: the accepted tokens; None turns authentication off.
        tracing: traces the calls; None for no traces.

    Example:
        server = grpc_server([("grpc.so_reuseport", 0)])
    """
    interceptors: list[grpc.aio.ServerInterceptor] = [Authentication(tokens)] if tokens else []
    if tracing is not None:
        interceptors.append(GrpcTracing(tracing))
    with _replacing:
        _cygrpc.AioServer = _Ahead
        try:
            return grpc.aio.server(options=options, interceptors=interceptors or None)
        finally:
            _cygrpc.AioServer = _AioServer


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


def _look_at(asked_for: asyncio.Task[Any]) -> None:
    # When the server ends, the remaining requests for a call fail; asyncio would log that.
    if not asked_for.cancelled():
        asked_for.exception()


class Authentication(grpc.aio.ServerInterceptor):
    """Let calls pass whose metadata bear a token, and those that ask for the health.

    Args:
        tokens: the tokens.

    Example:
        grpc.aio.server(interceptors=[Authentication(BearerTokens("tokens"))])
    """

    def __init__(self, tokens: BearerTokens):
        self._tokens = tokens

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Return the call's handler, or one that refuses it."""
        if handler_call_details.method in _OPEN:
            return await continuation(handler_call_details)
        metadata = handler_call_details.invocation_metadata or ()
        try:
            self._tokens.check([value for key, value in metadata if key == "authorization"])
        except UnauthenticatedError as error:
            return refusing(error.code, error.details)
        return await continuation(handler_call_details)


class GrpcTracing(grpc.aio.ServerInterceptor):
    """Trace the calls of the protocols' services; health checks and reflection are not traced.

    Args:
        tracing: starts the traces.

    Example:
        grpc.aio.server(interceptors=[GrpcTracing(Tracing("1.0"))])
    """

    def __init__(self, tracing: Tracing):
        self._tracing = tracing
        self._handlers: dict[str, _Handler] = {}

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Return the call's handler, which traces the call."""
        method = handler_call_details.method
        known = self._handlers.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        service, _, name = method.lstrip("/").partition("/")
        # Methods that do not exist are answered as streams.
        if service not in _TRACED or handler is None or handler.unary_unary is None:
            return handler
        self._handlers[method] = self._traced(handler.unary_unary, service, name)
        return self._handlers[method]

    def _traced(self, handle: Callable[..., Any], service: str, method: str) -> _Handler:
        name = f"{service}/{method}"
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}

        async def handle_traced(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            trace = self._tracing.request(name, attributes, context.invocation_metadata() or ())
            if trace is None:
                return await handle(data, context)
            current.set(trace)
            try:
                answer = await handle(data, context)
                trace.tell({"rpc.grpc.status_code": 0})
                return answer
            except BaseException as error:
                _tell_failure(trace, context, error)
                raise
            finally:
                trace.end()

        return grpc.unary_unary_rpc_method_handler(handle_traced)


def _tell_failure(trace: RequestTrace, context: Any, error: BaseException) -> None:
    left = isinstance(error, asyncio.CancelledError)
    status = grpc.StatusCode.CANCELLED if left else context.code() or grpc.StatusCode.UNKNOWN
    text = "the client has gone, or its deadline has passed" if left else context.details() or str(error)
    trace.tell({"rpc.grpc.status_code": status.value[0]}, status.name, text, status in _OWN_FAULTS)
