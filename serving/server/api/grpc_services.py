"""The server's gRPC services: TensorFlow Serving's, the Open Inference Protocol's, and health.

Requests arrive as bytes and are parsed with this project's own messages, so that the server and the client
share one codec. gRPC itself answers all other calls with UNIMPLEMENTED.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

# Reflection reports their descriptors.
from tensorflow_serving.apis import (  # pyright: ignore[reportMissingImports]
    model_service_pb2,
    prediction_service_pb2,
)

from ...errors import ServingError
from . import open_inference
from .admission import InFlight
from .inference_api import MODEL_INFER, InferenceApi
from .open_inference import OpenInference

_log = logging.getLogger(__name__)
_MESSAGE_LIMIT = 1024  # bytes

_PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODEL = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
SERVICES = (_PREDICTION, _MODEL, open_inference.SERVICE, health.SERVICE_NAME)
"""The names of the services, with health and without reflection."""
REFLECTION_SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""The names of the reflection services; newer tools ask v1 first."""
_OVERALL = ""
# The services' names, and the short ones that TensorFlow Serving registers.
_HEALTH_SERVICES = (_OVERALL, *SERVICES, *REFLECTION_SERVICES, "PredictionService", "ModelService")

Method = Callable[[bytes, float | None], Awaitable[bytes]]
"""Answer a serialized request, with a deadline of `time.monotonic` or None."""


class GrpcApi:
    """The handlers of both protocols' calls.

    Args:
        api: answers TensorFlow Serving's.
        open_inference: answers the Open Inference Protocol's.

    Example:
        server = grpc.aio.server()
        GrpcApi(api, open_inference).add_to(server)
    """

    def __init__(self, api: InferenceApi, open_inference: OpenInference):
        self.in_flight = InFlight()
        self._api = api
        self._open_inference = open_inference

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the services."""
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)
        api = self._api
        inference = {
            "Predict": api.predict,
            "Classify": api.classify,
            "Regress": api.regress,
            "MultiInference": api.multi_inference,
        }
        prediction = {
            name: _Handler(method, self.in_flight, admit=partial(api.admitted, name))
            for name, method in inference.items()
        }
        prediction["GetModelMetadata"] = _Handler(api.get_model_metadata, self.in_flight)
        _register(server, _PREDICTION, prediction)
        model = {
            "GetModelStatus": api.get_model_status,
            "HandleReloadConfigRequest": api.reload_config,
        }
        self.add_service(server, _MODEL, model)
        methods = self._open_inference.methods()
        infer = methods.pop(MODEL_INFER)
        self.add_service(server, open_inference.SERVICE, methods)
        admit = partial(api.admitted, MODEL_INFER)
        _register(server, open_inference.SERVICE, {MODEL_INFER: _Handler(infer, self.in_flight, admit)})
        server.add_generic_rpc_handlers((_TritonOnly(),))

    def add_service(self, server: grpc.aio.Server, name: str, methods: Mapping[str, Method]) -> None:
        """Register a service; its calls are drained like all others."""
        _register(server, name, {each: _Handler(method, self.in_flight) for each, method in methods.items()})


class _Handler:
    """Answer the calls of one gRPC method.

    Args:
        method: makes the answer of a request.
        in_flight: counts the calls, and refuses them when the server stops.
        admit: a context manager around each request; raises a ServingError if there are too many requests.
    """

    def __init__(
        self,
        method: Method,
        in_flight: InFlight,
        admit: Callable[[bytes], AbstractContextManager[object]] = nullcontext,
    ):
        self._method = method
        self._in_flight = in_flight
        self._admit = admit

    async def handle(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Return the answer; an error becomes the call's status."""
        if self._in_flight.draining:
            # gRPC's own stop would answer CANCELLED, which clients do not retry.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
        # The call counts until its answer is on the wire, which is after this method has returned.
        self._in_flight.begin()
        context.add_done_callback(self._ended)  # pyright: ignore[reportArgumentType]
        remaining = context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining
        try:
            with self._admit(data):
                return await self._method(data, deadline)
        except ServingError as error:
            await context.abort(error.code, _cut(error.details))
        except Exception:  # noqa: BLE001 - the client gets a status, the log the traceback
            _log.exception("a request failed")
            await context.abort(grpc.StatusCode.INTERNAL, "internal error; the server's log has the cause")
        raise AssertionError("abort always raises")

    def _ended(self, servicer_context: object) -> None:
        self._in_flight.end()


def _register(server: grpc.aio.Server, service: str, handlers: Mapping[str, _Handler]) -> None:
    known = {name: grpc.unary_unary_rpc_method_handler(each.handle) for name, each in handlers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, known),))


class _TritonOnly(grpc.GenericRpcHandler):
    """Refuse the calls that Triton adds to the protocol, by name."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, name = handler_call_details.method.lstrip("/").partition("/")
        if service != open_inference.SERVICE:
            return None
        details = f"{name} is not part of the Open Inference Protocol; this server does not support it"
        return refusing(grpc.StatusCode.UNIMPLEMENTED, details)


def refusing(code: grpc.StatusCode, details: str) -> grpc.RpcMethodHandler:
    """Return a handler that refuses each call."""

    async def refuse(requests: object, context: grpc.aio.ServicerContext) -> None:
        await context.abort(code, details)

    # Calls with one request and with several are the same to a handler that reads none.
    return grpc.stream_stream_rpc_method_handler(refuse)  # pyright: ignore[reportArgumentType]


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return False for records of clients that leave too early: gRPC logs a traceback for each."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


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


def _cut(details: str) -> str:
    """Cut a message to TensorFlow Serving's length: status messages are sent in size-limited headers."""
    data = details.encode()
    if len(data) <= _MESSAGE_LIMIT:
        return details
    return data[:_MESSAGE_LIMIT].decode(errors="ignore") + "...TRUNCATED"
