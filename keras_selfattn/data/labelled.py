"""Rows of any kind with their targets, checked and split before training."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import TableRows, columns_of, number_table, ordered_rows, refuse_table
from keras_selfattn.rows.inferred import inferred_row_kind, inferred_target_kind
from keras_selfattn.rows.kind import RowKind
from keras_selfattn.rows.targets import TargetKind
from keras_selfattn.rows.text_pairs import is_table_of_pairs, pairs_of_table, refuse_columns


@dataclass(frozen=True)
class LabelledRows:
    """Rows with one target each, from files or for `training`; the models work on `batches.rows.Rows`.

    Args:
        inputs: one for each row, in any container: a text, a list of tokens, a series, an image. Pairs of
            texts may be a table of the columns `text` and `text_pair`.
        targets: one for each row, all of one kind: a label, a list of labels, numbers; or a table whose
            columns are all numbers, which keep their names.
        source: the name of their source, for messages and records.
        where: the place of each row in the source, for messages: the number of its line, or the name of its
            file; None counts the rows, from 0 on.
        kind: the kind of the rows. Readers of files give it, and a model that reads the rows gives its own;
            if left out, it is guessed until then (`rows.inferred`).
        target_kind: the same of the targets.
        note: what a reader found in the source, in a sentence, where that is more than its rows.

    Raises:
        DataError: for a table in place of a column, and for rows in a container without an order.

    Example:

        >>> len(LabelledRows(["good", "bad"], ["+", "-"], "made up"))
        2
    """

    inputs: Sequence[Any]
    targets: Sequence[Any]
    source: str
    where: Sequence[int | str] | None = None
    # Never None once made; `cast` says so to those who read them.
    kind: RowKind[Any] = field(default=cast(RowKind[Any], None), kw_only=True)
    target_kind: TargetKind = field(default=cast(TargetKind, None), kw_only=True)
    note: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _inputs_of(self.inputs))
        object.__setattr__(self, "targets", _targets_of(self.targets))
        if self.kind is None:
            object.__setattr__(self, "kind", inferred_row_kind(self.inputs))
        if self.target_kind is None:
            object.__setattr__(self, "target_kind", inferred_target_kind(self.targets))

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def independent(self) -> int:
        """The number of rows that say something of their own: what is chosen or fitted on them needs many."""
        return len(self)

    def take(self, rows: Sequence[int]) -> "LabelledRows":
        """Return some of the rows, in the order of the given numbers."""
        inputs, targets = (_taken(column, rows) for column in (self.inputs, self.targets))
        where = [self.place(row) for row in rows]
        kinds = {"kind": self.kind, "target_kind": self.target_kind}
        return LabelledRows(inputs, targets, self.source, where, note=self.note, **kinds)

    def labels(self) -> set[str]:
        """Return the labels in the targets; none if they are numbers.

        Example:

            >>> sorted(LabelledRows(["good", "bad"], [["+", "new"], []], "made up").labels())
            ['+', 'new']
        """
        return {name for target in self.targets for name in self.target_kind.labels(target)}

    def place(self, row: int) -> int | str:
        """Return the place of a row in the source: the number of its line, or a name.

        Example:

            >>> LabelledRows(["good", "bad"], ["+", "-"], "made up").place(1)
            'row 1'
        """
        return f"row {row}" if self.where is None else self.where[row]

    def split(self, held_out: float, seed: int) -> tuple["LabelledRows", "LabelledRows"]:
        """Split like `split_rows`; subclasses with dependent rows split differently."""
        return split_rows(self, held_out, seed)


def split_rows(rows: LabelledRows, held_out: float, seed: int) -> tuple[LabelledRows, LabelledRows]:
    """Split rows at random into kept and held-out ones, with the same share of each class if possible.

    All rows with the same input are in one part. The first part keeps a row of every label.

    Args:
        rows: the rows to split.
        held_out: share of the rows in the second part, in (0, 1).
        seed: of the random split.

    Raises:
        DataError: if either part would be empty.
    """
    if not 0 < held_out < 1:
        raise DataError(f"`held_out` must be between 0 and 1. Received {held_out!r}.")
    random = np.random.default_rng(seed)
    places: dict[Hashable, list[int]] = {}
    for row, given in enumerate(rows.inputs):
        places.setdefault(rows.kind.key(given), []).append(row)
    by_class: dict[Hashable, list[list[int]]] = {}
    for group in places.values():
        by_class.setdefault(rows.target_kind.stratum(rows.targets[group[0]]), []).append(group)
    groups = [group for groups in by_class.values() for group in _chosen(groups, held_out, random)]
    groups = _spared(rows, groups)
    if not groups:  # no class can give its share: the largest that can gives one input
        largest_first = sorted(by_class.values(), key=len, reverse=True)
        groups = _spared(rows, [group for groups in largest_first for group in groups[::-1]])[:1]
    held = [row for group in groups for row in group]
    chosen = set(held)
    kept = [row for row in range(len(rows)) if row not in chosen]
    if not held and len(by_class) > 1 and len(by_class) == len(places):
        raise DataError(
            f"{rows.source} has one row of each of its {len(by_class)} labels, or rows that are all alike, "
            "so that none can be held out. Give another row of a label, or a validation file."
        )
    if not kept or not held:
        raise DataError(
            f"{rows.source} has too few different rows to hold {held_out:.0%} of them out: {len(places)}. "
            "Give a validation file instead."
        )
    return rows.take(kept), rows.take(sorted(held))


def as_rows(given: Any, source: str, kind: RowKind[Any] | None = None) -> LabelledRows:
    """Return rows unchanged, or the rows of a pair, `(inputs, targets)`, each in any container.

    Args:
        given: the rows.
        source: the name of a pair's rows in messages.
        kind: of a pair's rows: that of the model that reads them.

    Raises:
        DataError: for anything else.

    Example:

        >>> as_rows((["good", "bad"], ["+", "-"]), "training rows").targets
        ['+', '-']
    """
    if isinstance(given, LabelledRows):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return LabelledRows(*given, source, kind=cast(RowKind[Any], kind))
    received = f"a tuple of {len(given)}" if isinstance(given, tuple) else f"a {type(given).__name__}"
    raise DataError(
        f"{source}: rows must be a pair, (inputs, targets), or LabelledRows. Received {received}."
    )


def _spared(rows: LabelledRows, groups: list[list[int]]) -> list[list[int]]:
    """Return the groups of rows that can be removed in this order while each of their labels keeps a row."""
    borne = [set(rows.target_kind.labels(target)) for target in rows.targets]
    left = Counter(name for names in borne for name in names)
    spared = []
    for group in groups:
        own = Counter(name for row in group for name in borne[row])
        if all(left[name] > count for name, count in own.items()):
            left -= own
            spared.append(group)
    return spared


def _inputs_of(given: Any) -> Any:
    """Return a column, or both of pairs of texts, as a list; anything else is left to the readers of rows."""
    if is_table_of_pairs(given):
        return pairs_of_table(given)
    if columns_of(given) and (hasattr(given, "__array__") or isinstance(given, Mapping)):
        numbers = number_table(given)  # series of equal length
        return refuse_columns("The rows", given) if numbers is None else list(numbers)
    return _as_list(given)


def _targets_of(given: Any) -> Any:
    """Return a column as a list, and columns of numbers as the rows of a table, with their names."""
    numbers = number_table(given)
    if numbers is None:
        refuse_table("The labels", given)
    return _as_list(given) if numbers is None else numbers


def _as_list(column: Any) -> Any:
    column = ordered_rows(column)
    if isinstance(column, list | str | bytes) or not hasattr(column, "__iter__"):
        return column
    if not hasattr(column, "__array__"):
        refuse_table("The rows or labels", column)
    return list(np.asarray(column) if hasattr(column, "__array__") else column)


def _taken(column: Sequence[Any], rows: Sequence[int]) -> Sequence[Any]:
    return column.take(rows) if isinstance(column, TableRows) else [column[row] for row in rows]


def _chosen(groups: list[list[int]], share: float, random: np.random.Generator) -> list[list[int]]:
    """Draw a share of a class's inputs, but never all; the fraction is the probability of one more."""
    exact = share * len(groups)
    count = int(exact) + int(random.random() < exact - int(exact))
    return [groups[index] for index in random.permutation(len(groups))[: min(count, len(groups) - 1)]]
