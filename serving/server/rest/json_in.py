"""The body of a REST `:predict`, JSON rows or columns, as arrays.

What is all of one shape and type, as nearly every request is, becomes arrays list by list. Whatever is not
is read once more, value by value, which finds what is wrong and says it as TensorFlow Serving does.

Reference: FillPredictRequestFromJson in tensorflow_serving/util/json_tensor.cc.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from . import json_exact as exact
from . import json_values as rj
from .json_document import document, signature_name


class PredictInputs(NamedTuple):
    """The body of a `:predict`: the signature, whether to answer by rows, and the inputs by name."""

    signature_name: str
    rows: bool
    inputs: dict[str, np.ndarray]


def predict_inputs(body: bytes, signatures: Mapping[str, pb.SignatureDef]) -> PredictInputs:
    """Return the body of a `:predict`, read.

    Args:
        body: {"instances": [row, ...]} or {"inputs": tensor or {name: tensor}}, with a "signature_name" or
            without.
        signatures: the model's, by name. Inputs for which one has defaults may be left out.

    Returns:
        The signature's name, whether the body came in rows, and an array for each input: numbers and bools in
        the signature's dtype, strings as an object array of `bytes`.

    Raises:
        InvalidArgumentError: the body is no JSON, or does not fit the signature.
        UnimplementedError: an input has a type that JSON does not carry (columns only: an error in a row is
            an INVALID_ARGUMENT that repeats it).

    Example:
        >>> info = pb.TensorInfo(dtype=pb.DT_FLOAT)
        >>> signatures = {"serving_default": pb.SignatureDef(inputs={"x": info})}
        >>> predict_inputs(b'{"instances": [1, 2.5]}', signatures).inputs["x"].tolist()
        [1.0, 2.5]
    """
    doc = document(body)
    name = signature_name(doc)
    if name not in signatures:
        raise InvalidArgumentError(f'Serving signature name: "{name}" not found in signature def')
    signature = signatures[name]
    if not signature.inputs:
        asked = doc.get("signature_name") or "DEFAULT"
        raise InvalidArgumentError(f"Failed to get input map for signature: {asked}")
    infos = {alias: signature.inputs[alias] for alias in sorted(signature.inputs)}
    needed = infos.keys() - signature.defaults.keys()
    if "instances" in doc:
        return PredictInputs(name, True, _from_rows(_rows(doc), infos, needed))
    if "inputs" in doc:
        return PredictInputs(name, False, _from_columns(doc["inputs"], infos, needed))
    raise InvalidArgumentError("Missing 'inputs' or 'instances' key")


def _rows(doc: dict[str, Any]) -> list[Any]:
    rows = doc["instances"]
    if "inputs" in doc:
        message = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        raise rj.format_error(doc, message)
    if not isinstance(rows, list):
        raise rj.format_error(doc, "Excepting 'instances' to be an list/array")
    if not rows:
        raise rj.format_error(doc, "No values in 'instances' array")
    return rows


def _from_columns(value: Any, infos: exact.Infos, needed: set[str]) -> dict[str, np.ndarray]:
    if not exact.is_named(value):
        if len(infos) > 1:
            raise InvalidArgumentError(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as "
                "per tensorinfo_map"
            )
        value = dict.fromkeys(infos, value)
    missing = [alias for alias in infos if alias in needed and alias not in value]
    if missing:
        raise InvalidArgumentError(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {alias: _array(value[alias], info.dtype) for alias, info in infos.items() if alias in value}


def _array(value: object, code: int) -> np.ndarray:
    array = _dense(value, code)
    if array is None:
        array = exact.array_of_values(value, code)
    return array


def _from_rows(rows: list[Any], infos: exact.Infos, needed: set[str]) -> dict[str, np.ndarray]:
    if len(infos) > 1 and not exact.is_named(rows[0]):
        raise InvalidArgumentError(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as "
            "per tensorinfo_map"
        )
    columns = _columns(rows, infos, needed)
    if columns is not None:
        arrays = {alias: _dense(column, infos[alias].dtype) for alias, column in columns.items()}
        dense = {alias: array for alias, array in arrays.items() if array is not None}
        if len(dense) == len(arrays):
            return dense
    return exact.arrays_of_rows(rows, infos, needed)


def _columns(rows: list[Any], infos: exact.Infos, needed: set[str]) -> dict[str, list[Any]] | None:
    """Each input's values, one per row; None where the rows do not name the same inputs."""
    if not exact.is_named(rows[0]):
        return None if any(map(exact.is_named, rows)) else {next(iter(infos)): rows}
    names = rows[0].keys()
    if not needed <= names <= infos.keys() or not all(
        exact.is_named(row) and row.keys() == names for row in rows
    ):
        return None
    return {name: [row[name] for row in rows] for name in names}


def _dense(value: object, code: int) -> np.ndarray | None:
    """The array of nested lists that are all of one shape and type; None where they are not."""
    shape = exact.shape_of(value)
    flat: list[Any] = value if isinstance(value, list) else [value]
    for size in shape[1:]:
        if set(map(type, flat)) != {list} or set(map(len, flat)) != {size}:
            return None
        flat = list(chain.from_iterable(flat))
    if len(shape) > exact.MOST_AXES:
        return None
    leaves = _leaves(flat, code)
    return None if leaves is None else leaves.reshape(shape)


def _leaves(flat: list[Any], code: int) -> np.ndarray | None:
    """The array of single values; None unless all are plainly of the type asked for."""
    types = set(map(type, flat))
    if code in exact.FLOATS:
        return _floats(flat, types, code)
    if code in exact.INTEGERS:
        info = exact.INTEGERS[code]
        fit = not flat or (types == {int} and info.min <= min(flat) and max(flat) <= info.max)
        return np.array(flat, info.dtype) if fit else None
    if code == pb.DT_BOOL:
        return np.array(flat, np.bool_) if types <= {bool} else None
    if code == pb.DT_STRING and types <= {str}:
        try:
            return exact.objects(list(map(str.encode, flat)))
        except UnicodeEncodeError:
            return None
    return None


def _floats(flat: list[Any], types: set[type], code: int) -> np.ndarray | None:
    if not types <= exact.NUMBERS:
        return None
    try:
        wide = rj.as_floats(flat, pb.DT_DOUBLE)
    except OverflowError:
        return None
    # A number too big for a double must not pass for an infinity.
    infinite = np.isinf(wide)
    if infinite.any() and not all(type(flat[place]) is rj.Infinite for place in np.flatnonzero(infinite)):
        return None
    return rj.as_floats(wide, code)
