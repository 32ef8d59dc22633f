"""Columns of texts and labels, in whatever container a user has them, as lists of strings."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError


def are_texts(x: Any) -> bool:
    """Whether `x` is a list, array, Series or eager tensor of strings, not ids, tensors or a data set."""
    if isinstance(x, str | bytes):
        raise DataError("Texts come as a list. Received one string; wrap it in a list: [text].")
    if isinstance(x, list | tuple):
        return all(isinstance(text, str | bytes) for text in x)
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


def check_rows(texts: Sequence[str], names: Sequence[str]) -> None:
    """Raises DataError unless there are rows, and as many labels as texts."""
    if not texts:
        raise DataError("There are no rows. Give at least two texts, of two classes.")
    if len(texts) != len(names):
        raise DataError(f"Texts and labels differ in number. Received {len(texts)} and {len(names)}.")


def sorted_names(names: Iterable[str]) -> list[str]:
    """Returns names in order; if all are integers, by their value."""
    names = list(names)
    numeric = all(name.lstrip("-").isdecimal() for name in names)
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
        return label.decode(errors="replace")
    if label is None or label == "" or (isinstance(label, float) and math.isnan(label)):
        raise DataError(f"Label {row} (counted from 0) is missing. Received {label!r}.")
    return str(label)
