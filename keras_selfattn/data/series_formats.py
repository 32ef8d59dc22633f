"""Series from text: the formats of the UEA and UCR archives, and tables with a frame on each line.

Axes: T (frames), F (features).

Reference: http://www.timeseriesclassification.com, "ts file format"; Dau et al. 2019, "The UCR Time Series
Archive".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.records import Record, iter_lines
from keras_selfattn.data.texts import read_columns
from keras_selfattn.errors import DataError

_MISSING = frozenset({"?", "nan", ""})


def read_ts(file: Path, *, labelled: bool) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Return the series `[T, F]` of a `.ts` file, their labels and lines; labels are needed if `labelled`.

    Raises:
        DataError: for an invalid file, with the line.
    """
    header: dict[str, str] = {}
    series: list[np.ndarray] = []
    labels: list[str] = []
    where: list[int] = []
    lines = ((number, line.strip()) for number, line in _lines(file))
    lines = ((number, line) for number, line in lines if not line.startswith("#"))
    for number, line in lines:
        if line.startswith("@"):
            tag, _, value = line[1:].partition(" ")
            header[tag.lower()] = value.strip()
            if tag.lower() == "data":
                break
            continue
        raise DataError(f"{file}: line {number} comes before @data and is not a tag: {line[:40]!r}.")
    else:
        raise DataError(f"{file} has no @data: it is not a .ts file.")
    has_label = _checked_header(file, header, labelled=labelled)
    said, *known = header.get("classlabel", "").split() or ["false"]
    known = known if said.lower() == "true" else []
    for number, line in lines:
        fields = line.split(":")
        if has_label:
            labels.append(fields.pop().strip())
        series.append(_columns(f"{file}: line {number}", fields, series))
        where.append(number)
        if has_label:
            _check_label(f"{file}: line {number}", labels[-1], known if labelled else [])
    if not series:
        raise DataError(f"{file} has no rows after @data.")
    return series, labels, where


def read_delimited(file: Path) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Return series `[T, 1]`, labels and line numbers of a file with a label and values on each line.

    A label that is an integer written as a float, such as "1.0000000e+00", is that integer.

    Raises:
        DataError: for an invalid file, with the line.
    """
    series, labels, where = [], [], []
    for number, line in _lines(file):
        # A value can be missing between separators, unless they are blanks.
        sign = next((sign for sign in "\t;," if sign in line), None)
        label, *values = (part.strip() for part in line.split(sign))
        if not label:
            raise DataError(f"{file}: line {number} has no label before its values.")
        labels.append(_as_integer(label))
        row = _values(f"{file}: line {number}", values)
        known = np.flatnonzero(~np.isnan(row))
        series.append(row[: known[-1] + 1 if len(known) else 0, None])
        where.append(number)
    return series, labels, where


def _checked_header(file: Path, header: dict[str, str], *, labelled: bool) -> bool:
    """Return True if rows end with a label, or a number to predict."""
    if header.get("timestamps", "false").lower() == "true":
        raise DataError(
            f"{file} has time stamps (@timeStamps true), which are not read. Write values at even distances."
        )
    has_label = any(header.get(tag, "").lower().startswith("true") for tag in ("classlabel", "targetlabel"))
    if labelled and not has_label:
        raise DataError(
            f"{file} has neither @classLabel true nor @targetlabel true: its rows have no labels."
        )
    return has_label


def _check_label(where: str, label: str, known: list[str]) -> None:
    if not label:
        raise DataError(f"{where} has no label after its last ':'.")
    if known and label not in known:
        raise DataError(
            f"{where} has the label {label!r}. @classLabel says that they are {', '.join(known)}."
        )


def _columns(where: str, fields: list[str], before: list[np.ndarray]) -> np.ndarray:
    """Return dimensions, each a string of values, as frames `[T, F]`; shorter ones end in NaN."""
    if any("(" in field for field in fields):
        raise DataError(f"{where} has time stamps, which are not read. Write values at even distances.")
    columns = [_values(where, field.split(",")) for field in fields]
    if before and before[0].shape[1] != len(columns):
        raise DataError(f"{where} has {len(columns)} dimensions; the first row has {before[0].shape[1]}.")
    found = np.full((max(map(len, columns), default=0), len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        found[: len(column), place] = column
    return found


def _values(where: str, values: list[str]) -> np.ndarray:
    if len(values) == 1 and not values[0].strip():
        return np.zeros(0, np.float32)
    try:
        found = np.array([np.nan if _is_missing(value) else float(value) for value in values], np.float64)
    except ValueError:
        wrong = next(value for value in values if not _is_missing(value) and not _is_number(value))
        raise DataError(f"{where} has {wrong.strip()[:40]!r} in place of a number.") from None
    return found.astype(np.float32)


def _is_missing(value: str) -> bool:
    return value.strip().lower() in _MISSING


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _as_integer(label: str) -> str:
    if _is_number(label) and abs(float(label)) < 2**53 and float(label) == int(float(label)):
        return str(int(float(label)))
    return label


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without blank ones."""
    found = [(number, line) for number, line in iter_lines(file) if line.strip()]
    if not found:
        raise DataError(f"{file} is empty.")
    return iter(found)


def read_frames(
    file: Path,
    label: str | None,
    row_id: str | None,
    time: str | None,
    values: Sequence[str] | None,
    *,
    separator: str | None = None,
    has_header: bool = True,
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
        has_header: False if its first line is a row.

    Raises:
        DataError: for a missing column, a value that is not a number, or labels that differ; with the line.
    """
    told_by = row_id or "id"
    needed = row_id if label is None else told_by
    wanted = [name for name in (needed, time, label) if name is not None] + list(values or [])
    records = read_columns(file, wanted, separator=separator, has_header=has_header)
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
