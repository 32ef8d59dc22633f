"""The answers of the REST API as JSON: arrays by rows or by columns, classes, numbers, errors.

Reference: MakeJsonFromTensors, WriteDecimal and the other Make* in tensorflow_serving/util/json_tensor.cc.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import CodecError
from ..models.quantised import code_of
from . import json_values as rj

# Powers of ten that bring the point of any float32 behind its six leading digits. None is below 1: those are
# not exact, and a number in the middle of two float32 values would be taken for the wrong one.
_POWERS = 10.0 ** np.arange(60)

_WRITTEN = {np.dtype(kind) for kind in (bool, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "))


def predict_outputs(outputs: Mapping[str, np.ndarray], rows: bool) -> bytes:
    """The body that answers a `:predict`.

    Args:
        outputs: an array by each output's name; strings as object arrays of `bytes`. Those of an output whose
            name ends in "_bytes" are written as {"b64": ...}; in others, what is no UTF-8 is replaced by
            U+FFFD.
        rows: whether the request came in rows ("instances"): then so does the answer, and the first axis of
            all outputs must be of one size.

    Raises:
        InvalidArgumentError: there is no output, one of them has no rows or another number of them, or a type
            that JSON does not carry.

    Example:
        >>> predict_outputs({"y": np.array([1.0, 2.5], np.float32)}, rows=True)
        b'{"predictions": [1.0, 2.5]}'
    """
    if not outputs:
        raise InvalidArgumentError("Cannot convert empty tensor map to JSON")
    if not rows:
        texts = {name: _text(name, array) for name, array in outputs.items()}
        found = next(iter(texts.values())) if len(texts) == 1 else _object(texts)
        return f'{{"outputs": {found}}}'.encode()
    batch = _batch_size(outputs)
    if len(outputs) == 1:
        name, array = next(iter(outputs.items()))
        return f'{{"predictions": {_text(name, array)}}}'.encode()
    columns = {name: _row_texts(name, array) for name, array in outputs.items()}
    objects = [_object({name: texts[row] for name, texts in columns.items()}) for row in range(batch)]
    return f'{{"predictions": {_list(objects)}}}'.encode()


def classify_outputs(result: pb.ClassificationResult) -> bytes:
    """The body that answers a `:classify`: of each row a list of [label, score].

    Raises:
        InvalidArgumentError: there are no rows.

    Example:
        >>> row = pb.Classifications(classes=[pb.Class(label="car", score=0.2)])
        >>> classify_outputs(pb.ClassificationResult(classifications=[row]))
        b'{"results": [[["car", 0.2]]]}'
    """
    if not result.classifications:
        raise InvalidArgumentError("Cannot convert empty ClassificationResults to JSON")
    scores = iter(_decimals([each.score for row in result.classifications for each in row.classes]))
    rows = [
        _list([_list([_ENCODER.encode(each.label), next(scores)]) for each in row.classes])
        for row in result.classifications
    ]
    return f'{{"results": {_list(rows)}}}'.encode()


def regress_outputs(result: pb.RegressionResult) -> bytes:
    """The body that answers a `:regress`: a number for each row.

    Raises:
        InvalidArgumentError: there are no rows.

    Example:
        >>> regress_outputs(pb.RegressionResult(regressions=[pb.Regression(value=0.2)]))
        b'{"results": [0.2]}'
    """
    if not result.regressions:
        raise InvalidArgumentError("Cannot convert empty RegressionResults to JSON")
    return f'{{"results": {_list(_decimals([each.value for each in result.regressions]))}}}'.encode()


def error_body(message: str) -> bytes:
    """The body that says what went wrong.

    Example:
        >>> error_body("Missing ModelSpec")
        b'{"error": "Missing ModelSpec"}'
    """
    return _ENCODER.encode({"error": message}).encode("utf-8", "replace")


def _batch_size(outputs: Mapping[str, np.ndarray]) -> int:
    expected: int | None = None
    for name, array in outputs.items():
        if not array.ndim:
            raise InvalidArgumentError(f"Tensor name: {name} has no shape information ")
        if expected is not None and len(array) != expected:
            raise InvalidArgumentError(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {expected}"
            )
        expected = len(array)
    return expected or 0


def _list(texts: list[str]) -> str:
    return f"[{', '.join(texts)}]"


def _object(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join([f"{_ENCODER.encode(name)}: {text}" for name, text in texts.items()]) + "}"


def _text(name: str, array: np.ndarray) -> str:
    """An array as JSON."""
    if _is_float32(array):
        return _list(_nested(array)) if array.ndim else _nested(array[np.newaxis])[0]
    return _ENCODER.encode(_values(name, array))


def _row_texts(name: str, array: np.ndarray) -> list[str]:
    """Each row of an array as JSON."""
    if _is_float32(array):
        return _nested(array)
    return list(map(_ENCODER.encode, _values(name, array)))


def _is_float32(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and array.dtype.itemsize == 4


def _nested(array: np.ndarray) -> list[str]:
    """Each row of a float32 array as JSON."""
    if not array.size:
        return list(map(_ENCODER.encode, array.tolist()))
    texts = _decimals(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        texts = [_list(texts[start : start + size]) for start in range(0, len(texts), size)]
    return texts


def _decimals(values: Any) -> list[str]:
    """Float32 values as WriteDecimal writes them: with six digits where these are enough, or with nine."""
    numbers = np.asarray(values, np.float32).astype(np.float64)
    if not len(numbers):
        return []
    text = ", ".join(_formats(numbers)) % tuple(numbers.tolist())
    return text.replace("nan", "NaN").replace("inf", "Infinity").split(", ")


def _formats(numbers: np.ndarray) -> list[str]:
    """Of each float32 value the printf format in which it is read back as itself."""
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers)
        exponents = np.floor(np.log10(sizes))
        shifts = np.where(np.isfinite(exponents), 5 - exponents, 0).astype(np.intp)
        up, down = _POWERS[np.maximum(shifts, 0)], _POWERS[np.maximum(-shifts, 0)]
        short = (np.rint(numbers * up / down) / up * down).astype(np.float32) == numbers
        # What would be printed without a point gets one.
        whole = (np.rint(numbers) == numbers) & (sizes < np.where(short, 1e6, 1e9))
    if not short.any() and not whole.any():
        return ["%.9g"] * len(numbers)
    return np.where(whole, "%.1f", np.where(short, "%g", "%.9g")).tolist()


def _values(name: str, array: np.ndarray) -> Any:
    """An array's values for the JSON encoder."""
    if array.dtype.kind in "OSU":
        return _strings(name, array).tolist()
    if array.dtype.newbyteorder("=") not in _WRITTEN:
        raise InvalidArgumentError(f"Failed to write JSON value for tensor type: {_type_of(array)}")
    return array.tolist()


def _type_of(array: np.ndarray) -> str:
    try:
        return rj.tensor_type(code_of(array.dtype))
    except CodecError:
        return array.dtype.name


def _strings(name: str, array: np.ndarray) -> np.ndarray:
    """String values as JSON has them: text, or {"b64": ...} for outputs named so."""
    flat = [each if isinstance(each, bytes) else str(each).encode() for each in array.reshape(-1).tolist()]
    written = np.empty(len(flat), object)
    if name.endswith("_bytes"):
        written[:] = [{"b64": base64.b64encode(each).decode()} for each in flat]
    else:
        written[:] = [each.decode("utf-8", "replace") for each in flat]
    return written.reshape(array.shape)
