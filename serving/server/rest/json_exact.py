"""Tensors in REST's JSON read value by value: the slow way, which finds what is wrong and says so.

Reference: AddInstanceItem, FillTensorProto and AddValueToTensor in tensorflow_serving/util/json_tensor.cc.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError, ServingError, UnimplementedError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import kind_of
from . import json_values as rj

# An array's axes in every NumPy release this package runs on.
MOST_AXES = 32

# As in TensorFlow Serving, JSON carries neither half nor bfloat16.
FLOATS = (pb.DT_FLOAT, pb.DT_DOUBLE)
INTEGERS: dict[int, np.iinfo] = {
    code: np.iinfo(kind_of(code).dtype)
    for code in (
        *(pb.DT_INT8, pb.DT_INT16, pb.DT_INT32, pb.DT_INT64),
        *(pb.DT_UINT8, pb.DT_UINT16, pb.DT_UINT32, pb.DT_UINT64),
    )
}
NUMBERS = {int, float, rj.Infinite}

Infos = Mapping[str, pb.TensorInfo]


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    values: list[Any]


def arrays_of_rows(rows: list[Any], infos: Infos, needed: set[str]) -> dict[str, np.ndarray]:
    """The arrays of rows that are not all alike, or the error of the first that is wrong."""
    named = is_named(rows[0])
    found: dict[str, list[_Tensor]] = {}
    for place, row in enumerate(rows):
        if is_named(row) != named:
            wrong = "object but got list" if named else "value/list but got object"
            raise InvalidArgumentError(f"Expecting {wrong} at item {place} of input list")
        if named:
            _add_named(place, row, infos, found)
            _check_names(place, row, rows[0], infos, needed)
        else:
            alias = next(iter(infos))
            where = f"Failed to process element: {place} of 'instances' list."
            _add(where, row, infos[alias].dtype, found.setdefault(alias, []))
    return {alias: _batch(tensors, infos[alias].dtype) for alias, tensors in found.items()}


def _add_named(place: int, row: dict[str, Any], infos: Infos, found: dict[str, list[_Tensor]]) -> None:
    for alias, value in row.items():
        where = f"Failed to process element: {place} key: {alias} of 'instances' list."
        if alias not in infos:
            raise rj.invalid(
                f"{where} Error: INVALID_ARGUMENT: JSON object: does not have named input: {alias}"
            )
        _add(where, value, infos[alias].dtype, found.setdefault(alias, []))


def _check_names(
    place: int, row: dict[str, Any], first: dict[str, Any], infos: Infos, needed: set[str]
) -> None:
    # Rows that leave out an input with a default must all do so: an input has one batch or none.
    expected = infos.keys() if not needed <= row.keys() else first.keys()
    if not needed <= row.keys() or row.keys() != first.keys():
        raise rj.invalid(
            f"Failed to process element: {place} of 'instances' list. JSON object: {rj.value_text(row)} keys "
            f"must be equal to: {','.join(sorted(expected))}"
        )


def _add(where: str, value: object, code: int, tensors: list[_Tensor]) -> None:
    try:
        tensor = _tensor(value, code)
        if tensors:
            _check_alike(tensors[0], tensor)
    except ServingError as error:
        raise rj.invalid(f"{where} Error: {error.code.name}: {error}") from None
    tensors.append(tensor)


def _check_alike(first: _Tensor, tensor: _Tensor) -> None:
    sizes = len(first.values), len(tensor.values)
    if sizes[0] != sizes[1]:
        raise InvalidArgumentError(f"Expecting tensor size: {sizes[0]} but got: {sizes[1]}")
    if first.shape != tensor.shape:
        shapes = ["[" + ",".join(map(str, shape)) + "]" for shape in (first.shape, tensor.shape)]
        raise InvalidArgumentError(f"Expecting shape {shapes[0]} but got: {shapes[1]}")


def _batch(tensors: list[_Tensor], code: int) -> np.ndarray:
    values = list(chain.from_iterable(tensor.values for tensor in tensors))
    return _stacked(values, code).reshape(len(tensors), *tensors[0].shape)


def _stacked(values: list[Any], code: int) -> np.ndarray:
    if code == pb.DT_STRING:
        return objects(values)
    if code in FLOATS:
        return rj.as_floats(values, code)
    if code in INTEGERS or code == pb.DT_BOOL:
        return np.array(values, kind_of(code).dtype)
    raise _no_conversion([], code)  # of another type there can be no values here


def _tensor(value: object, code: int) -> _Tensor:
    """A tensor read value by value."""
    shape = shape_of(value)
    if len(shape) >= MOST_AXES:
        raise InvalidArgumentError(f"JSON Value: nested deeper than the {MOST_AXES} axes of a tensor")
    values: list[Any] = []
    _fill(value, 0, shape, code, values)
    return _Tensor(shape, values)


def _fill(value: object, level: int, shape: tuple[int, ...], code: int, values: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            wrong = f"found at incorrect level: {level + 1} in the JSON DOM. Expected at level: {len(shape)}"
            raise rj.format_error(value, wrong)
        values.append(_element(value, code))
        return
    if level >= len(shape):
        raise InvalidArgumentError(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise InvalidArgumentError(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for item in value:
        _fill(item, level + 1, shape, code, values)


def _element(value: object, code: int) -> Any:
    """One value of the type asked for, as Python has it."""
    if isinstance(value, dict) and code == pb.DT_STRING:
        return rj.base64_bytes(value)
    if isinstance(value, str) and code == pb.DT_STRING:
        return rj.utf8(value)
    if isinstance(value, int | float) and type(value) in NUMBERS and code in FLOATS:
        return rj.as_float(value)
    if type(value) is int and code in INTEGERS and INTEGERS[code].min <= value <= INTEGERS[code].max:
        return value
    if isinstance(value, bool) and code == pb.DT_BOOL:
        return value
    if not isinstance(value, dict) and code not in (*FLOATS, *INTEGERS, pb.DT_BOOL, pb.DT_STRING):
        raise _no_conversion(value, code)
    raise rj.format_error(
        value, f"Type: {rj.type_name(value)} is not of expected type: {rj.tensor_type(code)}"
    )


def _no_conversion(value: object, code: int) -> ServingError:
    text = f"Conversion of JSON Value: {rj.value_text(value)} to type: {rj.tensor_type(code)}"
    return rj.invalid(text, UnimplementedError)


def array_of_values(value: object, code: int) -> np.ndarray:
    """The array of nested lists, as for a column.

    Raises:
        InvalidArgumentError: they are no tensor of the type `code`.
        UnimplementedError: JSON does not carry that type.
    """
    tensor = _tensor(value, code)
    return _stacked(tensor.values, code).reshape(tensor.shape)


def is_named(value: object) -> bool:
    """Return whether a value holds tensors by name, rather than being one."""
    return isinstance(value, dict) and not rj.is_base64(value)


def shape_of(value: object) -> tuple[int, ...]:
    """The shape that the first value at each level says the whole has."""
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        # One level more than an array may have is enough to refuse it.
        value = value[0] if value and len(shape) <= MOST_AXES else None
    return tuple(shape)


def objects(values: list[bytes]) -> np.ndarray:
    """Strings as an array."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
