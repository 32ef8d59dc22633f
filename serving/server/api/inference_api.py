"""The server's calls, for every transport: requests in, responses out.

Reference: tensorflow_serving/apis/{prediction,model}_service.proto; the error texts are those of
tensorflow_serving/model_servers/{server_core,get_model_status_impl,model_service_impl}.cc and
servables/tensorflow/get_model_metadata_impl.cc.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from ...errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OutOfRangeError,
    UnimplementedError,
)
from ...wire import codec
from ...wire import messages_pb2 as pb
from ..batching.graph_runner import GraphRunner
from ..config import ServerConfig
from ..models.model_registry import ModelRegistry
from ..models.servable import GraphCall, Servable
from ..runtime.deadlines import seconds_left
from ..runtime.metrics import Counted, Metrics
from ..runtime.search_cost import beams_asked
from .admission import Admission, check_fields, examples_bytes, predict_bytes
from .classify import ClassifyCall, MultiInferenceCall, RegressCall
from .input_shapes import InputShapes
from .management import Management
from .predict import PredictCall
from .request_logs import Logged, RequestLogs

_M = TypeVar("_M", bound=Message)
_Response = TypeVar("_Response")
_Answer = TypeVar("_Answer")

PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE = "Predict", "Classify", "Regress", "MultiInference"
MODEL_INFER = "ModelInfer"

# Bytes copied in the time in which Python handles one value.
_VALUE_WORK = 64
_MANY = 1000
# Inputs and other fields of a request; a message of 10 MB could hold a million.
_MOST_FIELDS = 10_000

# What a kernel raises for a shape that it does not take.
_REFUSED_BY_GRAPHS = (InvalidArgumentError, FailedPreconditionError, OutOfRangeError, UnimplementedError)

_CALLS_ON_EXAMPLES = {CLASSIFY: ClassifyCall, REGRESS: RegressCall}


class Sizes(NamedTuple):
    """The bytes of a request's message, and of its tensors in memory."""

    message: int
    tensors: int


class InferenceRequest(ABC, Generic[_Response, _Answer]):
    """A request to run a graph, as it came: what `InferenceApi.infer` asks of each kind, in this order.

    Args:
        spec: the model that it names.
        sizes: its sizes. Large requests are parsed in a thread; those too large, refused.
        message: it as TensorFlow Serving's message, for the log; None if it came otherwise.
    """

    copies: bool = False
    """True if `answer` copies the outputs' memory, instead of writing value by value."""

    def __init__(self, spec: pb.ModelSpec, sizes: Sizes, message: Message | None = None):
        self.spec = spec
        self.sizes = sizes
        self.message = message

    @abstractmethod
    def call(self, servable: Servable) -> GraphCall[_Response]:
        """Return the call of a version that it asks for.

        Raises:
            ServingError: it does not fit the version. An array that does not fit its input is refused here,
                before it could join others in a batch.
        """

    @abstractmethod
    def answer(self, response: _Response) -> _Answer:
        """Return what the client gets: the call's response, as the transport writes it."""


class InferenceApi:
    """Answer requests with the models of a server.

    The methods that take bytes expect a serialized request, and a deadline of `time.monotonic` or None; they
    return a serialized response. All methods raise a ServingError in TensorFlow Serving's words.

    Attributes:
        admission: the door through which all requests come in.
        check_method: True if a signature's method_name must be that of the call.

    Args:
        models: the models.
        runner: runs the graphs.
        metrics: the counters.
        management: reports and changes the list of models.
        config: sets the format of answers and the checks of signatures.
        logs: logs requests.

    Example:
        management, logs = Management(models, metrics, ask_all=None), RequestLogs(config, metrics)
        api = InferenceApi(models, runner, metrics, management, config, logs)
        response = await api.predict(request_bytes, deadline=None)
    """

    def __init__(
        self,
        models: ModelRegistry,
        runner: GraphRunner,
        metrics: Metrics,
        management: Management,
        config: ServerConfig,
        logs: RequestLogs,
    ):
        self.admission = Admission(config)
        self._logs = logs
        self._models = models
        self._runner = runner
        self._metrics = metrics
        self._management = management
        self.check_method = config.enable_signature_method_name_check
        as_content = config.enable_serialization_as_tensor_content
        self._encode = codec.encode_array if as_content else None

    async def predict(self, data: bytes, deadline: float | None) -> bytes:
        """A PredictResponse."""
        check_fields(data, _MOST_FIELDS)
        request = await self.parse(pb.PredictRequest, data)
        with self.counted(_spec(request), PREDICT, "GRPC") as counted:
            return await self.infer(_Predict(request, len(data), self._encode), counted, deadline)

    async def classify(self, data: bytes, deadline: float | None) -> bytes:
        """A ClassificationResponse."""
        return await self._on_examples(CLASSIFY, data, deadline)

    async def regress(self, data: bytes, deadline: float | None) -> bytes:
        """A RegressionResponse."""
        return await self._on_examples(REGRESS, data, deadline)

    async def _on_examples(self, api: str, data: bytes, deadline: float | None) -> bytes:
        request = await self.parse(pb.SerializedInputRequest, data)
        with self.counted(_spec(request), api, "GRPC") as counted:
            asked = _SerializedExamples(api, request, len(data), self.check_method)
            return await self.infer(asked, counted, deadline)

    async def multi_inference(self, data: bytes, deadline: float | None) -> bytes:
        """A MultiInferenceResponse."""
        request = await self.parse(pb.SerializedMultiInferenceRequest, data)
        asked = _MultiInference(request, len(data), self.check_method)
        with self.counted(asked.spec, MULTI_INFERENCE, "GRPC") as counted:
            return await self.infer(asked, counted, deadline)

    async def get_model_metadata(self, data: bytes, deadline: float | None) -> bytes:
        """A GetModelMetadataResponse."""
        request = await self.parse(pb.GetModelMetadataRequest, data)
        return self.metadata(request).SerializeToString(deterministic=True)

    async def get_model_status(self, data: bytes, deadline: float | None) -> bytes:
        """A GetModelStatusResponse."""
        request = await self.parse(pb.GetModelStatusRequest, data)
        return (await self._management.status(_spec(request))).SerializeToString()

    async def reload_config(self, data: bytes, deadline: float | None) -> bytes:
        """A ReloadConfigResponse, when all models of the new list are available."""
        config = (await self.parse(pb.ReloadConfigRequest, data)).config
        if config.WhichOneof("config") != "model_config_list":
            raise InvalidArgumentError(
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is "
                "currently supported"
            )
        await self._management.reload(config, seconds_left(deadline))
        return pb.ReloadConfigResponse(status=pb.StatusProto()).SerializeToString()

    def metadata(self, request: pb.GetModelMetadataRequest) -> pb.GetModelMetadataResponse:
        """The signatures of the version that a request names."""
        spec = _spec(request)
        _check_metadata_fields(request.metadata_field)
        with self._models.lease(spec) as servable:
            response = pb.GetModelMetadataResponse(model_spec=pb.ModelSpec(name=spec.name))
            response.model_spec.version.value = servable.version
            signatures = pb.SignatureDefMap(signature_def=servable.signatures)
        packed = response.metadata["signature_def"]
        packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
        packed.value = signatures.SerializeToString(deterministic=True)
        return response

    def ready(self) -> bool:
        """Return True if a model answers, or none is configured: a broken model must not stop the others."""
        models = self._models.available()
        return not models or any(models.values())

    def counted(self, spec: pb.ModelSpec, api: str, entrypoint: str) -> AbstractContextManager[Counted]:
        """Count a request to the model that it names; unknown models are counted as one.

        Args:
            spec: the model.
            api: one of the words above.
            entrypoint: "GRPC" or "REST".
        """
        name = spec.name if self._models.knows(spec.name) else ""
        return self._metrics.request(name, api, entrypoint)

    async def infer(
        self, request: InferenceRequest[_Response, _Answer], counted: Counted, deadline: float | None
    ) -> _Answer:
        """Run a graph for a request.

        Each step runs inline (on the event loop), alone in a thread, or with others in a batch in a thread:

            step         runs
            parsing      inline if the message is below 64 KiB, else in a thread
            `call`       inline if the message and its tensors are each below 64 KiB, else in a thread
            the graph    in a batch if batching is on for all versions or this one, or if the call is known
                         to gain (see `GraphRunner`); else alone in a thread
            `answer`     inline if it takes less time than copying 64 KiB, else in a thread

        Three calls run no graph. GetModelMetadata runs inline. GetModelStatus runs inline, or in its own
        thread if there are several workers. HandleReloadConfigRequest runs in its own thread.

        Args:
            request: the request.
            counted: it, for the metrics; its version and signature are set.
            deadline: a time of `time.monotonic` after which nobody waits for the answer; None for no limit.
        """
        spec, sizes = request.spec, request.sizes
        pending = self._metrics.pending.request(spec.name)
        with self.admission.growth(*sizes), self._models.lease(spec) as servable, pending as begin:
            call = await self._runner.off_loop(max(sizes), request.call, servable)
            counted.version, counted.signature = str(servable.version), call.signature_name
            misfit = InputShapes.of(servable).check(call.signature_name, call.feeds)
            if counted.api in (CLASSIFY, REGRESS, MULTI_INFERENCE):
                # Every fed tensor has the same examples.
                self._metrics.examples(spec.name, _rows(call.feeds))
            if servable.search:
                asked = beams_asked(servable.signatures, call.signature_name, call.feeds)
                self.admission.check_search(_rows(call.feeds), servable.search.of_row(asked))
            started = time.perf_counter()
            try:
                arrays = await self._runner.run(servable, call, deadline, begin)
            except _REFUSED_BY_GRAPHS as error:
                if misfit is None:
                    raise
                raise misfit from error
            self._metrics.ran(counted, time.perf_counter() - started)
            work = _copied_bytes(arrays) if request.copies else _value_work(arrays)
            return await self._runner.off_loop(work, self._answer, request, counted, servable, call, arrays)

    def _answer(
        self,
        request: InferenceRequest[_Response, _Answer],
        counted: Counted,
        servable: Servable,
        call: GraphCall[_Response],
        arrays: Sequence[np.ndarray],
    ) -> _Answer:
        """Return the answer to a request that has run, and log the request if its model's log takes it."""
        response = call.respond(arrays)
        answer = request.answer(response)
        if self._logs.samples(request.spec.name):
            size = max(request.sizes) + _copied_bytes(arrays)
            logged = Logged(counted.api, request.spec, servable, call, arrays, request.message, size)
            self._logs.put(logged, response)
        return answer

    async def parse(self, message: type[_M], data: bytes) -> _M:
        """Return a request's message.

        Raises:
            InternalError: it is none, in TensorFlow Serving's words.
        """
        try:
            return await self._runner.off_loop(len(data), message.FromString, data)
        except DecodeError:
            raise InternalError("Unable to parse request") from None


class _Predict(InferenceRequest[bytes, bytes]):
    """A PredictRequest; `encode` is that of `PredictCall`."""

    copies = True

    def __init__(
        self, request: pb.PredictRequest, size: int, encode: Callable[[np.ndarray], pb.TensorProto] | None
    ):
        super().__init__(request.model_spec, Sizes(size, predict_bytes(request)), request)
        self._request = request
        self._encode = encode

    def call(self, servable: Servable) -> PredictCall:
        return PredictCall(servable, self._request, self._encode)

    def answer(self, response: bytes) -> bytes:
        return response


class ExamplesRequest(InferenceRequest[Any, _Answer]):
    """A ClassificationRequest or a RegressionRequest.

    Args:
        api: "Classify" or "Regress".
        request: the message.
        size: its bytes, as they came.
        check_method: True if the signature's method_name must be that of the call.
    """

    def __init__(self, api: str, request: pb.SerializedInputRequest, size: int, check_method: bool):
        super().__init__(_spec(request), Sizes(size, examples_bytes(request)), request)
        self._call = _CALLS_ON_EXAMPLES[api]
        self._request = request
        self._check_method = check_method

    def call(self, servable: Servable) -> ClassifyCall | RegressCall:
        """Return the call of Classify or Regress."""
        return self._call(servable, self._request, self._check_method)


class _SerializedExamples(ExamplesRequest[bytes]):
    """One that came as a message, and is answered with one."""

    def answer(self, response: Message) -> bytes:
        return serialized(response)


class _MultiInference(InferenceRequest[pb.MultiInferenceResponse, bytes]):
    """A MultiInferenceRequest."""

    def __init__(self, request: pb.SerializedMultiInferenceRequest, size: int, check_method: bool):
        # All tasks must name the same model.
        spec = request.tasks[0].model_spec if request.tasks else pb.ModelSpec()
        super().__init__(spec, Sizes(size, examples_bytes(request)), request)
        self._request = request
        self._check_method = check_method

    def call(self, servable: Servable) -> MultiInferenceCall:
        return MultiInferenceCall(servable, self._request, self._check_method)

    def answer(self, response: pb.MultiInferenceResponse) -> bytes:
        return serialized(response)


def _value_work(arrays: Sequence[np.ndarray]) -> int:
    """Return the number of bytes that could be copied while outputs are written value by value."""
    return sum(_VALUE_WORK * array.size for array in arrays)


def _rows(feeds: Mapping[str, np.ndarray]) -> int:
    return max((len(array) for array in feeds.values() if array.ndim), default=0)


def _copied_bytes(arrays: Sequence[np.ndarray]) -> int:
    """Return the bytes of outputs that are written as a copy of their memory."""
    return sum(_text_bytes(array) if array.dtype == object else array.nbytes for array in arrays)


def _text_bytes(array: np.ndarray) -> int:
    """Return the bytes of strings, estimated if there are very many."""
    pointers = _VALUE_WORK * array.size
    return pointers if array.size > _MANY else pointers + sum(map(len, array.reshape(-1).tolist()))


def serialized(response: Message) -> bytes:
    """Return a response's bytes: the same for the same answer, independent of the order of a hash map."""
    return response.SerializeToString(deterministic=True)


def _spec(
    request: (
        pb.PredictRequest | pb.SerializedInputRequest | pb.GetModelMetadataRequest | pb.GetModelStatusRequest
    ),
) -> pb.ModelSpec:
    if not request.HasField("model_spec"):
        raise InvalidArgumentError("Missing ModelSpec")
    return request.model_spec


def _check_metadata_fields(fields: Sequence[str]) -> None:
    if not fields:
        raise InvalidArgumentError("GetModelMetadataRequest must specify at least one metadata_field")
    for field in fields:
        if field != "signature_def":
            raise InvalidArgumentError(f"Metadata field {field} is not supported")
