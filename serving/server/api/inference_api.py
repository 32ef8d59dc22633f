"""The server's calls, for every transport: requests in, responses out.

Reference: tensorflow_serving/apis/{prediction,model}_service.proto; the error texts are those of
tensorflow_serving/model_servers/{server_core,get_model_status_impl,model_service_impl}.cc and
servables/tensorflow/get_model_metadata_impl.cc.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from ...errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)
from ...wire import codec
from ...wire import messages_pb2 as pb
from ...wire import open_inference_pb2 as oip
from ..batching.graph_runner import GraphRunner
from ..config import ServerConfig
from ..models.model_registry import ModelRegistry
from ..models.servable import GraphCall, Servable
from ..runtime.deadlines import seconds_left
from ..runtime.metrics import Counted, Metrics
from .admission import Admission, check_fields, examples_bytes, predict_bytes
from .classify import ClassifyCall, MultiInferenceCall, RegressCall
from .input_shapes import InputShapes
from .management import Management
from .predict import PredictCall
from .request_logs import Logged, RequestLogs

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")
_Answer = TypeVar("_Answer")

PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE = "Predict", "Classify", "Regress", "MultiInference"
MODEL_INFER = "ModelInfer"

# Bytes copied in the time in which Python handles one value.
_VALUE_WORK = 64
_MANY = 1000
# Inputs and other fields of a request; a message of 10 MB could hold a million.
_MOST_FIELDS = 10_000
# Larger refused requests are not parsed to find their model's name.
_MOST_REFUSED = 2**16

# What a kernel raises for a shape that it does not take.
_REFUSED_BY_GRAPHS = (InvalidArgumentError, FailedPreconditionError, OutOfRangeError, UnimplementedError)

_CALLS_ON_EXAMPLES = {CLASSIFY: ClassifyCall, REGRESS: RegressCall}


class Sizes(NamedTuple):
    """The bytes of a request's message, and of its tensors in memory."""

    message: int
    tensors: int


class InferenceApi:
    """Answer requests with the models of a server.

    The methods that take bytes expect a serialized request, and a deadline of `time.monotonic` or None; they
    return a serialized response. All methods raise a ServingError in TensorFlow Serving's words.

    Attributes:
        admission: the limits on simultaneous work.

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
        self._check_method = config.enable_signature_method_name_check
        as_content = config.enable_serialization_as_tensor_content
        self._encode = codec.encode_array if as_content else None

    async def predict(self, data: bytes, deadline: float | None) -> bytes:
        """A PredictResponse."""
        check_fields(data, _MOST_FIELDS)
        request = await self.parse(pb.PredictRequest, data)
        spec = _spec(request)
        prepare = partial(PredictCall, request=request, encode=self._encode)
        with self.counted(spec, PREDICT, "GRPC") as counted:
            sizes = Sizes(len(data), predict_bytes(request))
            return await self.infer(
                spec, counted, prepare, _same, sizes, deadline, copies=True, message=request
            )

    async def classify(self, data: bytes, deadline: float | None) -> bytes:
        """A ClassificationResponse."""
        request = await self.parse(pb.SerializedInputRequest, data)
        with self.counted(_spec(request), CLASSIFY, "GRPC") as counted:
            return await self.on_examples(counted, request, serialized, len(data), deadline)

    async def regress(self, data: bytes, deadline: float | None) -> bytes:
        """A RegressionResponse."""
        request = await self.parse(pb.SerializedInputRequest, data)
        with self.counted(_spec(request), REGRESS, "GRPC") as counted:
            return await self.on_examples(counted, request, serialized, len(data), deadline)

    async def multi_inference(self, data: bytes, deadline: float | None) -> bytes:
        """A MultiInferenceResponse."""
        request = await self.parse(pb.SerializedMultiInferenceRequest, data)
        spec = request.tasks[0].model_spec if request.tasks else pb.ModelSpec()
        prepare = partial(MultiInferenceCall, request=request, check_method=self._check_method)
        with self.counted(spec, MULTI_INFERENCE, "GRPC") as counted:
            sizes = Sizes(len(data), examples_bytes(request))
            return await self.infer(spec, counted, prepare, serialized, sizes, deadline, message=request)

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

    def admitted(self, api: str, data: bytes) -> AbstractContextManager[None]:
        """Admit a gRPC request until it has its answer, and count a refusal.

        Raises:
            ResourceExhaustedError: on entry, the limit of waiting and running requests is reached.
        """
        return _Admitted(self.admission, partial(self._count_refusal, api, data))

    def _count_refusal(self, api: str, data: bytes, refusal: ResourceExhaustedError) -> NoReturn:
        with self.counted(self._model_of(api, data), api, "GRPC"):
            raise refusal

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

    async def on_examples(
        self,
        counted: Counted,
        request: pb.SerializedInputRequest,
        finish: Callable[[Any], _Answer],
        size: int,
        deadline: float | None,
    ) -> _Answer:
        """Return the answer that `finish` makes of the response to Classify or Regress. See `infer`."""
        prepare = partial(_CALLS_ON_EXAMPLES[counted.api], request=request, check_method=self._check_method)
        sizes = Sizes(size, examples_bytes(request))
        return await self.infer(_spec(request), counted, prepare, finish, sizes, deadline, message=request)

    async def infer(
        self,
        spec: pb.ModelSpec,
        counted: Counted,
        prepare: Callable[[Servable], GraphCall[_T]],
        finish: Callable[[_T], _Answer],
        sizes: Sizes,
        deadline: float | None,
        copies: bool = False,
        message: Message | None = None,
    ) -> _Answer:
        """Run a graph for a request.

        Each step runs inline (on the event loop), alone in a thread, or with others in a batch in a thread:

            step         runs
            parsing      inline if the message is below 64 KiB, else in a thread
            `prepare`    inline if the message and its tensors are each below 64 KiB, else in a thread
            the graph    in a batch if batching is on for all versions or this one, or if the call is known
                         to gain (see `GraphRunner`); else alone in a thread
            `finish`     inline if it takes less time than copying 64 KiB, else in a thread

        Three calls run no graph. GetModelMetadata runs inline. GetModelStatus runs inline, or in its own
        thread if there are several workers. HandleReloadConfigRequest runs in its own thread.

        Args:
            spec: the model that the request names.
            counted: the request, for the metrics; its version and signature are set.
            prepare: turns the request into a call. One with an array that does not fit its input is refused
                before it could join others in a batch.
            finish: turns the response into the answer.
            sizes: the sizes of the request. Large requests are parsed in a thread; those too large, refused.
            deadline: a time of `time.monotonic` after which nobody waits for the answer; None for no limit.
            copies: True if `finish` copies the outputs' memory, instead of writing value by value.
            message: the request as TensorFlow Serving's message, for the log; None if it came otherwise.
        """
        pending = self._metrics.pending.request(spec.name)
        with self.admission.growth(*sizes), self._models.lease(spec) as servable, pending as begin:
            call = await self._runner.off_loop(max(sizes), prepare, servable)
            counted.version, counted.signature = str(servable.version), call.signature_name
            misfit = InputShapes.of(servable).check(call.signature_name, call.feeds)
            if counted.api in (CLASSIFY, REGRESS, MULTI_INFERENCE):
                # Every fed tensor has the same examples.
                self._metrics.examples(spec.name, max(map(len, call.feeds.values()), default=0))
            started = time.perf_counter()
            try:
                arrays = await self._runner.run(servable, call, deadline, begin)
            except _REFUSED_BY_GRAPHS as error:
                if misfit is None:
                    raise
                raise misfit from error
            self._metrics.ran(counted, time.perf_counter() - started)
            if self._logs.samples(spec.name):
                size = max(sizes) + _copied_bytes(arrays)
                logged = Logged(counted.api, spec, servable, call, arrays, message, size)
                finish = self._logs.after(finish, logged)
            work = _copied_bytes(arrays) if copies else _value_work(arrays)
            return await self._runner.off_loop(work, lambda: finish(call.respond(arrays)))

    def _model_of(self, api: str, data: bytes) -> pb.ModelSpec:
        """Return the model that a request is for, if this is cheap to find."""
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

    async def parse(self, message: type[_M], data: bytes) -> _M:
        """Return a request's message.

        Raises:
            InternalError: it is none, in TensorFlow Serving's words.
        """
        try:
            return await self._runner.off_loop(len(data), message.FromString, data)
        except DecodeError:
            raise InternalError("Unable to parse request") from None


class _Admitted:
    """The block of an admitted request. A class, because a generator takes three times as long."""

    __slots__ = ("_block", "_refuse")

    def __init__(self, admission: Admission, refuse: Callable[[ResourceExhaustedError], NoReturn]):
        self._block = admission.request()
        self._refuse = refuse

    def __enter__(self) -> None:
        try:
            self._block.__enter__()
        except ResourceExhaustedError as error:
            self._refuse(error)

    def __exit__(self, *_: object) -> None:
        self._block.__exit__(None, None, None)


def _same(answer: bytes) -> bytes:
    return answer


def _value_work(arrays: Sequence[np.ndarray]) -> int:
    """Return the number of bytes that could be copied while outputs are written value by value."""
    return sum(_VALUE_WORK * array.size for array in arrays)


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
