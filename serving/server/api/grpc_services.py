"""The server's gRPC services: TensorFlow Serving's, the Open Inference Protocol's, health and reflection.

Requests arrive as bytes and are parsed with this project's own messages, so that the server and the client
share one codec. gRPC itself answers all other calls with UNIMPLEMENTED. Tools such as grpcurl list the
services and their messages by server reflection: grpcio-reflection speaks v1alpha. v1 has the same messages
in another package, and newer tools ask it first.

Reference: grpc/reflection/v1/reflection.proto of grpc/grpc-proto.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

# Reflection reports their descriptors.
from tensorflow_serving.apis import (  # pyright: ignore[reportMissingImports]
    model_service_pb2,
    prediction_service_pb2,
)

from ...errors import ResourceExhaustedError, ServingError
from ...wire import messages_pb2 as pb
from ...wire import open_inference_pb2 as oip
from . import open_inference
from .inference_api import MODEL_INFER, MULTI_INFERENCE, InferenceApi
from .open_inference import OpenInference

_log = logging.getLogger(__name__)
_MESSAGE_LIMIT = 1024  # bytes
# Larger refused requests are not parsed to find their model's name.
_MOST_REFUSED = 2**16

_PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODEL = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
SERVICES = (_PREDICTION, _MODEL, open_inference.SERVICE, health.SERVICE_NAME)
"""The names of the services, with health and without reflection."""
REFLECTION_SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""The names of the reflection services; newer tools ask v1 first."""
_REFLECTION_METHOD = "ServerReflectionInfo"
_REFLECTION_PACKAGE = "grpc.reflection.v1"
_NUMBER_FIELDS = {
    "fp32_contents": FieldDescriptorProto.TYPE_FLOAT,
    "fp64_contents": FieldDescriptorProto.TYPE_DOUBLE,
}
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
        self._api = api
        self._open_inference = open_inference

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the services."""
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)
        api = self._api
        prediction = {
            "Predict": api.predict,
            "Classify": api.classify,
            "Regress": api.regress,
            "MultiInference": api.multi_inference,
        }
        self.add_service(server, _PREDICTION, prediction, _InferenceHandler)
        self.add_service(server, _PREDICTION, {"GetModelMetadata": api.get_model_metadata})
        model = {
            "GetModelStatus": api.get_model_status,
            "HandleReloadConfigRequest": api.reload_config,
        }
        self.add_service(server, _MODEL, model)
        methods = self._open_inference.methods()
        infer = {MODEL_INFER: methods.pop(MODEL_INFER)}
        self.add_service(server, open_inference.SERVICE, infer, _InferenceHandler)
        self.add_service(server, open_inference.SERVICE, methods)
        server.add_generic_rpc_handlers((_TritonOnly(),))

    def add_service(
        self,
        server: grpc.aio.Server,
        name: str,
        methods: Mapping[str, Method],
        kind: "type[_Handler] | None" = None,
    ) -> None:
        """Register methods of a service; their calls are drained like all others."""
        make = kind or _Handler
        handlers = {each: make(self._api, each, method) for each, method in methods.items()}
        known = {each: grpc.unary_unary_rpc_method_handler(made.handle) for each, made in handlers.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, known),))


class _Handler:
    """Answer the calls of one gRPC method.

    Args:
        api: has the door, which counts the calls, and is closed when the server stops.
        name: of the method.
        method: makes the answer of a request.
    """

    def __init__(self, api: InferenceApi, name: str, method: Method):
        self._api = api
        self._admission = api.admission
        self._name = name
        self._method = method

    async def handle(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Return the answer; an error becomes the call's status."""
        try:
            # gRPC's own stop would answer CANCELLED, which clients do not retry.
            self._admission.check_open()
            # The call counts until its answer is on the wire, which is after this method has returned.
            self._admission.begin()
            context.add_done_callback(self._ended)  # pyright: ignore[reportArgumentType]
            remaining = context.time_remaining()
            deadline = None if remaining is None else time.monotonic() + remaining
            return await self._answer(data, deadline, context)
        except ServingError as error:
            await context.abort(error.code, _cut(error.details))
        except Exception:  # noqa: BLE001 - the client gets a status, the log the traceback
            _log.exception("a request failed")
            await context.abort(grpc.StatusCode.INTERNAL, "internal error; the server's log has the cause")
        raise AssertionError("abort always raises")

    async def _answer(self, data: bytes, deadline: float | None, context: grpc.aio.ServicerContext) -> bytes:
        return await self._method(data, deadline)

    def _ended(self, servicer_context: object) -> None:
        self._admission.end()


class _InferenceHandler(_Handler):
    """Answer the calls of a method that runs a graph, a limited number at a time."""

    async def _answer(self, data: bytes, deadline: float | None, context: grpc.aio.ServicerContext) -> bytes:
        client = client_address(context.peer())
        try:
            self._admission.enter(client)
        except ResourceExhaustedError as refusal:
            with self._api.counted(_model_of(self._name, data), self._name, "GRPC"):
                raise refusal
        try:
            return await self._method(data, deadline)
        finally:
            self._admission.leave(client)


def client_address(peer: str) -> str:
    """Return a caller's address without its port, as REST has it.

    Args:
        peer: gRPC's name for it.

    Example:
        >>> client_address("ipv6:%5B::1%5D:50812"), client_address("ipv4:192.0.2.7:50812")
        ('::1', '192.0.2.7')
    """
    kind, _, address = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    host = address.rpartition(":")[0]
    return unquote(host).strip("[]") if kind == "ipv6" else host


def _model_of(api: str, data: bytes) -> pb.ModelSpec:
    """Return the model that a refused request is for, if this is cheap to find."""
    if len(data) > _MOST_REFUSED:
        return pb.ModelSpec()
    try:
        if api == MULTI_INFERENCE:
            return pb.SerializedMultiInferenceRequest.FromString(data).tasks[0].model_spec
        if api == MODEL_INFER:
            return pb.ModelSpec(name=oip.ModelReadyRequest.FromString(data).name)
        return pb.GetModelStatusRequest.FromString(data).model_spec
    except (DecodeError, IndexError):
        return pb.ModelSpec()


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


def add_reflection(server: grpc.aio.Server) -> None:
    """Let tools list the services."""
    names = (*SERVICES, *REFLECTION_SERVICES)
    servicer: Any = reflection.aio.ReflectionServicer(names, _Descriptors())  # pyright: ignore[reportArgumentType]
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for service in REFLECTION_SERVICES:
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {_REFLECTION_METHOD: handler}),)
        )


class _Descriptors:
    """The descriptors of all services, under the names that the protocols have.

    The Open Inference Protocol's package has another name here, and reflection's v1 is made of v1alpha. Both
    are in a pool of their own, since a program may have loaded others of their names.
    """

    def __init__(self) -> None:
        own = FileDescriptorProto()
        oip.DESCRIPTOR.CopyToProto(own)
        for message in own.message_type:
            for field in message.field:
                if field.name in _NUMBER_FIELDS:  # which are bytes here, to be read without an object each
                    field.type, field.label = _NUMBER_FIELDS[field.name], FieldDescriptorProto.LABEL_REPEATED
        package, _, _ = open_inference.SERVICE.rpartition(".")
        alpha = FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
        alpha.name = alpha.name.replace("v1alpha", "v1")
        self._pool = DescriptorPool()
        self._pool.AddSerializedFile(_renamed(own, package).SerializeToString())
        self._pool.AddSerializedFile(_renamed(alpha, _REFLECTION_PACKAGE).SerializeToString())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("Find"):
            raise AttributeError(name)

        def find(*sought: Any) -> Any:
            try:
                return getattr(self._pool, name)(*sought)
            except KeyError:
                return getattr(Default(), name)(*sought)

        return find


def _renamed(file: FileDescriptorProto, package: str) -> FileDescriptorProto:
    """Return a file with another package."""
    # As text, because the package's name begins the name of each type.
    renamed = text_format.MessageToString(file).replace(file.package, package)
    return text_format.Parse(renamed, FileDescriptorProto())
