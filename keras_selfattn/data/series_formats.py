"""Series from lines: UCR's older formats with a series on each, and tables with a frame on each.

Axes: T (frames), F (features).

Reference: Dau et al. 2019, "The UCR Time Series Archive".
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.plain_numbers import bare, is_number, number_of, values_of
from keras_selfattn.data.formats.records import Record
from keras_selfattn.data.formats.time_order import TimeColumn, check_time_format, read_times
from keras_selfattn.data.formats.ts_files import lines_with_text
from keras_selfattn.data.texts import read_columns, warn_of_absent
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelReader, is_missing
from keras_selfattn.user_warnings import warn_user

_BLANKS = re.compile(" +")


def read_delimited(file: Path) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Return series `[T, 1]`, labels and line numbers of a file with a label and values on each line.

    A label that is an integer written as a float, such as "1.0000000e+00", is that integer.

    Raises:
        DataError: for an invalid file, with the line.
    """
    series, labels, where, widths = [], [], [], []
    first_sign = None
    for number, line in lines_with_text(file):
        sign, (label, *values) = _parted(line)
        first_sign = first_sign or sign
        if sign not in (first_sign, None):
            raise DataError(
                f"{file}: line {number} is separated by {sign!r}, and lines before it by {first_sign!r}. "
                "Write all lines alike."
            )
        if not label:
            raise DataError(f"{file}: line {number} has no label before its values.")
        labels.append(_as_integer(label))
        row = values_of(f"{file}: line {number}", values)
        known = np.flatnonzero(~np.isnan(row))
        series.append(row[: known[-1] + 1 if len(known) else 0, None])
        where.append(number)
        widths.append(len(values))
    _warn_of_odd_width(file, where, widths)
    return series, labels, where


def _parted(line: str) -> tuple[str | None, list[str]]:
    """Return the separator of a line, None for one without, and its parts."""
    sign = next((sign for sign in "\t;," if sign in line), None)
    if sign is not None:  # a value can be missing between these
        return sign, [bare(part) for part in line.split(sign)]
    parts = _BLANKS.split(bare(line))
    return " " if len(parts) > 1 else None, parts


def _warn_of_odd_width(file: Path, lines: Sequence[int], widths: Sequence[int]) -> None:
    """Warn if one line has other values than all others have: series may differ, but it may be cut."""
    (usual, count), *others = Counter(widths).most_common(2)
    if len(others) == 1 and count == len(widths) - 1 > 1:
        odd = next(place for place, width in enumerate(widths) if width != usual)
        warn_user(
            f"{file}: line {lines[odd]} has {widths[odd]} values where all others have {usual}. It is read "
            "as it is: see whether the line is whole."
        )


def _as_integer(label: str) -> str:
    if is_number(label) and abs(float(label)) < 2**53 and float(label) == int(float(label)):
        return str(int(float(label)))
    return label


def read_frames(
    file: Path,
    label: str | None,
    row_id: str | None,
    time: str | None,
    values: Sequence[str] | None,
    *,
    time_format: str | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> tuple[list[np.ndarray], list[str], list[int | str]]:
    """Return series `[T, F]` in order of their first lines, with the label and the first line of each.

    Args:
        file: a `.csv`, `.jsonl` or `.ndjson`.
        label: column with the label, the same in all frames of a series; None to read no labels.
        row_id: column that identifies the series; "id" if None. Without labels it may be absent: then all
            frames are one series.
        time: column that orders the frames, of numbers or dates, as for `time_order.read_times`. Steps that
            are not the usual one are a warning.
        values: columns with values; by default all other columns.
        time_format: the form of the times, as for `datetime.strptime`; numbers or ISO 8601 if None.
        separator: the separator of columns of a `.csv`.
        has_header: False if its first line is a row.

    Raises:
        ConfigError: for a `time_format` without `time`, or one that loses a part of the times.
        DataError: for a missing column, a value that is not a number, labels that differ, a time that cannot
            be read, or two frames of one moment; with the line.
    """
    check_time_format(time, time_format)
    check_columns_differ(label=[label], values=values or [])
    told_by = row_id or "id"
    needed = row_id if label is None else told_by
    wanted = [name for name in (needed, time, label) if name is not None] + list(values or [])
    records = read_columns(file, wanted, separator=separator, has_header=has_header)
    columns = list(dict.fromkeys(name for _, record in records for name in record))
    values = values or [name for name in columns if name not in (told_by, time, label)]
    if not values:
        raise DataError(f"{file} has no column with values. Its columns are {', '.join(map(repr, columns))}.")
    warn_of_absent(file, values, records, "a missing value")
    by_series: dict[str, list[int]] = {}
    names = _series_names(file, told_by, records) if told_by in columns else [""] * len(records)
    for row, name in enumerate(names):
        by_series.setdefault(name, []).append(row)
    labels = (
        []
        if label is None
        else [_label(file, label, name, [records[row] for row in rows]) for name, rows in by_series.items()]
    )
    ordered = by_series
    if time is not None:
        lines, times = [line for line, _ in records], [record.get(time) for _, record in records]
        ordered = _in_order(read_times(file, time, lines, times, time_format), by_series)
    series = [
        np.array([[_value(file, each, records[row]) for each in values] for row in rows])
        for rows in ordered.values()
    ]
    return (
        series,
        labels,
        [f"series {name!r}, line {records[rows[0]][0]}" for name, rows in by_series.items()],
    )


def _in_order(times: TimeColumn, by_series: dict[str, list[int]]) -> dict[str, list[int]]:
    found = {name: times.ordered(rows, name) for name, rows in by_series.items()}
    moved = (times.order_without_dates(by_series[name], rows) for name, rows in found.items())
    for warning in (next(filter(None, moved), ""), times.gaps(found.values())):
        if warning:
            warn_user(warning)
    return found


def _series_names(file: Path, column: str, records: Sequence[Record]) -> Iterator[str]:
    """Yield the name of each frame's series. As of labels, 1 and 1.0 are an error and " a" is "a"."""
    read, known = LabelReader(), {}
    for line, record in records:
        value = record.get(column)
        value = bare(value) if isinstance(value, str) else value
        if is_missing(value):
            raise DataError(f"{file}: line {line} has no {column!r}, so its series is unknown.")
        # Most frames have the id of the one before; 1, 1.0 and True are one key but for their type.
        key = (type(value), value) if isinstance(value, str | float | int) else None
        if key is None or key not in known:
            known[key] = read(f"{file}: the {column!r} in line {line}", value)
        yield known[key]


def _value(file: Path, column: str, frame: Record) -> float:
    line, record = frame
    value: Any = record.get(column)
    found = number_of(value)
    if found is None:
        raise DataError(
            f"{file}: {column!r} in line {line} must be a number. Received {value!r}. A missing one is "
            "empty, ? or NaN. Name the columns with values (`values`, --values) if others are left out."
        )
    return found


def _label(file: Path, column: str, name: str, frames: Sequence[Record]) -> Any:
    values = [record.get(column) for _, record in frames]
    found = {"" if value is None else bare(str(value)) for value in values}
    if len(found) != 1 or not min(found):
        shown = ", ".join(sorted(map(repr, found)))
        raise DataError(
            f"{file}: the series {name!r}, from line {frames[0][0]} on, must have one {column!r}, the same "
            f"in all its lines. It has {shown}."
        )
    return bare(values[0]) if isinstance(values[0], str) else values[0]
