"""The Open Inference Protocol (KServe's V2): its gRPC calls, and what they share with those over REST.

Reference: specification/protocol of open-inference/open-inference-protocol.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ... import errors
from ...wire import messages_pb2 as pb
from ...wire import open_inference_pb2 as oip
from ...wire import open_inference_tensors as tensors
from ...wire.dtypes import CodecError, dtype_name
from ...wire.shapes import declared_shape
from ...wire.signature_names import DEFAULT_SIGNATURE
from ..models import quantized_tensors
from ..models.model_registry import ModelRegistry
from ..models.servable import Servable
from .admission import check_fields
from .inference_api import MODEL_INFER, InferenceApi, InferenceRequest, Sizes, serialized
from .input_shapes import InputShapes
from .management import Management
from .open_inference_parameters import (
    BASE64,
    CONTENT_TYPE,
    check_tensor_parameters,
    model_spec_of,
    request_deadline,
)
from .predict import ArraysCall

SERVICE = "inference.GRPCInferenceService"

_SERVER_NAME = "keras-selfattn"
_PLATFORM = "tensorflow_savedmodel"
_EXTENSIONS = ("binary_tensor_data",)
MOST_TENSORS = 1000
"""The most inputs, or outputs, of a request: a small message can hold a million of them."""


_READY, _UNAVAILABLE = "READY", "UNAVAILABLE"
_State = pb.ModelVersionStatus.State
# The states of a version in the index of the repository, in Triton's words.
_STATES: dict[int, str] = {
    _State.UNKNOWN: "UNKNOWN",
    _State.START: "LOADING",
    _State.LOADING: "LOADING",
    _State.AVAILABLE: _READY,
    _State.UNLOADING: "UNLOADING",
    _State.END: _UNAVAILABLE,
}

_MOST_FIELDS = 4 * MOST_TENSORS  # with raw contents
# Memory of a tensor's message and array, without its values.
_TENSOR_BYTES = 1000


class Outputs(NamedTuple):
    """The outputs of a call, by name, and the version that made them."""

    version: int
    arrays: dict[str, np.ndarray]


class IndexEntry(NamedTuple):
    """A version in the index of the repository; without a version, a model that has none yet."""

    name: str
    version: str
    state: str
    reason: str


class InferCall(ArraysCall):
    """The call that a request asks for.

    Inputs may have more, or fewer, axes of size one at their end than the signature declares: MLServer's
    clients write the shape `[n, 1]` for n values.

    Args:
        servable: the version to call.
        signature_name: empty for the default one.
        inputs: arrays by name.
        outputs: the names of those to answer; empty for all.

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
    ):
        name = signature_name or DEFAULT_SIGNATURE
        shapes = InputShapes.of(servable)
        declared = {alias: shapes.as_declared(name, alias, array) for alias, array in inputs.items()}
        super().__init__(servable, name, declared, outputs)
        self._version = servable.version

    def respond(self, arrays: Sequence[np.ndarray]) -> Outputs:
        """Return the outputs; quantized types are integers in them."""
        found = zip(self.aliases, arrays, strict=True)
        plain = {name: quantized_tensors.plain(array) for name, array in found}
        return Outputs(self._version, plain)


class OpenInference:
    """Answer the protocol's calls with the models of a server.

    Args:
        api: runs the graphs.
        models: the models.
        management: reports the states of their versions.
        version: the server's version.

    Example:
        open_inference = OpenInference(api, models, management, "1.0")
        response = await open_inference.methods()["ModelInfer"](request_bytes, deadline)
    """

    def __init__(self, api: InferenceApi, models: ModelRegistry, management: Management, version: str):
        self.api = api
        self._models = models
        self._management = management
        self._version = version

    def methods(self) -> dict[str, Callable[[bytes, float | None], Awaitable[bytes]]]:
        """Return the gRPC methods by name; they take a request's bytes and a deadline of `time.monotonic`."""
        return {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "RepositoryIndex": self._repository_index,
            MODEL_INFER: self._model_infer,
        }

    def ready(self, spec: pb.ModelSpec) -> bool:
        """Return True if a model's version answers; False for unknown models, too."""
        try:
            with self._models.lease(spec):
                return True
        except (errors.NotFoundError, errors.InvalidArgumentError):
            return False

    def models(self) -> list[str]:
        """Return the names of all models on the list, ready or not."""
        return sorted(self._models.available())

    async def index(self, ready_only: bool) -> list[IndexEntry]:
        """Return the versions of all models, newest first, and their states in Triton's words.

        Args:
            ready_only: True for versions that answer only.
        """
        found: list[IndexEntry] = []
        for name, response in sorted((await self._management.statuses()).items()):
            versions = response.model_version_status
            found += [
                IndexEntry(name, str(each.version), _STATES[each.state], _reason(each)) for each in versions
            ]
            if not versions:
                found.append(IndexEntry(name, "", _UNAVAILABLE, "the model has no version yet"))
        return [each for each in found if each.state == _READY or not ready_only]

    def server_metadata(self) -> oip.ServerMetadataResponse:
        """Return the server's name, version and extensions."""
        return oip.ServerMetadataResponse(name=_SERVER_NAME, version=self._version, extensions=_EXTENSIONS)

    def model_metadata(self, spec: pb.ModelSpec) -> oip.ModelMetadataResponse:
        """Return a model's versions that answer, and the inputs and outputs of `serving_default`, if any.

        The property `signatures` names all signatures, with commas between.

        Raises:
            NotFoundError: that model or version is not available.
            InvalidArgumentError: there is no such label.
        """
        with self._models.lease(spec) as servable:
            known = servable.signatures
        signature = known.get(DEFAULT_SIGNATURE, pb.SignatureDef())
        return oip.ModelMetadataResponse(
            name=spec.name,
            versions=[str(version) for version in sorted(self._models.available().get(spec.name, ()))],
            platform=_PLATFORM,
            inputs=_tensor_metadata(signature.inputs),
            outputs=_tensor_metadata(signature.outputs),
            # TensorFlow's own, such as __saved_model_init_op, are not for clients.
            properties={"signatures": ",".join(sorted(name for name in known if name[:2] != "__"))},
        )

    async def _server_live(self, data: bytes, deadline: float | None) -> bytes:
        return oip.ServerLiveResponse(live=True).SerializeToString()

    async def _server_ready(self, data: bytes, deadline: float | None) -> bytes:
        return oip.ServerReadyResponse(ready=self.api.ready()).SerializeToString()

    async def _server_metadata(self, data: bytes, deadline: float | None) -> bytes:
        return self.server_metadata().SerializeToString()

    async def _repository_index(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.RepositoryIndexRequest, data)
        response = oip.RepositoryIndexResponse()
        for each in await self.index(request.ready):
            response.models.add(**each._asdict())
        return response.SerializeToString()

    async def _model_ready(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.ModelReadyRequest, data)
        ready = self.ready(model_spec_of(request.name, request.version))
        return oip.ModelReadyResponse(ready=ready).SerializeToString()

    async def _model_metadata(self, data: bytes, deadline: float | None) -> bytes:
        request = await self.api.parse(oip.ModelMetadataRequest, data)
        return serialized(self.model_metadata(model_spec_of(request.name, request.version)))

    async def _model_infer(self, data: bytes, deadline: float | None) -> bytes:
        check_fields(data, _MOST_FIELDS)
        request = await self.api.parse(oip.ModelInferRequest, data)
        with self.api.counted(pb.ModelSpec(name=request.model_name), MODEL_INFER, "GRPC") as counted:
            parameters = _values(request.parameters)
            asked = _GrpcInfer(request, len(data), parameters)
            return await self.api.infer(asked, counted, request_deadline(deadline, parameters))


class _GrpcInfer(InferenceRequest[Outputs, bytes]):
    """A ModelInferRequest."""

    def __init__(self, request: oip.ModelInferRequest, size: int, parameters: Mapping[str, Any]):
        spec = model_spec_of(request.model_name, request.model_version, parameters)
        super().__init__(spec, Sizes(size, _tensor_bytes(request, size)))
        self.copies = bool(request.raw_input_contents)
        self._request = request

    def call(self, servable: Servable) -> InferCall:
        request = self._request
        for each in chain(request.inputs, request.outputs):
            check_tensor_parameters(each.name, each.parameters)
        asked = [output.name for output in request.outputs]
        return InferCall(servable, self.spec.signature_name, _arrays(request), asked)

    def answer(self, response: Outputs) -> bytes:
        return _answer(self._request, response)


def add_array(
    arrays: dict[str, np.ndarray], name: str, read: Callable[[], np.ndarray], content_type: object = None
) -> None:
    """Add an input's array to those before it.

    Args:
        arrays: by name.
        name: the input's.
        read: returns its array.
        content_type: MLServer's name for the form of its values.

    Raises:
        InvalidArgumentError: the name has come before, `read` raises a CodecError, or the values have another
            form.
    """
    if name in arrays:
        raise errors.InvalidArgumentError(f"input {name} is given twice")
    try:
        array = read()
        is_base64 = content_type == BASE64 and array.dtype == object
        arrays[name] = _from_base64(array) if is_base64 else array
    except CodecError as error:
        raise errors.InvalidArgumentError(f"input {name}: {error}") from None


def _content_type(tensor: oip.ModelInferRequest.InferInputTensor) -> str:
    parameters = tensor.parameters
    return parameters[CONTENT_TYPE].string_param if CONTENT_TYPE in parameters else ""


def _from_base64(array: np.ndarray) -> np.ndarray:
    """Return the bytes that texts in base64 stand for."""
    found = np.empty(array.size, object)
    for place, text in enumerate(array.reshape(-1).tolist()):
        try:
            found[place] = base64.b64decode(text, validate=True)
        except ValueError:
            raise CodecError(
                f"value {place} is not base64, which its parameter content_type says. Send base64, or leave "
                "the parameter out"
            ) from None
    return found.reshape(array.shape)


def unsendable(name: str, error: CodecError) -> errors.UnimplementedError:
    """Return the error for an output that no message can carry."""
    return errors.UnimplementedError(f"output {name} cannot be sent: {error}")


def _reason(status: pb.ModelVersionStatus) -> str:
    """Return why a version does not answer; empty if it does, or will."""
    if status.state != _State.END:
        return ""
    return status.status.error_message or "unloaded"


def _tensor_metadata(infos: Mapping[str, pb.TensorInfo]) -> list[oip.ModelMetadataResponse.TensorMetadata]:
    """Describe inputs or outputs; a type without a datatype has TensorFlow's name."""
    described = oip.ModelMetadataResponse.TensorMetadata
    found: list[oip.ModelMetadataResponse.TensorMetadata] = []
    for name in sorted(infos):
        info = infos[name]
        try:
            datatype = tensors.datatype_of(info.dtype)
        except CodecError:
            datatype = dtype_name(info.dtype).upper()
        shape = declared_shape(info)
        sizes = [-1] if shape is None else [-1 if size is None else size for size in shape]
        found.append(described(name=name, datatype=datatype, shape=sizes))
    return found


def _values(parameters: Mapping[str, oip.InferParameter]) -> dict[str, Any]:
    """Return the values of a message's parameters."""
    chosen = {name: each.WhichOneof("parameter_choice") for name, each in parameters.items()}
    return {name: getattr(parameters[name], choice) for name, choice in chosen.items() if choice}


def _tensor_bytes(request: oip.ModelInferRequest, most: int) -> int:
    """Return the bytes that a request's tensors take in memory; `most` is the size of its message."""
    raw = request.raw_input_contents
    found = _TENSOR_BYTES * (len(request.inputs) + len(request.outputs))
    for place, each in enumerate(request.inputs):
        size = len(raw[place]) if place < len(raw) else most
        found += tensors.decoded_bytes(each.datatype, each.shape, size, in_contents=not raw)
    return found


def _arrays(request: oip.ModelInferRequest) -> dict[str, np.ndarray]:
    """Return the inputs of a request by name."""
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
        add_array(found, each.name, read, _content_type(each))
    return found


def _answer(request: oip.ModelInferRequest, outputs: Outputs) -> bytes:
    """Return the answer: in contents if the inputs came so and all outputs can, else in raw bytes."""
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
    return serialized(response)
