"""TensorFlow's profiler service on the server's own gRPC port, for `tf.profiler.experimental.client.trace`.

TensorFlow's implementation opens a port of its own, on all addresses and for as long as the process lives.
So it is started by the first call, and calls are handed on to it as bytes.

Reference: tensorflow/core/profiler (profiler_service.proto) and tensorflow_serving/model_servers/server.cc.
"""

import asyncio
import logging
import socket
from typing import Any

import grpc
import grpc.aio
import tensorflow as tf

_log = logging.getLogger(__name__)

_PREFIXES = ("/tensorflow.ProfilerService/", "/tensorflow.ProfileAnalysis/")


class ProfilerProxy(grpc.GenericRpcHandler):
    """Hands calls of TensorFlow's profiler on.

    Example:
        server.add_generic_rpc_handlers((ProfilerProxy(),))
    """

    def __init__(self) -> None:
        self._channel: grpc.aio.Channel | None = None
        self._starting = asyncio.Lock()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; None for those of others."""
        method: str = handler_call_details.method
        if not method.startswith(_PREFIXES):
            return None

        async def handle(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            channel = await self._started()
            try:
                return await channel.unary_unary(method)(data, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            raise AssertionError("abort always raises")

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _started(self) -> grpc.aio.Channel:
        async with self._starting:
            if self._channel is None:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                await asyncio.to_thread(tf.profiler.experimental.server.start, port)
                _log.warning("TensorFlow's profiler listens on port %d of all addresses from now on", port)
                self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            return self._channel
