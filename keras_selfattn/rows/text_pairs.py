"""Rows that are two texts: a premise and a hypothesis, a question and an answer."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import as_column, columns_of, ordered_rows
from keras_selfattn.rows.kind import Row, RowKind, Written
from keras_selfattn.rows.texts import TEXTS, TextRows, is_text

TextPair = tuple[str, str]
NAMES = ("text", "text_pair")
"""The names of both texts: keys of a row as JSON, inputs of a served model, columns of files."""
# Names of columns in a message.
_SHOWN = 10


class SeveralTexts(RowKind[Row]):
    """Rows that hold several texts."""

    alike_but_for = TextRows.alike_but_for
    headings = NAMES

    @abstractmethod
    def texts(self, row: Row) -> Sequence[str]:
        """Return the texts of a row, without missing ones."""

    def loose_key(self, row: Row) -> tuple[str, ...]:
        return tuple(map(TEXTS.loose_key, self.texts(row)))

    def length(self, row: Row) -> int:
        return sum(map(len, self.texts(row)))

    def is_short(self, row: Row) -> bool:
        return all(map(TEXTS.is_short, self.texts(row)))

    def shown(self, row: Row) -> str:
        return " / ".join(self.texts(row))

    def picture(self, row: Row) -> Written:
        return Written("\n\n".join(self.cells(row)))


class TextPairRows(SeveralTexts[TextPair]):
    """Pairs of texts, in tuples, lists, or arrays `[rows, 2]`; or objects with the keys of `NAMES`."""

    name, subject, plural, unit = "pair", "text-pair", "Pairs of texts", "characters of both"

    def texts(self, row: TextPair) -> TextPair:
        return row

    def are_rows(self, x: Any) -> bool:
        return isinstance(x, list | tuple | np.ndarray) and (not len(x) or is_pair(x[0]))

    def read(self, x: Any) -> list[TextPair]:
        refuse_tuple_of_columns(x)
        return [_pair(row, given) for row, given in enumerate(ordered_rows(x))]

    def key(self, row: TextPair) -> TextPair:
        return row

    def part_keys(self, row: TextPair) -> dict[str, tuple[str, ...]]:
        return {name: (text,) for name, text in zip(NAMES, row, strict=True)}

    def as_json(self, row: TextPair) -> dict[str, str]:
        return dict(zip(NAMES, row, strict=True))

    def cells(self, row: TextPair) -> tuple[str, ...]:
        return row


TEXT_PAIRS = TextPairRows()


class SymmetricPairRows(TextPairRows):
    """Pairs of texts that are one thing in either order: a pair and its reverse are the same row."""

    def key(self, row: TextPair) -> tuple[str, ...]:
        return tuple(sorted(row))

    def loose_key(self, row: TextPair) -> tuple[str, ...]:
        return tuple(sorted(map(TEXTS.loose_key, row)))

    def part_keys(self, row: TextPair) -> dict[str, tuple[str, ...]]:
        return {"first or second text": row}


SYMMETRIC_PAIRS = SymmetricPairRows()


def is_pair(row: Any) -> bool:
    """Return True for a row of two texts.

    Example:

        >>> is_pair(("Is it good?", "Yes.")), is_pair("ab"), is_pair(["a", "good", "film"])
        (True, False, False)
    """
    if isinstance(row, dict):
        return row.keys() == set(NAMES)
    return isinstance(row, list | tuple | np.ndarray) and len(row) == 2 and all(map(is_text, row))


def has_both_columns(x: Any) -> bool:
    """Return True for a table that has the columns of both texts, `NAMES`, and may have others."""
    names = columns_of(x)
    return all(name in names for name in NAMES)


def is_table_of_pairs(x: Any) -> bool:
    """Return True for a table of both columns alone, in any order."""
    return has_both_columns(x) and len(columns_of(x)) == len(NAMES)


def refuse_columns(what: str, table: Any) -> NoReturn:
    """Raise DataError for a table that is neither one column nor those of `NAMES`; `what` names its rows."""
    names = columns_of(table)
    more = ", …" if len(names) > _SHOWN else ""
    raise DataError(
        f"{what} came as a table of the columns {', '.join(map(repr, names[:_SHOWN]))}{more}. Give one "
        f"column, such as rows[{names[0]!r}]; or, for two texts a row, a table of the columns "
        f"{' and '.join(map(repr, NAMES))} alone: their names tell which is which."
    )


def pairs_of_table(table: Any) -> list[TextPair]:
    """Return the rows of a table of both columns, which their names tell, not their order.

    Raises:
        DataError: if one column is longer than the other.

    Example:

        >>> pairs_of_table({"text_pair": ["Yes."], "text": ["Is it good?"]})
        [('Is it good?', 'Yes.')]
    """
    first, second = (as_column(name, table[name]) for name in NAMES)
    if len(first) != len(second):
        raise DataError(
            f"`{NAMES[0]}` and `{NAMES[1]}` differ in number. Received {len(first)} and {len(second)} texts."
        )
    return list(zip(first, second, strict=True))


def refuse_tuple_of_columns(x: Any) -> None:
    """Raise DataError for `(texts, text_pairs)`: a tuple of columns, which may be rows as well."""
    if not (isinstance(x, tuple) and x):
        return
    two_lists = len(x) == len(NAMES) and all(isinstance(row, list) for row in x)
    arrays = all(isinstance(row, np.ndarray) or hasattr(row, "numpy") for row in x)
    if not (two_lists or arrays):
        return
    what = "lists" if two_lists else "arrays" if isinstance(x[0], np.ndarray) else "tensors"
    raise DataError(
        f"Pairs of texts came as a tuple of {len(x)} {what}, which may be rows or columns. Give a list of "
        "pairs, `list(zip(texts, text_pairs))`, one array of shape [rows, 2], or a dict of the columns "
        f"{' and '.join(map(repr, NAMES))}."
    )


def _pair(row: int, given: Any) -> TextPair:
    if not is_pair(given):
        hint = " Give '' for a missing text." if any(map(_is_none, _parts(given))) else ""
        if isinstance(given, dict) and given.keys() > set(NAMES):
            hint = f" Give {' and '.join(map(repr, NAMES))} alone."
        raise DataError(
            f"Pair {row} (counted from 0) must be two texts, (text, text_pair). Received {given!r:.80}.{hint}"
        )
    first, second = TEXTS.read([given[name] for name in NAMES] if isinstance(given, dict) else list(given))
    return first, second


def _parts(given: Any) -> list[Any]:
    if isinstance(given, dict):
        return list(given.values())
    return list(given) if isinstance(given, list | tuple | np.ndarray) else []


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))
