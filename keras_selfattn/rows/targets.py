"""Kinds of targets: all that splits, messages and reports ask of the target of a row.

A head names its kind (`Head.target_kind`), and so do the readers of files (`LabelledRows.target_kind`).
"""

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import numpy as np

from keras_selfattn.rows.kind import json_types
from keras_selfattn.rows.span_schemes import OUTSIDE


class TargetKind:
    """One kind of targets; this one is of rows without any.

    It holds no state, so that two of one class are equal, in other processes too.

    Attributes:
        has_labels: True if targets hold names of classes.
        plural: the name of several in messages.
    """

    has_labels: ClassVar[bool] = False
    plural: ClassVar[str] = "labels"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def labels(self, target: Any) -> Iterable[str]:
        """Return the labels in a target, each as often as it is there."""
        return ()

    def numbers(self, target: Any) -> np.ndarray:
        """Return the numbers in a target, float `[N]`, for their distribution."""
        return np.zeros(0)

    def stratum(self, target: Any) -> Hashable:
        """Return the part of the rows from which a split draws its share; all rows are one by default."""
        return ""

    def is_telling(self, target: Any) -> bool:
        """Return True for a target that an example may have: it shows more than that there is nothing."""
        return True

    def as_json(self, target: Any) -> Any:
        """Return a target as JSON types."""
        return json_types(target)


class OneLabel(TargetKind):
    """The name of one class."""

    has_labels = True

    def labels(self, target: str | None) -> Iterable[str]:
        return () if target is None else (target,)

    def stratum(self, target: str) -> Hashable:
        return target


class LabelSet(TargetKind):
    """The names of any number of classes; a name alone is one."""

    has_labels = True

    def labels(self, target: Iterable[str] | None) -> Iterable[str]:
        return (target,) if isinstance(target, str) else target or ()

    def stratum(self, target: Any) -> Hashable:
        return target if isinstance(target, str) else ""


class LabelPerPosition(LabelSet):
    """The name of a class for each position of the row."""

    def is_telling(self, target: Iterable[str]) -> bool:
        return any(name != OUTSIDE for name in target)


class Numbers(TargetKind):
    """One number or several."""

    def numbers(self, target: Any) -> np.ndarray:
        return np.ravel(target)


class Similarity(Numbers):
    """The score of two texts, a float; or the numbers of texts that belong together, which are no targets."""

    def is_score(self, target: Any) -> bool:
        """Return True for a score, False for the numbers of texts."""
        return isinstance(target, float)

    def numbers(self, target: Any) -> np.ndarray:
        return np.array([target]) if self.is_score(target) else np.zeros(0)

    def as_json(self, target: Any) -> float | None:
        return target if self.is_score(target) else None


class Answers(TargetKind):
    """The right answers to a row, texts: a tuple of them, the first of which is the main one.

    Example:

        >>> Answers().as_json(("Guten Tag",)), Answers().as_json(("Hallo", "Guten Tag"))
        ('Guten Tag', ['Hallo', 'Guten Tag'])
    """

    plural = "answers"

    def is_telling(self, target: tuple[str, ...] | None) -> bool:
        return bool(target) and bool(target[0].strip())

    def as_json(self, target: tuple[str, ...] | None) -> str | list[str] | None:
        """Return an answer alone as a text, several as a list."""
        if not target:
            return None
        return target[0] if len(target) == 1 else list(target)


NO_TARGET, ONE_LABEL, LABEL_SET, LABEL_PER_POSITION, NUMBERS, SIMILARITY, ANSWERS = (
    TargetKind(),
    OneLabel(),
    LabelSet(),
    LabelPerPosition(),
    Numbers(),
    Similarity(),
    Answers(),
)
