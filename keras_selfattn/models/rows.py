"""Columns of raw inputs and labels, in whatever container a user has them, checked."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import DataError


class Rows(NamedTuple):
    """Columns of equal length: raw inputs, targets as the head reads them, and float32 weights if any."""

    inputs: list[Any]
    targets: list[Any]
    weights: np.ndarray | None = None

    def part(self, place: slice) -> "Rows":
        """Returns a run of the rows."""
        weights = None if self.weights is None else self.weights[place]
        return Rows(self.inputs[place], self.targets[place], weights)


def check_columns(what: str, rows: Rows) -> None:
    """Raises DataError for no rows, or columns of unequal length; `what` are the inputs, in the plural."""
    if not rows.inputs:
        raise DataError("There are no rows. Give at least two, of two classes.")
    for name, column in (("labels", rows.targets), ("sample weights", rows.weights)):
        if column is not None and len(column) != len(rows.inputs):
            raise DataError(
                f"{what} and {name} differ in number. Received {len(rows.inputs)} and {len(column)}."
            )


def split_end(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Splits a share off the end, as Keras' `validation_split` does; at least one row."""
    kept = len(rows.inputs) - max(1, int(len(rows.inputs) * share))
    return rows.part(slice(kept)), rows.part(slice(kept, None))


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
    return [_as_text(row, text) for row, text in enumerate(as_column("texts", x))]


def are_token_lists(x: Any) -> bool:
    """Whether `x` is a list, array or Series of rows of strings, not features, tensors or a data set."""
    if isinstance(x, str | bytes):
        raise DataError("Rows come as a list of lists of tokens. Received one string.")
    if isinstance(x, list | tuple):
        return True
    return hasattr(x, "__array__") and np.asarray(x).dtype.kind in "OUST"


def as_token_lists(x: Any) -> list[list[str]]:
    """Returns rows of tokens as lists of str; bytes are read as UTF-8. A row may be empty, a token may not.

    Raises:
        DataError: for a row that is no list of tokens, with its number.
    """
    rows = x if isinstance(x, list | tuple) else list(np.asarray(x))
    return [_as_tokens(row, tokens) for row, tokens in enumerate(rows)]


def as_names(labels: Any) -> list[str]:
    """Returns labels by name, whatever type they have.

    Raises:
        DataError: if there are none, or a row's is missing.
    """
    if labels is None:
        raise DataError("Labels are needed with raw rows. Received None; give one label a row.")
    return [as_name(f"Label {row}", label) for row, label in enumerate(as_column("labels", labels))]


def sorted_names(names: Iterable[str]) -> list[str]:
    """Returns names in order; if all are integers, by their value."""
    names = list(names)
    numeric = all(re.fullmatch(r"-?[0-9]+", name) for name in names)
    return sorted(names, key=(lambda name: (int(name), name)) if numeric else None)


def as_column(what: str, values: Any) -> list[Any]:
    """Returns a column as a list, whatever contains it.

    Raises:
        DataError: for an array of other than one axis.
    """
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if not isinstance(array, list | tuple) and array.ndim != 1:
        raise DataError(f"The {what} must have one axis. Received shape {array.shape}.")
    return list(array)


def as_name(what: str, label: Any) -> str:
    """Returns a label by name; `what` says which one it is.

    Raises:
        DataError: for a label that is missing, or several.
    """
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    if np.ndim(label) or isinstance(label, set | frozenset | dict):
        raise DataError(f"{what} (counted from 0) must be one name or number. Received {label!r}.")
    if _is_missing(label):
        raise DataError(f"{what} (counted from 0) is missing. Received {label!r}.")
    return str(label).encode(errors="replace").decode()


def indices_of(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """Returns the places of names among those known, int64.

    Raises:
        DataError: for a name that is not known.
    """
    index = {name: place for place, name in enumerate(known)}
    unknown = sorted_names({name for name in names if name not in index})
    if unknown:
        raise DataError(
            f"The model knows no label {unknown[0]!r} ({len(unknown)} unknown). "
            f"It knows: {', '.join(known[:20])}."
        )
    return np.array([index[name] for name in names], dtype=np.int64)


def _as_text(row: int, text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    if not isinstance(text, str):
        raise DataError(f"Text {row} (counted from 0) is not a string. Received {text!r}.")
    return text


def _as_tokens(row: int, tokens: Any) -> list[str]:
    where = f"row {row} (counted from 0)"
    if isinstance(tokens, str | bytes) or not hasattr(tokens, "__iter__"):
        raise DataError(f"{where.capitalize()} must be a list of tokens. Received {tokens!r:.80}.")
    found = []
    for place, token in enumerate(tokens):
        if not isinstance(token, str | bytes):
            raise DataError(f"Token {place} of {where} is not a string. Received {token!r:.80}.")
        if not token:
            raise DataError(f'Token {place} of {where} is "", which stands for padding. Remove it.')
        found.append(token.decode(errors="replace") if isinstance(token, bytes) else str(token))
    return found


def _is_missing(label: Any) -> bool:
    try:
        return label is None or label == "" or not bool(label == label)  # noqa: PLR0124  NaN, of any type
    except TypeError:  # pandas.NA, which is neither equal nor unequal to anything
        return True
