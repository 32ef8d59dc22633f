"""Rows that are texts."""

import re
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import as_column
from keras_selfattn.rows.kind import RowKind, Written
from keras_selfattn.rows.label_names import is_missing

CHARACTERS = 300
"""The most characters of an example row, which people read."""

_LETTERS_ALONE = re.compile(r"[\W_]+")


class TextRows(RowKind[str]):
    """Texts, str each."""

    name, subject, plural, unit = "text", "text", "Texts", "characters"
    alike_but_for = "case, spaces and punctuation"
    headings = ("text",)

    def are_rows(self, x: Any) -> bool:
        """Return True for a list, array, column or eager tensor of texts, not for ids or a data set."""
        if isinstance(x, str | bytes):
            raise DataError("Texts come as a list. Received one string; wrap it in a list: [text].")
        if isinstance(x, list | tuple):
            return not (x and all(map(_is_numeric_tensor, x)))
        return is_array_of_texts(x)

    def read(self, x: Any) -> list[str]:
        """Return texts as str; bytes are read as UTF-8.

        Raises:
            DataError: for a row that is not a text, with its number.
        """
        return [_as_text(row, text) for row, text in enumerate(as_column("texts", x))]

    def key(self, row: str) -> str:
        return row

    def loose_key(self, row: str) -> str:
        return letters_alone(row)

    def length(self, row: str) -> int:
        return len(row)

    def is_short(self, row: str) -> bool:
        return bool(row.strip()) and len(row) <= CHARACTERS

    def shown(self, row: str) -> str:
        return row

    def picture(self, row: str) -> Written:
        return Written(row)


TEXTS = TextRows()


def letters_alone(text: str) -> str:
    """Return a text's letters and digits in one case, or the text itself if it has none.

    Example:

        >>> letters_alone("A good  film!")
        'agoodfilm'
    """
    return _LETTERS_ALONE.sub("", text).casefold() or text


def is_text(value: Any) -> bool:
    """Return True for a text; bytes are one in UTF-8."""
    return isinstance(value, str | bytes)


def is_array_of_texts(x: Any) -> bool:
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


def _as_text(row: int, text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    if not isinstance(text, str):
        hint = " Give '' for a missing text." if is_missing(text) else ""
        raise DataError(f"Text {row} (counted from 0) is not a string. Received {text!r:.80}.{hint}")
    return text
