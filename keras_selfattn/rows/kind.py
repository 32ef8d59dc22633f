"""A kind of rows: all that data, models, metrics, reports and exports ask of a row, in one class a kind.

Texts, pairs of texts, tokens, series and images are one module each beside this one. A further kind is one
more subclass, named by its model (`RawModel.row_kind`) and by the readers of its files (`LabelledRows.kind`);
the graph side is a front in `export/signatures/`.

Axes: T (steps), F (features), H (height), W (width), C (channels).
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

Row = TypeVar("Row")


@dataclass(frozen=True)
class Written:
    """A row whose picture is a text."""

    text: str


@dataclass(frozen=True)
class Curves:
    """A row whose picture is a line for each feature: float `[T, F]`."""

    values: np.ndarray


@dataclass(frozen=True)
class Pixels:
    """A row whose picture is an image: `[H, W, C]`, C 1 or 3."""

    values: np.ndarray


# A report draws each of these; a kind chooses the one that shows its rows best.
Picture = Written | Curves | Pixels


class RowKind(ABC, Generic[Row]):
    """One kind of rows.

    It holds no state, so that two of one class are equal, in other processes too.

    Attributes:
        name: of a row, as the heading of a column.
        subject: of a row, with which the task of an export begins, as in "token-labelling".
        plural: the name of rows as the beginning of a sentence.
        unit: of `length`, in the plural.
        alike_but_for: the differences that `loose_key` does not see, in words; "" if it is `key`.
        headings: of the columns of a table of mistakes that hold a row itself; none if no cell holds one.

    Example (rows of two texts):

        >>> class Pairs(RowKind[tuple[str, str]]):
        ...     name, subject, plural, unit = "pair", "pair", "Pairs", "characters"
        ...     def are_rows(self, x): return isinstance(x, list)
        ...     def read(self, x): return [tuple(row) for row in x]
        ...     def key(self, row): return row
        ...     def length(self, row): return sum(map(len, row))
        ...     def is_short(self, row): return self.length(row) <= 300
        ...     def shown(self, row): return " / ".join(row)
        ...     def picture(self, row): return Written(self.shown(row))
        >>> Pairs().shown(("Is it good?", "Yes.")), Pairs() == Pairs()
        ('Is it good? / Yes.', True)
    """

    name: ClassVar[str]
    subject: ClassVar[str]
    plural: ClassVar[str]
    unit: ClassVar[str]
    alike_but_for: ClassVar[str] = ""
    headings: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def are_rows(self, x: Any) -> bool:
        """Return True if `x` holds raw rows of the kind, not a core's tensors or a data set."""

    @abstractmethod
    def read(self, x: Any) -> list[Row]:
        """Return rows in any container as a list, each checked; it may be empty.

        Raises:
            DataError: for a row of another kind, with its number.
        """

    @abstractmethod
    def key(self, row: Row) -> Hashable:
        """Return a key that is the same for rows with the same content: for splits, duplicates and leaks."""

    def loose_key(self, row: Row) -> Hashable:
        """Return a key that is also the same for rows that differ in `alike_but_for`."""
        return self.key(row)

    def part_keys(self, row: Row) -> Mapping[str, Collection[Hashable]]:
        """Return the keys of the parts of a row that other rows may share, by name; none if it is one thing.

        Parts of one name may change places. The report counts held-out rows with a part that is also in the
        training rows, under the same name.
        """
        return {}

    @abstractmethod
    def length(self, row: Row) -> int:
        """Return the length of a row in `unit`."""

    @abstractmethod
    def is_short(self, row: Row) -> bool:
        """Return True for a row that holds something and that people read at a glance, as an example."""

    def as_json(self, row: Row) -> Any:
        """Return a row as JSON types; NaN, a missing value, becomes null."""
        return json_types(row)

    @abstractmethod
    def shown(self, row: Row) -> str:
        """Return a row as a cell of a table."""

    def cells(self, row: Row) -> tuple[Any, ...]:
        """Return what a row has under `headings`."""
        return (self.shown(row),) if self.headings else ()

    @abstractmethod
    def picture(self, row: Row) -> Picture:
        """Return what a report draws of a row."""


def digest(row: Any) -> Hashable:
    """Return the key of a row that is an array: the bytes of all images would be a copy of the data."""
    values = np.asarray(row)
    return values.shape, hashlib.blake2b(np.ascontiguousarray(values).data).digest()


def json_types(value: Any) -> Any:
    """Return lists, arrays and numbers as JSON types; NaN and infinity become null.

    Example:

        >>> json_types(np.array([[1.0, float("nan")]])), json_types(["a", "b"])
        ([[1.0, None]], ['a', 'b'])
    """
    if isinstance(value, np.ndarray):
        return json_types(value.tolist())
    if isinstance(value, list | tuple):
        return [json_types(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
