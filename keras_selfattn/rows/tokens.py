"""Rows that are lists of tokens."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.kind import RowKind, Written
from keras_selfattn.rows.texts import CHARACTERS, is_array_of_texts

# The most tokens of an example row, which people read.
_TOKENS = 50


class TokenRows(RowKind[list[str]]):
    """Lists of tokens, str each; a row may be empty, a token may not."""

    # In a table of mistakes each line is one token, which `metrics.mistakes` shows in its row: no `headings`.
    name, subject, plural, unit = "tokens", "token", "Rows", "tokens"

    def are_rows(self, x: Any) -> bool:
        """Return True if `x` is a list, array or column of rows of strings, not features or a data set."""
        if isinstance(x, str | bytes):
            raise DataError("Rows come as a list of lists of tokens. Received one string.")
        return isinstance(x, list | tuple) or is_array_of_texts(x)

    def read(self, x: Any) -> list[list[str]]:
        """Return rows of tokens as lists of str; bytes are read as UTF-8.

        An array `[rows, length]` has "" after the last token of a shorter row, which is left out.

        Raises:
            DataError: for a row that is not a list of tokens, with its number.
        """
        x = ordered_rows(x)
        rows = x if isinstance(x, list | tuple) else list(np.asarray(x))
        return [_as_tokens(row, _without_padding(tokens)) for row, tokens in enumerate(rows)]

    def key(self, row: list[str]) -> tuple[str, ...]:
        return tuple(row)

    def length(self, row: list[str]) -> int:
        return len(row)

    def is_short(self, row: list[str]) -> bool:
        return 0 < len(row) <= _TOKENS and len("".join(row)) <= CHARACTERS

    def shown(self, row: list[str]) -> str:
        return " ".join(row)

    def picture(self, row: list[str]) -> Written:
        return Written(self.shown(row))


TOKENS = TokenRows()


def _without_padding(tokens: Any) -> Any:
    """Return the tokens of a padded row, an array, without "" at its end; any other row unchanged."""
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "OUS":
        return tokens
    real = [place for place, token in enumerate(tokens) if not isinstance(token, str | bytes) or token]
    return tokens[: real[-1] + 1 if real else 0]


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
