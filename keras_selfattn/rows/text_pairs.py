"""Rows that are two texts: a premise and a hypothesis, a question and an answer."""

from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import as_column, columns_of, ordered_rows
from keras_selfattn.rows.kind import RowKind, Written
from keras_selfattn.rows.texts import TEXTS, TextRows

TextPair = tuple[str, str]
NAMES = ("text", "text_pair")
"""The names of both texts: keys of a row as JSON, inputs of a served model, columns of files."""


class TextPairRows(RowKind[TextPair]):
    """Pairs of texts, in tuples, lists, or arrays `[rows, 2]`; or objects with the keys of `NAMES`."""

    name, subject, plural, unit = "pair", "text-pair", "Pairs of texts", "characters of both"
    alike_but_for = TextRows.alike_but_for
    headings = NAMES

    def are_rows(self, x: Any) -> bool:
        return isinstance(x, list | tuple | np.ndarray) and (not len(x) or is_pair(x[0]))

    def read(self, x: Any) -> list[TextPair]:
        return [_pair(row, given) for row, given in enumerate(ordered_rows(x))]

    def key(self, row: TextPair) -> TextPair:
        return row

    def loose_key(self, row: TextPair) -> TextPair:
        return TEXTS.loose_key(row[0]), TEXTS.loose_key(row[1])

    def part_keys(self, row: TextPair) -> dict[str, str]:
        return dict(zip(NAMES, row, strict=True))

    def length(self, row: TextPair) -> int:
        return len(row[0]) + len(row[1])

    def is_short(self, row: TextPair) -> bool:
        return all(map(TEXTS.is_short, row))

    def as_json(self, row: TextPair) -> dict[str, str]:
        return dict(zip(NAMES, row, strict=True))

    def shown(self, row: TextPair) -> str:
        return " / ".join(row)

    def cells(self, row: TextPair) -> tuple[str, ...]:
        return row

    def picture(self, row: TextPair) -> Written:
        return Written("\n\n".join(row))


TEXT_PAIRS = TextPairRows()


def is_pair(row: Any) -> bool:
    """Return True for a row of two texts.

    Example:

        >>> is_pair(("Is it good?", "Yes.")), is_pair("ab"), is_pair(["a", "good", "film"])
        (True, False, False)
    """
    if isinstance(row, dict):
        return row.keys() == set(NAMES)
    return isinstance(row, list | tuple | np.ndarray) and len(row) == 2 and all(map(_is_text, row))


def has_both_columns(x: Any) -> bool:
    """Return True for a table that has the columns of both texts, `NAMES`, and may have others."""
    names = columns_of(x)
    return all(name in names for name in NAMES)


def is_table_of_pairs(x: Any) -> bool:
    """Return True for a table of both columns alone, in any order."""
    return has_both_columns(x) and len(columns_of(x)) == len(NAMES)


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


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)
