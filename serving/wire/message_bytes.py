"""Bytes of messages without protobuf's own classes: the client's Predict calls, the server's outputs, counts.

The client: a large tensor is copied once when it is sent, and not at all when it is received. Through a
protobuf message it would be copied three times: into the field, into the serialized message, into the
request. Here protobuf writes only the few bytes around a tensor's values, and the values are put between
them. Received messages are split at the same places.

The server: of each output, the bytes of protobuf's, in a quarter of the time. Protobuf's Python takes a
microsecond for each field that it sets. The bytes around a tensor's values are kept from one answer to the
next, because answers have few shapes.

Reference: protobuf.dev/programming-guides/encoding; tensorflow_serving/apis/predict.proto.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from google.protobuf.message import DecodeError

from . import codec
from . import messages_pb2 as pb
from .dtypes import CodecError, code_of, kind_of

# Below this many bytes protobuf parses an answer faster than Python code.
_LARGE = 2**16

_MOST_FIELDS = 1000

# Wire types of protobuf's fields.
_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}  # I64 and I32, in bytes

_OUTPUTS = pb.PredictResponse.OUTPUTS_FIELD_NUMBER
# A tensor's message, and its values if they were kept outside it.
_Apart = tuple[pb.TensorProto, memoryview | None]

_KEY, _VALUE = 1, 2  # of every map's entry
_INPUTS_TAG = bytes([pb.PredictRequest.INPUTS_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_SPEC_TAG = bytes([pb.PredictRequest.MODEL_SPEC_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_FILTER_TAG = bytes([pb.PredictRequest.OUTPUT_FILTER_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_KEY_TAG = bytes([_KEY << 3 | _LENGTH_DELIMITED])
_VALUE_TAG = bytes([_VALUE << 3 | _LENGTH_DELIMITED])
_OUTPUT_TAG = bytes([_OUTPUTS << 3 | _LENGTH_DELIMITED])
_STRING_TAG = bytes([pb.TensorProto.STRING_VAL_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_CONTENT_TAG = bytes([pb.TensorProto.TENSOR_CONTENT_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])

# Fields whose bytes are the tensor's values in memory.
_RAW_FIELDS = {
    pb.TensorProto.DESCRIPTOR.fields_by_name[name].number: name
    for name in ("tensor_content", "float_val", "double_val", "scomplex_val", "dcomplex_val")
}


# The client's call, and the answer to it.


def predict_request(spec: pb.ModelSpec, inputs: Mapping[str, np.ndarray], outputs: Iterable[str]) -> bytes:
    """A serialized PredictRequest.

    Args:
        spec: the requested model, version and signature.
        inputs: arrays from `codec.to_array`, by name.
        outputs: names of the requested outputs; empty for all.

    Example:
        >>> data = predict_request(pb.ModelSpec(name="half"), {"x": np.float32([1])}, [])
        >>> pb.PredictRequest.FromString(data).inputs["x"].tensor_content.hex()
        '0000803f'
    """
    described = spec.SerializeToString()
    chunks: list[bytes | memoryview] = _message(_SPEC_TAG, [described])
    for name, array in inputs.items():
        chunks += _message(_INPUTS_TAG, [*_message(_KEY_TAG, [name.encode()]), *_tensor(array)])
    for output in outputs:
        chunks += _message(_FILTER_TAG, [output.encode()])
    return b"".join(chunks)


def predict_response(data: bytes) -> tuple[dict[str, np.ndarray], pb.ModelSpec]:
    """The outputs of a serialized PredictResponse, by name in alphabetical order, and its model_spec.

    Args:
        data: the answer. Large numeric outputs are read-only views of these bytes if they are aligned.

    Raises:
        DecodeError: it is not a PredictResponse.
        CodecError: an output is not an array; the message names it.
    """
    try:
        tensors, spec = _taken_apart(memoryview(data)) if len(data) >= _LARGE else _parsed(data)
    except DecodeError:
        tensors, spec = _parsed(data)  # protobuf also reads unusual forms, and has better error messages
    return {name: _decoded(name, *tensors[name]) for name in sorted(tensors)}, spec


def _decoded(name: str, proto: pb.TensorProto, content: memoryview | None) -> np.ndarray:
    try:
        return codec.decode(proto, content)
    except CodecError as error:
        raise CodecError(f"output {name!r}: {error}") from error


def _tensor(array: np.ndarray) -> list[bytes | memoryview]:
    """A serialized TensorProto as a map entry's value, in pieces."""
    if array.dtype == object or array.size == 0:
        return _message(_VALUE_TAG, [codec.encode_array(array).SerializeToString()])
    values = codec.little_endian(array).reshape(-1).view(np.uint8).data
    return _message(_VALUE_TAG, [_description(array.dtype, array.shape), *_message(_CONTENT_TAG, [values])])


@functools.lru_cache(1024)
def _description(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """A serialized TensorProto without values, cached because calls have few shapes."""
    return codec.describe(np.broadcast_to(np.empty((), dtype), shape)).SerializeToString()


def _message(tag: bytes, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
    return [tag + varint(sum(map(len, chunks))), *chunks]


def _parsed(data: bytes) -> tuple[dict[str, _Apart], pb.ModelSpec]:
    response = pb.PredictResponse.FromString(data)
    return {name: (tensor, None) for name, tensor in response.outputs.items()}, response.model_spec


def _taken_apart(data: memoryview) -> tuple[dict[str, _Apart], pb.ModelSpec]:
    tensors: dict[str, _Apart] = {}
    rest = bytearray()
    for number, whole, value in _fields(data):
        if number == _OUTPUTS and value is not None:
            name, tensor = _entry(value)
            tensors[name] = _tensor_apart(tensor)
        else:
            rest += whole
    return tensors, pb.PredictResponse.FromString(bytes(rest)).model_spec


def _entry(data: memoryview) -> tuple[str, memoryview]:
    """The key and value of a map's entry."""
    parts = [(number, value) for number, _, value in _fields(data)]
    # In any order; a missing one is empty.
    found = {number: value for number, value in parts if number in (_KEY, _VALUE) and value is not None}
    if len(found) < len(parts):
        raise DecodeError("An entry with more than a key and a value")
    try:
        return str(found.get(_KEY, b""), "utf-8"), found.get(_VALUE, memoryview(b""))
    except UnicodeDecodeError as error:
        raise DecodeError(f"A name that is no UTF-8: {error}") from error


def _tensor_apart(data: memoryview) -> _Apart:
    """A tensor's message without its large values, and these values."""
    rest = bytearray()
    large: list[tuple[str, memoryview]] = []
    for number, whole, value in _fields(data):
        if number == pb.TensorProto.STRING_VAL_FIELD_NUMBER:
            break  # one field for each string: protobuf is faster
        if number in _RAW_FIELDS and value is not None and len(value) >= _LARGE:
            large.append((_RAW_FIELDS[number], value))
        else:
            rest += whole
    if len(large) == 1:
        proto = pb.TensorProto.FromString(bytes(rest))
        if _is_all(proto, *large[0]):
            return proto, large[0][1]
    return pb.TensorProto.FromString(bytes(data)), None


def _is_all(proto: pb.TensorProto, field: str, values: memoryview) -> bool:
    """Return True if a field's bytes are the values of all elements, in full and of this type."""
    try:
        kind = kind_of(proto.dtype)
    except CodecError:  # for strings, for example
        return False
    elements = math.prod(dim.size for dim in proto.tensor_shape.dim)
    return field in ("tensor_content", kind.field) and len(values) == elements * kind.dtype.itemsize


# The server's outputs.


def output(name: str, array: np.ndarray) -> bytes:
    """An entry of a PredictResponse's outputs: a tensor as `codec.encode_fields` writes it, serialized.

    Args:
        name: the output's.
        array: its values; strings as an object array of `bytes`.

    Raises:
        CodecError: no message can carry the array.

    Example:
        >>> data = output("y", np.float32([1.5]))
        >>> codec.decode(pb.PredictResponse.FromString(data).outputs["y"]).tolist()
        [1.5]
    """
    if array.dtype == object:
        return _strings(name, array)
    sent = _raw_dtype(array.dtype)
    if sent is None or not array.size:
        return output_of(name, codec.encode_fields(array))
    values = (array if array.dtype == sent else array.astype(sent)).tobytes()
    return _up_to_values(name, sent, array.shape, len(values)) + values


def output_of(name: str, tensor: pb.TensorProto) -> bytes:
    """An entry of a PredictResponse's outputs, serialized.

    Args:
        name: the output's.
        tensor: its values.

    Example:
        >>> data = output_of("y", codec.encode_fields([1, 2]))
        >>> pb.PredictResponse.FromString(data).outputs["y"].int64_val
        [1, 2]
    """
    return _output_entry(name, tensor.SerializeToString(deterministic=True))


def _strings(name: str, array: np.ndarray) -> bytes:
    chunks = [_shape_of_strings(array.shape)]
    values = array.reshape(-1).tolist()
    if not {*map(type, values)} <= {bytes}:
        values = codec.to_array(array).reshape(-1).tolist()
    for value in values:
        chunks += (_STRING_TAG, varint(len(value)), value)
    return _output_entry(name, b"".join(chunks))


@functools.cache
def _raw_dtype(dtype: np.dtype) -> np.dtype | None:
    """The little-endian dtype of values that messages hold as they are in memory; None for other types."""
    kind = kind_of(code_of(dtype))
    return kind.dtype if kind.raw else None


@functools.lru_cache(1024)
def _shape_of_strings(shape: tuple[int, ...]) -> bytes:
    return codec.describe(np.broadcast_to(np.empty((), object), shape)).SerializeToString()


@functools.lru_cache(1024)
def _up_to_values(name: str, dtype: np.dtype, shape: tuple[int, ...], size: int) -> bytes:
    """An entry up to the raw values of its tensor."""
    described = codec.describe(np.broadcast_to(np.empty((), dtype), shape)).SerializeToString()
    number = pb.TensorProto.DESCRIPTOR.fields_by_name[kind_of(code_of(dtype)).field].number
    described += varint(number << 3 | _LENGTH_DELIMITED) + varint(size)
    return _output_entry(name, described, size)


def _output_entry(name: str, tensor: bytes, rest: int = 0) -> bytes:
    """An entry with a tensor, or its beginning, if `rest` bytes of the tensor are left out."""
    key = name.encode()
    value = _VALUE_TAG + varint(len(tensor) + rest)
    pair = b"".join((_KEY_TAG, varint(len(key)), key, value, tensor))
    return b"".join((_OUTPUT_TAG, varint(len(pair) + rest), pair))


# Protobuf's format: numbers of variable length, and fields.

_SHORT = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """A number from 0 as protobuf writes it: seven bits in each byte, the lowest first.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    if value < 0x80:
        return _SHORT[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Yield (number, all of the field's bytes, its value if it is length-delimited) of a message's fields."""
    position = count = 0
    while position < len(data):
        count += 1
        if count > _MOST_FIELDS:
            raise DecodeError("More fields than a tensor or its answer has: protobuf is faster")
        tag, after = _read_varint(data, position)
        value = None
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, begin = _read_varint(data, after)
            end = begin + size
            value = data[begin:end]
        elif wire_type == _VARINT:
            _, end = _read_varint(data, after)
        elif wire_type in _FIXED_SIZES:
            end = after + _FIXED_SIZES[wire_type]
        else:
            raise DecodeError(f"Wire type {wire_type} at byte {position}")
        if end > len(data) or tag >> 3 == 0:
            raise DecodeError("Truncated message, or a field without a number")
        yield tag >> 3, data[position:end], value
        position = end


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number that begins at a position, and the position of its end."""
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError("Truncated or overlong number")


_GROUP = (3, 4)  # wire types of the begin and end of a group, which have no bytes of their own
_MOST_VARINT = 10  # bytes


def field_count(data: bytes, most: int) -> int:
    """Return the number of fields of a message, those of its own messages not counted.

    Args:
        data: a message. Counting ends where the bytes are no message.
        most: counting ends when there are more.

    Example:
        >>> field_count(bytes.fromhex("2a00 2a00 0a0161"), 10)
        3
    """
    count, place = 0, 0
    while place < len(data) and count <= most:
        count += 1
        tag, place = _lenient_varint(data, place)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, place = _lenient_varint(data, place)
            place += length
        elif kind == _VARINT:
            _, place = _lenient_varint(data, place)
        elif kind in _FIXED_SIZES:
            place += _FIXED_SIZES[kind]
        elif kind in _GROUP:
            pass
        else:
            break
    return count


def _lenient_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place after it; the end of the data if it is cut off or too long."""
    value = 0
    for shift, byte in enumerate(data[place : place + _MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, place + shift + 1
    return 0, len(data)
