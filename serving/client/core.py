"""What a client says and understands, without a transport.

Each operation is a generator. It yields `Request`s and `Pause`s, is sent the bytes of each answer (or thrown
the ServingError that came instead), and returns the result. The transport in `sync` drives it, so everything
but sending is here.

Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import ArrayLike

from ..errors import (
    ERROR_OF_CODE,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    MalformedResponseError,
    NotFoundError,
    ServingError,
    UnavailableError,
)
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError
from .answers import ModelMetadata, TensorSpec, VersionStatus, signatures_of, version_status
from .values import Inputs, as_text, checked_target, has_dtype, needs_metadata

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GET_MODEL_METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"

DEFAULT_SIGNATURE = "serving_default"
_POLL_SECONDS = 0.1

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Request:
    """One call to make: `method` with `message` as its serialized request."""

    method: str
    message: bytes
    signature: str = ""
    wait_for_ready: bool = False


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds; send None back."""

    seconds: float


Steps = Generator[Request | Pause, Any, _T]

_NEXT_STEP = {
    grpc.StatusCode.UNAVAILABLE: "Is a server running at {target}? Start one with `keras-selfattn serve`, or "
    "wait for it with `client.wait_until_ready(timeout)`.",
    grpc.StatusCode.DEADLINE_EXCEEDED: "Give the call more time with timeout=, send less at once, or see "
    "with `client.status()` whether the model is ready.",
    grpc.StatusCode.NOT_FOUND: "The model's name is the server's --model_name; `client.status()` lists its "
    "versions.",
    grpc.StatusCode.INVALID_ARGUMENT: "`client.metadata()` shows each signature's inputs and outputs.",
    grpc.StatusCode.FAILED_PRECONDITION: "`client.metadata()` lists the signatures.",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "Send smaller batches, or fewer requests at once.",
    grpc.StatusCode.UNIMPLEMENTED: "Does a model server listen at {target}, and on this port its gRPC API?",
}


class Core:
    """The operations on one model of one server, and what is remembered of its metadata.

    Args:
        target: the server's "host:port", for messages.
        model: the model's name.
    """

    def __init__(self, target: str, model: str):
        if not isinstance(model, str) or not model:
            raise InvalidInputError(f"model must be a model's name. Received {model!r}")
        self.target = checked_target(target)
        self.model = model
        # Keyed by the version asked for, None for the latest. Which version that is changes under our feet:
        # every answer names its version, and one that differs drops the entry.
        self._metadata: dict[int | None, ModelMetadata] = {}

    def predict(
        self, inputs: Inputs, signature: str, outputs: Sequence[str] | None, version: int | None
    ) -> Steps[dict[str, np.ndarray]]:
        """The named outputs of `signature` for `inputs`."""
        if isinstance(outputs, str):
            raise InvalidInputError(f"outputs must be a list of names, not one str. Received {outputs!r}")
        known: ModelMetadata | None = None
        if needs_metadata(inputs):
            known = self._metadata.get(version) or (yield from self.metadata(version))
        try:
            return (yield from self._predict_once(inputs, signature, outputs, version, known))
        except (InvalidArgumentError, InvalidInputError, FailedPreconditionError):
            if known is None:
                raise
            # Name and dtype came from memory, and a newer version may have others.
            fresh = yield from self.metadata(version)
            if fresh.signatures.get(signature) == known.signatures.get(signature):
                raise
            return (yield from self._predict_once(inputs, signature, outputs, version, fresh))

    def _predict_once(
        self,
        inputs: Inputs,
        signature: str,
        outputs: Sequence[str] | None,
        version: int | None,
        known: ModelMetadata | None,
    ) -> Steps[dict[str, np.ndarray]]:
        specs = self._inputs_of(signature, known) if known is not None else {}
        request = pb.PredictRequest(
            model_spec=self._spec(version, signature),
            inputs=self._encode_inputs(inputs, signature, specs),
            output_filter=outputs or (),
        )
        answer = yield Request(PREDICT, request.SerializeToString(), signature)
        response = self._parse(pb.PredictResponse, answer)
        self._forget_other_versions(version, response.model_spec.version.value)
        return {name: self._decode_output(name, response.outputs[name]) for name in sorted(response.outputs)}

    def metadata(self, version: int | None = None) -> Steps[ModelMetadata]:
        """The signatures of a version, fresh from the server."""
        request = pb.GetModelMetadataRequest(model_spec=self._spec(version), metadata_field=["signature_def"])
        answer = yield Request(GET_MODEL_METADATA, request.SerializeToString())
        response = self._parse(pb.GetModelMetadataResponse, answer)
        packed = response.metadata["signature_def"].value
        # Not Any.Unpack: the server names its own message type, which is not registered here.
        metadata = ModelMetadata(
            model=self.model,
            version=response.model_spec.version.value,
            signatures=signatures_of(self._parse(pb.SignatureDefMap, packed)),
        )
        self._metadata[version] = metadata
        return metadata

    def status(self, *, wait_for_ready: bool = False) -> Steps[list[VersionStatus]]:
        """The state of every version the server knows, newest first."""
        request = pb.GetModelStatusRequest(model_spec=self._spec(None))
        answer = yield Request(GET_MODEL_STATUS, request.SerializeToString(), wait_for_ready=wait_for_ready)
        response = self._parse(pb.GetModelStatusResponse, answer)
        return [version_status(status) for status in response.model_version_status]

    def wait_until_ready(self, timeout: float) -> Steps[list[VersionStatus]]:
        """The state of every version, once one is available. Runs until the transport's deadline."""
        reason = "the server did not answer"
        while True:
            try:
                statuses = yield from self.status(wait_for_ready=True)
                if any(status.available for status in statuses):
                    return statuses
                reason = "; ".join(map(str, statuses)) or "the server knows no version"
            except (NotFoundError, UnavailableError) as error:
                reason = f"{error.code.name}: {error.details}"
            except DeadlineExceededError as error:
                raise self._not_ready(timeout, reason) from error
            try:
                yield Pause(_POLL_SECONDS)
            except DeadlineExceededError as error:
                raise self._not_ready(timeout, reason) from error

    def _not_ready(self, timeout: float, reason: str) -> DeadlineExceededError:
        return DeadlineExceededError(
            f"no version of model {self.model!r} at {self.target} was ready within {timeout:g} s: {reason}. "
            f"Is a server running at {self.target}, and does it serve this model?",
            details=reason,
            target=self.target,
            model=self.model,
        )

    def error(self, code: grpc.StatusCode, details: str, signature: str = "") -> ServingError:
        """The exception for a call that ended with `code`, with what to do next."""
        asked = f"model {self.model!r}" + (f", signature {signature!r}" if signature else "")
        advice = _NEXT_STEP.get(code, "").format(target=self.target)
        said = details.rstrip() or "no details"
        message = f"{code.name} from {self.target} ({asked}): {said}"
        if advice:
            message += ("\n" if "\n" in said else " " if said.endswith(".") else ". ") + advice
        return ERROR_OF_CODE[code](message, details=details, target=self.target, model=self.model)

    def _spec(self, version: int | None, signature: str = "") -> pb.ModelSpec:
        spec = pb.ModelSpec(name=self.model, signature_name=signature)
        if version is not None:
            if isinstance(version, bool) or not isinstance(version, int | np.integer):
                raise InvalidInputError(f"version must be an integer, or None: the latest. Got {version!r}")
            spec.version.value = int(version)
        return spec

    def _parse(self, message: type[_M], answer: bytes) -> _M:
        try:
            return message.FromString(answer)
        except DecodeError as error:
            raise self._malformed(f"{message.DESCRIPTOR.name} does not parse: {error}") from error

    def _decode_output(self, name: str, proto: pb.TensorProto) -> np.ndarray:
        try:
            return as_text(codec.decode(proto))
        except CodecError as error:
            raise self._malformed(f"output {name!r}: {error}") from error

    def _malformed(self, details: str) -> MalformedResponseError:
        return MalformedResponseError(
            f"the answer from {self.target} (model {self.model!r}) cannot be read: {details}. "
            f"Does TensorFlow Serving's gRPC API listen on this port?",
            details=details,
            target=self.target,
            model=self.model,
        )

    def _inputs_of(self, signature: str, metadata: ModelMetadata) -> Mapping[str, TensorSpec]:
        if signature in metadata.signatures:
            return metadata.signatures[signature].inputs
        details = f'Serving signature key "{signature}" not found.'
        raise self.error(grpc.StatusCode.FAILED_PRECONDITION, details, signature)

    def _encode_inputs(
        self, inputs: Inputs, signature: str, specs: Mapping[str, TensorSpec]
    ) -> dict[str, pb.TensorProto]:
        if not isinstance(inputs, Mapping):
            if len(specs) != 1:
                raise self._refused(
                    f"signature {signature!r} has {len(specs)} inputs ({', '.join(specs) or 'none'}): pass a "
                    f"mapping from their names to values"
                )
            inputs = {next(iter(specs)): inputs}
        return {name: self._encode_input(name, value, specs.get(name)) for name, value in inputs.items()}

    def _encode_input(self, name: str, value: ArrayLike, spec: TensorSpec | None) -> pb.TensorProto:
        if not isinstance(name, str):
            raise self._refused(f"the names of inputs are strings. Received {name!r}")
        # A value that brings its own dtype is sent with it: TensorFlow Serving converts nothing.
        dtype = None if spec is None or has_dtype(value) else spec.dtype
        try:
            return codec.encode(value, dtype)
        except CodecError as error:
            raise self._refused(f"input {name!r}: {error}") from error

    def _refused(self, details: str) -> InvalidInputError:
        message = f"{details} (model {self.model!r} at {self.target})"
        return InvalidInputError(message, details=details, target=self.target, model=self.model)

    def _forget_other_versions(self, asked: int | None, answered: int) -> None:
        known = self._metadata.get(asked)
        if known is not None and known.version != answered:
            self._metadata.pop(asked, None)


def classified(outputs: Mapping[str, np.ndarray], target: str, model: str) -> list[tuple[str, float]]:
    """The (label, score) pairs of a classifier's outputs `label` and `score`.

    Raises:
        FailedPreconditionError: the model has no such outputs, so is no classifier of texts.
    """
    if not {"label", "score"} <= outputs.keys():
        raise FailedPreconditionError(
            f"model {model!r} at {target} is no classifier: its outputs are {', '.join(outputs) or 'none'}, "
            f"without label and score. Use `client.predict(...)`.",
            target=target,
            model=model,
        )
    labels, scores = outputs["label"].reshape(-1), outputs["score"].reshape(-1)
    return [(str(label), float(score)) for label, score in zip(labels, scores, strict=True)]
