"""The bodies of the Open Inference Protocol's REST calls: a JSON object, and after it tensors in binary.

Reference: specification/protocol/inference_rest.md of open-inference/open-inference-protocol; for the binary
part, docs/protocol/extension_binary_data.md of triton-inference-server/server.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import open_inference_pb2 as oip
from ...wire import open_inference_tensors as tensors
from ...wire.dtypes import CodecError
from ..api.open_inference import Outputs, check_tensor_parameters, named_array, unsendable
from .answer import JSON, Answer
from .json_in import document, floats, invalid, shown, text_bytes
from .json_out import dumped, numbers

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header with the bytes of the JSON object, if there are others after it."""

_BINARY = "application/octet-stream"
_BINARY_SIZE = "binary_data_size"
# How deep lists of one tensor may be; an array has no more axes.
_MOST_AXES = 64


class InputHeader(NamedTuple):
    """An input: `data` is its list, or None if it is sent in binary; `size` is the bytes of that."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None
    size: int


class InferHeader(NamedTuple):
    """The JSON object of a request: `outputs` says for each asked output whether to answer it in binary."""

    id: str
    parameters: dict[str, Any]
    inputs: list[InputHeader]
    outputs: dict[str, bool]
    binary: bool


def infer_header(body: bytes) -> InferHeader:
    """Parse the JSON object of a request for inference.

    Raises:
        InvalidArgumentError: it is not JSON, or not such an object.
        UnimplementedError: a tensor has parameters of Triton's own.

    Example:
        >>> infer_header(b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2]}]}').inputs
        [InputHeader(name='x', datatype='FP32', shape=[1], data=[2], size=0)]
    """
    doc = document(body)
    parameters = _typed(doc, "parameters", dict, {})
    binary = _typed(parameters, "binary_data_output", bool, False)
    outputs: dict[str, bool] = {}
    for each in _objects(doc, "outputs"):
        name = _typed(each, "name", str)
        own = _typed(each, "parameters", dict, {})
        check_tensor_parameters(name, own)
        if name in outputs:
            raise invalid(f"output {name} comes twice")
        outputs[name] = _typed(own, "binary_data", bool, binary)
    inputs = [_input_header(each) for each in _objects(doc, "inputs")]
    return InferHeader(_typed(doc, "id", str, ""), parameters, inputs, outputs, binary)


def decoded_bytes(header: InferHeader) -> int:
    """Return the memory in bytes that a request's binary tensors take at most."""
    sent = [each for each in header.inputs if each.data is None]
    return sum(tensors.decoded_bytes(each.datatype, each.shape, each.size) for each in sent)


def infer_inputs(header: InferHeader, binary: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a request by name.

    Args:
        header: the JSON object.
        binary: the bytes after it.

    Raises:
        InvalidArgumentError: data do not fit their datatype and shape, or do not add up to `binary`.

    Example:
        >>> asked = b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [2], "data": [1, 2]}]}'
        >>> infer_inputs(infer_header(asked), b"")["x"].tolist()
        [1, 2]
    """
    arrays, place, view = dict[str, np.ndarray](), 0, memoryview(binary)
    needed = sum(each.size for each in header.inputs)
    if needed != len(binary):
        raise InvalidArgumentError(
            f"the inputs' {_BINARY_SIZE} add up to {needed} bytes. Received {len(binary)} after the JSON"
        )
    for each in header.inputs:
        part = view[place : place + each.size]
        place += each.size
        if each.data is None:
            read = partial(tensors.from_raw, each.datatype, each.shape, part)
        else:
            read = partial(_from_list, each.datatype, each.shape, each.data)
        named_array(arrays, each.name, read)
    return arrays


def infer_answer(model: str, header: InferHeader, outputs: Outputs) -> Answer:
    """Return the answer to a request for inference.

    Args:
        model: its name.
        header: of the request: its id, and which outputs to answer in binary.
        outputs: of the graph.

    Raises:
        UnimplementedError: an output has a type that the protocol lacks.
        InvalidArgumentError: an output in JSON has bytes that are not UTF-8.
    """
    parts: list[bytes] = []
    listed = [
        _output(name, array, parts if header.outputs.get(name, header.binary) else None)
        for name, array in outputs.arrays.items()
    ]
    answer = {"model_name": model, "model_version": str(outputs.version)}
    answer |= {"id": header.id} if header.id else {}
    body = dumped({**answer, "outputs": listed})
    if not parts:
        return Answer(body)
    return Answer(b"".join([body, *parts]), content_type=_BINARY, headers={JSON_LENGTH: str(len(body))})


def server_answer(metadata: oip.ServerMetadataResponse) -> Answer:
    """Return the answer that describes the server."""
    extensions = list(metadata.extensions)
    return Answer(dumped({"name": metadata.name, "version": metadata.version, "extensions": extensions}))


def model_answer(metadata: oip.ModelMetadataResponse) -> Answer:
    """Return the answer that describes a model."""

    def described(infos: Sequence[oip.ModelMetadataResponse.TensorMetadata]) -> list[dict[str, Any]]:
        return [{"name": each.name, "datatype": each.datatype, "shape": list(each.shape)} for each in infos]

    found = {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
        "inputs": described(metadata.inputs),
        "outputs": described(metadata.outputs),
        "properties": dict(metadata.properties),
    }
    return Answer(dumped(found), content_type=JSON)


def _input_header(doc: Mapping[str, Any]) -> InputHeader:
    name, shape = _typed(doc, "name", str), _typed(doc, "shape", list)
    if any(type(size) is not int or abs(size) >= 2**63 for size in shape):
        raise invalid(f"input {name}: 'shape' must be whole numbers. Received {shown(shape)}")
    parameters = _typed(doc, "parameters", dict, {})
    check_tensor_parameters(name, parameters)
    if ("data" in doc) == (_BINARY_SIZE in parameters):
        raise invalid(f"input {name} must have either 'data' or the parameter {_BINARY_SIZE}")
    size = _typed(parameters, _BINARY_SIZE, int, 0)
    if size < 0:
        raise invalid(f"input {name}: {_BINARY_SIZE} must be 0 or more. Received {size}")
    data = _typed(doc, "data", list) if "data" in doc else None
    return InputHeader(name, _typed(doc, "datatype", str), shape, data, size)


def _objects(doc: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = _typed(doc, key, list, [])
    for each in found:
        if not isinstance(each, dict):
            raise invalid(f"'{key}' must be a list of objects. Received {shown(each)}")
    return found


_REQUIRED: Any = object()


def _typed(doc: Mapping[str, Any], key: str, kind: type, default: Any = _REQUIRED) -> Any:
    """Return a key's value, which must be of a type; without it the default."""
    value = doc.get(key, default)
    if value is _REQUIRED:
        raise invalid(f"an object lacks the key '{key}'")
    if type(value) is not kind:
        raise invalid(f"'{key}' must be of type {kind.__name__}. Received {shown(value)}")
    return value


def _from_list(datatype: str, shape: Sequence[int], data: list[Any]) -> np.ndarray:
    """Return the array of a list, which may be flat or nested, in row-major order."""
    dtype, flat = tensors.dtype_of(datatype), _flat(data)
    # Checked as for binary data, before anything of that size is made.
    if min(shape, default=0) < 0 or len(shape) > _MOST_AXES or len(flat) != math.prod(shape):
        raise CodecError(f"'data' must have as many values as the shape {shape}. Received {len(flat)}")
    kinds, wanted = {*map(type, flat)}, _JSON_TYPES[dtype.kind if dtype.kind in "biuO" else "f"]
    if not kinds <= wanted:
        wrong = next(value for value in flat if type(value) not in wanted)
        raise CodecError(f"a value does not fit {datatype}: {shown(wrong)}")
    if dtype.hasobject:
        array = np.empty(len(flat), object)
        array[:] = text_bytes(flat)
        return array.reshape(shape)
    if dtype.kind not in "biu":
        return floats(flat, dtype).reshape(shape)
    try:
        return np.array(flat, dtype).reshape(shape)
    except OverflowError:
        raise CodecError(f"a value is out of the range of {datatype}") from None


_JSON_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "O": {str}}


def _flat(data: list[Any]) -> list[Any]:
    for _ in range(_MOST_AXES):
        if not any(isinstance(each, list) for each in data):
            break
        data = list(chain.from_iterable(each if isinstance(each, list) else (each,) for each in data))
    return data


def _output(name: str, array: np.ndarray, parts: list[bytes] | None) -> dict[str, Any]:
    """Return an output's object; with `parts`, its data are added there."""
    try:
        found = {"name": name, "datatype": tensors.datatype_of_array(array), "shape": list(array.shape)}
    except CodecError as error:
        raise unsendable(name, error) from None
    if parts is not None:
        parts.append(tensors.to_raw(array))
        return {**found, "parameters": {_BINARY_SIZE: len(parts[-1])}}
    return {**found, "data": _list(name, array.reshape(-1))}


def _list(name: str, flat: np.ndarray) -> list[Any]:
    if flat.dtype != object:
        is_half = flat.dtype.itemsize == 2 and flat.dtype.kind not in "iu"
        return numbers(flat.astype(np.float32) if is_half else flat)
    try:
        return [each.decode() for each in flat.tolist()]
    except UnicodeDecodeError:
        raise InvalidArgumentError(
            f"output {name} has bytes that are not UTF-8, which JSON cannot carry; ask for it with the "
            "parameter binary_data"
        ) from None
