"""Read labels of any type and container as names: one rule for files, arrays and lists."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import TableRows, ordered_rows, refuse_table
from keras_selfattn.rows.written_lists import written_list

_NUMBERS = ("a boolean", "an integer", "a fraction")


class LabelList(list[str]):
    """The labels of a row that may have any number of them, even if it has exactly one."""


class LabelReader:
    """Read the labels of one column, and refuse labels that could be confused.

    `1`, `2.0` and `True` would become classes of which some compare equal, and `"1"` the same class as `1`.
    So numbers must all be of one type, and a name must come from one type only.

    Example:

        >>> read = LabelReader()
        >>> read("Label 0", 7), read("Label 1", "x")
        ('7', 'x')
    """

    def __init__(self) -> None:
        # The place and the label of the first occurrence of each name, and of the first number.
        self._names: dict[str, tuple[str, Any]] = {}
        self._number: tuple[str, Any] | None = None

    def __call__(self, where: str, label: Any) -> str:
        """Return a label by name.

        Args:
            where: its place, as the beginning of a sentence.
            label: text, bytes in UTF-8, a number or a boolean, or a tensor of one without axes; another type
                is converted by `str`.

        Raises:
            DataError: for a label that is missing, several, an infinite number, invalid in UTF-8, or of
                another type than an earlier one with which it could be confused.
        """
        label = _without_tensor(label)
        name, kind = _named(where, label), _kind(label)
        seen = [self._names.setdefault(name, (where, label))]
        if kind in _NUMBERS:
            self._number = self._number or (where, label)
            seen.append(self._number)
        for first, other in seen:
            if _kind(other) != kind:
                raise DataError(
                    f"{where} is {kind}, {label!r}, where others are {_kind(other)}: {first} is {other!r}. "
                    "Give all of them in one type, such as text."
                )
        return name


def as_names(labels: Any) -> list[str]:
    """Return the name of each row's label.

    Args:
        labels: in any container, or as one column, `[rows, 1]` or a list of lists of one.

    Raises:
        DataError: if there are none, or for one that `LabelReader` refuses or that is a list written as a
            text, with its row.
    """
    if labels is None:
        raise DataError("Labels are needed with raw rows. Received None; give one label a row.")
    rows, read = label_rows(labels), LabelReader()
    if rows and all(map(_holds_one, rows)):
        rows = [next(iter(row)) for row in rows]
    names = [read(f"Label {row} (counted from 0)", label) for row, label in enumerate(rows)]
    for row, name in enumerate(names):
        found = written_list(name)
        if found is not None and found.is_certain:
            raise DataError(
                f"Label {row} (counted from 0) is {found.form} and a text, {name!r:.60}. Give a list of "
                "names: json.loads reads JSON, and ast.literal_eval what Python printed."
            )
    return names


def as_name_lists(labels: Any) -> list[LabelList]:
    """Return the names of each row's labels.

    Args:
        labels: lists, sets or arrays in any container.

    Raises:
        DataError: if there are none, a row's are not a list, or one that `LabelReader` refuses, with its row.
    """
    if labels is None:
        raise DataError("Labels are needed with raw rows. Received None; give a list of labels a row.")
    found, read = [], LabelReader()
    for row, names in enumerate(label_rows(labels)):
        if not _is_list(names):
            raise DataError(f"The labels of row {row} (counted from 0) must be a list. Received {names!r}.")
        found.append(LabelList(read(f"A label of row {row} (counted from 0)", name) for name in names))
    return found


def may_bear_several(labels: Any) -> bool:
    """Return True if rows may have any number of labels.

    This holds if labels are lists, unless each list holds exactly one: that is a column of one label for each
    row, as in scikit-learn and Keras. A set is never a column, nor is a `LabelList`.

    Example:

        >>> may_bear_several([["a"], ["b"]]), may_bear_several([["a"], ["b", "c"]]), may_bear_several([{"a"}])
        (False, True, True)
    """
    rows = [] if labels is None else label_rows(labels)
    return any(map(_is_list, rows)) and not all(map(_holds_one, rows))


def without_column(labels: np.ndarray) -> np.ndarray:
    """Return a column of labels `[rows, ..., 1]` as `[rows, ...]`; any other array unchanged."""
    return labels[..., 0] if labels.ndim > 1 and labels.shape[-1] == 1 else labels


def sorted_names(names: Iterable[str]) -> list[str]:
    """Return names in order; if all are integers, by their value."""
    names = list(names)
    numeric = all(re.fullmatch(r"-?[0-9]+", name) for name in names)
    return sorted(names, key=(lambda name: (int(name), name)) if numeric else None)


def indices_of(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """Return the indices of names among the known ones, int64.

    Raises:
        DataError: for an unknown name.
    """
    index = {name: place for place, name in enumerate(known)}
    unknown = sorted_names({name for name in names if name not in index})
    if unknown:
        raise DataError(
            f"The model knows no label {unknown[0]!r} ({len(unknown)} unknown). "
            f"It knows: {', '.join(known[:20])}."
        )
    return np.array([index[name] for name in names], dtype=np.int64)


def label_rows(labels: Any) -> list[Any]:
    """Return labels in any container as a list with the entry of each row."""
    if hasattr(labels, "to_list"):  # a Series, a ragged tensor
        return list(labels.to_list())
    labels = ordered_rows(labels)
    # Of `LabelledRows`, which keep a table of numbers: its columns may be 0 and 1 of a label each.
    if isinstance(labels, TableRows) and len(labels.columns) > 1:
        refuse_table("The labels", labels)
    if isinstance(labels, list | tuple):
        return list(labels)
    if not hasattr(labels, "__array__"):
        refuse_table("The labels", labels)
    if isinstance(labels, Iterator):
        raise DataError(
            f"The labels must be in a list. Received a {type(labels).__name__}; give `list(labels)`."
        )
    array = np.asarray(labels)
    if array.ndim not in (1, 2):
        raise DataError(
            f"The labels must be one a row, or a list of them a row. Received shape {array.shape}."
        )
    return list(array)


def _without_tensor(label: Any) -> Any:
    """Return the value of a tensor without axes, as `datasets` and PyTorch yield it; else the label."""
    if isinstance(label, str | np.generic) or not hasattr(label, "__array__"):
        return label
    array = np.asarray(label)
    return label if array.ndim else array[()]


def _is_list(names: Any) -> bool:
    if isinstance(names, set | frozenset):
        return True
    if isinstance(names, str | bytes | dict) or not hasattr(names, "__iter__"):
        return False
    return getattr(names, "ndim", 1) != 0


def _holds_one(names: Any) -> bool:
    """Return True if a row's labels are a list of one: a row of a column."""
    return _is_list(names) and not isinstance(names, LabelList | set | frozenset) and len(names) == 1


def _named(where: str, label: Any) -> str:
    if _is_list(label) or isinstance(label, dict):
        raise DataError(f"{where} must be one name or number. Received {label!r}.")
    if is_missing(label):
        raise DataError(f"{where} is missing. Received {label!r}.")
    if isinstance(label, Real) and not math.isfinite(label):
        raise DataError(f"{where} is no name. Received {label}, an infinite number.")
    try:
        name = label.decode() if isinstance(label, bytes) else str(label)
        name.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise DataError(
            f"{where} is not valid in UTF-8. Received {label!r} ({error.reason}); write it in "
            "other characters."
        ) from None
    return name


def is_missing(value: Any) -> bool:
    """Return True for None, NaN of any type, pandas.NA and an empty text.

    Example:

        >>> [is_missing(value) for value in (None, float("nan"), "", " ", 0)]
        [True, True, True, False, False]
    """
    try:
        return value is None or value in ("", b"") or not bool(value == value)  # noqa: PLR0124  NaN
    except TypeError:  # pandas.NA, which is neither equal nor unequal to anything
        return True


def _kind(label: Any) -> str:
    """Return the type of a label in words; NumPy's types count as Python's."""
    if isinstance(label, str | bytes):
        return "text"
    if isinstance(label, bool | np.bool_):
        return "a boolean"
    if isinstance(label, Integral):
        return "an integer"
    if isinstance(label, Real):
        return "a fraction"
    return f"a {type(label).__name__}"
