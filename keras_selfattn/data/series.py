"""Series with their targets from files: `.ts`, UCR's `.tsv` and `.txt`, `.npz`, and tables of frames.

Axes: T (frames), F (features).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.formats.npz_files import read_arrays
from keras_selfattn.data.formats.plain_numbers import bare, number_of
from keras_selfattn.data.formats.separators import checked_separator
from keras_selfattn.data.formats.ts_files import read_ts
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.series_formats import read_delimited, read_frames
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.label_names import LabelReader, is_missing, without_column
from keras_selfattn.rows.series import SERIES
from keras_selfattn.rows.targets import NUMBERS, ONE_LABEL

_TABLES = (".csv", ".jsonl", ".ndjson")
_ENDINGS = (".ts", ".tsv", ".txt", ".npz", *_TABLES)
# The command line's options, for arguments that have other names there.
_FLAGS = {"row_id": " (--id)", "time_format": " (--time-format)"}


def read_series(
    path: str | Path,
    *,
    label: str | None = None,
    row_id: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    values: str | Sequence[str] | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read series and the label of each.

    - `.ts`, the form of the UEA and UCR archives, aeon and sktime: dimensions separated by ":", values by
      ",", "?" is missing, the label last. Without time stamps. Rows must agree with the header.
    - `.tsv` and `.txt`, UCR's older forms: the label, then the values, separated by tabs, semicolons, commas
      or blanks; NaN at the end pads shorter series.
    - `.npz` with `x`, `[rows, length, features]` or `[rows, length]`, and `y`; with `lengths`, `[rows]`,
      if series are shorter. Pickled data is not read.
    - `.csv`, `.jsonl`, `.ndjson` with a frame on each line: a column identifies the series, the label is
      repeated.

    Args:
        path: the file.
        label: a table's column with the labels; "label" if None.
        row_id: a table's column that identifies the series of a frame; "id" if None.
        time: a table's column that orders the frames of a series, by value or by date; by default the order
            of lines.
        time_format: the form of `time` for `datetime.strptime`, such as "%d.%m.%Y %H:%M"; by default numbers
            or ISO 8601, with or without offsets.
        values: a table's columns with values, in a list, or in a text with commas between them; by
            default all others.
        separator: the separator of columns of a `.csv`, as for `records.iter_records`.
        has_header: False if the first line of a `.csv` is a row; its columns are then "1", "2", …

    Raises:
        ConfigError: for a column, a separator or no header with a file that is not a table; for a
            `time_format` without `time`.
        DataError: if the file is missing or of another kind, or does not hold labelled series, or times
            cannot be ordered; with the line or row.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "gestures.ts")
        ...     _ = file.write_text("@classLabel true up down\\n@data\\n1,2,3:0,0,1:up\\n5,3:1,0:down\\n")
        ...     rows = read_series(file)
        >>> [row.shape for row in rows.inputs], rows.targets
        ([(3, 2), (2, 2)], ['up', 'down'])
    """
    file = Path(path)
    columns = {"label": label, "row_id": row_id, "time": time, "time_format": time_format, "values": values}
    series, labels, where = _read(file, columns, separator, has_header, "labels")
    read = LabelReader()
    names = [_name(file, row, each, read) for row, each in enumerate(labels)]
    return LabelledRows(series, names, str(file), where, kind=SERIES, target_kind=ONE_LABEL)


def read_regression(
    path: str | Path,
    *,
    label: str | None = None,
    row_id: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    values: str | Sequence[str] | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read series and the number of each, or several in an `.npz`; otherwise like `read_series`.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "meals.csv")
        ...     _ = file.write_text("id,label,load\\na,2.5,1\\na,2.5,3\\nb,4,7\\n")
        ...     rows = read_regression(file)
        >>> [row.shape for row in rows.inputs], [target.tolist() for target in rows.targets]
        ([(2, 1), (1, 1)], [[2.5], [4.0]])
    """
    file = Path(path)
    columns = {"label": label, "row_id": row_id, "time": time, "time_format": time_format, "values": values}
    series, targets, where = _read(file, columns, separator, has_header, "numbers")
    numbers = [_numbers(file, row, each) for row, each in enumerate(targets)]
    return LabelledRows(series, numbers, str(file), where, kind=SERIES, target_kind=NUMBERS)


def read_long_series(
    path: str | Path,
    *,
    row_id: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    values: str | Sequence[str] | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> list[np.ndarray]:
    """Read series without targets, to forecast: the files of `read_series`, with or without labels.

    A table without a column "id" is one series, unless `row_id` names another column. UCR's `.tsv` and `.txt`
    have a label first.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "load.csv")
        ...     _ = file.write_text("hour,load\\n1,5\\n0,4\\n")
        ...     [series.tolist() for series in read_long_series(file, time="hour")]
        [[[4.0], [5.0]]]
    """
    file = Path(path)
    columns = {"row_id": row_id, "time": time, "time_format": time_format, "values": values}
    return _read(file, columns, separator, has_header, None).series


class _Series(NamedTuple):
    """Series `[T, F]`, their targets or none, and the line of each, if the file has lines."""

    series: list[np.ndarray]
    targets: Sequence[Any]
    where: Sequence[int | str] | None = None


def _read(
    file: Path,
    columns: Mapping[str, Any],
    separator: str | None,
    has_header: bool,
    targets: str | None,
) -> _Series:
    """Return the content of a file with its "labels" or "numbers", or without."""
    labelled = targets is not None
    ending = checked_ending(file, _ENDINGS)
    if ending not in _TABLES:
        _check_no_columns(file, columns)
        # Other files with columns need no option: their content shows the separator.
        checked_separator(file, separator, has_header, (".csv",))
    if ending == ".ts":
        return _Series(*read_ts(file, targets))
    if ending in (".tsv", ".txt"):
        return _Series(*read_delimited(file))
    if ending == ".npz":
        return _Series(*_read_arrays(file, labelled=labelled))
    label = (columns["label"] or "label") if labelled else None
    names = None if columns["values"] is None else _names(columns["values"])
    asked = label, columns["row_id"], columns["time"], names
    form = {"time_format": columns["time_format"], "separator": separator, "has_header": has_header}
    return _Series(*read_frames(file, *asked, **form))


def _names(values: str | Sequence[str]) -> list[str]:
    """Return the names of columns, from a list or from a text with commas between them."""
    if isinstance(values, str):
        return [bare(name) for name in values.split(",")]
    names = ordered_rows(values)
    if not isinstance(names, list | tuple | np.ndarray) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            "`values` must be names of columns, in a list, or in a text with commas between them. "
            f"Received {values!r:.80}."
        )
    if not len(names):
        raise ConfigError("`values` has no column. Leave it out for all columns that have no other part.")
    return list(map(str, names))


def _check_no_columns(file: Path, columns: Mapping[str, Any]) -> None:
    """Raise ConfigError if a column is named for a file without columns."""
    for name, column in columns.items():
        if column is not None:
            what = "is for the times" if name == "time_format" else "names a column"
            raise ConfigError(
                f"`{name}`{_FLAGS.get(name, '')} {what} of a table, a file ending in "
                f"{' or '.join(_TABLES)}. Received {column!r} for {file}: leave it out."
            )


def _read_arrays(file: Path, *, labelled: bool) -> tuple[list[np.ndarray], Sequence[Any]]:
    instead = "Pad series of different lengths to one array `x` and store the length of each as `lengths`."
    needed = ("x", "y") if labelled else ("x",)
    arrays = read_arrays(file, needed, instead, optional=("lengths",))
    x = arrays["x"]
    if x.ndim not in (2, 3) or x.dtype.kind not in "biuf":
        raise DataError(
            f"{file}: `x` must be numbers [rows, length, features] or [rows, length]. Received {x.dtype} "
            f"{list(x.shape)}."
        )
    lengths = arrays.get("lengths", np.full(len(x), x.shape[1]))
    counts = {"y": len(arrays["y"])} if labelled and arrays["y"].ndim else {"y": 0} if labelled else {}
    for name, count in {**counts, "lengths": len(np.atleast_1d(lengths))}.items():
        if count != len(x):
            raise DataError(f"{file}: `x` has {len(x)} rows, `{name}` has {count}.")
    if lengths.dtype.kind not in "iu" or lengths.min(initial=0) < 0 or lengths.max(initial=0) > x.shape[1]:
        raise DataError(f"{file}: `lengths` must be integers from 0 to {x.shape[1]}, the length of `x`.")
    x = (
        x.reshape(*x.shape[:2], -1)
        if x.ndim == 2 and x.size
        else x.reshape(*x.shape[:2], *x.shape[2:] or (1,))
    )
    rows = [row[:length] for row, length in zip(x, lengths, strict=True)]
    return rows, list(without_column(arrays["y"])) if labelled else []


def _name(file: Path, row: int, label: Any, read: LabelReader) -> str:
    if isinstance(label, np.ndarray) and label.ndim:
        raise DataError(f"{file}: row {row} (counted from 0) has several labels. Give one a row.")
    if is_missing(label) or not str(label).strip():
        raise DataError(f"{file}: row {row} (counted from 0) has no label.")
    return bare(read(f"{file}: the label of row {row} (counted from 0)", label))


def _numbers(file: Path, row: int, target: Any) -> np.ndarray:
    try:
        given = number_of(target) if isinstance(target, str) else target
        numbers = np.asarray("" if isinstance(target, bool) else given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        raise DataError(
            f"{file}: the target of row {row} (counted from 0) must be a finite number. Received {target!r}."
        )
    return numbers
