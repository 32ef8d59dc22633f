"""The server's encoder of Predict's outputs: of each, the bytes of protobuf's, in a quarter of the time.

Protobuf's Python takes a microsecond for each field that it sets. Here the bytes around a tensor's values are
kept from one answer to the next, because answers have few shapes.

Reference: protobuf.dev/programming-guides/encoding; tensorflow_serving/apis/predict.proto.
"""

import functools

import numpy as np

from . import codec
from . import messages_pb2 as pb
from .dtypes import code_of, kind_of
from .varints import varint

_LENGTH_DELIMITED = 2
_OUTPUT_TAG = bytes([pb.PredictResponse.OUTPUTS_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_STRING_TAG = bytes([pb.TensorProto.STRING_VAL_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_KEY_TAG, _VALUE_TAG = (bytes([number << 3 | _LENGTH_DELIMITED]) for number in (1, 2))  # of a map's entry


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
    return _around(name, sent, array.shape, len(values)) + values


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
    return _entry(name, tensor.SerializeToString(deterministic=True))


def _strings(name: str, array: np.ndarray) -> bytes:
    chunks = [_shape_of_strings(array.shape)]
    values = array.reshape(-1).tolist()
    if not {*map(type, values)} <= {bytes}:
        values = codec.to_array(array).reshape(-1).tolist()
    for value in values:
        chunks += (_STRING_TAG, varint(len(value)), value)
    return _entry(name, b"".join(chunks))


@functools.cache
def _raw_dtype(dtype: np.dtype) -> np.dtype | None:
    """The little-endian dtype of values that messages hold as they are in memory; None for other types."""
    kind = kind_of(code_of(dtype))
    return kind.dtype if kind.raw else None


@functools.lru_cache(1024)
def _shape_of_strings(shape: tuple[int, ...]) -> bytes:
    return codec.describe(np.broadcast_to(np.empty((), object), shape)).SerializeToString()


@functools.lru_cache(1024)
def _around(name: str, dtype: np.dtype, shape: tuple[int, ...], size: int) -> bytes:
    """An entry up to the raw values of its tensor."""
    described = codec.describe(np.broadcast_to(np.empty((), dtype), shape)).SerializeToString()
    number = pb.TensorProto.DESCRIPTOR.fields_by_name[kind_of(code_of(dtype)).field].number
    described += varint(number << 3 | _LENGTH_DELIMITED) + varint(size)
    return _entry(name, described, size)


def _entry(name: str, tensor: bytes, rest: int = 0) -> bytes:
    """An entry with a tensor, or its beginning, if `rest` bytes of the tensor are left out."""
    key = name.encode()
    value = _VALUE_TAG + varint(len(tensor) + rest)
    pair = b"".join((_KEY_TAG, varint(len(key)), key, value, tensor))
    return b"".join((_OUTPUT_TAG, varint(len(pair) + rest), pair))
