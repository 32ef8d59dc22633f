"""The Open Inference Protocol (KServe's V2): its gRPC calls, and what they share with those over REST.

Reference: specification/protocol of open-inference/open-inference-protocol; for parameters,
docs/protocol/extension_parameters.md of triton-inference-server/server.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ... import errors
from ...wire import messages_pb2 as pb
from ...wire import open_inference_pb2 as oip
from ...wire import open_inference_tensors as tensors
from ...wire.dtypes import CodecError, dtype_name
from ..models import quantised_tensors
from ..models.model_registry import ModelRegistry
from ..models.servable import DEFAULT_SIGNATURE, Servable
from .inference_api import MODEL_INFER, InferenceApi, Sizes, serialized
from .predict import ArraysCall, signature_of

SERVICE = "inference.GRPCInferenceService"
SIGNATURE_NAME = "signature_name"
"""The request's parameter that names a signature."""

_SERVER_NAME = "keras-selfattn"
_PLATFORM = "tensorflow_savedmodel"
_EXTENSIONS = ("binary_tensor_data",)
_MOST_VERSION = 2**63 - 1
# Parameters of Triton's own that would change the answer, and those of a tensor.
_STATEFUL = ("sequence_id", "sequence_start", "sequence_end")
_OF_TENSORS = ("shared_memory_region", "classification")

_T = TypeVar("_T")


class Outputs(NamedTuple):
    """The outputs of a call, by name, and the version that made them."""

    version: int
    arrays: dict[str, np.ndarray]


class InferCall(Generic[_T]):
    """The call that a request asks for.

    Args:
        servable: the version to call.
        signature_name: empty for the default one.
        inputs: arrays by name.
        outputs: the names of those to answer; empty for all.
        answer: makes the answer.

    Raises:
        FailedPreconditionError: the signature does not exist.
        InvalidArgumentError: inputs or outputs do not fit it.
    """

    def __init__(
        self,
        servable: Servable,
        signature_name: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        answer: Callable[[Outputs], _T],
    ):
        self._call = ArraysCall(signature_of(servable, signature_name), inputs, outputs)
        self._version, self._answer = servable.version, answer
        self.feeds, self.fetches = self._call.feeds, self._call.fetches

    def respond(self, arrays: Sequence[np.ndarray]) -> _T:
        """Return the answer, of arrays without records for quantised types."""
        found = self._call.respond(arrays)
        plain = {name: quantised_tensors.plain(array) for name, array in found.items()}
        return self._answer(Outputs(self._version, plain))


class OpenInference:
    """Answer the protocol's calls with the models of a server.

    Args:
        api: runs the graphs.
        models: the models.
        version: the server's version.

    Example:
        open_inference = OpenInference(api, models, "1.0")
        response = await open_inference.methods()["ModelInfer"](request_bytes, deadline)
    """

    def __init__(self, api: InferenceApi, models: ModelRegistry, version: str):
        self.api = api
        self._models = models
        self._version = version

    def methods(self) -> dict[str, Callable[[bytes, float | None], Awaitable[bytes]]]:
        """The gRPC methods by name: they take a serialized request and a deadline, as `InferenceApi`'s do."""
        return {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            MODEL_INFER: self._model_infer,
        }

    def ready(self, spec: pb.ModelSpec) -> bool:
        """Return True if a model's version answers; False for unknown models, too."""
        try:
            with self._models.lease(spec):
                return True
        except (errors.NotFoundError, errors.InvalidArgumentError):
            return False

    def server_metadata(self) -> oip.ServerMetadataResponse:
        """The server's name, version and extensions."""
        return oip.ServerMetadataResponse(name=_SERVER_NAME, version=self._version, extensions=_EXTENSIONS)

    def model_metadata(self, spec: pb.ModelSpec) -> oip.ModelMetadataResponse:
        """A model's versions that answer, and the inputs and outputs of a signature.

        The property `signatures` names all signatures, with commas between. Without `serving_default`, and if
        `spec` names no other signature, there are no inputs and outputs.

        Raises:
            NotFoundError: that model or version is not available.
            FailedPreconditionError: the signature does not exist.
        """
        with self._models.lease(spec) as servable:
            known = servable.signatures
            if spec.signature_name or DEFAULT_SIGNATURE in known:
                signature = signature_of(servable, spec.signature_name)
            else:
                signature = pb.SignatureDef()
        return oip.ModelMetadataResponse(
            name=spec.name,
            versions=[str(version) for version in sorted(self._models.available().get(spec.name, ()))],
            platform=_PLATFORM,
            inputs=_described(signature.inputs),
            outputs=_described(signature.outputs),
            # TensorFlow's own, such as __saved_model_init_op, are not for clients.
            properties={"signatures": ",".join(sorted(name for name in known if name[:2] != "__"))},
        )

    async def _server_live(self, data: bytes, deadline: float | None) -> bytes:
        return oip.ServerLiveResponse(live=True).SerializeToString()

    async def _server_ready(self, data: bytes, deadline: float | None) -> bytes:
        return oip.ServerReadyResponse(ready=self.api.ready()).SerializeToString()

    async def _server_metadata(self, data: bytes, deadline: float | None) -> bytes:
        return self.server_metadata().SerializeToString()

    async def _model_ready(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.ModelReadyRequest, data)
        ready = self.ready(asked_spec(request.name, request.version))
        return oip.ModelReadyResponse(ready=ready).SerializeToString()

    async def _model_metadata(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.ModelMetadataRequest, data)
        return serialized(self.model_metadata(asked_spec(request.name, request.version)))

    async def _model_infer(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.ModelInferRequest, data)
        with self.api.counted(pb.ModelSpec(name=request.model_name), MODEL_INFER, "GRPC"):
            parameters = _values(request.parameters)
            spec = asked_spec(request.model_name, request.model_version, parameters)
            sizes = Sizes(len(data), _message_bytes(request))
            prepare = partial(_grpc_call, request, spec.signature_name)
            ends = earlier(deadline, parameters)
            return await self.api.infer(spec, MODEL_INFER, prepare, serialized, sizes, ends)


def asked_spec(name: str, version: str, parameters: Mapping[str, Any] | None = None) -> pb.ModelSpec:
    """The model, the version and the signature that a request names.

    Args:
        name: the model's.
        version: a number or a label; empty for the latest.
        parameters: of the request.

    Raises:
        InvalidArgumentError: the version is too large, or the signature's name is not a string.
        UnimplementedError: a parameter asks for what models here do not have.

    Example:
        >>> asked_spec("half", "3").version.value
        3
    """
    parameters = parameters or {}
    for each in _STATEFUL:
        if parameters.get(each):
            raise errors.UnimplementedError(
                f"the parameter {each} is for models with state between requests, which this server has not"
            )
    signature = parameters.get(SIGNATURE_NAME, "")
    if not isinstance(signature, str):
        raise errors.InvalidArgumentError(
            f"the parameter {SIGNATURE_NAME} must be a string. Received {signature!r:.40}"
        )
    spec = pb.ModelSpec(name=name, signature_name=signature)
    if version.isascii() and version.isdigit():
        if len(version) > len(str(_MOST_VERSION)) or int(version) > _MOST_VERSION:
            raise errors.InvalidArgumentError(
                f"the version must be at most {_MOST_VERSION}. Received {version[:40]}"
            )
        spec.version.value = int(version)
    elif version:
        spec.version_label = version
    return spec


def earlier(deadline: float | None, parameters: Mapping[str, Any]) -> float | None:
    """A deadline, or the end of the parameter `timeout`, in microseconds, if that is earlier; 0 is none.

    Raises:
        InvalidArgumentError: `timeout` is not a whole number, or negative.
    """
    timeout = parameters.get("timeout", 0)
    if type(timeout) is not int or timeout < 0:
        raise errors.InvalidArgumentError(
            f"the parameter timeout must be microseconds, a whole number. Received {timeout!r:.40}"
        )
    if not timeout:
        return deadline
    ends = time.monotonic() + timeout / 1e6
    return ends if deadline is None else min(deadline, ends)


def check_tensor_parameters(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise UnimplementedError for a tensor's parameters that are extensions of Triton's own."""
    for each in _OF_TENSORS:
        if each in parameters:
            raise errors.UnimplementedError(
                f"{name}: the parameter {each} is an extension of Triton's, which this server has not"
            )


def named_array(arrays: dict[str, np.ndarray], name: str, read: Callable[[], np.ndarray]) -> None:
    """Add an input's array to those before it.

    Args:
        arrays: by name.
        name: the input's.
        read: returns its array.

    Raises:
        InvalidArgumentError: the name has come before, or `read` raises a CodecError.
    """
    if name in arrays:
        raise errors.InvalidArgumentError(f"input {name} comes twice")
    try:
        arrays[name] = read()
    except CodecError as error:
        raise errors.InvalidArgumentError(f"input {name}: {error}") from None


def unsendable(name: str, error: CodecError) -> errors.UnimplementedError:
    """The error for an output that no message can carry."""
    return errors.UnimplementedError(f"output {name} cannot be sent: {error}")


def _described(infos: Mapping[str, pb.TensorInfo]) -> list[oip.ModelMetadataResponse.TensorMetadata]:
    """Describe inputs or outputs; a type without a datatype has TensorFlow's name."""
    described = oip.ModelMetadataResponse.TensorMetadata
    found: list[oip.ModelMetadataResponse.TensorMetadata] = []
    for name in sorted(infos):
        info = infos[name]
        try:
            datatype = tensors.datatype_of(info.dtype)
        except CodecError:
            datatype = dtype_name(info.dtype).upper()
        shape = [-1] if info.tensor_shape.unknown_rank else [dim.size for dim in info.tensor_shape.dim]
        found.append(described(name=name, datatype=datatype, shape=shape))
    return found


def _values(parameters: Mapping[str, oip.InferParameter]) -> dict[str, Any]:
    """The values of a message's parameters."""
    chosen = {name: each.WhichOneof("parameter_choice") for name, each in parameters.items()}
    return {name: getattr(parameters[name], choice) for name, choice in chosen.items() if choice}


def _message_bytes(request: oip.ModelInferRequest) -> int:
    """Return the memory of a request's tensors in bytes, at most."""
    raw = request.raw_input_contents
    found = 0
    for place, each in enumerate(request.inputs):
        size = len(raw[place]) if place < len(raw) else each.contents.ByteSize()
        found += tensors.decoded_bytes(each.datatype, each.shape, size)
    return found


def _grpc_call(
    request: oip.ModelInferRequest, signature_name: str, servable: Servable
) -> InferCall[oip.ModelInferResponse]:
    for each in (*request.inputs, *request.outputs):
        check_tensor_parameters(each.name, each.parameters)
    asked = [output.name for output in request.outputs]
    return InferCall(servable, signature_name, _arrays(request), asked, partial(_response, request))


def _arrays(request: oip.ModelInferRequest) -> dict[str, np.ndarray]:
    """The inputs of a request by name."""
    raw, found = request.raw_input_contents, dict[str, np.ndarray]()
    if raw and len(raw) != len(request.inputs):
        raise errors.InvalidArgumentError(
            f"raw_input_contents must have one entry for each of {len(request.inputs)} inputs. "
            f"Received {len(raw)}"
        )
    for place, each in enumerate(request.inputs):
        if raw and each.HasField("contents"):
            raise errors.InvalidArgumentError(
                f"input {each.name}: with raw_input_contents no input may have contents"
            )
        if raw:
            read = partial(tensors.from_raw, each.datatype, each.shape, raw[place])
        else:
            read = partial(tensors.from_contents, each.datatype, each.shape, each.contents)
        named_array(found, each.name, read)
    return found


def _response(request: oip.ModelInferRequest, outputs: Outputs) -> oip.ModelInferResponse:
    """The answer: in contents if the inputs came so and all outputs can, else in raw bytes."""
    response = oip.ModelInferResponse(
        model_name=request.model_name, model_version=str(outputs.version), id=request.id
    )
    for name, array in outputs.arrays.items():
        try:
            datatype = tensors.datatype_of_array(array)
        except CodecError as error:
            raise unsendable(name, error) from None
        response.outputs.add(name=name, datatype=datatype, shape=array.shape)
    arrays = outputs.arrays.values()
    in_contents = bool(request.inputs) and not request.raw_input_contents
    if in_contents and all(tensors.has_contents(output.datatype) for output in response.outputs):
        for output, array in zip(response.outputs, arrays, strict=True):
            output.contents.CopyFrom(tensors.to_contents(array))
    else:
        response.raw_output_contents.extend(map(tensors.to_raw, arrays))
    return response
