"""TensorFlow's data types and NumPy's: the only table between them."""

import functools
import importlib
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from . import messages_pb2 as pb


class CodecError(ValueError):
    """A value that does not fit a TensorProto, or a TensorProto that is not an array."""


class Kind(NamedTuple):
    """The storage of one data type: its NumPy type and its typed field."""

    dtype: np.dtype
    field: str
    # The typed field's elements in memory: raw bytes if the field is declared `bytes`, 16-bit patterns for
    # the half types, otherwise the values themselves.
    raw: bool = False
    bits: bool = False


def _little(dtype: DTypeLike) -> np.dtype:
    return np.dtype(dtype).newbyteorder("<")


_KINDS: dict[int, Kind] = {
    pb.DT_FLOAT: Kind(_little(np.float32), "float_val", raw=True),
    pb.DT_DOUBLE: Kind(_little(np.float64), "double_val", raw=True),
    pb.DT_COMPLEX64: Kind(_little(np.complex64), "scomplex_val", raw=True),
    pb.DT_COMPLEX128: Kind(_little(np.complex128), "dcomplex_val", raw=True),
    pb.DT_HALF: Kind(_little(np.float16), "half_val", bits=True),
    pb.DT_INT8: Kind(_little(np.int8), "int_val"),
    pb.DT_INT16: Kind(_little(np.int16), "int_val"),
    pb.DT_INT32: Kind(_little(np.int32), "int_val"),
    pb.DT_INT64: Kind(_little(np.int64), "int64_val"),
    pb.DT_UINT8: Kind(_little(np.uint8), "int_val"),
    pb.DT_UINT16: Kind(_little(np.uint16), "int_val"),
    pb.DT_UINT32: Kind(_little(np.uint32), "uint32_val"),
    pb.DT_UINT64: Kind(_little(np.uint64), "uint64_val"),
    pb.DT_BOOL: Kind(np.dtype(np.bool_), "bool_val"),
}
QUANTIZED: dict[int, Kind] = {
    pb.DT_QINT8: _KINDS[pb.DT_INT8],
    pb.DT_QUINT8: _KINDS[pb.DT_UINT8],
    pb.DT_QINT16: _KINDS[pb.DT_INT16],
    pb.DT_QUINT16: _KINDS[pb.DT_UINT16],
    pb.DT_QINT32: _KINDS[pb.DT_INT32],
}
"""Integers that stand for numbers in a range that messages do not contain. They are read as integers."""
_CODES = {kind.dtype.newbyteorder("="): code for code, kind in _KINDS.items()}


def _bfloat16() -> Kind:
    """NumPy has no bfloat16; ml_dtypes, which TensorFlow installs, adds one."""
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError:
        raise CodecError("a bfloat16 tensor needs the package ml_dtypes: pip install ml_dtypes") from None
    return Kind(np.dtype(module.bfloat16), "half_val", bits=True)


def kind_of(code: int) -> Kind:
    """Return the storage of the data type `code`."""
    if code == pb.DT_BFLOAT16:
        return _bfloat16()
    if code in QUANTIZED:
        return QUANTIZED[code]
    if code not in _KINDS:
        raise CodecError(f"a tensor of type {dtype_name(code)} has no NumPy equivalent")
    return _KINDS[code]


def code_of(dtype: np.dtype) -> int:
    """The data type of arrays of `dtype`, in any byte order."""
    code = _CODES.get(dtype.newbyteorder("="))
    # The owner of a bfloat16 array has already imported ml_dtypes; nobody else needs it.
    if code is None and dtype.name == "bfloat16" and "ml_dtypes" in sys.modules:
        return pb.DT_BFLOAT16
    if code is None:
        raise CodecError(f"an array of dtype {dtype} cannot be sent; use a bool, number or string dtype")
    return code


def dtype_name(code: int) -> str:
    """The NumPy name of a TensorFlow data type, `string` for strings.

    Args:
        code: a value of `messages_pb2.DataType`.

    Returns:
        For example `float32` or `string`; TensorFlow's own name (`DT_RESOURCE`) for types that NumPy lacks.

    Example:
        >>> dtype_name(1)
        'float32'
    """
    if code == pb.DT_STRING:
        return "string"
    if code == pb.DT_BFLOAT16:
        return "bfloat16"
    if code in _KINDS:
        return _KINDS[code].dtype.name
    return pb.DataType.Name(code) if code in pb.DataType.values() else f"DataType {code}"


@functools.cache
def plain_dtype(name: str | None) -> np.dtype | None:
    """The NumPy dtype whose arrays can be sent as `name` unchecked; None if they must be checked."""
    return next((kind.dtype for kind in _KINDS.values() if kind.dtype.name == name), None)


def named_dtype(name: str) -> np.dtype:
    """The NumPy dtype with a name from `dtype_name`."""
    if name == "bfloat16":
        return _bfloat16().dtype
    try:
        return np.dtype(name)
    except TypeError:
        raise CodecError(f"values cannot be sent as {name}: NumPy has no such dtype") from None
