"""The rows of a run: how long they are, which classes they have, and which of them are alike."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.windows import Windows
from keras_selfattn.drawing.builders import histogram_of
from keras_selfattn.drawing.figures import Bars
from keras_selfattn.report.sections import Section, Table

# Rows that are compared with others; more would take seconds.
MOST_COMPARED = 200_000
_CLASSES, _EXAMPLES = 30, 5
_ALIKE = "Rows with the same input"


def data_section(tables: Mapping[str, LabelledRows]) -> Section:
    """Return what the rows of each split are.

    Args:
        tables: rows by the name of their split, as the model reads them; the first are those of the training,
            if there are any.
    """
    tables = {name: rows for name, rows in tables.items() if len(rows)}
    if not tables:
        return Section("Data", ["The rows are not in the run folder."])
    # Parts of one file have one note.
    notes = dict.fromkeys(rows.note for rows in tables.values() if rows.note)
    blocks: list[Any] = [_sizes(tables), *(f"Read {note}" for note in notes)]
    blocks += _lengths(tables)
    targets = [target for rows in tables.values() for target in rows.targets]
    blocks += _target_blocks(tables) if any(target is not None for target in targets) else []
    blocks += alike_blocks(tables)
    return Section("Data", blocks)


def _sizes(tables: Mapping[str, LabelledRows]) -> Table:
    classes = [len(table.labels()) for table in tables.values()]
    rows = [[name, table.source, len(table)] for name, table in tables.items()]
    if not any(classes):
        return Table("Rows", ["split", "source", "rows"], rows)
    rows = [[*row, count] for row, count in zip(rows, classes, strict=True)]
    return Table("Rows", ["split", "source", "rows", "classes"], rows)


def _lengths(tables: Mapping[str, LabelledRows]) -> list[Any]:
    lengths = {name: np.array(list(map(rows.kind.length, rows.inputs))) for name, rows in tables.items()}
    unit = next(iter(tables.values())).kind.unit
    every = np.concatenate(list(lengths.values()))
    if every.min() == every.max():
        return [f"All rows have {int(every[0]):,} {unit}."]
    rows = [
        [name, each.min(), np.median(each), np.quantile(each, 0.95), each.max()]
        for name, each in lengths.items()
    ]
    header = ["split", "shortest", "median", "95 % are at most", "longest"]
    table = Table(f"Lengths in {unit}", header, [[cells[0], *map(float, cells[1:])] for cells in rows])
    # A few rows of a hundred times the length would leave one bar for all the others.
    longest = np.quantile(every, 0.99)
    shown = {name: each[each <= longest] for name, each in lengths.items()}
    figure = histogram_of("Lengths of the rows", f"{unit} (of the shortest 99 %)", shown, shares=True)
    return [table, figure]


def _target_blocks(tables: Mapping[str, LabelledRows]) -> list[Any]:
    """Return the share of each class in each split, or the distribution of numbers."""
    counts = {name: _label_counts(rows) for name, rows in tables.items()}
    if not any(counts.values()):
        numbers = {
            name: np.concatenate(list(map(rows.target_kind.numbers, rows.targets)))
            for name, rows in tables.items()
        }
        if any(map(len, numbers.values())):
            return [histogram_of("Targets", "target", numbers, shares=True)]
        labelled = any(rows.target_kind.has_labels for rows in tables.values())
        return ["No row has a label."] if labelled else []
    first = next(iter(counts.values()))
    names = sorted({name for each in counts.values() for name in each}, key=lambda name: (-first[name], name))
    shown = names[:_CLASSES]
    groups = [
        (split, [each[name] / max(1, each.total()) for name in shown]) for split, each in counts.items()
    ]
    many = len(shown) < len(names)
    title = f"The {len(shown)} most frequent of {len(names):,} classes" if many else "Share of each class"
    blocks: list[Any] = [Bars(title, shown, groups, "share of the labels")]
    if many:
        rare = [[name, *(each[name] for each in counts.values())] for name in names[::-1][:_CLASSES]]
        blocks.append(Table(f"The {len(rare)} rarest classes", ["label", *counts], rare, folded=True))
    return blocks


def _label_counts(rows: LabelledRows) -> Counter[str]:
    """Return how often each label occurs; nothing of numbers."""
    return Counter(name for target in rows.targets for name in rows.target_kind.labels(target))


def alike_blocks(tables: Mapping[str, LabelledRows]) -> list[Any]:
    """Return the counts of rows that are there twice in a split, or in the training and a held-out one."""
    names = list(tables)
    if any(isinstance(rows, Windows) for rows in tables.values()):
        return ["The rows are windows that overlap in time; the held-out ones come after the others."]
    if sum(map(len, tables.values())) > MOST_COMPARED:
        return [
            f"There are over {MOST_COMPARED:,} rows, so that they were not compared for duplicates and leaks."
        ]
    keys = {name: list(map(rows.kind.key, rows.inputs)) for name, rows in tables.items()}
    rows: list[list[Any]] = []
    for name in names:
        twice, contrary = duplicates(keys[name], tables[name].targets)
        rows.append([f"twice in the {name} rows", twice])
        rows.append([f"of these, with another target in the {name} rows", contrary])
    if names[0] != "train":
        return [Table(_ALIKE, ["rows", "count"], rows)]
    examples: list[list[Any]] = []
    for name in names[1:]:
        counted, found = _leaks(name, tables, keys)
        rows += counted
        examples += found
    blocks: list[Any] = [Table(_ALIKE, ["rows", "count"], rows)]
    if examples:
        header = ["split", "place", "place in training", "input"]
        blocks.append(Table("The first held-out rows that are also training rows", header, examples))
    return blocks


def _leaks(
    name: str, tables: Mapping[str, LabelledRows], keys: Mapping[str, Sequence[Hashable]]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return the counts of held-out rows that are also training rows, and the first of them."""
    held_out, kept = tables[name], tables["train"]
    shared = leaks(keys["train"], keys[name])
    counted: list[list[Any]] = [[f"{name} rows that are also training rows", len(shared)]]
    if kept.kind.alike_but_for:
        loose = leaks(*(list(map(kept.kind.loose_key, rows.inputs)) for rows in (kept, held_out)))
        words = f"{name} rows that are training rows but for {kept.kind.alike_but_for}"
        counted.append([words, max(0, len(loose) - len(shared))])
    if isinstance(kept, GroupedRows) and isinstance(held_out, GroupedRows):
        known = set(kept.groups)
        words = f"{name} rows whose {kept.group} is that of a training row"
        counted.append([words, sum(group in known for group in held_out.groups)])
    counted += [
        [f"{name} rows whose {part} is in a training row", count]
        for part, count in _shared_parts(kept, held_out).items()
    ]
    examples = [
        [name, held_out.place(row), kept.place(before), held_out.kind.shown(held_out.inputs[row])]
        for row, before in shared[:_EXAMPLES]
    ]
    return counted, examples


def _shared_parts(kept: LabelledRows, held_out: LabelledRows) -> dict[str, int]:
    """Return the number of held-out rows that share a part with a kept one, such as a text of a pair."""
    before, after = (list(map(kept.kind.part_keys, rows.inputs)) for rows in (kept, held_out))
    known = {part: {key for keys in before for key in keys[part]} for part in before[0]}
    return {part: sum(not keys.isdisjoint(row[part]) for row in after) for part, keys in known.items()}


def duplicates(keys: Sequence[Hashable], targets: Sequence[Any]) -> tuple[int, int]:
    """Return the number of rows whose input came before, and of those with another target than the first.

    Example:

        >>> duplicates(["a", "b", "a", "a"], ["+", "+", "+", "-"])
        (2, 1)
    """
    first: dict[Hashable, int] = {}
    twice = contrary = 0
    for row, key in enumerate(keys):
        before = first.setdefault(key, row)
        if before != row:
            twice += 1
            contrary += not np.array_equal(targets[before], targets[row])
    return twice, contrary


def leaks(kept: Sequence[Hashable], held_out: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the held-out rows that are also kept ones: the row's number, and the first kept one's.

    Example:

        >>> leaks(["a", "b"], ["c", "b"])
        [(1, 1)]
    """
    places: dict[Hashable, int] = {}
    for row, key in enumerate(kept):
        places.setdefault(key, row)
    return [(row, places[key]) for row, key in enumerate(held_out) if key in places]
