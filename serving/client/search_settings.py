"""The settings of a search that `generate` takes, as inputs of a model's signature of that name."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidInputError
from ..wire.signature_names import BEAMS, LENGTH_PENALTY, MAX_NEW_TOKENS, PREFIX
from .steps import at_least_one

# On the wire these mean the model's own.
_OWN_COUNT, _OWN_PENALTY = 0, -1.0
_LARGEST = 2**31 - 1


class SearchSettings(NamedTuple):
    """The settings of a call of `generate`; None for the model's own.

    Args:
        beams: candidates that the search follows.
        max_new_tokens: the most symbols of an answer.
        length_penalty: the power of its length by which a candidate's score is divided.
        prefix: the beginning of all answers, or of each.
    """

    beams: int | None = None
    max_new_tokens: int | None = None
    length_penalty: float | None = None
    prefix: str | Sequence[str] | None = None

    @property
    def are_own(self) -> bool:
        """True if none is given."""
        return all(each is None for each in self)

    def inputs(self, rows: int) -> dict[str, Any]:
        """The inputs beside the texts, a value for each row: servers run such requests together.

        Raises:
            InvalidInputError: a setting that no model takes.
        """
        return {
            BEAMS: np.full(rows, _count(BEAMS, self.beams), np.int32),
            MAX_NEW_TOKENS: np.full(rows, _count(MAX_NEW_TOKENS, self.max_new_tokens), np.int32),
            LENGTH_PENALTY: np.full(rows, self._penalty(), np.float32),
            PREFIX: self._prefixes(rows),
        }

    def _penalty(self) -> float:
        value: Any = self.length_penalty
        if value is None:
            return _OWN_PENALTY
        numbers = int | float | np.integer | np.floating
        if isinstance(value, bool) or not isinstance(value, numbers) or not 0 <= value < math.inf:
            raise InvalidInputError(f"length_penalty must be a finite number from 0 on. Received {value!r}")
        return float(value)

    def _prefixes(self, rows: int) -> list[str]:
        value: Any = "" if self.prefix is None else self.prefix
        found: list[Any] = [value] * rows if isinstance(value, str) else _listed(value)
        if len(found) != rows or not all(isinstance(each, str) for each in found):
            raise InvalidInputError(
                f"prefix must be a str, or a list of one for each of the {rows} texts. Received {value!r:.60}"
            )
        return found


def _count(name: str, value: int | None) -> int:
    if value is None:
        return _OWN_COUNT
    if at_least_one(name, value) > _LARGEST:
        raise InvalidInputError(f"{name} must be an int32, at most {_LARGEST}. Received {value}")
    return value


def _listed(value: Any) -> list[Any]:
    return [None] if isinstance(value, bytes) or not hasattr(value, "__iter__") else list(value)
