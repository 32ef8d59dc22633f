"""Tables read a window of rows at a time, from any place on: CSV, TSV, JSON Lines, Parquet, lines of text."""

import bisect
import functools
import importlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from keras_selfattn.data.formats.arrow_tables import Feature, class_features, named_classes
from keras_selfattn.data.formats.arrow_values import held_values, plain_views, unreadable
from keras_selfattn.data.formats.file_lines import Place
from keras_selfattn.data.formats.records import (
    FIRST_ROWS,
    TEXT_LINES,
    Row,
    columns_of,
    iter_rows,
    iter_text_lines,
)
from keras_selfattn.data.formats.separators import checked_separator
from keras_selfattn.errors import ConfigError, DataError

TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", TEXT_LINES)
PARQUET = ".parquet"
ENDINGS = (*TEXT_ENDINGS, PARQUET)

# Rows that are sorted by length together: enough that a batch holds similar lengths, few enough for memory.
_WINDOW_ROWS = 8192
_WINDOW_BYTES = 2**24


@dataclass
class Window:
    """Some rows of a table, one after another.

    Args:
        lines: the number of each row: of its first line in a text file, of itself in Parquet; from 1 on.
        records: the values of each row by column.
        end: the place after the window, as JSON types.
        done: bytes, or rows of Parquet, before that place.
        problems: the reasons of the rows that cannot be read, by number.
        table: the rows of a Parquet file as Arrow has them, a RecordBatch.
    """

    lines: list[int]
    records: Sequence[dict[str, Any]]
    end: list[int]
    done: int
    problems: dict[int, str] = field(default_factory=dict)
    table: Any = None

    def cut(self, end: Sequence[int]) -> "Window":
        """Return the rows before a place; of a text file a window ends there or before."""
        extra = self.end[0] - end[0]
        if self.table is None or extra <= 0:
            return self
        table = self.table.slice(0, len(self.table) - extra)
        records = _Records(table, self.records.features)  # type: ignore[attr-defined]
        return Window(self.lines[: len(table)], records, [*end], end[0], self.problems, table)

    def problem(self, row: int) -> str:
        """Return why a row of Parquet cannot be read, or "": a class has no name, Python no such value."""
        return self.records.problem(row) if isinstance(self.records, _Records) else ""


class RowFile(Protocol):
    """A table that is read window by window.

    Attributes:
        columns: names of the columns; of JSON Lines those of the first 1,000 rows.
        total: bytes, or rows of Parquet.
    """

    columns: list[str]
    total: int

    def windows(self, start: Sequence[int] | None) -> Iterator[Window]:
        """Yield the windows from a place on; None begins with the first row."""
        ...

    def ends(self, start: Sequence[int] | None) -> Iterator[list[int]]:
        """Yield the ends of windows from a place on, for others to read."""
        ...

    def first(self) -> dict[str, Any]:
        """Return the first row that can be read, of the first 1,000; an empty one for none."""
        ...


def open_rows(path: Path, separator: str | None = None, has_header: bool = True) -> RowFile:
    """Return the table of a file; `separator` and `has_header` are as for `records.iter_records`.

    Raises:
        ConfigError: for a separator, or no header, of a file without one, and if pyarrow is missing.
        DataError: for a file that is missing, empty, of another kind, or not whole.
    """
    if path.suffix.lower() == PARQUET:
        checked_separator(path, separator, has_header)
        return _ParquetReader(path)
    return _TextReader(path, separator, has_header)


class _TextReader:
    def __init__(self, path: Path, separator: str | None, has_header: bool) -> None:
        self._path, self._form = path, {"separator": separator, "has_header": has_header}
        if path.suffix.lower() == TEXT_LINES:
            checked_separator(path, **self._form)
            next(iter_text_lines(path))  # or it is empty
            self.columns = ["text"]
        else:
            self.columns = columns_of(path, **self._form)
        self.total = path.stat().st_size

    def windows(self, start: Sequence[int] | None) -> Iterator[Window]:
        begin = Place(*start) if start else Place()
        window = Window([], [], [*begin], 0)
        for row in self._rows(begin):
            if row.values is None:
                window.problems[row.line] = row.problem
            else:
                window.lines.append(row.line)
                window.records.append(row.values)  # type: ignore[attr-defined]
            window.end, window.done = [*row.end], row.end.offset
            rows = len(window.lines) + len(window.problems)
            if rows >= _WINDOW_ROWS or row.end.offset - begin.offset > _WINDOW_BYTES:
                yield window
                begin = row.end
                window = Window([], [], [*begin], begin.offset)
        if window.lines or window.problems:
            yield window

    def first(self) -> dict[str, Any]:
        rows = itertools.islice(self._rows(Place()), FIRST_ROWS)
        return next((row.values for row in rows if row.values is not None), {})

    def _rows(self, start: Place) -> Iterator[Row]:
        if self._path.suffix.lower() == TEXT_LINES:
            return iter_text_lines(self._path, start=start)
        return iter_rows(self._path, **self._form, start=start)

    def ends(self, start: Sequence[int] | None) -> Iterator[list[int]]:
        return (window.end for window in self.windows(start))


class _ParquetReader:
    def __init__(self, path: Path) -> None:
        parquet = arrow("pyarrow.parquet")
        if not path.is_file():
            raise DataError(f"There is no file {path}. Current folder: {Path.cwd()}.")
        self._path = path
        try:
            self._file = parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
            schema = self._file.schema_arrow  # reads the types
        except (OSError, arrow().ArrowException) as error:
            raise self._broken(error) from error
        self._features = class_features(path, schema)
        self.columns = schema.names
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise DataError(f"{path} has two columns named {twice[0]!r}. Rename one.")
        known = self._file.metadata
        self.total = known.num_rows
        groups = [known.row_group(place) for place in range(known.num_row_groups)]
        self._ends = list(itertools.accumulate(group.num_rows for group in groups))
        size = sum(group.total_byte_size for group in groups) // max(1, self.total)
        self._rows = max(1, min(_WINDOW_ROWS, _WINDOW_BYTES // max(1, size)))

    def windows(self, start: Sequence[int] | None) -> Iterator[Window]:
        row = start[0] if start else 0
        group = bisect.bisect_right(self._ends, row)
        skipped = row - (self._ends[group - 1] if group else 0)
        try:
            batches = self._file.iter_batches(self._rows, row_groups=range(group, len(self._ends)))
            for batch in batches:
                rest = plain_views(batch.slice(min(skipped, len(batch))))
                skipped -= len(batch) - len(rest)
                if len(rest):
                    lines = list(range(row + 1, row + len(rest) + 1))
                    row += len(rest)
                    yield Window(lines, _Records(rest, self._features), [row], row, table=rest)
        except (OSError, arrow().ArrowException) as error:
            raise self._broken(error) from error

    def ends(self, start: Sequence[int] | None) -> Iterator[list[int]]:
        row = start[0] if start else 0
        while row < self.total:
            row = min(row + self._rows, self.total)
            yield [row]

    def first(self) -> dict[str, Any]:
        try:
            batch = next(self._file.iter_batches(1), None)
        except (OSError, arrow().ArrowException) as error:
            raise self._broken(error) from error
        return {} if batch is None else _Records(plain_views(batch), self._features)[0]

    def _broken(self, error: Exception) -> DataError:
        return unreadable(self._path, error, ", and run the command again")


class _Records(Sequence):
    """The rows of a RecordBatch, made into records when they are asked for, with the names of their classes.

    Args:
        batch: the rows.
        features: of the columns with classes, as `arrow_tables.class_features` returns them.
    """

    def __init__(self, batch: Any, features: Mapping[str, Feature]) -> None:
        self._batch, self.features = batch, features
        self._columns: dict[str, list[Any]] = {}
        self._refused: dict[int, str] = {}

    def problem(self, row: int) -> str:
        """Return why a row cannot be read, or "": of all classes, and of the columns that were asked for."""
        return self._refused.get(row) or self._classes[1].get(row, "")

    @functools.cached_property
    def _classes(self) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """The columns with classes by name, and the rows with one that has none."""
        columns, problems = {}, {}
        for name, feature in self.features.items():
            columns[name] = values = self._held(name)
            for row, value in enumerate(values):
                try:
                    values[row] = named_classes(value, feature, f"the {name!r}")
                except DataError as error:
                    problems[row] = str(error)
        return columns, problems

    def column(self, name: str) -> list[Any]:
        named = self._classes[0].get(name)
        return self._held(name) if named is None else named

    def _held(self, name: str) -> list[Any]:
        if name not in self._columns:
            self._columns[name], refused = held_values(self._batch.column(name))
            self._refused |= {row: f"the {name!r}: {reason}" for row, reason in refused.items()}
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._batch)

    def __getitem__(self, place: Any) -> Any:
        return self._made[place]

    @functools.cached_property
    def _made(self) -> list[dict[str, Any]]:
        names = self._batch.schema.names
        rows = zip(*map(self.column, names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]


def values_of(window: Window, column: str) -> list[Any]:
    """Return a column of a window; None where a row has none."""
    if isinstance(window.records, _Records):
        return window.records.column(column)
    return [record.get(column) for record in window.records]


def arrow(name: str = "pyarrow") -> Any:
    """Return pyarrow or a module of it.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError("Parquet needs pyarrow: pip install 'keras-selfattn[parquet]'") from error
