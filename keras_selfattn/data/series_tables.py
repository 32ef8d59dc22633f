"""Series from tables with a frame on each line.

Axes: T (frames), F (features).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.records import Record
from keras_selfattn.data.text_tables import read_columns
from keras_selfattn.errors import DataError


def read_frames(
    file: Path,
    label: str | None,
    row_id: str | None,
    time: str | None,
    values: Sequence[str] | None,
    *,
    separator: str | None = None,
) -> tuple[list[np.ndarray], list[str], list[int | str]]:
    """Return series `[T, F]` in order of their first lines, with the label and the first line of each.

    Args:
        file: a `.csv`, `.jsonl` or `.ndjson`.
        label: column with the label, the same in all frames of a series; None to read no labels.
        row_id: column that identifies the series; "id" if None. Without labels it may be absent: then all
            frames are one series.
        time: column that orders the frames: numbers by value, others (ISO dates) as text.
        values: columns with values; by default all other columns.
        separator: the separator of columns of a `.csv`.

    Raises:
        DataError: for a missing column, a value that is not a number, or labels that differ; with the line.
    """
    told_by = row_id or "id"
    needed = row_id if label is None else told_by
    wanted = [name for name in (needed, time, label) if name is not None] + list(values or [])
    records = read_columns(file, wanted, separator=separator)
    columns = list(dict.fromkeys(name for _, record in records for name in record))
    values = values or [name for name in columns if name not in (told_by, time, label)]
    if not values:
        raise DataError(f"{file} has no column with values. Its columns are {', '.join(map(repr, columns))}.")
    by_series: dict[str, list[Record]] = {}
    for line, record in records:
        by_series.setdefault(str(record.get(told_by, "")), []).append((line, record))
    series, labels = [], []
    for name, frames in by_series.items():
        ordered = frames if time is None else sorted(frames, key=lambda frame: _moment(file, time, frame))
        series.append(np.array([[_value(file, each, frame) for each in values] for frame in ordered]))
        if label is not None:
            labels.append(_label(file, label, name, frames))
    return series, labels, [f"series {name!r}, line {frames[0][0]}" for name, frames in by_series.items()]


def _moment(file: Path, column: str, frame: Record) -> tuple[float, str]:
    line, record = frame
    value = record.get(column)
    if value is None or value == "":
        raise DataError(f"{file}: line {line} has no {column!r}.")
    try:
        return float(value), ""
    except (TypeError, ValueError):
        return 0.0, str(value)


def _value(file: Path, column: str, frame: Record) -> float:
    line, record = frame
    value: Any = record.get(column)
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan", "?")):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(
            f"{file}: {column!r} in line {line} must be a number. Received {value!r}. Name the columns with "
            "values if others are left out."
        ) from None


def _label(file: Path, column: str, name: str, frames: Sequence[Record]) -> Any:
    values = [record.get(column) for _, record in frames]
    found = {"" if value is None else str(value).strip() for value in values}
    if len(found) != 1 or not min(found):
        shown = ", ".join(sorted(map(repr, found)))
        raise DataError(
            f"{file}: the series {name!r}, from line {frames[0][0]} on, must have one {column!r}, the same "
            f"in all its lines. It has {shown}."
        )
    return values[0].strip() if isinstance(values[0], str) else values[0]
