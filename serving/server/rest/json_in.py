"""Parse the body of a REST `:predict`, JSON rows or columns, into arrays; with the parts `:classify` shares.

It uses Python's JSON parser. Like TensorFlow Serving's parser, it also reads `Inf` and bytes that are not
UTF-8, and it refuses numbers that are too big for a double.

Reference: ParseJson and FillPredictRequestFromJson in tensorflow_serving/util/json_tensor.cc.
"""

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError, ServingError, UnimplementedError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import kind_of
from ...wire.signature_names import DEFAULT_SIGNATURE

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Strings come first and match as a whole; otherwise words inside them would be read as numbers.
_STRING_OR_WORD = re.compile(r'"(?:[^"\\]|\\.)*+"?|-?Inf(?!inity)|-NaN', re.DOTALL)
_WORDS = {"Inf": "Infinity", "-Inf": "-Infinity", "-NaN": "NaN"}
# An infinity that is not one of these objects was written as a number that is too big for a double.
_CONSTANTS = {"NaN": math.nan, "Infinity": float("inf"), "-Infinity": float("-inf")}
_INFINITIES = (_CONSTANTS["Infinity"], _CONSTANTS["-Infinity"])
_DECODER = json.JSONDecoder(parse_constant=_CONSTANTS.__getitem__)

# Bytes of memory by the character that stands for a value (comma), a list, an object, half a string (quote):
# for the Python object, its places in lists, and its part of an array.
_JSON_BYTES = {b",": 40, b"[": 64, b"{": 232, b'"': 57}
# A string takes 4 bytes for every character if one character needs 4, and one more for its UTF-8.
_WIDE_CHARACTERS = 5
_EXAMPLE_BYTES = 1500  # a message has an arena of its own
_CHUNK = 2**20

# The most axes that an array can have in all supported NumPy releases.
_MOST_AXES = 32
# The most characters of an error, and of a value in it; TensorFlow Serving repeats values of many megabytes.
_MOST_TEXT, _MOST_SHOWN = 1000, 100

_INTEGERS = (
    *(pb.DT_INT8, pb.DT_INT16, pb.DT_INT32, pb.DT_INT64),
    *(pb.DT_UINT8, pb.DT_UINT16, pb.DT_UINT32, pb.DT_UINT64),
)
# As in TensorFlow Serving, JSON carries neither half nor bfloat16.
_TYPES: dict[int, set[type]] = {
    pb.DT_FLOAT: {int, float},
    pb.DT_DOUBLE: {int, float},
    **{code: {int} for code in _INTEGERS},
    pb.DT_BOOL: {bool},
    pb.DT_STRING: {str, dict},
}
_DTYPES = {code: kind_of(code).dtype for code in _TYPES if code != pb.DT_STRING}

_JSON_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
_ROW = "Failed to process element: {row} of 'instances' list."
_NAMED_ROW = "Failed to process element: {row} key: {alias} of 'instances' list."

_Infos = Mapping[str, pb.TensorInfo]


class _Misfit(Exception):  # noqa: N818 - it never leaves this module
    """A value that does not fit into its input's array: the error, and the value's indices."""

    def __init__(self, error: ServingError, indices: Sequence[Any] = ()):
        self._error = error
        self._indices = indices

    def placed(self, alias: str, where: str) -> ServingError:
        """Return the error with the value's place: the row, in TensorFlow Serving's words, or the input."""
        if where:
            begun = where.format(row=next(iter(self._indices), 0), alias=alias)
            return invalid(f"{begun} Error: {self._error.code.name}: {self._error.details}")
        place = "".join(f"[{index}]" for index in self._indices)
        return type(self._error)(f"{self._error.details} at {alias}{place}")


class PredictInputs(NamedTuple):
    """The body of a `:predict`: the signature, whether to answer by rows, and the inputs by name."""

    signature_name: str
    rows: bool
    inputs: dict[str, np.ndarray]


def json_bytes(body: bytes, are_examples: bool = False) -> int:
    """Estimate the memory, in bytes, that a body will take as a parsed document and as arrays.

    Args:
        body: JSON.
        are_examples: True if each object in it becomes a tf.Example.

    Example:
        >>> json_bytes(b'{"instances": [1, 2.5]}') < json_bytes(b'{"instances": [[1], [2.5]]}')
        True
    """
    found = len(body) * (2 if body.isascii() else _WIDE_CHARACTERS)
    for start in range(0, len(body), _CHUNK):
        part = body[start : start + _CHUNK]
        found += sum(size * part.count(character) for character, size in _JSON_BYTES.items())
        found += _EXAMPLE_BYTES * part.count(b"{") if are_examples else 0
    return found


def predict_inputs(
    body: bytes, signatures: Mapping[str, pb.SignatureDef], infer_path: str = "/v2/models/MODEL/infer"
) -> PredictInputs:
    """Parse the body of a `:predict`.

    Args:
        body: {"instances": [row, ...]} or {"inputs": tensor or {name: tensor}}; "signature_name" is optional.
        signatures: the model's signatures, by name. Inputs with a default may be left out.
        infer_path: of the model in the Open Inference Protocol, for messages.

    Returns:
        The signature's name, True if the body came in rows, and an array for each input: numbers and bools in
        the signature's dtype, strings as an object array of `bytes`.

    Raises:
        InvalidArgumentError: the body is not JSON, or does not fit the signature.
        UnimplementedError: an input has a type that JSON does not carry (columns only; for rows, this is an
            InvalidArgumentError, as in TensorFlow Serving).

    Example:
        >>> info = pb.TensorInfo(dtype=pb.DT_FLOAT)
        >>> signatures = {"serving_default": pb.SignatureDef(inputs={"x": info})}
        >>> predict_inputs(b'{"instances": [1, 2.5]}', signatures).inputs["x"].tolist()
        [1.0, 2.5]
    """
    doc = document(body)
    check_protocol(doc, infer_path, "'instances' or columns")
    name = signature_name(doc) or DEFAULT_SIGNATURE
    if name not in signatures:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    signature = signatures[name]
    if not signature.inputs:
        asked = doc.get("signature_name") or "DEFAULT"
        raise invalid(f"Failed to get input map for signature: {asked}")
    infos = {alias: signature.inputs[alias] for alias in sorted(signature.inputs)}
    needed = infos.keys() - signature.defaults.keys()
    if "instances" in doc and "inputs" in doc:
        raise invalid(
            f"JSON Value: {shown(doc)} Not formatted correctly expecting only one of 'inputs' or "
            "'instances' keys to exist "
        )
    if "inputs" in doc:
        columns = _named_columns(doc["inputs"], infos, needed)
        return PredictInputs(name, False, _arrays(columns, infos, ""))
    if "instances" not in doc:
        raise invalid("Missing 'inputs' or 'instances' key")
    columns = _columns_of_rows(doc["instances"], infos, needed)
    named = _is_named(doc["instances"][0])
    return PredictInputs(name, True, _arrays(columns, infos, _NAMED_ROW if named else _ROW))


def document(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body.

    Args:
        body: JSON in UTF-8, in which numbers may be NaN, Infinity and -Infinity. Bytes that are not UTF-8
            become surrogates in strings; `text_bytes` turns these back.

    Raises:
        InvalidArgumentError: it is not JSON, not an object, or nested too deeply to be read.

    Example:
        >>> document(b'{"instances": [1, 2.5]}')
        {'instances': [1, 2.5]}
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogateescape")
    try:
        found = _decoded(text)
    except RecursionError:
        raise invalid("JSON Parse error: The document is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise too_big() from None
    if not isinstance(found, dict):
        raise invalid(f"the body must be a JSON object. Received {shown(found)}")
    return found


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        plain = _STRING_OR_WORD.sub(lambda match: _WORDS.get(match[0], match[0]), text)
        if plain == text:
            raise
        try:
            return _DECODER.decode(plain)
        except json.JSONDecodeError as second:
            # The error's place is left out: it is wrong, since the replaced words have other lengths.
            raise invalid(f"JSON Parse error: {second.msg}") from error


def signature_name(doc: dict[str, Any]) -> str:
    """The signature that a document asks for; empty if it names none.

    Raises:
        InvalidArgumentError: the name is not a string.

    Example:
        >>> signature_name({"signature_name": "classify", "examples": []})
        'classify'
    """
    name = doc.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(f"'signature_name' key must be a string value. Received {shown(name)}")
    return name


def check_protocol(doc: Mapping[str, Any], infer_path: str, wanted: str) -> None:
    """Refuse a body of the Open Inference Protocol, whose inputs are a list of named tensors.

    Args:
        doc: the body.
        infer_path: where to send it.
        wanted: what to send here.

    Raises:
        InvalidArgumentError: it is one.

    Example:
        >>> check_protocol({"inputs": {"x": [1, 2]}}, "/v2/models/half/infer", "columns")
    """
    inputs = doc.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if isinstance(first, dict) and first.keys() >= {"name", "datatype"}:
        raise invalid(
            "the body is a request of the Open Inference Protocol: 'inputs' is a list of tensors with name "
            f"and datatype. Send it to POST {infer_path}, or send {wanted} here"
        )


def is_base64(value: object) -> bool:
    """Return True if a value is JSON's form of binary data: {"b64": "..."} without any other key.

    Example:
        >>> is_base64({"b64": "aGVsbG8="})
        True
    """
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def text_bytes(values: Sequence[Any]) -> list[bytes]:
    """The bytes of strings and of {"b64": "..."}.

    Raises:
        InvalidArgumentError: an object has another form, its string is not base64, or a string holds half
            of a surrogate pair.

    Example:
        >>> text_bytes(["naïve", {"b64": "aGVsbG8="}])
        [b'na\\xc3\\xafve', b'hello']
    """
    try:
        return [
            value.encode("utf-8", "surrogateescape") if isinstance(value, str) else _base64_bytes(value)
            for value in values
        ]
    except UnicodeEncodeError as error:
        raise invalid(f"a string must be valid Unicode. Received {shown(error.object)}") from None


def floats(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """A document's numbers as an array of a float type, rounded; numbers too big for the type are infinite.

    Raises:
        InvalidArgumentError: a number is too big for a double, and was not written as infinite.

    Example:
        >>> floats([1.797e308, 16777217], np.dtype("f4")).tolist()
        [inf, 16777216.0]
    """
    try:
        wide = np.array(values, np.float64)
    except OverflowError:
        raise too_big() from None
    for place in np.flatnonzero(np.isinf(wide)).tolist():
        if not any(values[place] is infinity for infinity in _INFINITIES):
            raise too_big()
    with np.errstate(over="ignore"):
        return wide.astype(dtype, copy=False)


def too_big() -> InvalidArgumentError:
    """The error for a number that is too big for a double.

    Example:
        >>> str(too_big())
        'JSON Parse error: Number too big to be stored in double.'
    """
    return InvalidArgumentError("JSON Parse error: Number too big to be stored in double.")


def invalid(message: str) -> InvalidArgumentError:
    """The error with a message: cut if it is too long, with invalid Unicode replaced.

    Example:
        >>> str(invalid("no \\ud800"))
        'no ?'
    """
    return InvalidArgumentError(message[:_MOST_TEXT].encode("utf-8", "replace").decode())


def _base64_bytes(value: dict[str, Any]) -> bytes:
    if not is_base64(value):
        raise invalid('JSON Value: an object not formatted correctly for base64 data, {"b64": "..."}')
    text = "".join(value["b64"].split())
    if "=" not in text:  # the padding may be left out, but not be wrong
        text += "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise invalid("Unable to base64 decode") from None


def _is_named(value: object) -> bool:
    """Return True if a value holds tensors by name, False if it is a tensor."""
    return isinstance(value, dict) and not is_base64(value)


def _named_columns(value: Any, infos: _Infos, needed: set[str]) -> dict[str, Any]:
    """Each input's value, from the columnar format."""
    if not _is_named(value):
        if len(infos) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as "
                "per tensorinfo_map"
            )
        return dict.fromkeys(infos, value)
    for alias in infos:
        if alias in needed and alias not in value:
            raise invalid(f"Missing named input: {alias} in 'inputs' object.")
    return {alias: value[alias] for alias in infos if alias in value}


def _columns_of_rows(rows: Any, infos: _Infos, needed: set[str]) -> dict[str, list[Any]]:
    """Each input's values, one per row. An input with a default may be missing if all rows lack it."""
    if not isinstance(rows, list) or not rows:
        raise invalid(f"Expecting 'instances' to be a list with values. Received {shown(rows)}")
    are_named = list(map(_is_named, rows))
    named = are_named[0]
    if not named and len(infos) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as "
            "per tensorinfo_map"
        )
    if (not named) in are_named:
        wrong = "object but got value/list" if named else "value/list but got object"
        raise invalid(f"Expecting {wrong} at item {are_named.index(not named)} of input list")
    if not named:
        return {next(iter(infos)): rows}
    names = rows[0].keys() if needed <= rows[0].keys() <= infos.keys() else infos.keys()
    for place, row in enumerate(rows):
        if row.keys() != names:
            raise invalid(
                f"Failed to process element: {place} of 'instances' list. Keys must be equal to: "
                f"{','.join(sorted(names))}. Received {','.join(sorted(row))}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _arrays(columns: Mapping[str, Any], infos: _Infos, where: str) -> dict[str, np.ndarray]:
    """The array of each input; `where` is the beginning of a row's error, empty for columns."""
    arrays: dict[str, np.ndarray] = {}
    for alias, value in columns.items():
        try:
            arrays[alias] = _array(value, infos[alias].dtype)
        except _Misfit as wrong:
            raise wrong.placed(alias, where) from None
    return arrays


def _array(value: object, code: int) -> np.ndarray:
    """The array of nested lists that are all of one shape and type."""
    shape: list[int] = []
    flat: Any = [value]
    while flat and isinstance(flat[0], list):
        if len(shape) == _MOST_AXES:
            raise _Misfit(invalid(f"nested deeper than the {_MOST_AXES} axes of a tensor"))
        size = len(flat[0])
        if set(map(type, flat)) != {list} or set(map(len, flat)) != {size}:
            place = next(
                place for place, item in enumerate(flat) if not isinstance(item, list) or len(item) != size
            )
            message = f"Expecting a list of {size}, as the first at this level, but got {shown(flat[place])}"
            raise _Misfit(invalid(message), np.unravel_index(place, shape))
        shape.append(size)
        flat = flat[0] if len(flat) == 1 else list(chain.from_iterable(flat))
    _check_types(flat, code, shape)
    return _leaves(flat, code).reshape(shape)


def _check_types(flat: list[Any], code: int, shape: Sequence[int]) -> None:
    if code not in _TYPES:
        first = shown(flat[0]) if flat else "[]"
        raise _Misfit(UnimplementedError(f"Conversion of JSON Value: {first} to type: {_type_name(code)}"))
    wrong = _first_of_wrong_type(flat, code)
    if wrong is not None:
        value = flat[wrong]
        raise _Misfit(
            invalid(
                f"JSON Value: {shown(value)} Type: {_json_type(value)} is not of expected type: "
                f"{_type_name(code)}"
            ),
            np.unravel_index(wrong, shape),
        )


def _first_of_wrong_type(flat: list[Any], code: int) -> int | None:
    """Return the place of the first value of a wrong type or out of its range; None if there is none."""
    types = _TYPES[code]
    if not set(map(type, flat)) <= types:
        return next(place for place, item in enumerate(flat) if type(item) not in types)
    if code not in _INTEGERS or not flat:
        return None
    info = np.iinfo(_DTYPES[code])
    if info.min <= min(flat) and max(flat) <= info.max:
        return None
    return next(place for place, item in enumerate(flat) if not info.min <= item <= info.max)


def _leaves(flat: list[Any], code: int) -> np.ndarray:
    if code == pb.DT_STRING:
        array = np.empty(len(flat), object)
        array[:] = text_bytes(flat)
        return array
    dtype = _DTYPES[code]
    return floats(flat, dtype) if code in (pb.DT_FLOAT, pb.DT_DOUBLE) else np.array(flat, dtype)


def _type_name(code: int) -> str:
    """TensorFlow's name for a data type in messages, such as `float`."""
    return pb.DataType.Name(code)[3:].lower() if code in pb.DataType.values() else str(code)


def _json_type(value: object) -> str:
    """Return TensorFlow Serving's name for the type of a value, such as `String`."""
    return str(value) if isinstance(value, bool) else _JSON_TYPES.get(type(value), "Number")


def shown(value: object) -> str:
    """A document's value for an error text: shortened if it is long, with invalid Unicode replaced.

    Example:
        >>> shown([1, 2])
        'a list of 2'
    """
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    start = value[:_MOST_SHOWN] if isinstance(value, str) else value
    return json.dumps(start, ensure_ascii=False)[:_MOST_SHOWN].encode("utf-8", "replace").decode()
