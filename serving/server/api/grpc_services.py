"""The server's gRPC services: TensorFlow Serving's, health and reflection.

Requests arrive as bytes and are parsed with this project's own messages, so that the server and the client
share one codec. Calls that are not here answer UNIMPLEMENTED, as gRPC does by itself.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

# Reflection reports their descriptors.
from tensorflow_serving.apis import (  # pyright: ignore[reportMissingImports]
    model_service_pb2,
    prediction_service_pb2,
)

from ...errors import ServingError
from .calls import Api
from .in_flight import InFlight

_log = logging.getLogger(__name__)
_MESSAGE_LIMIT = 1024  # bytes

_PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODEL = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
_OVERALL = ""
# The services' names, and the short ones that TensorFlow Serving registers.
_HEALTH_SERVICES = (_OVERALL, _PREDICTION, _MODEL, "PredictionService", "ModelService")

Method = Callable[[bytes, float | None], Awaitable[bytes]]
"""Answer a serialized request, with a deadline of `time.monotonic` or None."""


class GrpcApi:
    """The handlers of TensorFlow Serving's calls.

    Args:
        api: answers them.

    Example:
        server = grpc.aio.server()
        GrpcApi(api).add_to(server)
    """

    def __init__(self, api: Api):
        self.in_flight = InFlight()
        self._api = api

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the two services."""
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)
        api = self._api
        inference = {
            "Predict": api.predict,
            "Classify": api.classify,
            "Regress": api.regress,
            "MultiInference": api.multi_inference,
        }
        limited = {name: _admitted(api, name, method) for name, method in inference.items()}
        model = {
            "GetModelStatus": api.get_model_status,
            "HandleReloadConfigRequest": api.reload_config,
        }
        self.add_service(server, _PREDICTION, {**limited, "GetModelMetadata": api.get_model_metadata})
        self.add_service(server, _MODEL, model)

    def add_service(self, server: grpc.aio.Server, name: str, methods: Mapping[str, Method]) -> None:
        """Register a service; its calls are drained like all others."""
        handlers = {method: self._handler(answer) for method, answer in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))

    def _handler(self, method: Method) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def handle(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            if self.in_flight.draining:
                # Refused here, because gRPC's own stop answers CANCELLED, which clients do not retry.
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            # It ends when its answer is on the wire, after this function has returned.
            self.in_flight.begin()
            context.add_done_callback(self._ended)  # pyright: ignore[reportArgumentType]
            remaining = context.time_remaining()
            deadline = None if remaining is None else time.monotonic() + remaining
            return await _answered(context, method(data, deadline))

        return grpc.unary_unary_rpc_method_handler(handle)

    def _ended(self, servicer_context: object) -> None:
        self.in_flight.end()


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return False for records of clients that leave too early: gRPC logs a traceback for each."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


def _admitted(api: Api, name: str, method: Method) -> Method:
    """Return `method` with the server's limits on simultaneous work."""

    async def infer(data: bytes, deadline: float | None) -> bytes:
        with api.admitted(name, data):
            return await method(data, deadline)

    return infer


async def _answered(context: grpc.aio.ServicerContext, answer: Awaitable[bytes]) -> bytes:
    """Return the answer; an error becomes the call's status."""
    try:
        return await answer
    except ServingError as error:
        await context.abort(error.code, _cut(error.details))
    except Exception:  # noqa: BLE001 - the client gets a status, the log the traceback
        _log.exception("a request failed")
        await context.abort(grpc.StatusCode.INTERNAL, "internal error; the server's log has the cause")
    raise AssertionError("abort always raises")


class Health:
    """grpc.health.v1 of the server, of its services, and of each model by its name.

    The server is healthy as long as a model answers, or none is configured: a broken model must not take
    traffic from the others.

    Example:
        health = Health()
        health.add_to(server)
        await health.set({"half": True})
    """

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
        self._models: set[str] = set()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set(self, models: dict[str, bool]) -> None:
        """Set the health of each configured model: True if it answers."""
        statuses = health_pb2.HealthCheckResponse
        for name in (self._models - models.keys()) - {*_HEALTH_SERVICES}:
            await self._servicer.set(name, statuses.SERVICE_UNKNOWN)
        self._models = {*models}
        for name, answers in models.items():
            await self._servicer.set(name, statuses.SERVING if answers else statuses.NOT_SERVING)
        overall = not models or any(models.values())
        for name in _HEALTH_SERVICES:
            await self._servicer.set(name, statuses.SERVING if overall else statuses.NOT_SERVING)

    async def leave(self) -> None:
        """Set everything to unhealthy, permanently."""
        await self._servicer.enter_graceful_shutdown()


def add_reflection(server: grpc.aio.Server) -> None:
    """Let tools such as grpcurl list the services."""
    names = (_PREDICTION, _MODEL, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)


def _cut(details: str) -> str:
    """Cut a message to TensorFlow Serving's length: status messages are sent in size-limited headers."""
    data = details.encode()
    if len(data) <= _MESSAGE_LIMIT:
        return details
    return data[:_MESSAGE_LIMIT].decode(errors="ignore") + "...TRUNCATED"
