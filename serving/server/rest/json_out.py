"""The answers of the REST API as JSON: tensors by rows or by columns, classes, numbers, errors, models.

Reference: MakeJsonFromTensors and the other Make* in tensorflow_serving/util/json_tensor.cc; ToJsonString in
tensorflow_serving/model_servers/http_rest_api_util.cc; protobuf.dev/programming-guides/json.
"""

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import json_format

# TensorFlow's own messages: their enums have the names that JSON shows.
from tensorflow_serving.apis import (  # pyright: ignore[reportMissingImports]
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
)

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import CodecError
from ..models.quantized_tensors import code_of

_status: Any = get_model_status_pb2
_metadata: Any = get_model_metadata_pb2
_model: Any = model_pb2

_WRITTEN = {np.dtype(kind) for kind in (bool, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# Six digits identify most float32 values, nine digits identify all.
_DIGITS = (9, 6)
_FLOAT32 = struct.Struct("<f")
# Up to this number of values, NumPy's calls take longer than Python's loop.
_FEW = 32
# Doubles hold powers of ten exactly up to this exponent.
_EXACT = 22
_POWERS = np.array([float(10**power) for power in range(_EXACT + 1)])


JSON = "application/json"


class Answer(NamedTuple):
    """A body, its status and type, and further headers."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = {}


def predict_outputs(outputs: Mapping[str, np.ndarray], rows: bool) -> bytes:
    """The body that answers a `:predict`.

    Args:
        outputs: arrays by output name; strings as object arrays of `bytes`. If a name ends in "_bytes", the
            output's strings are written as {"b64": ...}; in other outputs, bytes that are not UTF-8 are
            replaced by U+FFFD.
        rows: True if the request came in rows ("instances"). Then the answer has rows, too, and the first
            axis of all outputs must be of one size.

    Raises:
        InvalidArgumentError: there is no output, the outputs differ in their number of rows, or one of them
            has no rows, or a type that JSON does not carry.

    Example:
        >>> predict_outputs({"y": np.array([1.0, 2.5], np.float32)}, rows=True)
        b'{"predictions":[1.0,2.5]}'
    """
    if not outputs:
        raise InvalidArgumentError("Cannot convert empty tensor map to JSON")
    if rows:
        _check_batch_sizes(outputs)
    columns = {name: _values(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        found = next(iter(columns.values()))
    elif rows:
        found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        found = columns
    return dumped({"predictions" if rows else "outputs": found})


def classify_outputs(result: pb.ClassificationResult) -> bytes:
    """The body that answers a `:classify`: for each row a list of [label, score].

    Raises:
        InvalidArgumentError: there are no rows.

    Example:
        >>> row = pb.Classifications(classes=[pb.Class(label="car", score=0.2)])
        >>> classify_outputs(pb.ClassificationResult(classifications=[row]))
        b'{"results":[[["car",0.2]]]}'
    """
    if not result.classifications:
        raise InvalidArgumentError("Cannot convert empty ClassificationResults to JSON")
    scores = [each.score for row in result.classifications for each in row.classes]
    shortened = iter(_shortened(np.array(scores, np.float32)).tolist())
    rows = [[[each.label, next(shortened)] for each in row.classes] for row in result.classifications]
    return dumped({"results": rows})


def regress_outputs(result: pb.RegressionResult) -> bytes:
    """The body that answers a `:regress`: a number for each row.

    Raises:
        InvalidArgumentError: there are no rows.

    Example:
        >>> regress_outputs(pb.RegressionResult(regressions=[pb.Regression(value=0.2)]))
        b'{"results":[0.2]}'
    """
    if not result.regressions:
        raise InvalidArgumentError("Cannot convert empty RegressionResults to JSON")
    values = np.array([each.value for each in result.regressions], np.float32)
    return dumped({"results": _shortened(values).tolist()})


def error_body(message: str) -> bytes:
    """The body that reports an error.

    Example:
        >>> error_body("Missing ModelSpec")
        b'{"error":"Missing ModelSpec"}'
    """
    return dumped({"error": message})


def status_json(response: pb.GetModelStatusResponse) -> bytes:
    """The states of a model's versions.

    Example:
        >>> status_json(pb.GetModelStatusResponse())
        b'{"model_version_status":[]}'
    """
    return dumped(_status_dict(response))


def models_json(models: Mapping[str, pb.GetModelStatusResponse]) -> bytes:
    """The states of all models, as a list with the name of each."""
    listed = [{"name": name, **_status_dict(response)} for name, response in models.items()]
    return dumped({"models": listed})


def metadata_json(response: pb.GetModelMetadataResponse) -> bytes:
    """The signatures of a model."""
    spec = _model.ModelSpec.FromString(response.model_spec.SerializeToString())
    signatures = _metadata.SignatureDefMap.FromString(response.metadata["signature_def"].value)
    return dumped({"model_spec": _dict(spec), "metadata": {"signature_def": _dict(signatures)}})


def _status_dict(response: pb.GetModelStatusResponse) -> dict[str, Any]:
    return _dict(_status.GetModelStatusResponse.FromString(response.SerializeToString()))


def _dict(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, always_print_fields_with_no_presence=True, preserving_proto_field_name=True
    )


def dumped(value: Any) -> bytes:
    """A value as JSON, without blanks.

    Example:
        >>> dumped({"a": [1, None]})
        b'{"a":[1,null]}'
    """
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _check_batch_sizes(outputs: Mapping[str, np.ndarray]) -> None:
    expected: int | None = None
    for name, array in outputs.items():
        if not array.ndim:
            raise InvalidArgumentError(f"Tensor name: {name} has no shape information ")
        if expected is not None and len(array) != expected:
            raise InvalidArgumentError(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {expected}"
            )
        expected = len(array)


def _values(name: str, array: np.ndarray) -> Any:
    """An array's values for the JSON encoder."""
    if array.dtype.kind in "OSU":
        return _strings(name, array).tolist()
    if array.dtype.newbyteorder("=") not in _WRITTEN:
        raise InvalidArgumentError(f"Failed to write JSON value for tensor type: {_type_of(array)}")
    return numbers(array)


def numbers(array: np.ndarray) -> Any:
    """An array of numbers as lists, of float32 in few digits from which a reader gets the same float32.

    Example:
        >>> numbers(np.array([0.1, 2], np.float32))
        [0.1, 2.0]
    """
    is_float32 = array.dtype.kind == "f" and array.dtype.itemsize == 4
    return (_shortened(array) if is_float32 else array).tolist()


def _shortened(array: np.ndarray) -> np.ndarray:
    """Float32 values as doubles of six digits, or nine, that a reader rounds to the same float32."""
    flat = array.reshape(-1)
    if len(flat) <= _FEW:
        return np.array([*map(_shortened_number, flat.tolist())], np.float64).reshape(array.shape)
    wide = flat.astype(np.float64)
    found = wide
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log10(np.abs(wide)))
        exponents = np.where(np.isfinite(exponents), exponents, 0)  # of zeros, infinities and NaN
        for digits in _DIGITS:
            rounded = _rounded(wide, digits, (digits - 1 - exponents).astype(np.intp))
            found = np.where(rounded.astype(np.float32) == flat, rounded, found)
    return found.reshape(array.shape)


def _shortened_number(value: float) -> float:
    if not math.isfinite(value):
        return value
    for digits in sorted(_DIGITS):
        short = float(f"{value:.{digits - 1}e}")
        if _FLOAT32.unpack(_FLOAT32.pack(short))[0] == value:
            return short
    return value


def _rounded(wide: np.ndarray, digits: int, shifts: np.ndarray) -> np.ndarray:
    """Return `wide` rounded to `digits` digits; times 10**`shifts`, each value has them before the point."""
    up = _POWERS[np.clip(shifts, 0, _EXACT)]
    down = _POWERS[np.clip(-shifts, 0, _EXACT)]
    rounded = np.rint(wide * up / down) / up * down
    far = np.abs(shifts) > _EXACT
    if far.any():
        rounded[far] = [float(f"{value:.{digits - 1}e}") for value in wide[far].tolist()]
    return rounded


def _type_of(array: np.ndarray) -> str:
    try:
        return pb.DataType.Name(code_of(array.dtype))[3:].lower()
    except CodecError:
        return array.dtype.name


def _strings(name: str, array: np.ndarray) -> np.ndarray:
    """String values for JSON: text, or {"b64": ...} if the output's name ends in "_bytes"."""
    flat = [each if isinstance(each, bytes) else str(each).encode() for each in array.reshape(-1).tolist()]
    written = np.empty(len(flat), object)
    if name.endswith("_bytes"):
        written[:] = [{"b64": base64.b64encode(each).decode()} for each in flat]
    else:
        written[:] = [each.decode("utf-8", "replace") for each in flat]
    return written.reshape(array.shape)
