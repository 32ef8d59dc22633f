"""Integers in place of label names: where they are names, and where indices of the classes.

A label is known by its name, the text of what `fit` was given: the integer 2 is the class "2". So integers
that a trained model is given are names where a label is a number. Where none is, they can only be indices.
"""

import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.containers import TableRows
from keras_selfattn.rows.label_names import label_rows

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)


def hold_numbers(labels: Sequence[str]) -> bool:
    """Return True if a label is a number, so that integers are names of labels.

    Example:

        >>> hold_numbers(["1", "2", "other"]), hold_numbers(["1.0", "2.5"]), hold_numbers(["+", "-"])
        (True, True, False)
    """
    return any(map(_NUMBER.fullmatch, labels))


def named(targets: Any, labels: Sequence[str], *, per_position: bool = False) -> Any:
    """Return integer targets of a trained model as names of its labels; any other targets unchanged.

    Args:
        targets: in any container: one integer a row, a column of them, or with `per_position` a list of them.
        labels: label names in the order of the classes.
        per_position: True for a label at each position of a row.

    Raises:
        DataError: for an index without a class. With `per_position` it stays as it is, because it may be
            padding.

    Example:

        >>> named([1, 0], ["+", "-"]), named([1, 2], ["1", "2"])
        (['-', '+'], [1, 2])
    """
    if targets is None or hold_numbers(labels):
        return targets
    if isinstance(targets, TableRows) and len(targets.columns) > 1:  # zeros and ones, a column for each label
        return targets
    rows = []
    for row in label_rows(targets):
        found = np.asarray(row)
        integers = found.dtype.kind in "iu" and (per_position or found.size == 1)
        if not integers and not (per_position and found.size == 0):
            return targets
        rows.append(found.reshape(-1).tolist())
    if per_position:
        return [[labels[at] if 0 <= at < len(labels) else str(at) for at in row] for row in rows]
    for number, (at,) in enumerate(rows):
        if not 0 <= at < len(labels):
            raise DataError(
                f"Label {number} (counted from 0) of the rows or of a batch is {at}. The model has classes 0 "
                f"to {len(labels) - 1}: {_some(labels)}."
            )
    return [labels[at] for (at,) in rows]


def by_place(name: str, given: Mapping[Any, Any], labels: Sequence[str]) -> dict[int, Any]:
    """Return values by the index of their class, from values by label or by index.

    A text is the name of a label. Integers are all names or all indices: names alone if one of them is no
    index, indices alone if one is no name.

    Args:
        name: the argument, for messages.
        given: the values by label or index.
        labels: label names in the order of the classes.

    Raises:
        ConfigError: for a key that is neither, two keys of one class, and integers that are both where the
            two readings differ.

    Example:

        >>> by_place("class_weight", {0: 1.0, 1: 1.0, 2: 9.0}, ["1", "2", "3"])
        {0: 1.0, 1: 1.0, 2: 9.0}
        >>> by_place("class_weight", {3: 9.0}, ["1", "2", "3"])
        {2: 9.0}
    """
    places = {key: labels.index(text) for key in given if (text := _text(key)) in labels}
    integers = [key for key in given if _is_integer(key)]
    as_names = {key: at for key in integers if (at := _place_of_number(key, labels)) is not None}
    as_indices = {key: int(key) for key in integers if 0 <= key < len(labels)}
    for key in given:
        if key not in places and key not in as_names and key not in as_indices:
            raise ConfigError(f"`{name}` names no label or class: {key!r}. They are {_some(labels)}.")
    readings = [each for each in (as_names, as_indices) if len(each) == len(integers)]
    if not readings:
        no_label, no_index = (min(set(integers) - each.keys()) for each in (as_names, as_indices))
        raise ConfigError(
            f"`{name}` mixes labels and indices: {no_label!r} is no label, and {no_index!r} no index from 0 "
            f"to {len(labels) - 1}. Give the labels as text. They are {_some(labels)}."
        )
    if readings[0] != readings[-1]:
        raise ConfigError(
            f"`{name}` can be read in two ways, because labels are numbers: by label it is "
            f"{_written(given, as_names, labels)}, by index from 0 {_written(given, as_indices, labels)}. "
            f"Give the one that is meant, with the labels as text. Received {dict(given)!r:.200}."
        )
    return _once(name, {**places, **readings[0]}, given, labels)


def _once(
    name: str, places: Mapping[Any, int], given: Mapping[Any, Any], labels: Sequence[str]
) -> dict[int, Any]:
    """Return values by index, if no class has two."""
    keys: dict[int, Any] = {}
    for key in given:
        other = keys.setdefault(places[key], key)
        if other is not key:
            raise ConfigError(
                f"`{name}` has two values for the label {labels[places[key]]!r}: of {other!r} and of "
                f"{key!r}. Leave one of them out."
            )
    return {place: given[key] for place, key in keys.items()}


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")


def _written(given: Mapping[Any, Any], places: Mapping[Any, int], labels: Sequence[str]) -> str:
    """Return a reading of the integer keys as a dict by label."""
    return repr({labels[place]: given[key] for key, place in places.items()})[:200]


def _text(key: Any) -> str | None:
    """Return the name that a key stands for; None for an integer."""
    if _is_integer(key):
        return None
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)


def _is_integer(key: Any) -> bool:
    return isinstance(key, Integral) and not isinstance(key, bool)


def _place_of_number(key: Any, labels: Sequence[str]) -> int | None:
    """Return the index of the label that is an integer, as text or else by value, as "1.0" and "01" are 1."""
    if str(key) in labels:
        return labels.index(str(key))
    equal = [at for at, label in enumerate(labels) if _NUMBER.fullmatch(label) and float(label) == key]
    return equal[0] if equal else None
