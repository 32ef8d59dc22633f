"""Lists of labels, one list a row, in whatever container a user has them."""

from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.models.rows import as_column, as_name


def as_name_lists(y: Any) -> list[list[str]]:
    """Returns a list of label names for each row.

    Raises:
        DataError: if there are none, or a row's is no list of names.
    """
    if y is None:
        raise DataError("Labels are needed with raw rows. Received None; give a list of labels a row.")
    found = []
    for row, names in enumerate(_rows(y)):
        if not _is_list(names):
            raise DataError(f"The labels of row {row} (counted from 0) must be a list. Received {names!r}.")
        found.append([as_name(f"A label of row {row}", name) for name in names])
    return found


def are_name_lists(y: Any) -> bool:
    """Whether targets hold lists of labels, not one label a row."""
    return y is not None and any(map(_is_list, _rows(y)))


def _rows(y: Any) -> list[Any]:
    if hasattr(y, "to_list"):  # a Series, a ragged tensor
        return list(y.to_list())
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
        y = list(y) if y.ndim == 2 else y
    return as_column("labels", y)


def _is_list(names: Any) -> bool:
    return (
        hasattr(names, "__iter__") and not isinstance(names, str | bytes | dict) and np.ndim(names) != 0
    ) or (isinstance(names, set | frozenset))
