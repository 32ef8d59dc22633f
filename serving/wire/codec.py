"""Convert NumPy arrays and strings to TensorProto messages and back: the only place that does it.

`encode` writes a client's form (`tensor_content`, one copy); `encode_fields` writes TensorFlow Serving's
default form for answers (the typed `*_val` fields); `decode` reads both.

Reference: tensorflow/core/framework/tensor.proto, and Tensor::FromProto in tensor.cc.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import ArrayLike

from . import messages_pb2 as pb
from .dtypes import CodecError, Kind, code_of, kind_of, named_dtype, plain_dtype

# A message holds at most INT32_MAX bytes, so no fully written tensor is larger. The short form ("repeat the
# last value") can name any size in a few bytes: without a limit it would be an easy way to exhaust memory.
MAX_TENSOR_BYTES = 2**31 - 1

_MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32

# Values read from a message at a time. Reading them takes a millisecond, in which no other thread runs.
_CHUNK = 2**14

# Memory of a string beside its text: a pointer in the array, and TensorFlow's own object.
_STRING_BYTES = np.dtype(object).itemsize + 24

_STRING_KINDS = "OSUT"  # objects, bytes, str, and NumPy 2's StringDType


def encode(value: ArrayLike, dtype: str | None = None) -> pb.TensorProto:
    """The TensorProto a client sends for a value.

    Args:
        value: an array, a number, a `str` or `bytes`, or nested lists of them. Arrays may be non-contiguous
            and of any byte order. `str` is sent as UTF-8.
        dtype: a NumPy dtype name or `string` to convert to; None keeps the dtype that NumPy gives the value.

    Returns:
        A message with `tensor_content` (numbers) or `string_val` (strings).

    Raises:
        CodecError: the value is ragged, mixes strings with numbers, has a dtype that TensorFlow does not
            carry, or cannot be converted to `dtype`.

    Example:
        >>> encode([1.0, 2.0], "float32").tensor_content.hex()
        '0000803f00000040'
    """
    return encode_array(to_array(value, dtype))


def encode_array(array: np.ndarray) -> pb.TensorProto:
    """The TensorProto of a result of `to_array`, as in `encode`."""
    proto = describe(array)
    if array.dtype == object:
        proto.string_val.extend(cast("Sequence[bytes]", array.reshape(-1).tolist()))
    else:
        proto.tensor_content = little_endian(array).tobytes()
    return proto


def describe(array: np.ndarray) -> pb.TensorProto:
    """A TensorProto with the dtype and shape of a result of `to_array`, without its values."""
    code = pb.DT_STRING if array.dtype == object else code_of(array.dtype)
    return pb.TensorProto(dtype=_enum(code), tensor_shape=_shape(array))


def little_endian(array: np.ndarray) -> np.ndarray:
    """A numeric array as its bytes are sent: contiguous and little-endian. Not copied if it already is."""
    return np.ascontiguousarray(array, dtype=kind_of(code_of(array.dtype)).dtype)


def encode_fields(value: ArrayLike) -> pb.TensorProto:
    """The TensorProto with which TensorFlow Serving answers: every value in its typed field.

    Args:
        value: as in `encode`.

    Returns:
        A message with one of the `*_val` fields set.

    Raises:
        CodecError: as in `encode`.

    Example:
        >>> encode_fields([1, 2]).int64_val
        [1, 2]

    Reference: Tensor::AsProtoField in tensorflow/core/framework/tensor.cc.
    """
    array = to_array(value)
    if array.dtype == object:
        return encode_array(array)
    kind = kind_of(code_of(array.dtype))
    flat = little_endian(array).reshape(-1)
    proto = describe(array)
    if kind.raw:
        setattr(proto, kind.field, flat.tobytes())
    else:
        getattr(proto, kind.field).extend((flat.view("<u2") if kind.bits else flat).tolist())
    return proto


def decode(proto: pb.TensorProto, content: memoryview | None = None) -> np.ndarray:
    """The array in a TensorProto.

    Args:
        proto: a tensor as `tensor_content` or as typed `*_val` fields. As in TensorFlow, if there are fewer
            values than elements, the last value is repeated; no values mean zeros (or empty strings).
        content: the raw values of any field, if they were kept outside the message.

    Returns:
        The array; strings as an object array of `bytes`. If the message holds the values as raw bytes, the
        array is a read-only view of them: copy it to write to it.

    Raises:
        CodecError: the type has no NumPy equivalent, the shape is unknown, or the values do not fit it.

    Example:
        >>> decode(encode_fields([1.5, 2.5])).tolist()
        [1.5, 2.5]
    """
    shape = _shape_of(proto)
    if proto.dtype == pb.DT_STRING:
        return _decode_strings(proto, shape)
    kind = kind_of(proto.dtype)
    if math.prod(shape) * kind.dtype.itemsize > MAX_TENSOR_BYTES:
        raise CodecError(f"a {kind.dtype} tensor of shape {shape} is larger than {MAX_TENSOR_BYTES} bytes")
    if content is not None:
        return _exact_bytes(content, kind.dtype, shape, "its content")
    if proto.tensor_content:
        return _exact_bytes(proto.tensor_content, kind.dtype, shape, "tensor_content")
    return _fill(_field_values(proto, kind), shape, kind.field)


def decoded_bytes(proto: pb.TensorProto) -> int:
    """The memory of a TensorProto's array in bytes, which may be far more than the message.

    Args:
        proto: as for `decode`, which is not called. Strings count without their characters.

    Returns:
        0 for a message that `decode` refuses.

    Example:
        >>> decoded_bytes(pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape=_shape(np.empty((1024, 256)))))
        1048576
    """
    try:
        elements = math.prod(_shape_of(proto))
        return elements * (
            _STRING_BYTES if proto.dtype == pb.DT_STRING else kind_of(proto.dtype).dtype.itemsize
        )
    except CodecError:
        return 0


def _enum(code: int) -> pb.DataType:
    # The generated stub types enum fields by an enum class that exists only for type checkers.
    return cast("pb.DataType", code)


def to_array(value: ArrayLike, dtype: str | None = None) -> np.ndarray:
    """A value as an array that can be sent.

    Args:
        value: as in `encode`.
        dtype: as in `encode`.

    Returns:
        An array of numbers, of any layout and byte order; or an object array of `bytes`.

    Raises:
        CodecError: as in `encode`.

    Example:
        >>> to_array(["a", "b"]).tolist()
        [b'a', b'b']
    """
    plain = plain_dtype(dtype)
    # NumPy reads None as float64.
    if type(value) is np.ndarray and plain is not None and value.dtype == plain:
        return value  # the usual form of arrays
    if dtype == "string" or _holds_strings(value):
        if dtype not in (None, "string"):
            raise CodecError(f"strings cannot be sent as {dtype}")
        return _string_array(value)
    array = _as_numpy(value)
    if array.dtype.kind in _STRING_KINDS:
        return _string_array(value) if dtype is None else _numbers_in(array, dtype)
    if dtype is not None and array.dtype.name != dtype:
        return _convert(array, dtype)
    code_of(array.dtype)  # refuses dates and records
    return array


def _as_numpy(value: ArrayLike) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):  # pyright: ignore[reportUnknownArgumentType]
        raise CodecError("it has masked elements, which no tensor has; fill them (numpy.ma.filled)")
    try:
        return np.asarray(value)
    except ValueError:
        raise CodecError("the rows have different lengths; pad them to one length") from None
    except (TypeError, RuntimeError) as error:  # tensors on a GPU, or with a gradient, say why not
        raise CodecError(f"NumPy makes no array of it: {error}") from error


def _numbers_in(array: np.ndarray, dtype: str) -> np.ndarray:
    """Convert an object array of Python's numbers, such as a pandas column with gaps, to `dtype`."""
    if array.dtype.kind != "O":
        raise CodecError(f"strings cannot be sent as {dtype}")
    for place, item in enumerate(array.reshape(-1).tolist()):
        if not isinstance(item, int | float | complex | np.number | np.bool_):
            found = f"{type(item).__name__} {item!r:.40}"
            raise CodecError(
                f"every element must be a number to be sent as {dtype}. Element {place} is {found}"
            )
    numbers = _as_numpy(array.tolist())
    if numbers.dtype == object:  # beyond 64 bits
        raise CodecError(f"the values do not fit {dtype}: {_preview(array)}")
    return _convert(numbers, dtype)


def _convert(array: np.ndarray, dtype: str) -> np.ndarray:
    """Convert `array` to `dtype`; refuse it if this would change more than a float's last digits.

    Floats are rounded to the nearest narrower ones, as Keras does. A finite number must stay finite, an
    integer must keep its value, and no fraction may be dropped.
    """
    code_of(array.dtype)
    target = named_dtype(dtype)
    if array.dtype.kind == "c" and target.kind != "c":
        raise CodecError(f"complex values cannot be sent as {dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(target)
        if target.kind in "iub":
            exact = np.array_equal(converted, array)
        elif array.dtype.kind in "iu":
            exact = np.array_equal(np.real(converted).astype(array.dtype), array)
        else:
            exact = np.array_equal(np.isfinite(converted), np.isfinite(array))
    if not exact:
        raise CodecError(f"the values do not fit {dtype}: {_preview(array)}")
    return converted


def _preview(array: np.ndarray) -> str:
    return np.array2string(array.reshape(-1)[:5], separator=", ")


def _holds_strings(value: Any) -> bool:
    """Return True if the first leaf is text: NumPy would pad texts to the longest, and strip NULs."""
    while isinstance(value, list | tuple) and value:
        value = value[0]  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, str | bytes)


def _string_array(value: Any) -> np.ndarray:
    array: np.ndarray = value if isinstance(value, np.ndarray) else _object_array(value)  # pyright: ignore[reportUnknownVariableType]
    encoded = np.empty(array.shape, dtype=object)
    encoded.reshape(-1)[:] = [_as_bytes(place, item) for place, item in enumerate(array.reshape(-1).tolist())]
    return encoded


def _object_array(value: object) -> np.ndarray:
    try:
        return np.array(value, dtype=object)
    except ValueError:
        raise CodecError("the rows have different lengths; pad them to one length") from None


def _as_bytes(place: int, item: object) -> bytes:
    if isinstance(item, bytes):
        return item
    if not isinstance(item, str):
        found = f"{type(item).__name__} {item!r:.40}"
        raise CodecError(
            f"every element must be a str or bytes, in rows of one length. Element {place} is {found}"
        )
    try:
        return item.encode()
    except UnicodeEncodeError as error:
        raise CodecError(
            f"element {place} has a lone surrogate, which is no valid Unicode: {error}"
        ) from None


def _shape(array: np.ndarray) -> pb.TensorShapeProto:
    return pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=size) for size in array.shape])


def _shape_of(proto: pb.TensorProto) -> tuple[int, ...]:
    if proto.tensor_shape.unknown_rank:
        raise CodecError("a tensor's shape must be known")
    return _known_shape(tuple([dim.size for dim in proto.tensor_shape.dim]))


def known_shape(sizes: Sequence[int]) -> tuple[int, ...]:
    """A message's shape, if an array can have it.

    Raises:
        CodecError: an axis is unknown, or there are too many, or they are too long.

    Example:
        >>> known_shape([2, 3])
        (2, 3)
    """
    if len(sizes) > _MOST_AXES:  # checked first: the product of very many sizes takes very long
        raise CodecError(f"a tensor of {len(sizes)} axes is larger than an array can be")
    shape = tuple(sizes)
    if min(shape, default=0) < 0:
        raise CodecError(f"a tensor's shape must be known. Received {shape}")
    # NumPy also limits the other sizes of an empty tensor.
    if math.prod([size or 1 for size in shape]) > MAX_TENSOR_BYTES:
        raise CodecError(f"a tensor of shape {str(shape)[:80]} is larger than an array can be")
    return shape


# Messages have few shapes; the server looks at each twice, for its memory and for its values.
_known_shape = functools.lru_cache(1024)(known_shape)


def _exact_bytes(data: bytes | memoryview, dtype: np.dtype, shape: tuple[int, ...], field: str) -> np.ndarray:
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise CodecError(f"a {dtype} tensor of shape {shape} takes {expected} bytes; {field} has {len(data)}")
    return from_bytes(data, dtype, shape)


def from_bytes(data: bytes | memoryview, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """The array of a tensor's bytes, which are as many as it takes: a read-only view of them, if aligned."""
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if array.flags.aligned:
        return array
    # NumPy handles such an array, slowly; many users of NumPy arrays do not.
    array = array.copy()
    array.flags.writeable = False
    return array


def _field_values(proto: pb.TensorProto, kind: Kind) -> np.ndarray:
    values = getattr(proto, kind.field)
    if kind.raw and not values and _has_unknown(proto, kind.field):
        raise CodecError(f"{kind.field} is not packed, as proto3 has it")
    if kind.raw:
        if len(values) % kind.dtype.itemsize:
            raise CodecError(f"{kind.field} has {len(values)} bytes, no multiple of {kind.dtype.itemsize}")
        return np.frombuffer(values, dtype=kind.dtype)
    if kind.bits:
        return array_of(values, np.dtype(np.int32)).astype("<u2").view(kind.dtype)
    # int_val holds int32 values for every type of tensor; like TensorFlow, keep the low bits of these.
    wide = np.dtype(np.int32) if kind.field == "int_val" else kind.dtype
    return array_of(values, wide).astype(kind.dtype, copy=False)


def array_of(values: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    """The values of a repeated field as a flat array, read in chunks."""
    array = np.empty(len(values), dtype)
    for start in range(0, len(values), _CHUNK):
        array[start : start + _CHUNK] = values[start : start + _CHUNK]
    return array


def _has_unknown(proto: pb.TensorProto, field: str) -> bool:
    """Return True if a field has a form that its declaration as bytes does not read."""
    number = pb.TensorProto.DESCRIPTOR.fields_by_name[field].number
    return any(each.field_number == number for each in UnknownFieldSet(proto))


def _fill(values: np.ndarray, shape: tuple[int, ...], field: str, default: Any = 0) -> np.ndarray:
    """An array of the values, filled up with the last one; an array of `default` if there are none."""
    elements = math.prod(shape)
    if len(values) > elements:
        raise CodecError(f"{field} has {len(values)} values for a tensor of shape {shape}")
    if len(values) < elements:
        whole = np.empty(elements, values.dtype)
        whole[: len(values)] = values
        whole[len(values) :] = values[-1] if len(values) else default
        values = whole
    return values.reshape(shape)


def _decode_strings(proto: pb.TensorProto, shape: tuple[int, ...]) -> np.ndarray:
    if proto.tensor_content:
        raise CodecError("a string tensor is sent in string_val, not in tensor_content")
    elements = math.prod(shape)
    if elements * np.dtype(object).itemsize > MAX_TENSOR_BYTES:
        raise CodecError(f"a string tensor of shape {shape} has too many elements")
    return _fill(array_of(proto.string_val, np.dtype(object)), shape, "string_val", default=b"")
