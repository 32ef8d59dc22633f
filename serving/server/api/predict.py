"""Predict: named tensors in, named tensors out.

Reference: RunPredict in tensorflow_serving/servables/tensorflow/predict_util.cc, and GetInputValues in
tensorflow/cc/saved_model/util.cc.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from ...wire import codec, message_bytes
from ...wire import messages_pb2 as pb
from ...wire.dtypes import CodecError
from ...wire.signature_names import DEFAULT_SIGNATURE
from ..models import quantized_tensors
from ..models.servable import Servable

_Sent = TypeVar("_Sent")


def signature_of(servable: Servable, name: str) -> pb.SignatureDef:
    """The signature with a name, or the default one for no name.

    Raises:
        FailedPreconditionError: the signature does not exist.
    """
    name = name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise FailedPreconditionError(f'Serving signature key "{name}" not found.')
    return servable.signatures[name]


class _Signature:
    """The names in a signature, read from its message once.

    Args:
        message: the signature.
        row_tensors: of the version, as `Servable` has it.
    """

    def __init__(self, message: pb.SignatureDef, row_tensors: Collection[str]):
        self._message = message
        self._row_tensors = row_tensors
        self._has_quantized = any(
            quantized_tensors.record_of(info.dtype) is not None for info in message.inputs.values()
        )
        self._inputs = {alias: message.inputs[alias].name for alias in sorted(message.inputs)}
        self.outputs = {alias: message.outputs[alias].name for alias in sorted(message.outputs)}
        self._all = [*self.outputs]

    @staticmethod
    def of(servable: Servable, name: str) -> "_Signature":
        """The signature with a name; errors are those of `signature_of`."""
        known = _signatures.get(servable)
        if known is None:
            known = _signatures[servable] = {}
        if name not in known:
            known[name] = _Signature(signature_of(servable, name), servable.row_tensors)
        return known[name]

    def feeds(
        self, sent: Mapping[str, _Sent], array_of: Callable[[str, _Sent], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return arrays by tensor name for every input, checked as TensorFlow Serving checks."""
        if len(sent) == len(self._inputs) and all(alias in sent for alias in self._inputs):
            return {name: array_of(alias, sent[alias]) for alias, name in self._inputs.items()}
        return self._with_defaults_of_rows(_feeds(self._message, sent, array_of), sent)

    def _with_defaults_of_rows(
        self, feeds: dict[str, np.ndarray], sent: Collection[str]
    ) -> dict[str, np.ndarray]:
        """Return feeds with a default's only row for each of the request's, which then is run with others."""
        of_sent = (feeds[name] for alias, name in self._inputs.items() if alias in sent)
        rows = {len(array) for array in of_sent if array.ndim}
        if len(rows) == 1:
            for alias, name in self._inputs.items():
                if alias not in sent and name in self._row_tensors and len(feeds[name]) == 1:
                    feeds[name] = np.repeat(feeds[name], *rows, axis=0)
        return feeds

    def as_fed(self, alias: str, array: np.ndarray) -> np.ndarray:
        """The array of an input, with the records of a quantized type."""
        if not self._has_quantized:
            return array
        return quantized_tensors.as_fed(array, self._message.inputs[alias].dtype)

    def aliases(self, output_filter: Collection[str]) -> list[str]:
        """The outputs to fetch: the requested ones, or all."""
        return _output_aliases(self._message, output_filter) if output_filter else self._all


_signatures: WeakKeyDictionary[Servable, dict[str, _Signature]] = WeakKeyDictionary()


class PredictCall:
    """The call that a PredictRequest asks for.

    Args:
        servable: the version of its model_spec.
        request: the request.
        encode: writes an output, if it is not `codec.encode_fields`, as TensorFlow Serving does by default.

    Raises:
        FailedPreconditionError: the signature does not exist.
        InvalidArgumentError: inputs or output_filter do not fit it.
    """

    def __init__(
        self,
        servable: Servable,
        request: pb.PredictRequest,
        encode: Callable[[np.ndarray], pb.TensorProto] | None = None,
    ):
        spec = request.model_spec
        self.signature_name = spec.signature_name or DEFAULT_SIGNATURE
        signature = _Signature.of(servable, self.signature_name)
        self._aliases = signature.aliases(request.output_filter)
        self._encode = encode
        self._spec = _serialized_spec(spec.name, servable.version, self.signature_name)
        self.feeds = signature.feeds(request.inputs, _decoded)
        self.fetches = [signature.outputs[alias] for alias in self._aliases]

    def respond(self, arrays: Sequence[np.ndarray]) -> bytes:
        """Return the outputs as a serialized PredictResponse.

        Raises:
            UnimplementedError: an output has a type that no message can carry.
        """
        outputs = {
            alias: self._output(alias, array) for alias, array in zip(self._aliases, arrays, strict=True)
        }
        # As protobuf's deterministic serialization, which does not depend on the order of a hash map.
        return b"".join([*(outputs[alias] for alias in sorted(outputs)), self._spec])

    def _output(self, alias: str, array: np.ndarray) -> bytes:
        try:
            if self._encode is None and not array.dtype.names:
                return message_bytes.output(alias, array)
            tensor = quantized_tensors.encode(array, self._encode or codec.encode_fields)
        except CodecError as error:
            raise UnimplementedError(f"output {alias} cannot be sent: {error}") from error
        return message_bytes.output_of(alias, tensor)


class ArraysCall:
    """The call for outputs of a signature, by name; each protocol adds how it responds with them.

    Args:
        servable: the version to call.
        name: the signature's; empty for the default one.
        inputs: arrays, by name; of integers for a quantized type.
        outputs: the names of those to answer; empty for all.

    Attributes:
        aliases: the names of the outputs, in the order of the values.

    Raises:
        FailedPreconditionError: the signature does not exist.
        InvalidArgumentError: inputs or outputs do not fit it.
    """

    def __init__(
        self, servable: Servable, name: str, inputs: Mapping[str, np.ndarray], outputs: Collection[str] = ()
    ):
        self.signature_name = name or DEFAULT_SIGNATURE
        signature = _Signature.of(servable, self.signature_name)
        self.aliases = signature.aliases(outputs)
        self.feeds = signature.feeds(inputs, signature.as_fed)
        self.fetches = [signature.outputs[alias] for alias in self.aliases]


def answering_spec(servable: Servable, asked: pb.ModelSpec) -> pb.ModelSpec:
    """The model_spec of an answer: the model, and the version and signature that answered."""
    spec = pb.ModelSpec(name=asked.name, signature_name=asked.signature_name or DEFAULT_SIGNATURE)
    spec.version.value = servable.version
    return spec


@functools.lru_cache(1024)
def _serialized_spec(model: str, version: int, signature_name: str) -> bytes:
    """The model_spec of a PredictResponse, serialized."""
    spec = pb.ModelSpec(name=model, signature_name=signature_name)
    spec.version.value = version
    return pb.PredictResponse(model_spec=spec).SerializeToString(deterministic=True)


def _feeds(
    signature: pb.SignatureDef, sent: Mapping[str, _Sent], array_of: Callable[[str, _Sent], np.ndarray]
) -> dict[str, np.ndarray]:
    """Return arrays by tensor name for every input of the signature, checked as TensorFlow Serving checks."""
    _check_input_count(signature, sent)
    feeds: dict[str, np.ndarray] = {}
    used = [alias for alias in sorted(signature.inputs) if alias in sent]
    for alias in sorted(signature.inputs):
        info = signature.inputs[alias]
        if alias in sent:
            feeds[info.name] = array_of(alias, sent[alias])
        elif alias in signature.defaults:
            feeds[info.name] = _decoded(alias, signature.defaults[alias])
        else:
            raise InvalidArgumentError(
                f"Signature input alias: {alias}(feed name: {info.name}) not found in request and no "
                f"default value provided. Inputs expected to be in the request {{{_join(sent)}}}, "
                f"or default input alias set: {_join(signature.defaults)}"
            )
    if len(used) != len(sent):
        raise InvalidArgumentError(
            f"Inputs contains invalid name. Used request inputs: {_join(used)}, request input: {_join(sent)}"
        )
    return feeds


def _decoded(alias: str, proto: pb.TensorProto) -> np.ndarray:
    try:
        return quantized_tensors.decode(proto)
    except CodecError:
        raise InvalidArgumentError(f"tensor parsing error: {alias}") from None


def _check_input_count(signature: pb.SignatureDef, names: Collection[str]) -> None:
    sent, known = set(names), set(signature.inputs)
    if len(sent) > len(known) or (len(sent) < len(known) and not signature.defaults):
        raise InvalidArgumentError(
            f"input size does not match signature: {len(sent)}!={len(known)} len({{{_join(sent)}}}) != "
            f"len({{{_join(known)}}}). Sent extra: {{{_join(sent - known)}}}. "
            f"Missing but required: {{{_join(known - sent)}}}."
        )


def _output_aliases(signature: pb.SignatureDef, output_filter: Iterable[str]) -> list[str]:
    """The outputs to fetch: the requested ones, or all."""
    aliases: list[str] = []
    for alias in output_filter:
        if alias not in signature.outputs:
            raise InvalidArgumentError(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{_join(signature.outputs)}}}."
            )
        if alias in aliases:
            raise InvalidArgumentError(f"duplicate output tensor alias: {alias}")
        aliases.append(alias)
    return aliases or sorted(signature.outputs)


def _join(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
