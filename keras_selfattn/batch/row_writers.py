"""Rows with their answers as bytes that can be appended to a draft, and the file made of the draft.

Parquet has its table of contents at the end, so nothing can be appended to it. Its draft is a series of Arrow
streams, one for each window, which become one file at the end.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from keras_selfattn.asking.answer_values import cell_text, plain
from keras_selfattn.batch.row_files import PARQUET, Window, arrow
from keras_selfattn.data.formats.arrow_tables import FEATURES_KEY
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files import valid_json
from keras_selfattn.files.atomic import new_file

Answers = Mapping[str, Sequence[Any]]


class RowWriter(Protocol):
    """The form of an output file."""

    def header(self) -> bytes:
        """Return the beginning of the draft."""
        ...

    def encoded(self, window: Window, kept: Sequence[int], answers: Answers) -> tuple[bytes, dict[int, str]]:
        """Return rows of a window as bytes for the draft, and why some cannot be written, by place.

        Args:
            window: the rows.
            kept: the places of the rows that have answers.
            answers: a value for each kept row by the name of its column.
        """
        ...

    def finish(self, draft: Path, target: Path) -> None:
        """Make the file of a whole draft; it appears by rename."""
        ...


def writer_for(path: Path, columns: Sequence[str], names: Sequence[str]) -> RowWriter:
    """Return the form of a file by its ending.

    Args:
        path: the file.
        columns: of the input.
        names: of the answers' columns.

    Raises:
        ConfigError: for another ending.
    """
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        return _SeparatedWriter([*columns, *names], "," if ending == ".csv" else "\t")
    if ending in (".jsonl", ".ndjson"):
        return _JsonLinesWriter()
    if ending == PARQUET:
        return _ParquetWriter([*columns, *names])
    raise ConfigError(
        f"--output must end in .csv, .tsv, .jsonl or .parquet; for a folder of parts it is a folder. "
        f"Received {str(path)!r}."
    )


def plain_values(values: Sequence[Any]) -> list[Any]:
    """Return a column of answers as JSON types.

    Example:

        >>> plain_values([np.float32(0.1), np.float32(1)])
        [0.1, 1.0]
    """
    if values and all(isinstance(value, str) for value in values):
        return list(values)
    if values and all(isinstance(value, np.floating) for value in values):
        return plain(np.array(values))
    return [plain(value) for value in values]


class _TextWriter:
    def header(self) -> bytes:
        return b""

    def finish(self, draft: Path, target: Path) -> None:
        draft.replace(target)


class _JsonLinesWriter(_TextWriter):
    def encoded(self, window: Window, kept: Sequence[int], answers: Answers) -> tuple[bytes, dict[int, str]]:
        columns = {name: plain_values(values) for name, values in answers.items()}
        lines, failed = [], {}
        for place, row in enumerate(kept):
            found = {name: values[place] for name, values in columns.items()}
            record = window.records[row] | found
            if problem := window.problem(row):
                failed[row] = problem
            else:
                lines.append(_json_line(record))
        return b"".join(lines), failed


class _SeparatedWriter(_TextWriter):
    def __init__(self, columns: Sequence[str], separator: str) -> None:
        self._columns, self._separator = columns, separator

    def header(self) -> bytes:
        try:
            return self._line(self._columns)
        except csv.Error:
            raise DataError(
                "The name of a column holds a tab or a line break, which a .tsv cannot: write .csv instead."
            ) from None

    def encoded(self, window: Window, kept: Sequence[int], answers: Answers) -> tuple[bytes, dict[int, str]]:
        columns = {name: plain_values(values) for name, values in answers.items()}
        lines, failed = [], {}
        known = set(self._columns)
        for place, row in enumerate(kept):
            record = window.records[row]
            values = record | {name: values[place] for name, values in columns.items()}
            if problem := window.problem(row):
                failed[row] = problem
                continue
            if not values.keys() <= known:
                other = next(name for name in values if name not in known)
                failed[row] = f"it has a column {other!r}, which the first rows lack: write .jsonl instead"
                continue
            try:
                lines.append(self._line([_cell(values.get(name)) for name in self._columns]))
            except csv.Error:
                failed[row] = "a value holds a tab or a line break, which a .tsv cannot: write .csv instead"
        return b"".join(lines), failed

    def _line(self, cells: Sequence[str]) -> bytes:
        text = io.StringIO()
        if self._separator == "\t":
            if any("\r" in cell for cell in cells):
                raise csv.Error
            csv.writer(
                text, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
            ).writerow(cells)
        else:
            # With "\n" as the end of lines, Python would not quote a text for its "\r".
            quoting = csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL
            csv.writer(text, lineterminator="\n", quoting=quoting).writerow(cells)
        return text.getvalue().encode(errors="replace")


class _ParquetWriter:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def header(self) -> bytes:
        return b""

    def encoded(self, window: Window, kept: Sequence[int], answers: Answers) -> tuple[bytes, dict[int, str]]:
        pa = arrow()
        if window.table is not None:
            columns = {
                name: window.table.column(name).take(pa.array(kept, pa.int64()))
                for name in window.table.schema.names
            }
        else:
            records = [window.records[row] for row in kept]
            names = dict.fromkeys([*self._columns, *(name for record in records for name in record)])
            columns = {
                name: _arrow_column([record.get(name) for record in records])
                for name in names
                if name not in answers
            }
        columns |= {name: _arrow_column(values) for name, values in answers.items()}
        batch = pa.record_batch(columns, metadata=_class_metadata(window))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return sink.getvalue().to_pybytes(), {}

    def finish(self, draft: Path, target: Path) -> None:
        pa, parquet = arrow(), arrow("pyarrow.parquet")
        schema, named = None, None
        for batch in _streams(draft):
            found, named = batch.schema.remove_metadata(), named or batch.schema.metadata
            if schema is None:
                schema = found
            elif found != schema:
                schema = _unified(schema, found)
        schema = schema or pa.schema([(name, pa.null()) for name in self._columns])
        schema = schema.with_metadata(named)
        with new_file(target) as file, parquet.ParquetWriter(file, schema) as whole:
            for batch in _streams(draft):
                whole.write_table(_as_schema(batch, schema))
        draft.unlink()


def _class_metadata(window: Window) -> dict[bytes, bytes] | None:
    """Return the metadata that names the classes of a window's columns, which stay numbers in Parquet."""
    metadata = None if window.table is None else window.table.schema.metadata
    return {FEATURES_KEY: metadata[FEATURES_KEY]} if metadata and FEATURES_KEY in metadata else None


def _streams(draft: Path) -> Any:
    """Yield the batches of the streams that stand one after another."""
    pa = arrow()
    with draft.open("rb") as file:
        while file.peek(1):
            with pa.ipc.open_stream(file) as stream:
                yield from stream


def _unified(one: Any, other: Any) -> Any:
    """Return the schema of both; a column whose types have nothing in common becomes text."""
    pa = arrow()
    found = []
    for name in dict.fromkeys([*one.names, *other.names]):
        fields = [schema.field(name) for schema in (one, other) if name in schema.names]
        try:
            schemas = [pa.schema([field]) for field in fields]
            found.append(pa.unify_schemas(schemas, promote_options="permissive").field(0))
        except pa.ArrowException:
            found.append(pa.field(name, pa.string()))
    return pa.schema(found)


def _as_schema(batch: Any, schema: Any) -> Any:
    pa = arrow()
    table = pa.Table.from_batches([batch])
    if table.schema == schema:
        return table
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table.column(field.name)
        is_other = field.type == pa.string() and column.type not in (pa.string(), pa.null())
        columns.append(_as_texts(column.to_pylist()) if is_other else column.cast(field.type))
    return pa.table(columns, schema=schema)


def _as_texts(values: Sequence[Any]) -> Any:
    # An empty text stays one.
    missing = [value is None or value != value for value in values]  # noqa: PLR0124  NaN
    texts = [
        None if none else _cell(value).encode(errors="replace").decode()
        for none, value in zip(missing, values, strict=True)
    ]
    return arrow().array(texts, arrow().string())


def _arrow_column(values: Sequence[Any]) -> Any:
    pa = arrow()
    rows = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    dtype = getattr(values[0], "dtype", None) if values else None
    numeric = dtype is not None and dtype.kind in "fiub"
    if numeric and all(isinstance(value, np.generic) for value in values):
        return pa.array(np.array(values))
    if numeric and np.ndim(values[0]) == 1:
        return pa.array(rows, pa.list_(pa.from_numpy_dtype(dtype)))
    try:
        return pa.array(rows)
    except (UnicodeEncodeError, pa.ArrowException):
        # Values of several types, and halves of surrogate pairs, which have no UTF-8.
        return _as_texts(rows)


def _json_line(record: dict[str, Any]) -> bytes:
    try:
        return valid_json.dumps(record, ensure_ascii=False, default=_json_value).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry escaped
        return valid_json.dumps(record, default=_json_value).encode() + b"\n"


def _json_value(value: Any) -> Any:
    """Return a value of Arrow that is no JSON type, such as a date, as one."""
    if isinstance(value, bytes | np.ndarray | np.generic):
        return plain(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    is_json = value is None or isinstance(value, bool | int | float | list | dict)
    return cell_text(value if is_json else _json_value(value), default=_json_value)
