"""Checked columns of raw inputs from any container."""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows, refuse_table
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.user_warnings import warn_user

# Of rows, float32 `[rows]`, or of the positions of each row, float32 `[T]`.
Weights = np.ndarray | list[np.ndarray]


class Rows(NamedTuple):
    """Columns of equal length: raw inputs, targets as the head reads them, and weights or None.

    The weights have the form of the targets: one number a row or, with a target at each position, one a
    position.

    The models work on `Rows`; files and `training` have rows as `data.LabelledRows`, with source and lines.
    """

    inputs: list[Any]
    targets: list[Any]
    weights: Weights | None = None

    @property
    def weights_of_rows(self) -> np.ndarray | None:
        """The weights of rows with one target each."""
        return None if self.weights is None else np.asarray(self.weights)

    def part(self, place: slice) -> "Rows":
        """Return a slice of the rows."""
        weights = None if self.weights is None else self.weights[place]
        return Rows(self.inputs[place], self.targets[place], weights)


def check_columns(what: str, rows: Rows) -> None:
    """Raise DataError for no rows, or columns of unequal length; `what` names the inputs, in the plural."""
    if not rows.inputs:
        raise DataError("There are no rows. Give at least one.")
    for name, column in (("labels", rows.targets), ("sample weights", rows.weights)):
        if column is not None and len(column) != len(rows.inputs):
            raise DataError(
                f"{what} and {name} differ in number. Received {len(rows.inputs)} and {len(column)}."
            )


def split_end(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Split a share off the end, like Keras' `validation_split`; at least one row."""
    kept = len(rows.inputs) - max(1, int(len(rows.inputs) * share))
    return rows.part(slice(kept)), rows.part(slice(kept, None))


def are_texts(x: Any) -> bool:
    """Return True if `x` is a list, array, column or eager tensor of rows, not ids, tensors or a data set."""
    if isinstance(x, str | bytes):
        raise DataError("Texts come as a list. Received one string; wrap it in a list: [text].")
    if isinstance(x, list | tuple):
        return not (x and all(map(_is_numeric_tensor, x)))
    return _is_array_of_texts(x)


def as_texts(x: Any) -> list[str]:
    """Return texts as str; bytes are read as UTF-8.

    Raises:
        DataError: for a row that is not a text, with its number.
    """
    return [_as_text(row, text) for row, text in enumerate(as_column("texts", x))]


def are_token_lists(x: Any) -> bool:
    """Return True if `x` is a list, array or column of rows of strings, not features or a data set."""
    if isinstance(x, str | bytes):
        raise DataError("Rows come as a list of lists of tokens. Received one string.")
    return isinstance(x, list | tuple) or _is_array_of_texts(x)


def as_token_lists(x: Any) -> list[list[str]]:
    """Return rows of tokens as lists of str; bytes are read as UTF-8. A row may be empty, a token may not.

    An array `[rows, length]` has "" after the last token of a shorter row, which is left out.

    Raises:
        DataError: for a row that is not a list of tokens, with its number.
    """
    x = ordered_rows(x)
    rows = x if isinstance(x, list | tuple) else list(np.asarray(x))
    return [_as_tokens(row, _without_padding(tokens)) for row, tokens in enumerate(rows)]


def as_column(what: str, values: Any) -> list[Any]:
    """Return a column in any container as a list.

    Raises:
        DataError: for a table, or an array of other than one axis.
    """
    values = ordered_rows(values)
    refuse_table(f"The {what}", values)
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if not isinstance(array, list | tuple) and array.ndim != 1:
        raise DataError(f"The {what} must have one axis. Received shape {array.shape}.")
    return list(array)


def _is_array_of_texts(x: Any) -> bool:
    """Return True for an array of strings or objects; or of no rows, as NumPy makes of an empty list."""
    if not hasattr(x, "__array__"):
        return False
    array = np.asarray(x)
    return array.dtype.kind in "OUST" or array.shape == (0,)


def _is_numeric_tensor(x: Any) -> bool:
    """Return True if `x` is an input of the core, such as ids, not a row of text."""
    dtype = getattr(x, "dtype", None)
    name = getattr(dtype, "name", str(dtype)).removeprefix("torch.")
    return bool(getattr(x, "shape", ())) and name.startswith(("int", "uint", "float", "bfloat", "bool"))


def _without_padding(tokens: Any) -> Any:
    """Return the tokens of a padded row, an array, without "" at its end; any other row unchanged."""
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "OUS":
        return tokens
    real = [place for place, token in enumerate(tokens) if not isinstance(token, str | bytes) or token]
    return tokens[: real[-1] + 1 if real else 0]


def _as_text(row: int, text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    if not isinstance(text, str):
        hint = " Give '' for a missing text." if is_missing(text) else ""
        raise DataError(f"Text {row} (counted from 0) is not a string. Received {text!r:.80}.{hint}")
    return text


def _as_tokens(row: int, tokens: Any) -> list[str]:
    where = f"row {row} (counted from 0)"
    # A set has no order, and of a dict the keys would be read.
    if isinstance(tokens, str | bytes | Set | Mapping) or not hasattr(tokens, "__iter__"):
        raise DataError(f"{where.capitalize()} must be a list of tokens. Received {tokens!r:.80}.")
    found = []
    for place, token in enumerate(tokens):
        if not isinstance(token, str | bytes):
            raise DataError(f"Token {place} of {where} is not a string. Received {token!r:.80}.")
        if not token:
            raise DataError(f'Token {place} of {where} is "", which stands for padding. Remove it.')
        found.append(token.decode(errors="replace") if isinstance(token, bytes) else str(token))
    return found


def warn_of_cut(cut: int, texts: int, max_tokens: int) -> None:
    """Warn of texts that are longer than a model reads."""
    if cut:
        warn_user(
            f"{cut} of {texts} texts are longer than max_tokens={max_tokens} tokens and are cut at the end."
        )


def warn_of_parts(long: int, rows: int, max_tokens: int) -> None:
    """Warn of rows that a model reads in several parts."""
    if long:
        warn_user(
            f"{long} of {rows} rows are longer than max_tokens={max_tokens} pieces and are read in parts."
        )
