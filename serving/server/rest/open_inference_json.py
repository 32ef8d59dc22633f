"""The bodies of the Open Inference Protocol's REST calls: a JSON object, and after it tensors in binary.

JSON has neither NaN nor infinities. A null among numbers with a fraction is NaN, as KServe's and MLServer's
clients write and read it; an infinity is answered in binary only. Binary carries all values exactly.

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
from ...wire.codec import known_shape
from ...wire.dtypes import CodecError
from ..api.open_inference import MOST_TENSORS, Outputs, add_array, unsendable
from ..api.open_inference_parameters import CONTENT_TYPE, SIGNATURE_NAME, check_tensor_parameters
from .json_in import document, floats, invalid, shown, text_bytes
from .json_out import JSON, Answer, dumped, numbers

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header with the bytes of the JSON object, if there are others after it."""

_BINARY = "application/octet-stream"
_BINARY_SIZE = "binary_data_size"
_MOST_SIZE = 2**63 - 1
_REQUIRED: Any = object()
_JSON_NAMES: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
# The values that arrays of each kind of NumPy's are made of.
_JSON_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "O": {str}}


class InputHeader(NamedTuple):
    """An input: `data` is its list, or None if it is sent in binary, with so many bytes (`size`).

    `content_type` is MLServer's name for the form of its values, of any type.
    """

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None
    size: int
    content_type: Any = None


class InferHeader(NamedTuple):
    """The JSON object of a request: `outputs` maps each requested output to True if its answer is binary.

    `binary` is the same for all outputs if none is requested by name.
    """

    id: str
    parameters: dict[str, Any]
    inputs: list[InputHeader]
    outputs: dict[str, bool]
    binary: bool


def infer_header(body: bytes, more: int = 0, path: str = "/v1/models/MODEL") -> InferHeader:
    """Parse the JSON object of a request for inference.

    Args:
        body: the object.
        more: the number of bytes after it.
        path: of the model in TensorFlow Serving's REST API, for messages.

    Raises:
        InvalidArgumentError: it is not JSON, or not such an object, or its inputs are not of so many bytes.
        UnimplementedError: a tensor has parameters of Triton's own.

    Example:
        >>> infer_header(b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2]}]}').inputs
        [InputHeader(name='x', datatype='FP32', shape=[1], data=[2], size=0, content_type=None)]
    """
    doc = document(body)
    _check_protocol(doc, path)
    parameters = _parameters(doc, "request")
    _field(parameters, "request", SIGNATURE_NAME, str, "")
    binary = _field(parameters, "request", "binary_data_output", bool, False)
    outputs: dict[str, bool] = {}
    for each in _objects(doc, "outputs"):
        name = _field(each, "output", "name", str)
        own = _parameters(each, f"output {name}")
        check_tensor_parameters(name, own)
        if name in outputs:
            raise invalid(f"output {name} is given twice")
        outputs[name] = _field(own, f"output {name}", "binary_data", bool, binary)
    inputs = [_input_header(each) for each in _objects(doc, "inputs")]
    needed = sum(each.size for each in inputs)
    if needed != more:
        raise invalid(
            f"the inputs' {_BINARY_SIZE} add up to {needed} bytes. Received {more} after the JSON object"
        )
    return InferHeader(_field(doc, "request", "id", str, ""), parameters, inputs, outputs, binary)


def decoded_bytes(header: InferHeader) -> int:
    """Return the bytes that a request's binary tensors take in memory, at most."""
    sent = [each for each in header.inputs if each.data is None]
    return sum(tensors.decoded_bytes(each.datatype, each.shape, each.size) for each in sent)


def infer_inputs(header: InferHeader, binary: bytes | memoryview) -> dict[str, np.ndarray]:
    """Return the arrays of a request by name.

    Args:
        header: the JSON object.
        binary: the bytes after it.

    Raises:
        InvalidArgumentError: data do not fit their datatype and shape.

    Example:
        >>> asked = b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [2], "data": [1, 2]}]}'
        >>> infer_inputs(infer_header(asked), b"")["x"].tolist()
        [1, 2]
    """
    arrays, place, view = dict[str, np.ndarray](), 0, memoryview(binary)
    for each in header.inputs:
        part = view[place : place + each.size]
        place += each.size
        if each.data is None:
            read = partial(tensors.from_raw, each.datatype, each.shape, part)
        else:
            read = partial(_from_list, each.datatype, each.shape, each.data)
        add_array(arrays, each.name, read, each.content_type)
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


def ready_only(body: bytes) -> bool:
    """Return True if a request for the index of the repository is about versions that answer only.

    Raises:
        InvalidArgumentError: the body is not JSON, or not such an object.

    Example:
        >>> ready_only(b'{"ready": true}'), ready_only(b"")
        (True, False)
    """
    return _field(document(body), "request", "ready", bool, False) if body.strip() else False


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


def _check_protocol(doc: Mapping[str, Any], path: str) -> None:
    """Refuse the bodies of TensorFlow Serving's REST API: rows, columns and examples."""
    inputs = doc.get("inputs")
    columns = isinstance(inputs, dict) or (isinstance(inputs, list) and not all(map(_is_object, inputs)))
    rows = next((key for key in ("instances", "examples") if key in doc and inputs is None), None)
    if rows is None and not columns:
        return
    calls = f"{path}:classify or {path}:regress" if rows == "examples" else f"{path}:predict"
    if rows is not None:
        found = f"request: '{rows}' is a key"
    elif isinstance(inputs, list):
        wrong = next(each for each in inputs if not _is_object(each))
        found = f"'inputs' must be a list of objects. Received {shown(wrong)}: a value is"
    else:
        found = "request: 'inputs' must be a list. Received an object: columns are"
    raise invalid(
        f"{found} of TensorFlow Serving's REST API, POST {calls}. Send it there, or send the Open Inference "
        'Protocol\'s \'inputs\' here: [{"name": ..., "shape": [...], "datatype": ..., "data": [...]}]'
    )


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _input_header(doc: Mapping[str, Any]) -> InputHeader:
    name = _field(doc, "input", "name", str)
    whose = f"input {name}"
    shape = _field(doc, whose, "shape", list)
    for size in shape:
        if type(size) is not int or abs(size) > _MOST_SIZE:
            raise invalid(f"{whose}: 'shape' must be whole numbers. Received {shown(size)}")
    parameters = _parameters(doc, whose)
    check_tensor_parameters(name, parameters)
    data = _field(doc, whose, "data", list, None)
    size = _field(parameters, whose, _BINARY_SIZE, int, None)
    if (data is None) == (size is None):
        raise invalid(f"{whose} must have either 'data' or the parameter {_BINARY_SIZE}")
    if size is not None and size < 0:
        raise invalid(f"{whose}: {_BINARY_SIZE} must be 0 or more. Received {shown(size)}")
    datatype = _field(doc, whose, "datatype", str)
    return InputHeader(name, datatype, shape, data, size or 0, parameters.get(CONTENT_TYPE))


def _parameters(doc: Mapping[str, Any], whose: str) -> dict[str, Any]:
    given = _field(doc, whose, "parameters", dict, {})
    return {name: value for name, value in given.items() if value is not None}


def _objects(doc: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = _field(doc, "request", key, list, [])
    if len(found) > MOST_TENSORS:
        raise invalid(f"{key} must be at most {MOST_TENSORS}. Received {len(found)}")
    for each in found:
        if not isinstance(each, dict):
            raise invalid(f"'{key}' must be a list of objects. Received {shown(each)}")
    return found


def _field(doc: Mapping[str, Any], whose: str, key: str, kind: type, default: Any = _REQUIRED) -> Any:
    """Return a key's value, which must be of a type; the default without it, or for null."""
    value = doc.get(key)
    if value is None:
        if default is _REQUIRED:
            raise invalid(f"{whose}: '{key}' is missing")
        return default
    if type(value) is not kind:
        raise invalid(f"{whose}: '{key}' must be {_JSON_NAMES[kind]}. Received {shown(value)}")
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(f"{whose}: '{key}' must be UTF-8. Received {shown(value)}") from None
    return value


def _from_list(datatype: str, shape: Sequence[int], data: list[Any]) -> np.ndarray:
    """Return the array of a list, which may be flat or nested as its shape, in row-major order."""
    dtype, known = tensors.dtype_of(datatype), known_shape(shape)
    flat = _flat(data, known)
    if len(flat) != math.prod(known):
        raise CodecError(f"'data' must have {math.prod(known)} values, as its shape. Received {len(flat)}")
    wanted, types = _JSON_TYPES[dtype.kind if dtype.kind in "biuO" else "f"], {*map(type, flat)}
    if type(None) in types:
        flat, types = _with_nan(flat, datatype, float in wanted), types - {type(None)}
    if not types <= wanted:
        wrong = next(value for value in flat if type(value) not in wanted)
        hint = (
            ". Bytes that are no text are sent behind the JSON, with 'binary_data_size'"
            if dtype.hasobject
            else ""
        )
        raise CodecError(f"a value does not fit {datatype}: {shown(wrong)}{hint}")
    if dtype.hasobject:
        array = np.empty(len(flat), object)
        array[:] = text_bytes(flat)
        return array.reshape(known)
    if dtype.kind not in "biu":
        return floats(flat, dtype).reshape(known)
    if dtype.kind in "iu" and flat:
        limits = np.iinfo(dtype)
        for value in (min(flat), max(flat)):
            if not limits.min <= value <= limits.max:
                raise CodecError(f"a value is out of the range of {datatype}: {shown(value)}")
    return np.array(flat, dtype).reshape(known)


def _with_nan(flat: list[Any], datatype: str, is_floating: bool) -> list[Any]:
    """Return the values with NaN for null; other types than floating ones have none."""
    if not is_floating:
        raise CodecError(
            f"value {flat.index(None)} is null, which stands for NaN: FP16, BF16, FP32 and FP64 have it, and "
            f"{datatype} does not. Send a value in its place"
        )
    return [math.nan if value is None else value for value in flat]


def _flat(data: list[Any], shape: Sequence[int]) -> list[Any]:
    """Return the values of a list, in which lists are as long as the axes."""
    if not any(isinstance(each, list) for each in data):
        return data
    level: list[Any] = [data]
    for size in shape:
        for each in level:
            if not isinstance(each, list) or len(each) != size:
                raise CodecError(f"'data' must be flat, or nested as the shape {list(shape)}")
        level = list(chain.from_iterable(level))
    return level


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
        return _numbers(name, flat)
    try:
        return [each.decode() for each in flat.tolist()]
    except UnicodeDecodeError:
        raise InvalidArgumentError(
            f"output {name} has bytes that are not UTF-8, which JSON cannot carry; ask for it with the "
            "parameter binary_data"
        ) from None


def _numbers(name: str, flat: np.ndarray) -> list[Any]:
    """Return numbers for JSON: null for NaN."""
    if flat.dtype.kind in "biu":
        return numbers(flat)
    is_half = flat.dtype.itemsize == 2
    plain = flat.astype(np.float32) if is_half else flat
    written = numbers(plain)
    if np.isfinite(plain).all():
        return written
    infinite = np.flatnonzero(np.isinf(plain))
    if len(infinite):
        raise InvalidArgumentError(
            f"output {name} has {written[infinite[0]]} at value {infinite[0]}, which JSON cannot carry; ask "
            "for it with the parameter binary_data"
        )
    return [None if math.isnan(value) else value for value in written]
