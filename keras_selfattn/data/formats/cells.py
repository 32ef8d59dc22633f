"""The meaning of one value of a table as a text or as tokens: the same for training and for answers."""

import math
from numbers import Real
from typing import Any

from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.written_lists import written_list


def text_of(value: Any, where: str) -> str:
    """Return a value of a column of texts as text; null and NaN are an empty one, as a .csv has them.

    Args:
        value: text, bytes in UTF-8, a number, a date or a missing value.
        where: its place, as the beginning of a sentence.

    Raises:
        DataError: for a list, an object, an infinite number, or bytes that are no UTF-8.

    Example:

        >>> [text_of(each, "row 1") for each in ("good", b"good", 7, None, float("nan"))]
        ['good', 'good', '7', '', '']
    """
    if isinstance(value, str):
        # Half of a surrogate pair, which JSON can hold, has no UTF-8.
        return value.encode(errors="replace").decode()
    if isinstance(value, list | tuple | dict):
        kind = "an object" if isinstance(value, dict) else "a list"
        raise DataError(f"{where} must be a text. Received {kind}, {value!r:.60}.")
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where} must be a text in UTF-8. Received {value!r:.60} ({error.reason})."
            ) from None
    if isinstance(value, Real) and not math.isfinite(value):
        raise DataError(f"{where} must be a text. Received {value!r}, an infinite number.")
    return str(value)


def token_texts(value: Any, where: str) -> list[str]:
    """Return the tokens of a row, a list, as texts.

    Args:
        value: of the row.
        where: its place, as the beginning of a sentence.

    Raises:
        DataError: for a value that is no list, or with a token that is missing, empty, true or false, a list
            or an object.

    Example:

        >>> token_texts(["Apollo", 11], "row 1")
        ['Apollo', '11']
    """
    return [text_of(item, where) for item in checked_items(value, where)]


def checked_items(value: Any, where: str) -> list[Any]:
    """Return a list if each of its items can be a token or the label of one.

    Raises:
        DataError: as for `token_texts`.
    """
    if not isinstance(value, list):
        found = written_list(value) if isinstance(value, str) else None
        hint = "" if found is None else f" This is a text that holds {found.form}: write the list itself."
        raise DataError(f"{where} must be a list. Received {value!r:.60}.{hint}")
    for item in value:
        if item in ("", b""):
            raise DataError(f"{where} hold '', which is neither a token nor a label.")
        if isinstance(item, list | dict | bool) or is_missing(item):
            missing = " (null, NaN, or the class -1 of a schema: a missing value)" if is_missing(item) else ""
            raise DataError(f"{where} hold {item!r:.60}, which is not a string{missing}.")
    return value
