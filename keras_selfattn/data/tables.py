"""Labelled rows from CSV, TSV and JSON Lines files, checked before anything is trained on them."""

import csv
import io
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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

    Args:
        path: the file.
        text: name of the column with the texts.
        label: name of the column with the labels.

    Raises:
        DataError: if the file is missing, empty, of another kind, not UTF-8 (with the line), has no such
            column (with those it has), no rows, or rows without a label (with their number and first line).

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label\\ngood,+\\nbad,-\\n")
        ...     read_table(file).labels
        ['+', '-']
    """
    file = Path(path)
    content = _decoded(file)
    frame = _parsed(file, content)
    for column in (text, label):
        if column not in frame.columns:
            known = ", ".join(repr(str(name)) for name in frame.columns)
            raise DataError(f"{file} has no column {column!r}. Its columns are {known}.")
    if frame.empty:
        raise DataError(f"{file} has no rows below its header. Give at least one row for each class.")
    labels = ["" if _is_missing(value) else str(value).strip() for value in frame[label]]
    missing = [row for row, name in enumerate(labels) if not name]
    if missing:
        line = _line_of_row(file, content, missing[0])
        raise DataError(
            f"{file}: {len(missing)} of {len(labels)} rows have no {label!r}, the first at line {line}. "
            "Label these rows or remove them."
        )
    texts = ["" if _is_missing(value) else str(value) for value in frame[text]]
    return Table(texts, labels, str(file))


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
    held: list[int] = []
    for groups in by_class.values():
        count = min(round(held_out * len(groups)), len(groups) - 1)
        held += [row for index in random.permutation(len(groups))[:count] for row in groups[index]]
    chosen = set(held)
    kept = [row for row in range(len(table)) if row not in chosen]
    if not kept or not held:
        raise DataError(
            f"{table.source} has too few rows to hold {held_out:.0%} of them out: {len(table)}. "
            "Give a validation file instead."
        )
    return _rows(table, kept), _rows(table, sorted(held))


def check_classes(table: Table) -> None:
    """Raises DataError unless the table holds at least two classes."""
    classes = Counter(table.labels)
    if len(classes) < 2:
        raise DataError(
            f"{table.source} has one class only, {next(iter(classes))!r}, in all {len(table)} rows. "
            "A classifier needs at least two."
        )


def _decoded(file: Path) -> str:
    if file.suffix.lower() not in _SUFFIXES:
        raise DataError(f"{file} has no known ending. Give a file ending in {', '.join(_SUFFIXES)}.")
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise DataError(
            f"{file} is not UTF-8: byte 0x{byte:02x} in line {line}. Convert it first, for example with "
            f"`iconv -f latin1 -t utf-8 {file} > utf8{file.suffix}`."
        ) from None


def _parsed(file: Path, content: str) -> pd.DataFrame:
    separator = _SUFFIXES[file.suffix.lower()]
    if not content.strip():
        raise DataError(f"{file} is empty.")
    if separator is None:
        return pd.DataFrame(
            [_record(file, line, text) for line, text in _filled_lines(content)], dtype=object
        )
    try:
        return pd.read_csv(
            io.StringIO(content), sep=separator, dtype=str, keep_default_na=False, index_col=False
        )
    except pd.errors.ParserError as error:
        raise DataError(f"{file} cannot be parsed: {str(error).strip()}.") from error


def _record(file: Path, line: int, text: str) -> dict[str, Any]:
    # Not pandas' reader, which turns "007" into 7 and "2024-01-01" into a date.
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{file} cannot be parsed: line {line} is not JSON ({error.msg}).") from error
    if not isinstance(record, dict):
        raise DataError(f"{file} cannot be parsed: line {line} is no JSON object but {text[:40]!r}.")
    return record


def _filled_lines(content: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]


def _line_of_row(file: Path, content: str, row: int) -> int:
    """The line, from 1, on which a row starts; a quoted field may span lines, an empty line is no row."""
    separator = _SUFFIXES[file.suffix.lower()]
    if separator is None:
        return _filled_lines(content)[row][0]
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=separator)
    starts: list[int] = []
    end = 0
    for record in reader:
        if record:
            starts.append(end + 1)
        end = reader.line_num
    return starts[row + 1]  # the first record is the header


def _is_missing(value: object) -> bool:
    # NaN is what pandas puts for an absent key.
    return value is None or (isinstance(value, float) and math.isnan(value))


def _rows(table: Table, rows: list[int]) -> Table:
    return Table([table.texts[row] for row in rows], [table.labels[row] for row in rows], table.source)
