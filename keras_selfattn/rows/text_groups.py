"""Rows from which vectors of texts are learned: texts that belong together, or two texts with a score."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.text_pairs import NAMES, SeveralTexts, is_pair, refuse_tuple_of_columns
from keras_selfattn.rows.texts import TEXTS, is_array_of_texts, is_text

TextGroup = tuple[str | None, ...]
"""A text, one that belongs to it, and any number that do not; None for a negative that a row lacks."""


class TextNumbers(tuple[int, ...]):
    """The number of each text of a group, the same for equal texts of all groups; -1 for a missing one."""

    __slots__ = ()


class TextGroupRows(SeveralTexts[str | TextGroup]):
    """Texts, or groups of two texts or more, `(text, text_pair, negative, …)`; all of one form.

    Texts alone are given a vector each. Vectors are learned from groups, and measured on them. A pair may be
    an object with the keys of `NAMES`.
    """

    name, subject, plural, unit = "text", "text", "Texts", "characters"

    def texts(self, row: str | TextGroup) -> list[str]:
        return [text for text in texts_of_row(row) if text is not None]

    def are_rows(self, x: Any) -> bool:
        return _are_groups(x) or TEXTS.are_rows(x)

    def read(self, x: Any) -> list[Any]:
        x = np.asarray(x) if is_array_of_texts(x) else x
        if not _are_groups(x):
            return TEXTS.read(x)
        refuse_tuple_of_columns(x)
        return [_group(row, given) for row, given in enumerate(ordered_rows(x))]

    def key(self, row: str | TextGroup) -> str | TextGroup:
        return row

    def part_keys(self, row: str | TextGroup) -> dict[str, tuple[Any, ...]]:
        return {name: (text,) for name, text in zip(NAMES, texts_of_row(row), strict=False)}

    def cells(self, row: str | TextGroup) -> tuple[Any, ...]:
        """Return the text and the one that belongs to it; negatives are not shown."""
        return (row, "") if isinstance(row, str) else row[:2]


TEXT_GROUPS = TextGroupRows()


def texts_of_row(row: str | TextGroup) -> TextGroup:
    """Return the texts of a row.

    Example:

        >>> texts_of_row("a film"), texts_of_row(("a film", "a movie", None))
        (('a film',), ('a film', 'a movie', None))
    """
    return (row,) if isinstance(row, str) else row


def numbered(groups: Iterable[TextGroup]) -> list[TextNumbers]:
    """Return the numbers of the texts of groups.

    Example:

        >>> numbered([("a film", "a movie"), ("a song", "a movie", None)])
        [(0, 1), (2, 1, -1)]
    """
    known: dict[str, int] = {}
    return [
        TextNumbers(-1 if text is None else known.setdefault(text, len(known)) for text in group)
        for group in groups
    ]


def _are_groups(x: Any) -> bool:
    """Return True for a container whose first row holds texts."""
    if not isinstance(x, list | tuple | np.ndarray) or not len(x):
        return False
    first: Any = x[0]
    # One that lacks its first text is a group, too, which reading refuses by name.
    several = isinstance(first, list | tuple | np.ndarray) and any(map(is_text, first))
    return several or is_pair(first)


def _group(row: int, given: Any) -> TextGroup:
    texts: Sequence[Any] = list(given) if isinstance(given, list | tuple | np.ndarray) else []
    if isinstance(given, dict) and is_pair(given):
        texts = [given[name] for name in NAMES]
    whole = len(texts) > 1 and all(map(is_text, texts[:2]))
    if not whole or not all(is_text(text) or is_missing(text) for text in texts[2:]):
        raise DataError(
            f"Group {row} (counted from 0) must be two texts or more, (text, text_pair, negative, …), "
            f"with None for a negative that it lacks. Received {given!r:.80}."
        )
    negatives = (None if is_missing(text) else text for text in texts[2:])
    return tuple(text if text is None else TEXTS.read([text])[0] for text in (*texts[:2], *negatives))
