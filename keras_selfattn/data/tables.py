"""Labelled rows from CSV, TSV and JSON Lines files, checked before anything is trained on them."""

import csv
import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError

_SUFFIXES = {".csv": ",", ".tsv": "\t", ".jsonl": None, ".ndjson": None}


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
    records = _json_records(file) if _SUFFIXES[_suffix(file)] is None else _separated_records(file)
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


def _suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in _SUFFIXES:
        raise DataError(f"{file} has no known ending. Give a file ending in {', '.join(_SUFFIXES)}.")
    return suffix


def _decoded(file: Path) -> str:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise DataError(
            f"{file} is not UTF-8: byte 0x{byte:02x} in line {line}. Convert it first, for example with "
            f"`iconv -f latin1 -t utf-8 {file} > utf8{file.suffix}`."
        ) from None
    if not decoded.strip():
        raise DataError(f"{file} is empty.")
    return decoded


def _separated_records(file: Path) -> list[tuple[int, dict[str, str]]]:
    """Rows by column name, each with the line it starts on. Not pandas', which lets a comma too many pass.

    A .csv is RFC 4180's: quotes may enclose commas and line breaks. A .tsv is IANA's: no quoting at all.
    """
    separator = _SUFFIXES[_suffix(file)]
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    # Above any field: Python's limit of 131,072 characters is for untrusted input of unknown size.
    csv.field_size_limit(2**31 - 1)
    lines = io.StringIO(_decoded(file), newline="")
    reader = csv.reader(lines, delimiter=str(separator), quoting=quoting, strict=True)
    header: list[str] | None = None
    rows: list[tuple[int, dict[str, str]]] = []
    end = 0
    try:
        for record in reader:
            start, end = end + 1, reader.line_num
            if not record:
                continue
            if header is None:
                header = _checked_header(file, record)
            elif len(record) != len(header):
                raise DataError(
                    f"{file} cannot be parsed: line {start} has {len(record)} fields where the header has "
                    f"{len(header)}. Text that holds the separator goes in quotes, in a .csv."
                )
            else:
                rows.append((start, dict(zip(header, record, strict=True))))
    except csv.Error as error:
        raise DataError(f"{file} cannot be parsed: {error}, in the row from line {end + 1} on.") from error
    return rows


def _checked_header(file: Path, names: list[str]) -> list[str]:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{file} has two columns named {twice[0]!r}. Rename one.")
    return names


def _json_records(file: Path) -> list[tuple[int, dict[str, Any]]]:
    # Split at line feeds alone: JSON strings may hold other line separators.
    lines = enumerate(_decoded(file).split("\n"), start=1)
    return [(line, _json_record(file, line, content)) for line, content in lines if content.strip()]


def _json_record(file: Path, line: int, content: str) -> dict[str, Any]:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be parsed: line {line} is not JSON ({error}).") from error
    if not isinstance(record, dict):
        raise DataError(f"{file} cannot be parsed: line {line} is no JSON object but {content[:40]!r}.")
    return record


def _as_text(value: Any) -> str:
    """A value as it is written; what is absent or null is empty. A lone surrogate, no UTF-8, becomes "?"."""
    return "" if value is None else str(value).encode(errors="replace").decode()


def _rows(table: Table, rows: list[int]) -> Table:
    return Table([table.texts[row] for row in rows], [table.labels[row] for row in rows], table.source)
