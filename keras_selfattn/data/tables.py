"""Labelled rows from CSV, TSV and JSON Lines files, checked before anything is trained on them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.records import iter_records
from keras_selfattn.errors import DataError


@dataclass(frozen=True)
class Table:
    """Texts with one label each.

    Args:
        texts: one a row.
        labels: as many.
        source: where they come from, for messages and records.
    """

    texts: list[str]
    labels: list[str]
    source: str

    def __len__(self) -> int:
        return len(self.texts)


def read_table(path: str | Path, text: str = "text", label: str = "label") -> Table:
    """Reads a text and a label column of a `.csv`, `.tsv`, `.jsonl` or `.ndjson` file in UTF-8.

    Every value is taken as it is written: "NA" is a text, "007" a label. An empty text is a row like others.
    A .csv may quote fields (RFC 4180); a .tsv has no quoting (IANA's text/tab-separated-values).

    Args:
        path: the file.
        text: name of the column with the texts.
        label: name of the column with the labels.

    Raises:
        DataError: if the file is missing, empty, of another kind, not UTF-8 (with the line), has no such
            column (with those it has), rows of another width (with the line), no rows, or rows without a
            label (with their number and first line).

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label\\ngood,+\\nbad,-\\n")
        ...     read_table(file).labels
        ['+', '-']
    """
    file = Path(path)
    records = list(iter_records(file))
    if not records:
        raise DataError(f"{file} has no rows below its header. Give at least one row for each class.")
    columns = dict.fromkeys(name for _, record in records for name in record)
    for column in (text, label):
        if column not in columns:
            known = ", ".join(repr(name) for name in columns)
            raise DataError(f"{file} has no column {column!r}. Its columns are {known}.")
    missing = [line for line, record in records if not _as_text(record.get(label)).strip()]
    if missing:
        raise DataError(
            f"{file}: {len(missing)} of {len(records)} rows have no {label!r}, the first at line "
            f"{missing[0]}. Label these rows or remove them."
        )
    for line, record in records:
        if isinstance(record[label], list | dict):
            raise DataError(f"{file}: the {label!r} in line {line} is no single label but {record[label]!r}.")
    labels = [_as_text(record[label]).strip() for _, record in records]
    return Table([_as_text(record.get(text)) for _, record in records], labels, str(file))


def split_table(table: Table, held_out: float, seed: int) -> tuple[Table, Table]:
    """Splits rows at random into kept and held out, each class in the same share where it has the rows.

    A text that occurs twice falls on one side. A class with a single row stays in the first part.

    Args:
        table: what to split.
        held_out: share of the rows in the second part, in (0, 1).
        seed: of the draw.

    Raises:
        DataError: if either part would be empty.
    """
    if not 0 < held_out < 1:
        raise DataError(f"`held_out` must be between 0 and 1. Received {held_out!r}.")
    random = np.random.default_rng(seed)
    places: dict[str, list[int]] = {}
    for row, text in enumerate(table.texts):
        places.setdefault(text, []).append(row)
    by_class: dict[str, list[list[int]]] = {}
    for rows in places.values():
        by_class.setdefault(table.labels[rows[0]], []).append(rows)
    groups = [group for groups in by_class.values() for group in _chosen(groups, held_out, random)]
    if not groups:  # every class's draw came out 0: the largest gives one text, if it has two
        groups = max(by_class.values(), key=len)[1:2]
    held = [row for group in groups for row in group]
    chosen = set(held)
    kept = [row for row in range(len(table)) if row not in chosen]
    if not kept or not held:
        raise DataError(
            f"{table.source} has too few rows to hold {held_out:.0%} of them out: {len(table)}. "
            "Give a validation file instead."
        )
    return _rows(table, kept), _rows(table, sorted(held))


def check_classes(table: Table) -> None:
    """Raises DataError unless the table holds rows, of at least two classes."""
    if not table.texts:
        raise DataError(f"{table.source} has no rows. Give at least one for each of two classes.")
    classes = Counter(table.labels)
    if len(classes) < 2:
        raise DataError(
            f"{table.source} has one class only, {next(iter(classes))!r}, in all {len(table)} rows. "
            "A classifier needs at least two."
        )


def _chosen(groups: list[list[int]], share: float, random: np.random.Generator) -> list[list[int]]:
    """Draws a share of a class's texts, but never all; what is left of a fraction decides by its size."""
    exact = share * len(groups)
    count = int(exact) + int(random.random() < exact - int(exact))
    return [groups[index] for index in random.permutation(len(groups))[: min(count, len(groups) - 1)]]


def _as_text(value: Any) -> str:
    """A value as it is written; what is absent or null is empty. A lone surrogate, no UTF-8, becomes "?"."""
    return "" if value is None else str(value).encode(errors="replace").decode()


def _rows(table: Table, rows: list[int]) -> Table:
    return Table([table.texts[row] for row in rows], [table.labels[row] for row in rows], table.source)
