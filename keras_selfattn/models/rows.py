"""Columns of texts and labels, in whatever container a user has them, as lists of strings."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import DataError


class Rows(NamedTuple):
    """Columns of equal length: texts, label names, and float32 weights where there are any."""

    texts: list[str]
    names: list[str]
    weights: np.ndarray | None = None


def are_texts(x: Any) -> bool:
    """Whether `x` is a list, array, Series or eager tensor of strings, not ids, tensors or a data set."""
    if isinstance(x, str | bytes):
        raise DataError("Texts come as a list. Received one string; wrap it in a list: [text].")
    if isinstance(x, list | tuple):
        return not x or any(isinstance(text, str | bytes) for text in x)
    return hasattr(x, "__array__") and np.asarray(x).dtype.kind in "OUST"


def as_texts(x: Any) -> list[str]:
    """Returns texts as str; bytes are read as UTF-8.

    Raises:
        DataError: for a row that is not text, with its number.
    """
    return [_as_text(row, text) for row, text in enumerate(_column("texts", x))]


def as_names(labels: Any) -> list[str]:
    """Returns labels by name, whatever type they have.

    Raises:
        DataError: if there are none, or a row's is missing.
    """
    if labels is None:
        raise DataError("Labels are needed with texts. Received None; give one label a row.")
    return [_as_name(row, label) for row, label in enumerate(_column("labels", labels))]


def checked_rows(texts: Any, labels: Any, weights: Any = None) -> Rows:
    """Returns texts, labels and weights as columns of one length.

    Raises:
        DataError: for no rows, columns of unequal length, or an entry that is not text or not a label.
    """
    rows = Rows(
        as_texts(texts), as_names(labels), None if weights is None else np.asarray(weights, dtype="float32")
    )
    if not rows.texts:
        raise DataError("There are no rows. Give at least two texts, of two classes.")
    for what, column in (("labels", rows.names), ("sample weights", rows.weights)):
        if column is not None and len(column) != len(rows.texts):
            raise DataError(
                f"Texts and {what} differ in number. Received {len(rows.texts)} and {len(column)}."
            )
    return rows


def split_end(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Splits a share off the end, as Keras' `validation_split` does; at least one row."""
    kept = len(rows.texts) - max(1, int(len(rows.texts) * share))
    first, last = (
        Rows(rows.texts[part], rows.names[part], None if rows.weights is None else rows.weights[part])
        for part in (slice(kept), slice(kept, None))
    )
    return first, last


def sorted_names(names: Iterable[str]) -> list[str]:
    """Returns names in order; if all are integers, by their value."""
    names = list(names)
    numeric = all(re.fullmatch(r"-?[0-9]+", name) for name in names)
    return sorted(names, key=(lambda name: (int(name), name)) if numeric else None)


def _column(what: str, values: Any) -> list[Any]:
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if not isinstance(array, list | tuple) and array.ndim != 1:
        raise DataError(f"The {what} must have one axis. Received shape {array.shape}.")
    return list(array)


def _as_text(row: int, text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    if not isinstance(text, str):
        raise DataError(f"Text {row} (counted from 0) is not a string. Received {text!r}.")
    return text


def _as_name(row: int, label: Any) -> str:
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    if np.ndim(label):
        raise DataError(f"Label {row} (counted from 0) must be one name or number. Received {label!r}.")
    if _is_missing(label):
        raise DataError(f"Label {row} (counted from 0) is missing. Received {label!r}.")
    return str(label).encode(errors="replace").decode()


def _is_missing(label: Any) -> bool:
    try:
        return label is None or label == "" or not bool(label == label)  # noqa: PLR0124  NaN, of any type
    except TypeError:  # pandas.NA, which is neither equal nor unequal to anything
        return True
