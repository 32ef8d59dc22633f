"""Traces of gRPC calls.

Reference: opentelemetry.io/docs/specs/semconv/rpc/grpc.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from ..runtime.tracing import RequestTrace, Tracing, current
from .grpc_services import SERVICES, health

_Handler = grpc.RpcMethodHandler
_Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]
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
