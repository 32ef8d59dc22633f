"""Rows, labels and weights in any ordered container of Python or of a library of tables: one rule for all."""

from collections.abc import ItemsView, Iterable, KeysView, Mapping, Sequence, Set, ValuesView
from numbers import Real
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError

_SCALARS = (str, bytes, memoryview)
_VIEWS = (KeysView, ValuesView, ItemsView)
_SHOWN = 10


class TableRows(list[Any]):
    """Rows of a table, with the names of its columns in their order.

    Example:

        >>> rows = TableRows([[4.5, 3.0], [1.0, 2.0]], ["style", "content"])
        >>> rows[1:].columns, rows.take([1])
        (['style', 'content'], [[1.0, 2.0]])
    """

    def __init__(self, rows: Iterable[Any], columns: Sequence[Any]) -> None:
        super().__init__(rows)
        self.columns = list(columns)

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return TableRows(found, self.columns) if isinstance(place, slice) else found

    def take(self, rows: Iterable[int]) -> "TableRows":
        """Return some of the rows, in the order of the given numbers."""
        return TableRows((self[row] for row in rows), self.columns)


def ordered_rows(values: Any) -> Any:
    """Return the rows of an ordered container as a list or an array; anything else unchanged.

    A list, a tuple and an array are returned as they are. Other sequences (a `deque`, a column of Hugging
    Face `datasets`, which is read from its file when it is asked) and views of a dict become lists; columns
    of pandas, Polars and Arrow become arrays. A text, tables, tensors, data sets and generators are not read
    here.

    Args:
        values: the container.

    Raises:
        DataError: for a set, which has no order.

    Example:

        >>> ordered_rows({"first": "a", "second": "b"}.values()), ordered_rows(range(3)), ordered_rows("ab")
        (['a', 'b'], [0, 1, 2], 'ab')
    """
    if values is None or isinstance(values, (list, tuple, np.ndarray, *_SCALARS)):
        return values
    if isinstance(values, (Sequence, *_VIEWS)):
        return list(values)
    if isinstance(values, Set):
        raise DataError(
            f"A {type(values).__name__} has no order, so its rows fit no labels or answers. Give a list: "
            f"`sorted(rows)`. Received {values!r:.80}."
        )
    # Arrow's columns yield scalars of their own type, which no reader of rows knows.
    return np.asarray(values) if hasattr(values, "to_numpy") and not columns_of(values) else values


def columns_of(values: Any) -> list[Any]:
    """Return the names of the columns of a table; none of anything else.

    A table is a dict of columns, or one of pandas, Polars, Arrow or Hugging Face `datasets`.

    Example:

        >>> columns_of({"text": ["good"], "label": [1]}), columns_of(["good"])
        (['text', 'label'], [])
    """
    if isinstance(values, Mapping):
        return list(values)
    names = getattr(values, "column_names", None)
    return list(getattr(values, "columns", ()) if names is None else names)


def number_table(values: Any) -> TableRows | None:
    """Return the rows of a table whose columns are all numbers, an array `[columns]` each; else None.

    Raises:
        DataError: for two columns of one name, or of different lengths.

    Example:

        >>> found = number_table({"style": [4.5, 1.0], "content": [3, 2]})
        >>> [row.tolist() for row in found], found.columns
        ([[4.5, 3.0], [1.0, 2.0]], ['style', 'content'])
        >>> number_table({"label": ["+", "-"]}), number_table([4.5, 1.0])
        (None, None)
    """
    if isinstance(values, TableRows):
        return values
    names = columns_of(values)
    if not names or not hasattr(values, "__getitem__"):
        return None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"A table has two columns {twice!r}. Rename one, because they are told by their names."
        )
    columns = [np.asarray(values[name]) for name in names]
    if any(column.ndim != 1 or not _are_numbers(column) for column in columns):
        return None
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise DataError(f"The columns of a table differ in length: {lengths[:_SHOWN]}.")
    plain = [column.astype(float) if column.dtype == object else column for column in columns]
    return TableRows(np.stack(plain, axis=1), names)


def _are_numbers(column: np.ndarray) -> bool:
    if column.dtype != object:
        return column.dtype.kind in "buif"
    return all(isinstance(value, Real | np.number | np.bool_) for value in column)


def refuse_table(what: str, values: Any) -> None:
    """Raise DataError for a table in place of one of its columns; `what` begins the sentence."""
    names = columns_of(values)
    if names:
        more = ", …" if len(names) > _SHOWN else ""
        raise DataError(
            f"{what} came as a table of the columns {', '.join(map(repr, names[:_SHOWN]))}{more} "
            f"({type(values).__name__}). Give one column, such as rows[{names[0]!r}]."
        )


def as_column(what: str, values: Any) -> list[Any]:
    """Return a column in any container as a list; `what` names it in messages.

    Raises:
        DataError: for a table, or an array of other than one axis.
    """
    values = ordered_rows(values)
    refuse_table(f"The {what}", values)
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if not isinstance(array, list | tuple) and array.ndim != 1:
        raise DataError(f"The {what} must have one axis. Received shape {array.shape}.")
    return list(array)
