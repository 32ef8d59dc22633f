"""Rows that are series: float32 `[T, F]` each, NaN for missing values.

Axes: T (frames), F (features).
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.kind import Curves, RowKind, digest
from keras_selfattn.user_warnings import warn_user

_FORMS = "[length, features], or [length] of one feature"
# Rows with so many times more features than frames are more likely channels of values in time.
_MANY = 10
# The most numbers of an example row, which people read.
_NUMBERS = 1000


class SeriesRows(RowKind[np.ndarray]):
    """Series, float32 `[T, F]` each."""

    name, subject, plural, unit = "series", "series", "Series", "steps"

    def are_rows(self, x: Any) -> bool:
        """Return True if `x` is a list or an array of series, not a data set or a generator of batches."""
        return isinstance(x, list | tuple) or (hasattr(x, "__array__") and not isinstance(x, str | bytes))

    def read(self, x: Any) -> list[np.ndarray]:
        return as_series(x)

    def key(self, row: np.ndarray) -> Hashable:
        return digest(row)

    def length(self, row: np.ndarray) -> int:
        return len(row)

    def is_short(self, row: np.ndarray) -> bool:
        return 0 < row.size <= _NUMBERS

    def shown(self, row: np.ndarray) -> str:
        return f"series of shape {row.shape}"

    def picture(self, row: np.ndarray) -> Curves:
        return Curves(row)


SERIES = SeriesRows()


def as_series(x: Any, num_features: int | None = None) -> list[np.ndarray]:
    """Return series as float32 `[T, F]` each; frames of NaN at the end are padding, and removed.

    Args:
        x: list of arrays `[length, features]` or `[length]` of any lengths, or an array
            `[rows, length, features]` or `[rows, length]`.
        num_features: the required F; by default that of the first row with a frame.

    Raises:
        DataError: for a row with values that are not numbers, infinite values, or another number of features,
            with the row's number.

    Example:

        >>> [row.shape for row in as_series([[1.0, 2.0, 3.0], [4.0, float("nan")]])]
        [(3, 1), (1, 1)]
    """
    x = ordered_rows(x)
    if isinstance(x, list | tuple):
        rows: Any = x
    else:
        rows = np.asarray(x)
        if rows.ndim not in (1, 2, 3) or (rows.ndim == 1 and rows.dtype != object and len(rows)):
            raise DataError(
                "Series come as a list of arrays, or as one array [rows, length, features] or [rows, length]."
                f" Received shape {rows.shape}."
            )
    found = [_row(place, row) for place, row in enumerate(rows)]
    width = num_features or next((row.shape[1] for row in found if len(row)), 1)
    return [_of_width(place, row, width) for place, row in enumerate(found)]


def warn_of_axes(longest: int, num_features: int) -> None:
    """Warn, with the axes as they are understood, if rows have one frame of several features, or few of many.

    Args:
        longest: frames of the longest row.
        num_features: features of a frame.
    """
    if num_features >= _MANY * longest or num_features > longest == 1:
        frames = "1 frame" if longest == 1 else f"at most {longest} frames"
        warn_user(
            f"Series are read as [rows, length, features]: rows of {frames}, each of {num_features} features."
            " If they are [rows, channels, length], as in aeon and sktime, give `x.transpose(0, 2, 1)`."
        )


def _row(place: int, row: Any) -> np.ndarray:
    try:
        values = np.asarray(row)
    except ValueError as error:
        raise DataError(
            f"Row {place} (counted from 0) must be {_FORMS}. Its frames differ in length."
        ) from error
    if values.dtype == object:
        # None, pandas.NA and other missing values.
        known = [np.nan if _is_none(value) else value for value in values.flat]
        values = np.array([*known, None], object)[:-1].reshape(values.shape)
    if values.dtype.kind in "USMmc" or values.ndim not in (1, 2):
        raise DataError(f"Row {place} (counted from 0) must be {_FORMS}, of numbers. Received {_shown(row)}.")
    try:
        wide = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"Row {place} (counted from 0) must be {_FORMS}, of numbers. Received {_shown(row)}."
        ) from None
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    if np.isinf(narrow).any():
        frame = int(np.argwhere(np.isinf(narrow))[0][0])
        raise DataError(
            f"Row {place} (counted from 0) has a value that is infinite, or too large for float32, in frame "
            f"{frame}: {wide[frame].tolist()}. Write a missing value as NaN."
        )
    return _without_padding(narrow[:, None] if narrow.ndim == 1 else narrow)


def _of_width(place: int, row: np.ndarray, width: int) -> np.ndarray:
    if not len(row):
        return np.zeros((0, width), np.float32)
    if row.shape[1] != width:
        raise DataError(
            f"Row {place} (counted from 0) has {row.shape[1]} features a frame; the others have {width}. "
            "All series need the same features, and their frames come first: [length, features]."
        )
    return row


def _without_padding(row: np.ndarray) -> np.ndarray:
    known = np.flatnonzero(~np.isnan(row).all(axis=1))
    return row[: known[-1] + 1 if len(known) else 0]


def _is_none(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"


def _shown(row: Any) -> str:
    text = repr(row)
    return text if len(text) <= 60 else text[:60] + "…"
