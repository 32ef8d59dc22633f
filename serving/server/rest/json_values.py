"""Single values of a REST request's JSON: strings, base64, numbers, and what error texts say of them.

Reference: AddValueToTensor, JsonDecodeBase64Object, WriteDecimal and JsonValueToString in
tensorflow_serving/util/json_tensor.cc.
"""

import base64
import json
import math
from collections.abc import Sequence

import numpy as np

from ...errors import InvalidArgumentError, ServingError
from ...wire import messages_pb2 as pb

# What an error text shows of a value: TensorFlow Serving repeats all of it, however many megabytes.
_MOST_TEXT = 1024

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_TYPE_NAMES = {dict: "Object", list: "Array", str: "String", type(None): "Null"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=4)

_SURROGATE = "JSON Parse error: The surrogate pair in string is invalid."


class Infinite(float):
    """An infinity that was written as such; any other comes of a number too big for a double."""


def utf8(text: str) -> bytes:
    """The bytes of a document's string.

    Raises:
        InvalidArgumentError: half of a surrogate pair stands in it.

    Example:
        >>> utf8("naïve")
        b'na\\xc3\\xafve'
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgumentError(_SURROGATE) from None


def proper_text(text: str) -> str:
    """A document's string, for use as a name in a message.

    Raises:
        InvalidArgumentError: it is no valid Unicode, which no message carries.

    Example:
        >>> proper_text("stars")
        'stars'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(_SURROGATE) from None
    return text


def is_base64(value: object) -> bool:
    """Return whether a value is what stands for binary data: {"b64": "..."} and nothing else in it.

    Example:
        >>> is_base64({"b64": "aGVsbG8="})
        True
    """
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def base64_bytes(value: object) -> bytes:
    """The binary data in {"b64": "..."}.

    Raises:
        InvalidArgumentError: the value is something else, or its text no base64.

    Example:
        >>> base64_bytes({"b64": "aGVsbG8="})
        b'hello'
    """
    if not (isinstance(value, dict) and is_base64(value)):
        raise format_error(value, "not formatted correctly for base64 data")
    text = "".join(value["b64"].split())
    if "=" not in text:  # the padding may be left out, but not be wrong
        text += "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidArgumentError("Unable to base64 decode") from None


def is_integer(value: object) -> bool:
    """Return whether RapidJSON has a value as an integer: one beyond 64 bits is a double there.

    Example:
        >>> is_integer(2**64)
        False
    """
    return type(value) is int and _INT64_MIN <= value <= _UINT64_MAX


def as_float(value: float) -> float:
    """A number as a double: what a float type holds of it, rounded or infinite, is for the array to say.

    Raises:
        InvalidArgumentError: no double holds it, and it was not written as infinite.

    Example:
        >>> as_float(1435774380)
        1435774380.0
    """
    try:
        number = float(value)
    except OverflowError:
        raise too_big() from None
    if math.isinf(number) and not isinstance(value, Infinite):
        raise too_big()
    return number


def as_floats(values: Sequence[float] | np.ndarray, code: int) -> np.ndarray:
    """Numbers as an array of a float type, rounded; those too big for it are infinite there.

    Args:
        values: numbers that doubles hold.
        code: DT_FLOAT or DT_DOUBLE.

    Example:
        >>> as_floats([1.797e308, 16777217], pb.DT_FLOAT).tolist()
        [inf, 16777216.0]
    """
    wide = np.array(values, np.float64)
    if code == pb.DT_DOUBLE:
        return wide
    with np.errstate(over="ignore"):
        return wide.astype(np.float32)


def type_name(value: object) -> str:
    """Return RapidJSON's name for the type of a value.

    Example:
        >>> type_name(True)
        'True'
    """
    if isinstance(value, bool):
        return str(value)
    return _TYPE_NAMES.get(type(value), "Number")


def tensor_type(code: int) -> str:
    """Return TensorFlow's name for a data type in its texts.

    Example:
        >>> tensor_type(pb.DT_HALF)
        'half'
    """
    return pb.DataType.Name(code)[3:].lower() if code in pb.DataType.values() else str(code)


def value_text(value: object) -> str:
    """A value as JSON for an error text, as TensorFlow Serving indents it; cut where it is long.

    Example:
        >>> value_text("x")
        '"x"'
    """
    if isinstance(value, float):
        return _decimal(value)
    text = ""
    # The encoder goes only as deep as what it has been asked for, so no nesting is too deep for it.
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > _MOST_TEXT:
            return text[:_MOST_TEXT] + "...TRUNCATED"
    return text


def _decimal(value: float) -> str:
    """A number as WriteDecimal writes it: six digits where these are enough, otherwise all."""
    if not math.isfinite(value):
        return json.dumps(value)
    narrow = abs(value) <= _FLOAT32_MAX
    number, digits = (float(np.float32(value)), 9) if narrow else (value, 17)
    text = f"{number:g}"
    read = float(np.float32(text)) if narrow else float(text)
    if read != number:
        text = f"{number:.{digits}g}"
    return text if "." in text or "e" in text else text + ".0"


def invalid(message: str, kind: type[ServingError] = InvalidArgumentError) -> ServingError:
    """The error with a message, in which whatever is no valid Unicode is replaced.

    Example:
        >>> str(invalid("no \\ud800"))
        'no ?'
    """
    return kind(message.encode("utf-8", "replace").decode())


def format_error(value: object, message: str) -> ServingError:
    """The error that shows a value and says what is wrong with it.

    Example:
        >>> str(format_error([], "Is not object"))
        'JSON Value: [] Is not object'
    """
    return invalid(f"JSON Value: {value_text(value)} {message}")


def too_big() -> InvalidArgumentError:
    """The error of a number that no double holds.

    Example:
        >>> str(too_big())
        'JSON Parse error: Number too big to be stored in double.'
    """
    return InvalidArgumentError("JSON Parse error: Number too big to be stored in double.")
