"""Values of Arrow as Python's, with nothing lost: nanoseconds, views, and values that Python cannot hold."""

import datetime
import importlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.errors import DataError

# A column, a type or a batch of pyarrow, which need not be installed.
Arrow = Any

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000_000, 3_600_000_000_000, 60_000_000_000, 1_000_000_000
_MICROSECONDS = 26  # characters of "2026-01-02T03:04:05.000006"


def held_values(column: Arrow) -> tuple[list[Any], dict[int, str]]:
    """Return a column as Python's values, and why some cannot be: by place, where the value is None.

    Times of nanoseconds that Python's types cannot hold are texts of ISO 8601, as are all durations of
    nanoseconds: whether pandas is installed makes no difference.

    Args:
        column: an array, or a chunked array.

    Example:

        >>> import pyarrow
        >>> held_values(pyarrow.array([1_500, 2_000, None], pyarrow.time64("ns")))
        (['00:00:00.000001500', datetime.time(0, 0, 0, 2), None], {})
    """
    try:
        return _values(column), {}
    except (OverflowError, ValueError):
        pass
    values, refused = [], {}
    for row in range(len(column)):
        try:
            values += _values(column.slice(row, 1))
        except UnicodeDecodeError as error:
            values.append(None)
            refused[row] = f"it is not UTF-8 ({error.reason}). Write it again as text, or as binary"
        except (OverflowError, ValueError):
            values.append(None)
            refused[row] = f"as {column.type} it is out of range: dates are in the years 1 to 9999"
    return values, refused


def plain_views(batch: Arrow) -> Arrow:
    """Return a RecordBatch with plain strings and lists for views, which few of Arrow's functions take.

    Writers of views are Polars and newer versions of Arrow; the values are the same.
    """
    arrow = _arrow()
    columns = [_without_views(column) for column in batch.columns]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return arrow.RecordBatch.from_arrays(columns, schema=arrow.schema(fields, batch.schema.metadata))


def unreadable(file: Path, error: Exception, again: str = "") -> DataError:
    """Return the error for a file that Arrow cannot read: a type that it does not know, or a part is missing.

    Args:
        file: the file.
        error: of pyarrow.
        again: what follows "Write or copy it again".
    """
    arrow = _arrow()
    reason = (str(error).splitlines() or ["no reason"])[0].rstrip(".")
    if isinstance(error, arrow.ArrowNotImplementedError):
        return DataError(
            f"{file} holds a type that pyarrow {arrow.__version__} cannot read: {reason}. Write the file "
            "without the column, or with it as text or as numbers of 64 bits."
        )
    kind = "Parquet" if file.suffix.lower() == ".parquet" else file.suffix.lower()
    return DataError(f"{file} is not a whole {kind} file: {reason}. Write or copy it again{again}.")


def _values(column: Arrow) -> list[Any]:
    if isinstance(column, _arrow().ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    kind, types = column.type, _arrow().types
    if not _has_nanoseconds(kind):
        return column.to_pylist()
    if types.is_struct(kind):
        names, fields = [field.name for field in kind], map(_values, column.flatten())
        rows = zip(column.is_valid().to_pylist(), zip(*fields, strict=True), strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in rows]
    if not types.is_temporal(kind):
        items = iter(_values(column.flatten()))
        lengths = importlib.import_module("pyarrow.compute").list_value_length(column).to_pylist()
        return [None if length is None else list(itertools.islice(items, length)) for length in lengths]
    counts = column.cast(_arrow().int64()).to_pylist()
    if types.is_duration(kind):
        return [None if count is None else _duration(count) for count in counts]
    return _times(counts, kind)


def _has_nanoseconds(kind: Arrow) -> bool:
    """Return True for a time of nanoseconds, and for lists and structs of one."""
    types = _arrow().types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_nanoseconds(kind.value_type)
    if types.is_struct(kind):
        return any(_has_nanoseconds(field.type) for field in kind)
    return types.is_temporal(kind) and getattr(kind, "unit", "") == "ns"


def _times(counts: Sequence[int | None], kind: Arrow) -> list[Any]:
    """Return times of nanoseconds as Python's, and as text where those would lose some."""
    arrow = _arrow()
    short = arrow.time64("us") if arrow.types.is_time(kind) else arrow.timestamp("us", kind.tz)
    whole = arrow.array([None if count is None else count // 1000 for count in counts], short).to_pylist()
    return [
        value if count is None or count % 1000 == 0 else _precise(value, count % 1000)
        for value, count in zip(whole, counts, strict=True)
    ]


def _precise(value: datetime.datetime | datetime.time, nanoseconds: int) -> str:
    text = value.isoformat(timespec="microseconds")
    end = _MICROSECONDS if isinstance(value, datetime.datetime) else len(text)
    return f"{text[:end]}{nanoseconds:03d}{text[end:]}"


def _duration(count: int) -> str:
    """Return a duration of nanoseconds as ISO 8601 has it, in the form of pandas: "P0DT0H0M1.5S"."""
    days, rest = divmod(count, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    seconds, rest = divmod(rest, _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"P{days}DT{hours}H{minutes}M{seconds}{fraction}S"


def _without_views(column: Arrow) -> Arrow:
    arrow = _arrow()
    wanted = _plain_type(column.type)
    if wanted.equals(column.type):
        return column
    if arrow.types.is_dictionary(wanted):
        return arrow.DictionaryArray.from_arrays(
            column.indices, column.dictionary.cast(wanted.value_type), ordered=wanted.ordered
        )
    try:
        found = column.cast(wanted)
        found.validate()
    except arrow.ArrowException:
        # Older pyarrow has no such cast; that of 26 from views of lists leaves out the end of the last list.
        return arrow.array(column.to_pylist(), wanted)
    return found


def _plain_type(kind: Arrow) -> Arrow:
    """Return a type without views of strings and bytes, at any depth of lists, structs and maps."""
    arrow = _arrow()
    found = kind
    if _is("string_view", kind):
        found = arrow.string()
    elif _is("binary_view", kind):
        found = arrow.binary()
    elif arrow.types.is_struct(kind):
        found = arrow.struct([field.with_type(_plain_type(field.type)) for field in kind])
    elif arrow.types.is_map(kind):
        found = arrow.map_(_plain_type(kind.key_type), _plain_type(kind.item_type), kind.keys_sorted)
    elif arrow.types.is_dictionary(kind):
        found = arrow.dictionary(kind.index_type, _plain_type(kind.value_type), kind.ordered)
    elif any(_is(name, kind) for name in ("list", "list_view", "large_list", "large_list_view")):
        item = kind.value_field.with_type(_plain_type(kind.value_type))
        make = arrow.large_list if _is("large_list", kind) or _is("large_list_view", kind) else arrow.list_
        found = kind if item.equals(kind.value_field) else make(item)
    return found


def _is(name: str, kind: Arrow) -> bool:
    """Return True for a type of Arrow; an older pyarrow that does not know the type has none of it."""
    return getattr(_arrow().types, f"is_{name}", lambda _: False)(kind)


def _arrow() -> Any:
    return importlib.import_module("pyarrow")
