"""What a client asks and understands, without a transport: requests, checks, memory of the metadata.

Each operation is a generator of `steps`; the tasks built on it are in `tasks`, `examples` and `management`.

Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError, Message

from ..errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    ServingError,
    UnimplementedError,
)
from ..wire import frames
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError
from . import batches
from .answers import Prediction, as_text
from .failures import Asked
from .inputs import Inputs, checked_inputs, rowwise
from .signatures import ModelMetadata, Signature, signatures_of
from .steps import GET_MODEL_METADATA, PREDICT, Many, Request, Steps

DEFAULT_SIGNATURE = "serving_default"

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True)
class Which:
    """The version of a model that is asked: by number, by label, or the latest.

    Args:
        version: a version's number, or None.
        label: a version's label, such as "stable", or None.

    Raises:
        InvalidInputError: both are given, or one is of the wrong type.
    """

    version: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        version, label = self.version, self.label
        if version is not None and (isinstance(version, bool) or not isinstance(version, int | np.integer)):
            raise InvalidInputError(f"version must be an integer, or None: the latest. Received {version!r}")
        if version is not None and not 0 <= version < 2**63:
            raise InvalidInputError(f"version must be at least 0 and fit 64 bits. Received {version}")
        if label is not None and (not isinstance(label, str) or not label):
            raise InvalidInputError(f"label must be a version's label, or None. Received {label!r}")
        if version is not None and label is not None:
            raise InvalidInputError(f"give version or label, not both. Received {version} and {label!r}")

    def spec(self, model: str, signature: str = "") -> pb.ModelSpec:
        """The ModelSpec that asks for it."""
        spec = pb.ModelSpec(name=model, signature_name=signature, version_label=self.label)
        if self.version is not None:
            spec.version.value = int(self.version)
        return spec


class Core:
    """The operations on one model, and what is remembered of its metadata.

    Args:
        target: the server's address, for messages.
        model: the model's name.
        max_batch_size: the most rows in one call; None for no limit.
    """

    def __init__(self, target: str, model: str, max_batch_size: int | None = None):
        if not isinstance(model, str) or not model:
            raise InvalidInputError(f"model must be a model's name. Received {model!r}")
        if sys.byteorder != "little":
            raise InvalidInputError(
                "this machine stores numbers big end first, and TensorFlow Serving's tensors hold them "
                "little end first: run the client on a little-endian machine"
            )
        self.asked = Asked(target, model)
        self.model = model
        self.max_batch_size = max_batch_size
        # Which version is the latest, or bears a label, changes under our feet: every answer names its
        # version, and one that is new drops the entry. None: the server does not know the call.
        self._known: dict[Which, ModelMetadata | None] = {}
        # Once for each, though: of several servers some may have the old version for long. What is remembered
        # of another version is asked anew where it refuses something, or the server does.
        self._seen: set[int] = set()

    def predict(
        self, inputs: Inputs, signature: str, outputs: Sequence[str] | None, which: Which
    ) -> Steps[Prediction]:
        """The outputs of `signature` for all rows."""
        answers, rows = yield from self.predict_parts(inputs, signature, outputs, which)
        return batches.joined(self.asked, answers, rows)

    def predict_parts(
        self, inputs: Inputs, signature: str, outputs: Sequence[str] | None, which: Which
    ) -> Steps[tuple[list[Prediction], list[range]]]:
        """The answers for the parts of a batch, all of one version, and which rows each is for."""
        remembered = which in self._known
        known = yield from self.known(which, signature)
        try:
            return (yield from self._predict_known(inputs, signature, outputs, which, known))
        except (InvalidArgumentError, InvalidInputError, FailedPreconditionError) as error:
            if not remembered or known is None:
                raise
            # It was checked against memory, and a newer version may have other inputs.
            fresh = yield from self._fresh(which, error)
            if fresh.signatures.get(signature) == known.signatures.get(signature):
                raise
            return (yield from self._predict_known(inputs, signature, outputs, which, fresh))

    def known(self, which: Which, signature: str = "") -> Steps[ModelMetadata | None]:
        """The metadata as remembered, or asked for once, for a call of `signature`; None if there is none."""
        try:
            return self._known[which]
        except KeyError:
            pass  # not asked yet, or another thread has just dropped it
        try:
            return (yield from self.metadata(which, signature))
        except UnimplementedError:
            self._known[which] = None
            return None

    def metadata(self, which: Which, signature: str = "") -> Steps[ModelMetadata]:
        """The signatures of a version, fresh from the server, for a call of `signature`."""
        request = pb.GetModelMetadataRequest(
            model_spec=which.spec(self.model), metadata_field=["signature_def"]
        )
        answer = yield Request(GET_MODEL_METADATA, request.SerializeToString(), signature)
        response = self.parsed(pb.GetModelMetadataResponse, answer)
        packed = response.metadata["signature_def"].value
        # Not Any.Unpack: the server names its own message type, which is not registered here.
        metadata = ModelMetadata(
            model=self.model,
            version=response.model_spec.version.value,
            signatures=signatures_of(self.parsed(pb.SignatureDefMap, packed)),
        )
        self._known[which] = metadata
        self._seen.add(metadata.version)
        return metadata

    def parsed(self, message: type[_M], answer: bytes) -> _M:
        """An answer as the message it should be.

        Raises:
            MalformedResponseError: it is not.
        """
        try:
            return message.FromString(answer)
        except DecodeError as error:
            raise self.asked.malformed(f"{message.DESCRIPTOR.name} does not parse: {error}") from error

    def signature(self, known: ModelMetadata | None, name: str) -> Signature | None:
        """What is known of a signature.

        Raises:
            FailedPreconditionError: the model has no such signature.
        """
        if known is None or name in known.signatures:
            return known and known.signatures[name]
        names = ", ".join(repr(other) for other in known.signatures if not other.startswith("__"))
        details = f'Serving signature key "{name}" not found; the model has {names or "none"}'
        raise self.asked.error(grpc.StatusCode.FAILED_PRECONDITION, details, name)

    def check_outputs(self, outputs: Sequence[str] | None, name: str, signature: Signature | None) -> None:
        """Refuses outputs that a signature has not.

        Raises:
            InvalidInputError: that, or a single str.
        """
        if isinstance(outputs, str):
            raise self.asked.refused(f"outputs must be a list of names, not one str. Received {outputs!r}")
        unknown = [output for output in outputs or () if signature and output not in signature.outputs]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise self.asked.refused(f"signature {name!r} has no output {listed}. It is {signature!r}")

    def request(
        self,
        arrays: dict[str, np.ndarray],
        signature: str,
        outputs: Sequence[str] | None,
        which: Which,
        rows: range | None,
    ) -> Request:
        """The Predict call for arrays that have been checked."""
        message = frames.predict_request(which.spec(self.model, signature), arrays, outputs or ())
        return Request(PREDICT, message, signature, rows)

    def prediction(self, answer: bytes, signature: str, which: Which) -> Prediction:
        """The outputs in a Predict answer."""
        try:
            outputs, spec = frames.predict_response(answer)
        except (DecodeError, CodecError) as error:
            what = "PredictResponse does not parse: " if isinstance(error, DecodeError) else ""
            raise self.asked.malformed(f"{what}{error}", signature) from error
        if self._known.get(which) is not None and spec.version.value not in self._seen:
            self._seen.add(spec.version.value)
            self._known.pop(which, None)
        texts = {name: as_text(array) for name, array in outputs.items()}
        return Prediction(texts, model=self.model, version=spec.version.value, signature=signature)

    def _predict_known(
        self,
        inputs: Inputs,
        name: str,
        outputs: Sequence[str] | None,
        which: Which,
        known: ModelMetadata | None,
    ) -> Steps[tuple[list[Prediction], list[range]]]:
        signature = self.signature(known, name)
        self.check_outputs(outputs, name, signature)
        arrays = checked_inputs(self.asked, inputs, name, signature)
        split = rowwise(arrays, signature)
        rows = batches.parts(self.asked, arrays, split, self.max_batch_size)
        if len(rows) == 1:
            answer = yield self.request(arrays, name, outputs, which, None)
            return [self.prediction(answer, name, which)], rows

        def requests(which: Which) -> Iterator[Request]:
            for part in rows:
                yield self.request(batches.taken(arrays, split, part), name, outputs, which, part)

        found = [self.prediction(answer, name, which) for answer in (yield Many(requests(which)))]
        versions = {answer.version for answer in found}
        if len(versions) == 1:
            return found, rows
        # A newer version took over between two parts: all rows are asked of that one.
        pinned = Which(max(versions))
        found = [self.prediction(answer, name, pinned) for answer in (yield Many(requests(pinned)))]
        if len({answer.version for answer in found}) > 1:
            raise AbortedError(
                f"versions {sorted(versions)} of model {self.model!r} at {self.asked.target} answered parts "
                f"of one batch. Ask again",
                target=self.asked.target,
                model=self.model,
            )
        return found, rows

    def _fresh(self, which: Which, error: ServingError) -> Steps[ModelMetadata]:
        """Metadata to compare with what is remembered; where it cannot be had, `error` stands."""
        try:
            return (yield from self.metadata(which))
        except ServingError:
            raise error from error.__cause__
