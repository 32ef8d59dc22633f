"""Numbers as files of series write them: in ASCII, with blanks and tabs as the only space."""

import re
from collections.abc import Sequence

import numpy as np

from keras_selfattn.errors import DataError

_SPACE = " \t"
_MISSING = frozenset({"?", "nan", ""})
# Python's `float` also takes digits of any script, underscores between them and any space around them.
_FOREIGN = re.compile(r"[^\t\x20-\x7e]|_")


def bare(text: str) -> str:
    """Return a text without the blanks, tabs and line ends around it; other space belongs to it.

    Example:

        >>> bare(" up\\u00a0 ") == "up\\u00a0"
        True
    """
    return text.strip(_SPACE + "\r\n")


def is_number(text: str) -> bool:
    """Return True for a number in ASCII; NaN and infinity are numbers, `1_000` is none."""
    return _float(text) is not None


def is_missing(text: str) -> bool:
    """Return True for a missing value: nothing, `?` or `NaN`."""
    return bare(text).lower() in _MISSING


def values_of(where: str, values: Sequence[str]) -> np.ndarray:
    """Return a row of numbers, float32 `[T]`, NaN for missing ones; nothing at all is a row of none.

    Args:
        where: the place of the row, as the beginning of a sentence.
        values: the numbers as text.

    Raises:
        DataError: for a value that is no number.

    Example:

        >>> values_of("line 1", ["1", " 2e0", "?"]).tolist()
        [1.0, 2.0, nan]
    """
    if len(values) == 1 and not bare(values[0]):
        return np.zeros(0, np.float32)
    if not _FOREIGN.search(",".join(values)):
        found = _all_numbers(values)
        if found is not None:
            # Too large for float32 is infinite; the model names such a row.
            with np.errstate(over="ignore"):
                return np.array(found, np.float64).astype(np.float32)
    wrong = next(value for value in values if not is_missing(value) and not is_number(value))
    raise DataError(f"{where} has {bare(wrong)[:40]!r} in place of a number.")


def number_of(value: object) -> float | None:
    """Return the number of a cell of a table, NaN for a missing one; None if it is no number.

    Example:

        >>> number_of("1.5"), number_of(""), number_of(2), number_of("1_000")
        (1.5, nan, 2.0, None)
    """
    if value is None or (isinstance(value, str) and is_missing(value)):
        return float("nan")
    if isinstance(value, str):
        return _float(value)
    try:
        return float(value)  # pyright: ignore[reportArgumentType]  of JSON: a list is refused here
    except (TypeError, ValueError, OverflowError):
        return None


def _float(text: str) -> float | None:
    if _FOREIGN.search(text):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _all_numbers(values: Sequence[str]) -> list[float] | None:
    """Return numbers in ASCII, NaN for missing ones; None if a value is neither."""
    try:
        return list(map(float, values))
    except ValueError:  # most rows have no missing value
        pass
    try:
        return [np.nan if is_missing(value) else float(value) for value in values]
    except ValueError:
        return None
