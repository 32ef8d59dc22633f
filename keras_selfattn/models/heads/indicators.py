"""Labels as rows of zeros and ones, one column a class: one-hot, or several labels a row.

Axes: R (rows), C (classes).
"""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.heads.integer_labels import by_place
from keras_selfattn.rows.label_names import LabelList


class Indicators(NamedTuple):
    """Zeros and ones, bool `[R, C]`, and the names of the columns."""

    ones: np.ndarray
    names: list[str]

    def one_hot(self) -> list[str]:
        """Return the name of each row's one.

        Raises:
            DataError: for a row without exactly one.
        """
        wrong = np.flatnonzero(self.ones.sum(axis=1) != 1)
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"Label {row} (counted from 0) must be one-hot, for one label a row: a single 1. Received "
                f"{self.ones[row].astype(int).tolist()}. Rows with several labels, or none, need "
                "`multi_label=True`."
            )
        return [self.names[place] for place in self.ones.argmax(axis=1)]

    def several(self) -> list[LabelList]:
        """Return the names of each row's ones."""
        return [LabelList(self.names[place] for place in np.flatnonzero(row)) for row in self.ones]

    def check_all_occur(self) -> None:
        """Raise DataError for a class without a row: later columns would then move to other classes."""
        absent = np.flatnonzero(~self.ones.any(axis=0))
        if len(absent):
            raise DataError(
                f"Column {absent[0]} (counted from 0) of the labels is 0 in all {len(self.ones)} rows. Give "
                "a row of its class, or leave the column out."
            )


def as_indicators(labels: Any, known: Sequence[str]) -> Indicators | None:
    """Return labels that are rows of zeros and ones, of two columns at least; None for any other labels.

    Args:
        labels: of the rows, in any container. The columns of a table name the classes. If all of them are
            integers, they are all labels or all indices of a trained model's classes, as keys of weights are.
        known: names of the classes of a model that has learned them; none before. Without a table the columns
            are named by them, or "0", "1", ….

    Raises:
        DataError: if the model knows another number of classes; or for columns of integers that are no
            classes, or can be read in two ways.

    Example:

        >>> as_indicators([[1, 0], [0, 1]], []).one_hot(), as_indicators([["a"], ["a", "b"]], [])
        (['0', '1'], None)
    """
    ones = _as_matrix(labels)
    if ones is None:
        return None
    columns = getattr(labels, "columns", None)
    if columns is not None:
        return Indicators(ones, _names_of_columns(list(columns), known))
    if known and len(known) != ones.shape[1]:
        raise DataError(
            f"The labels have {ones.shape[1]} columns of zeros and ones. The model knows {len(known)} "
            f"labels: {', '.join(known[:20])}."
        )
    return Indicators(ones, list(known) or list(map(str, range(ones.shape[1]))))


def _names_of_columns(columns: Sequence[Any], known: Sequence[str]) -> list[str]:
    integers = all(isinstance(name, Integral) and not isinstance(name, bool) for name in columns)
    if not (known and integers):
        return list(map(str, columns))
    try:
        return [known[place] for place in by_place("columns", {name: name for name in columns}, known)]
    except ConfigError as error:
        raise DataError(f"Labels as zeros and ones: {error}") from error


def _as_matrix(labels: Any) -> np.ndarray | None:
    """Return labels as bool `[R, C]` if they are zeros and ones in two columns or more."""
    rows = labels if hasattr(labels, "__array__") else list(labels) if hasattr(labels, "__iter__") else []
    if isinstance(rows, list):
        widths = {
            len(row) if hasattr(row, "__len__") and not isinstance(row, str | bytes) else 0 for row in rows
        }
        if (
            len(widths) != 1
            or min(widths) < 2
            or any(isinstance(row, set | frozenset | dict) for row in rows)
        ):
            return None
    found = np.asarray(rows)
    if found.ndim != 2 or found.shape[1] < 2 or found.dtype.kind not in "buif":
        return None
    return found != 0 if np.isin(found, (0, 1)).all() else None
