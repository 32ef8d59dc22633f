"""Quantized types, such as qint8, for which NumPy has no name.

TensorFlow's Python feeds them as records of one field with the type's name, and fetches them as plain
integers. Between a message and the graph, this server has such records everywhere.

Reference: tensorflow/python/framework/dtypes.py, and TF_DataType_to_PyArray_DataType in
tensorflow/python/lib/core/py_func.cc.
"""

from collections.abc import Callable
from typing import cast

import numpy as np

from ...wire import codec, dtypes
from ...wire import messages_pb2 as pb

_RECORDS: dict[int, np.dtype] = {
    code: np.dtype([(pb.DataType.Name(code)[3:].lower(), dtypes.kind_of(code).dtype)])
    for code in dtypes.QUANTIZED
}
_CODES = {record: code for code, record in _RECORDS.items()}


def record_of(code: int) -> np.dtype | None:
    """Return the record that feeds arrays of a quantized data type; None for another type."""
    return _RECORDS.get(code)


def code_of(dtype: np.dtype) -> int:
    """Like `dtypes.code_of`, for records too."""
    return _CODES[dtype] if dtype.names else dtypes.code_of(dtype)


def as_fed(array: np.ndarray, code: int) -> np.ndarray:
    """An array of integers as records, if it is for a quantized data type that has these integers."""
    record = record_of(code)
    return array if record is None or array.dtype != record[0] else array.view(record)


def plain(array: np.ndarray) -> np.ndarray:
    """An array without records: quantized numbers are integers."""
    return array.view(array.dtype[0]) if array.dtype.names else array


def decode(proto: pb.TensorProto) -> np.ndarray:
    """Like `codec.decode`, but quantized numbers are records."""
    return as_fed(codec.decode(proto), proto.dtype)


def encode(array: np.ndarray, encode_plain: Callable[[np.ndarray], pb.TensorProto]) -> pb.TensorProto:
    """The TensorProto of an array.

    Args:
        array: of any type; quantized numbers are records.
        encode_plain: writes arrays of all other types.
    """
    if not array.dtype.names:
        return encode_plain(array)
    proto = encode_plain(plain(array))
    proto.dtype = cast("pb.DataType", code_of(array.dtype))
    return proto
