"""A transport that answers from functions: for tests of programs that ask a model, without a server."""

import threading
from collections.abc import Callable, Mapping, Sequence

import grpc
import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInputError, UnimplementedError
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError, dtype_name
from ..wire.signature_names import DEFAULT_SIGNATURE
from .answers import Prediction, with_text
from .model_metadata import Signature, TensorSpec
from .server_ref import ServerRef
from .transport import base
from .transport.base import AsyncTransport, Request, Transport

Function = Callable[[dict[str, np.ndarray]], Mapping[str, ArrayLike]]

_CODES = {dtype_name(code): pb.DataType.Name(code) for code in pb.DataType.values()}


class FunctionTransport(Transport, AsyncTransport):
    """Answers a Client's or an AsyncClient's calls from a function, as a server would with a model.

    The client is the real one: it checks inputs against the signature, splits batches and reads the answers'
    bytes. Nothing is listening, and no thread is started.

    Args:
        function: from the inputs' arrays by name to the outputs by name. Strings are `str` where they are
            UTF-8. To test a failure it raises a ServingError, such as `UnavailableError("busy")`.
        signature: the signature that it has.
        name: the signature's name. `add` gives the model further ones.
        version: the version's number. Any label stands for it.

    Attributes:
        calls: the inputs of each Predict so far, by name.

    Example:
        >>> from keras_selfattn.serving.client import Client
        >>> x = TensorSpec("float32", (None,))
        >>> half = FunctionTransport(lambda inputs: {"y": inputs["x"] / 2}, Signature({"x": x}, {"y": x}))
        >>> Client(transport=half).predict([3.0, 5.0])["y"].tolist()
        [1.5, 2.5]
    """

    def __init__(
        self, function: Function, signature: Signature, name: str = DEFAULT_SIGNATURE, version: int = 1
    ):
        self.calls: list[dict[str, np.ndarray]] = []
        self._version = version
        self._signatures: dict[str, tuple[Function, Signature]] = {}
        self._lock = threading.Lock()
        self.add(name, function, signature)

    def add(self, name: str, function: Function, signature: Signature) -> None:
        """Give the model another signature.

        Raises:
            InvalidInputError: it has a dtype that TensorFlow does not have.
        """
        for spec in (*signature.inputs.values(), *signature.outputs.values()):
            if spec.dtype not in _CODES:
                raise InvalidInputError(
                    f'dtypes are NumPy\'s names, or "string". Received {spec.dtype!r} in signature {name!r}'
                )
        self._signatures[name] = (function, signature)

    def send(self, request: Request, timeout: float) -> bytes:
        """Answer a call from the function; see `Transport.send`."""
        match request.method:
            case base.PREDICT:
                return self._predict(request.message)
            case base.GET_MODEL_METADATA:
                return self._metadata(request.message)
            case base.GET_MODEL_STATUS:
                return self._status(request.message)
            case other:
                raise UnimplementedError(f"a FunctionTransport answers no {other}: it has a function alone")

    async def asend(self, request: Request, timeout: float) -> bytes:
        """Answer a call from the function; see `AsyncTransport.asend`."""
        return self.send(request, timeout)

    def _predict(self, data: bytes) -> bytes:
        request = pb.PredictRequest.FromString(data)
        answered = self._spec(request.model_spec)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self._signatures:
            details = f'Serving signature key "{name}" not found.'
            raise self._server(answered.name).error(grpc.StatusCode.FAILED_PRECONDITION, details, name)
        function, signature = self._signatures[name]
        arrays = {alias: codec.decode(proto) for alias, proto in request.inputs.items()}
        inputs = dict(with_text(Prediction(arrays, answered.name, self._version, name)))
        with self._lock:  # a list of calls, whichever thread made them
            self.calls.append(inputs)
        outputs = function(inputs)
        response = pb.PredictResponse(model_spec=answered)
        for alias in request.output_filter or outputs:
            response.outputs[alias].CopyFrom(_encoded(alias, outputs, signature))
        return response.SerializeToString()

    def _metadata(self, data: bytes) -> bytes:
        asked = pb.GetModelMetadataRequest.FromString(data).model_spec
        response = pb.GetModelMetadataResponse(model_spec=self._spec(asked))
        signatures = pb.SignatureDefMap()
        for name, (_, signature) in self._signatures.items():
            proto = signatures.signature_def[name]
            proto.method_name = signature.method_name or "tensorflow/serving/predict"
            for infos, specs in ((proto.inputs, signature.inputs), (proto.outputs, signature.outputs)):
                for alias, spec in specs.items():
                    infos[alias].CopyFrom(_info(spec))
            for alias in signature.defaults:
                proto.defaults[alias].SetInParent()
        response.metadata["signature_def"].Pack(signatures)
        return response.SerializeToString()

    def _status(self, data: bytes) -> bytes:
        self._spec(pb.GetModelStatusRequest.FromString(data).model_spec)
        status = pb.ModelVersionStatus(version=self._version, state=pb.ModelVersionStatus.AVAILABLE)
        return pb.GetModelStatusResponse(model_version_status=[status]).SerializeToString()

    def _spec(self, asked: pb.ModelSpec) -> pb.ModelSpec:
        """The answering version.

        Raises:
            NotFoundError: another one was asked for.
        """
        if asked.HasField("version") and asked.version.value != self._version:
            details = f"Servable not found for request: Specific({asked.name}, {asked.version.value})"
            raise self._server(asked.name).error(grpc.StatusCode.NOT_FOUND, details)
        spec = pb.ModelSpec(name=asked.name, signature_name=asked.signature_name)
        spec.version.value = self._version
        return spec

    def _server(self, model: str = "") -> ServerRef:
        return ServerRef(type(self).__name__, model)


def _encoded(alias: str, outputs: Mapping[str, ArrayLike], signature: Signature) -> pb.TensorProto:
    """An output as the signature declares it.

    Raises:
        InvalidInputError: the function did not return it so.
    """
    if alias not in outputs or alias not in signature.outputs:
        listed: Sequence[str] = list(outputs)
        raise InvalidInputError(
            f"the function returned the outputs {listed}; the signature has {list(signature.outputs)}"
        )
    spec = signature.outputs[alias]
    try:
        array = codec.to_array(outputs[alias], spec.dtype)
    except CodecError as error:
        raise InvalidInputError(f"output {alias!r} of the function: {error}. It is {spec!r}") from error
    if not spec.takes(array.shape):
        raise InvalidInputError(
            f"output {alias!r} of the function has shape {list(array.shape)}. It is {spec!r}"
        )
    return codec.encode_array(array)


def _info(spec: TensorSpec) -> pb.TensorInfo:
    info = pb.TensorInfo(dtype=_CODES[spec.dtype])
    if spec.shape is None:
        info.tensor_shape.unknown_rank = True
    else:
        info.tensor_shape.dim.extend(
            pb.TensorShapeProto.Dim(size=-1 if size is None else size) for size in spec.shape
        )
        info.tensor_shape.SetInParent()
    return info
