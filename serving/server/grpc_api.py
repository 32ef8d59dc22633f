"""TensorFlow Serving's gRPC services on one model: Predict, GetModelMetadata, GetModelStatus; and health.

Requests arrive as bytes and are parsed with this project's own messages, so that the server and the client
share one codec. Calls that are not here answer UNIMPLEMENTED, as gRPC does by itself.

Reference: tensorflow_serving/apis/{prediction,model}_service.proto; the error texts are those of
tensorflow_serving/model_servers/{server_core,get_model_status_impl}.cc and
servables/tensorflow/get_model_metadata_impl.cc.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2

from ..errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ServingError,
)
from ..wire import messages_pb2 as pb
from .lifecycle import ModelManager, servable_not_found

_log = logging.getLogger(__name__)
_M = TypeVar("_M", bound=Message)
_MESSAGE_LIMIT = 1024  # bytes

# The overall health, the services' names, and the short names that TensorFlow Serving registers.
HEALTH_SERVICES = (
    "",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "PredictionService",
    "ModelService",
)


class GrpcApi:
    """The handlers of one model's calls.

    Args:
        model_name: the name clients ask for.
        manager: the model's versions.
        executor: threads for what takes time: parsing, running the graph, serializing.

    Example:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(GrpcApi("default", manager, executor).handlers())
    """

    def __init__(self, model_name: str, manager: ModelManager, executor: Executor):
        self._model_name = model_name
        self._manager = manager
        self._executor = executor
        self._running = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """The two services, for `add_generic_rpc_handlers`."""
        unary = grpc.unary_unary_rpc_method_handler
        prediction = {"Predict": unary(self._predict), "GetModelMetadata": unary(self._get_model_metadata)}
        model = {"GetModelStatus": unary(self._get_model_status)}
        handler = grpc.method_handlers_generic_handler
        return (
            handler("tensorflow.serving.PredictionService", prediction),
            handler("tensorflow.serving.ModelService", model),
        )

    async def drain(self) -> None:
        """Refuses new calls from now on, and returns when those that are running have an answer."""
        self._draining = True
        await self._idle.wait()

    async def _predict(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        remaining = context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining

        def predict() -> bytes:
            request = _parse(pb.PredictRequest, data)
            _require_spec(request)
            with self._manager.lease(self._wanted_version(request.model_spec)) as servable:
                response = servable.predict(request, _seconds_left(deadline))
            # Deterministic: the same answer is the same bytes, whatever the order of a hash map.
            return response.SerializeToString(deterministic=True)

        loop = asyncio.get_running_loop()
        return await self._answer(context, lambda: loop.run_in_executor(self._executor, predict))

    async def _get_model_metadata(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        async def metadata() -> bytes:
            request = _parse(pb.GetModelMetadataRequest, data)
            _require_spec(request)
            _check_metadata_fields(request.metadata_field)
            with self._manager.lease(self._wanted_version(request.model_spec)) as servable:
                response = pb.GetModelMetadataResponse(model_spec=pb.ModelSpec(name=self._model_name))
                response.model_spec.version.value = servable.version
                signatures = pb.SignatureDefMap(signature_def=servable.signatures)
            packed = response.metadata["signature_def"]
            packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
            packed.value = signatures.SerializeToString(deterministic=True)
            return response.SerializeToString(deterministic=True)

        return await self._answer(context, metadata)

    async def _get_model_status(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        async def status() -> bytes:
            request = _parse(pb.GetModelStatusRequest, data)
            _require_spec(request)
            return self._status_response(request.model_spec).SerializeToString()

        return await self._answer(context, status)

    async def _answer(self, context: grpc.aio.ServicerContext, work: Callable[[], Awaitable[bytes]]) -> bytes:
        """What `work` returns; the error it raises becomes the call's status."""
        if self._draining:
            # Said here, because gRPC's own stop answers CANCELLED, which clients do not retry.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
        self._running += 1
        self._idle.clear()
        try:
            return await work()
        except ServingError as error:
            await context.abort(error.code, _cut(error.details))
        except Exception:  # noqa: BLE001 - the client gets a status, the log the traceback
            _log.exception("a request failed")
            await context.abort(grpc.StatusCode.INTERNAL, "internal error; the server's log has the cause")
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()
        raise AssertionError("abort always raises")

    def _status_response(self, spec: pb.ModelSpec) -> pb.GetModelStatusResponse:
        states = self._manager.states() if spec.name == self._model_name else []
        if spec.HasField("version"):
            states = [state for state in states if state.version == spec.version.value]
        if not states:
            wanted = f"version {spec.version.value}" if spec.HasField("version") else "any versions"
            raise NotFoundError(f"Could not find {wanted} of model {spec.name}")
        response = pb.GetModelStatusResponse()
        for state in states:
            status = response.model_version_status.add(version=state.version, state=state.state)
            status.status.error_code = state.code.value[0]
            status.status.error_message = state.message
        return response

    def _wanted_version(self, spec: pb.ModelSpec) -> int | None:
        """The version a request asks for, None for the latest, once its model is known to be this one."""
        if not spec.name:
            raise InvalidArgumentError("ModelSpec has no name specified.")
        if spec.HasField("version_label"):
            raise InvalidArgumentError(f"Unrecognized servable version label: {spec.version_label}")
        version = spec.version.value if spec.HasField("version") else None
        if spec.name != self._model_name:
            raise servable_not_found(spec.name, version)
        return version


class Health(health.aio.HealthServicer):  # pyright: ignore[reportAttributeAccessIssue]
    """grpc.health.v1 for every service of this server.

    Example:
        health = Health()
        await health.set_all(serving=True)
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
    """

    async def set_all(self, serving: bool) -> None:
        """Sets every service to SERVING or NOT_SERVING."""
        statuses = health_pb2.HealthCheckResponse
        for service in HEALTH_SERVICES:
            await self.set(service, statuses.SERVING if serving else statuses.NOT_SERVING)


def _cut(details: str) -> str:
    """At most as much as TensorFlow Serving sends: status messages travel in size-limited headers."""
    data = details.encode()
    if len(data) <= _MESSAGE_LIMIT:
        return details
    return data[:_MESSAGE_LIMIT].decode(errors="ignore") + "...TRUNCATED"


def _parse(message: type[_M], data: bytes) -> _M:
    try:
        return message.FromString(data)
    except DecodeError:
        raise InternalError("Unable to parse request") from None


def _require_spec(request: pb.PredictRequest | pb.GetModelMetadataRequest | pb.GetModelStatusRequest) -> None:
    if not request.HasField("model_spec"):
        raise InvalidArgumentError("Missing ModelSpec")


def _check_metadata_fields(fields: Sequence[str]) -> None:
    if not fields:
        raise InvalidArgumentError("GetModelMetadataRequest must specify at least one metadata_field")
    for field in fields:
        if field != "signature_def":
            raise InvalidArgumentError(f"Metadata field {field} is not supported")


def _seconds_left(deadline: float | None) -> float | None:
    """Seconds until the deadline: a request may have waited for a thread."""
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceededError("Timed out waiting for notification")
    return left
