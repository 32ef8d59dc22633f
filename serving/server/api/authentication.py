"""Refuse gRPC calls without a token."""

from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
from grpc_health.v1 import health

from ...errors import UnauthenticatedError
from ..runtime.bearer_tokens import BearerTokens
from .grpc_services import refusing
from .open_inference import SERVICE

# Health checks need no token.
_OPEN = {
    *(f"/{health.SERVICE_NAME}/{name}" for name in ("Check", "Watch", "List")),
    *(f"/{SERVICE}/{name}" for name in ("ServerLive", "ServerReady")),
}

_Handler = grpc.RpcMethodHandler
_Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]


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
