"""Tensors of the Open Inference Protocol to NumPy arrays and back.

A tensor has raw bytes, or contents: values in the field of its datatype. FP16 and BF16 have raw bytes only.

Reference: InferTensorContents and raw_input_contents in open_inference_grpc.proto; for BYTES,
docs/protocol/extension_binary_data.md of triton-inference-server/server.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from . import codec
from . import messages_pb2 as pb
from . import open_inference_pb2 as oip
from .dtypes import QUANTIZED, CodecError, code_of, dtype_name, kind_of

_BYTES = "BYTES"
# Each datatype: TensorFlow's, and the field of its contents.
_DATATYPES: dict[str, tuple[int, str]] = {
    "BOOL": (pb.DT_BOOL, "bool_contents"),
    "INT8": (pb.DT_INT8, "int_contents"),
    "INT16": (pb.DT_INT16, "int_contents"),
    "INT32": (pb.DT_INT32, "int_contents"),
    "INT64": (pb.DT_INT64, "int64_contents"),
    "UINT8": (pb.DT_UINT8, "uint_contents"),
    "UINT16": (pb.DT_UINT16, "uint_contents"),
    "UINT32": (pb.DT_UINT32, "uint_contents"),
    "UINT64": (pb.DT_UINT64, "uint64_contents"),
    "FP16": (pb.DT_HALF, ""),
    "BF16": (pb.DT_BFLOAT16, ""),
    "FP32": (pb.DT_FLOAT, "fp32_contents"),
    "FP64": (pb.DT_DOUBLE, "fp64_contents"),
    _BYTES: (pb.DT_STRING, "bytes_contents"),
}
_NAMES = {code: name for name, (code, _) in _DATATYPES.items()}
_NAMES |= {code: _NAMES[code_of(kind.dtype)] for code, kind in QUANTIZED.items()}
_RAW_FIELDS = ("fp32_contents", "fp64_contents")
_WIDE: dict[str, Any] = {"int_contents": np.int32, "uint_contents": np.uint32}

_LENGTH = struct.Struct("<I")  # before each element of BYTES
# Memory of an element of BYTES beside its bytes: a pointer, Python's object and TensorFlow's.
_ELEMENT_BYTES = 8 + 33 + 24
# Memory of a value of contents beside its array: in the message, and in an array of that width.
_CONTENT_BYTES = 8


def datatype_of(code: int) -> str:
    """Return the datatype of a TensorFlow type; quantized integers are integers.

    Args:
        code: a value of `messages_pb2.DataType`.

    Raises:
        CodecError: for a type that the protocol lacks, such as complex numbers.

    Example:
        >>> datatype_of(pb.DT_FLOAT)
        'FP32'
    """
    if code not in _NAMES:
        raise CodecError(f"the Open Inference Protocol has no datatype for {dtype_name(code)}")
    return _NAMES[code]


def datatype_of_array(array: np.ndarray) -> str:
    """Return the datatype of an array; strings are object arrays of `bytes`. Errors as in `datatype_of`.

    Example:
        >>> datatype_of_array(np.zeros(2, np.int16))
        'INT16'
    """
    return datatype_of(pb.DT_STRING if array.dtype == object else code_of(array.dtype))


def dtype_of(datatype: str) -> np.dtype:
    """Return the NumPy dtype of a datatype, `object` for BYTES.

    Raises:
        CodecError: there is no such datatype.

    Example:
        >>> dtype_of("FP64").name
        'float64'
    """
    if datatype not in _DATATYPES:
        raise CodecError(f"the datatype must be one of {', '.join(_DATATYPES)}. Received {datatype[:40]!r}")
    return np.dtype(object) if datatype == _BYTES else kind_of(_DATATYPES[datatype][0]).dtype


def decoded_bytes(datatype: str, shape: Sequence[int], size: int, in_contents: bool = False) -> int:
    """Return the bytes that a tensor takes in memory, at most.

    Args:
        datatype: as in a message.
        shape: as in a message.
        size: bytes of its data, or more.
        in_contents: True if its data are contents.

    Returns:
        0 for a tensor that is refused.

    Example:
        >>> decoded_bytes("FP32", [2, 2], 16)
        16
    """
    try:
        dtype, elements = dtype_of(datatype), math.prod(codec.known_shape(shape))
    except CodecError:
        return 0
    each = _ELEMENT_BYTES if dtype.hasobject else dtype.itemsize
    # No element takes less than a byte of a message.
    return min(elements, size) * (each + _CONTENT_BYTES * in_contents)


def from_raw(datatype: str, shape: Sequence[int], data: bytes | memoryview) -> np.ndarray:
    """Return the array of a tensor's raw bytes.

    Args:
        datatype: as in a message.
        shape: as in a message.
        data: the values, little-endian and in row-major order; each element of BYTES after its length.

    Returns:
        A read-only view of the bytes; for BYTES an object array of `bytes`.

    Raises:
        CodecError: the datatype is unknown, or the data do not have this shape.

    Example:
        >>> from_raw("BYTES", [2], bytes.fromhex("01000000 61 02000000 6263")).tolist()
        [b'a', b'bc']
    """
    dtype, known = dtype_of(datatype), codec.known_shape(shape)
    if dtype.hasobject:
        return _elements(data, math.prod(known)).reshape(known)
    expected = math.prod(known) * dtype.itemsize
    if len(data) != expected:
        raise CodecError(f"{datatype} of shape {list(known)} takes {expected} bytes. Received {len(data)}")
    array = codec.from_bytes(data, dtype, known)
    if datatype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise CodecError("BOOL must have bytes of 0 and 1. Received others")
    return array


def to_raw(array: np.ndarray) -> bytes:
    """Return an array's raw bytes; strings are object arrays of `bytes`.

    Example:
        >>> to_raw(np.array([b"a", b"bc"], object)).hex()
        '0100000061020000006263'
    """
    if array.dtype != object:
        return codec.little_endian(array).tobytes()
    parts: list[bytes] = []
    for element in cast("list[bytes]", array.reshape(-1).tolist()):
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def from_contents(datatype: str, shape: Sequence[int], contents: oip.InferTensorContents) -> np.ndarray:
    """Return the array of a tensor's contents.

    Raises:
        CodecError: the datatype is unknown or has no contents; or the values are in another field, do not
            fit it, or do not have this shape.

    Example:
        >>> from_contents("INT8", [2], oip.InferTensorContents(int_contents=[1, -1])).tolist()
        [1, -1]
    """
    dtype, known = dtype_of(datatype), codec.known_shape(shape)
    field = _DATATYPES[datatype][1]
    if not field:
        raise CodecError(f"{datatype} has raw bytes only: send raw_input_contents")
    others = [each.name for each, _ in contents.ListFields() if each.name != field]
    if others:
        raise CodecError(f"{datatype} is sent in {field}. Received {others[0]}")
    values = getattr(contents, field)
    found = len(values) // dtype.itemsize if field in _RAW_FIELDS else len(values)
    if found != math.prod(known) or (field in _RAW_FIELDS and len(values) % dtype.itemsize):
        raise CodecError(
            f"{datatype} of shape {list(known)} has {math.prod(known)} values, packed. "
            f"Received {found} in {field}"
        )
    if field in _RAW_FIELDS:
        return codec.from_bytes(values, dtype, known)
    return _in_range(codec.array_of(values, np.dtype(_WIDE.get(field, dtype))), dtype, datatype).reshape(
        known
    )


def has_contents(datatype: str) -> bool:
    """Return True if a datatype has a field in contents: False for FP16 and BF16.

    Example:
        >>> has_contents("FP16")
        False
    """
    return bool(_DATATYPES[datatype][1])


def to_contents(array: np.ndarray) -> oip.InferTensorContents:
    """Return an array's values in the field of its datatype, which has one.

    Example:
        >>> to_contents(np.array([1, -1], np.int8)).int_contents
        [1, -1]
    """
    contents, field = oip.InferTensorContents(), _DATATYPES[datatype_of_array(array)][1]
    if field in _RAW_FIELDS:
        setattr(contents, field, to_raw(array))
    else:
        getattr(contents, field).extend(array.reshape(-1).tolist())
    return contents


def _elements(data: bytes | memoryview, count: int) -> np.ndarray:
    """Return so many elements of BYTES."""
    if count * _LENGTH.size > len(data):
        raise CodecError(f"{count} elements of BYTES take {_LENGTH.size} bytes each. Received {len(data)}")
    found, plain, place = np.empty(count, object), bytes(data), 0
    for index in range(count):
        start = place + _LENGTH.size
        if start <= len(plain):
            place = start + _LENGTH.unpack_from(plain, place)[0]
        if not start <= place <= len(plain):
            raise CodecError(f"element {index} of BYTES ends after the data, which are {len(plain)} bytes")
        found[index] = plain[start:place]
    if place != len(plain):
        raise CodecError(f"{len(plain) - place} bytes are left after {count} elements of BYTES")
    return found


def _in_range(wide: np.ndarray, dtype: np.dtype, datatype: str) -> np.ndarray:
    narrow = wide.astype(dtype, copy=False)
    if dtype.kind in "iu" and not np.array_equal(narrow, wide):
        raise CodecError(
            f"every value must be in the range of {datatype}. Received {wide.min()} to {wide.max()}"
        )
    return narrow
