"""Rows of CSV, TSV and JSON Lines files, read from their lines and checked one by one, with one in memory."""

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.formats.file_lines import Place, RowLines, opened_content
from keras_selfattn.data.formats.separators import checked_separator, other_separator
from keras_selfattn.errors import DataError

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".jsonl": None, ".ndjson": None}

# The ending of files with a text in each line.
TEXT_LINES = ".txt"
# Rows of JSON Lines that tell the columns.
FIRST_ROWS = 1000

# The line of a row's beginning, and its values by column.
Record = tuple[int, dict[str, Any]]


def iter_records(
    path: str | Path,
    wrap: Callable[[BinaryIO], BinaryIO] | None = None,
    *,
    separator: str | None = None,
    has_header: bool = True,
) -> Iterator[Record]:
    """Yield the rows of a `.csv`, `.tsv`, `.jsonl` or `.ndjson` file in UTF-8, by column name.

    A .csv follows RFC 4180: quotes may enclose commas and line breaks. A .tsv follows IANA's
    text/tab-separated-values, without quoting. Empty lines are skipped.

    Args:
        path: the file; packed by gzip it ends in `.csv.gz` and the like.
        wrap: wraps the opened file, for example in a progress bar that counts its bytes.
        separator: the separator of columns of a .csv or .tsv: one character, or the name of one, such
            as ";" or "\\t"; by default a comma or a tab, by the file's ending.
        has_header: False for a .csv or .tsv whose first line is a row; its columns are "1", "2", …

    Raises:
        ConfigError: for an invalid separator; for one, or no header, of a file of JSON Lines.
        DataError: if the file is missing, empty, of another kind, not UTF-8, or a row cannot be parsed; with
            the line, when the iteration reaches that row.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label\\ngood,+\\n")
        ...     list(iter_records(file))
        [(2, {'text': 'good', 'label': '+'})]
    """
    for row in iter_rows(path, wrap, separator=separator, has_header=has_header):
        if row.values is None:
            raise DataError(row.problem)
        yield row.line, row.values


class Row(NamedTuple):
    """A row of a file: its values by column, or its problem, and the place after it."""

    line: int
    values: dict[str, Any] | None
    problem: str
    end: Place


def iter_rows(
    path: str | Path,
    wrap: Callable[[BinaryIO], BinaryIO] | None = None,
    *,
    separator: str | None = None,
    has_header: bool = True,
    start: Place | None = None,
) -> Iterator[Row]:
    """Yield the rows as `iter_records` does, and go on after a row that cannot be read.

    Args:
        path: as for `iter_records`.
        wrap: as for `iter_records`.
        separator: as for `iter_records`.
        has_header: as for `iter_records`.
        start: the end of an earlier row, to go on from there.

    Raises:
        ConfigError: as for `iter_records`.
        DataError: if the file is missing, empty, of another kind, or has no header; for a row of over 64 MiB.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label\\ngood,+\\nbad\\nfine,+\\n")
        ...     rows = list(iter_rows(file))
        ...     again = list(iter_rows(file, start=rows[1].end))
        >>> [row.line for row in rows if row.problem], again == rows[2:]
        ([3], True)
    """
    file = Path(path)
    ending = checked_ending(file, _SEPARATORS)
    separator = checked_separator(file, separator, has_header) or _SEPARATORS[ending]
    with opened_content(file, wrap) as content:
        if separator is None:
            yield from _json_rows(RowLines(file, content, start))
        else:
            yield from _rows(file, content, separator, start, has_header=has_header, quoted=ending != ".tsv")


def iter_text_lines(
    path: str | Path, wrap: Callable[[BinaryIO], BinaryIO] | None = None, *, start: Place | None = None
) -> Iterator[Row]:
    """Yield each line of a file in UTF-8 as a row with a `text`, an empty line too, without its line end.

    Args:
        path: as for `iter_records`.
        wrap: as for `iter_records`.
        start: as for `iter_rows`.

    Raises:
        DataError: if the file is missing or empty; for a line of over 64 MiB.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "texts.txt")
        ...     _ = file.write_bytes(b"Ada wrote.\\r\\n\\nShe came.")
        ...     [row.values for row in iter_text_lines(file)]
        [{'text': 'Ada wrote.'}, {'text': ''}, {'text': 'She came.'}]
    """
    file = Path(path)
    with opened_content(file, wrap) as content:
        lines = RowLines(file, content, start)
        line = lines.end.line
        for each in lines:
            problem = lines.next_row()
            values = None if problem else {"text": each.removesuffix("\n").removesuffix("\r")}
            yield Row(line, values, problem, lines.end)
            line = lines.end.line


def columns_of(path: str | Path, *, separator: str | None = None, has_header: bool = True) -> list[str]:
    """Return the columns of a table: those of the header, or all of the first 1,000 rows of JSON Lines.

    Without a header they are the numbers of the first line's columns.

    Raises:
        ConfigError: as for `iter_records`.
        DataError: if the file is missing, empty, of another kind, or has no header.
    """
    file = Path(path)
    ending = checked_ending(file, _SEPARATORS)
    separator = checked_separator(file, separator, has_header) or _SEPARATORS[ending]
    if separator is None:
        rows = itertools.islice(iter_rows(file), FIRST_ROWS)
        return list(dict.fromkeys(name for row in rows for name in row.values or ()))
    with opened_content(file) as opened:
        return _columns(RowLines(file, opened, lone_returns=True), separator, has_header, ending != ".tsv")[0]


def iter_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file in UTF-8 with their numbers, from 1 on, without their line ends.

    Raises:
        DataError: if the file is missing, empty, or not UTF-8; with the line, when the iteration reaches it.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "lines.txt")
        ...     _ = file.write_text("a\\nb\\n")
        ...     list(iter_lines(file))
        [(1, 'a'), (2, 'b')]
    """
    file = Path(path)
    with opened_content(file) as opened:
        lines = RowLines(file, opened)
        for number, line in enumerate(lines, start=1):
            if problem := lines.next_row():
                raise DataError(problem)
            yield number, line.rstrip("\r\n")


def json_list(path: str | Path) -> list[dict[str, Any]]:
    """Return the objects of a `.json` file, which is one list of them, in UTF-8; it is read as a whole.

    Raises:
        DataError: if the file is missing, empty, not UTF-8, no JSON, or no list of objects.
    """
    file = Path(path)
    with opened_content(file) as opened:
        content = opened.read()
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
    except _TwiceError as error:
        raise DataError(
            f"{file} cannot be parsed: it has two values of {error.args[0]!r}. Keep one."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8: byte 0x{content[error.start]:02x}. Convert it first."
        ) from None
    except (ValueError, RecursionError) as error:
        hint = " Name a file with an object a line .jsonl." if content.lstrip()[:1] == b"{" else ""
        raise DataError(f"{file} cannot be parsed: it is not JSON ({error}).{hint}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DataError(
            f"{file} must be a JSON list of objects. Received {content[:40].decode(errors='replace')!r}."
        )
    return found


def _rows(
    file: Path, content: BinaryIO, separator: str, start: Place | None, *, has_header: bool, quoted: bool
) -> Iterator[Row]:
    """Rows of separated values. pandas is not used: it accepts an extra comma."""
    lines = RowLines(file, content, lone_returns=True)
    columns, first, problem = _columns(lines, separator, has_header, quoted)
    if start is not None and start.offset >= lines.end.offset:
        lines = RowLines(file, content, start, lone_returns=True)
    elif not has_header:
        values = None if problem else dict(zip(columns, first, strict=True))
        yield Row(1, values, problem, lines.end)
    raw: list[str] = []
    reader = _reader(_noted(lines, raw), separator, quoted)
    while True:
        begin = lines.end.line
        raw.clear()
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = other_separator(file, columns)
            problem = f"{file} cannot be parsed: {error}, in the row from line {begin} on.{hint}"
            yield Row(begin, None, lines.next_row() or problem, lines.end)
            continue
        problem = lines.next_row()
        if record:
            problem = problem or _quote_problem(file, begin, raw, separator, record) if quoted else problem
            problem = problem or _width_problem(file, begin, columns, first, record)
            values = None if problem else dict(zip(columns, record, strict=True))
            yield Row(begin, values, problem, lines.end)


def _columns(
    lines: RowLines, separator: str, has_header: bool, quoted: bool
) -> tuple[list[str], list[str], str]:
    """Return the names of the columns, after reading the first record; that record; its problem as a row."""
    file, raw = lines.file, []
    try:
        first = next(filter(None, _reader(_noted(lines, raw), separator, quoted)), None)
    except csv.Error as error:
        hint = other_separator(file, [_first_line(file)])
        raise DataError(f"{file} cannot be parsed: {error}, in the row from line 1 on.{hint}") from error
    if problem := lines.next_row():
        raise DataError(problem)
    if first is None:
        raise DataError(f"{file} is empty.")
    problem = _quote_problem(file, 1, raw, separator, first) if quoted else ""
    if not has_header:
        return [str(number) for number, _ in enumerate(first, start=1)], first, problem
    if problem:
        raise DataError(problem)
    return _checked_header(file, first), first, ""


def _noted(lines: Iterable[str], raw: list[str]) -> Iterator[str]:
    """Yield the lines, and keep them in a list for messages."""
    for line in lines:
        raw.append(line)
        yield line


def _quote_problem(file: Path, line: int, raw: Sequence[str], separator: str, record: list[str]) -> str:
    """Return the problem of a row with a blank before the quotes of a field, which hold it no more; or "".

    Such quotes would be part of the value, and a separator between them would cut it.
    """
    if separator == " " or not any(' "' in each for each in raw):
        return ""
    suspects = [field for field in record if field[:1] == " " and field.lstrip(" ")[:1] == '"']
    if not suspects or not _holds_quoted(raw, separator, record):
        return ""
    return (
        f"{file} cannot be parsed: line {line} has a blank before a quote, {suspects[0]!r:.40}: quotes of "
        "a field are its first and last characters (RFC 4180). Remove the blanks after the separators."
    )


def _holds_quoted(raw: Sequence[str], separator: str, record: list[str]) -> bool:
    """Return True if a row has other values once blanks around quotes are skipped."""
    after = re.compile(rf'" +(?=[{re.escape(separator)}\r\n]|\Z)')
    for lines in (raw, [after.sub('"', line) for line in raw]):
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
        try:
            found = next(filter(None, reader), [])
        except csv.Error:  # a blank after the quotes, or quotes that hold a part of the value only
            continue
        pairs = list(zip(found, record, strict=False))
        return len(found) != len(record) or any(new not in (old, old.lstrip(" ")) for new, old in pairs)
    return False


def _reader(lines: Iterable[str], separator: str, quoted: bool) -> Any:
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    # Larger than any field: Python's limit of 131,072 characters is for untrusted input of unknown size.
    csv.field_size_limit(2**31 - 1)
    return csv.reader(iter(lines), delimiter=separator, quoting=quoting, strict=True)


def _width_problem(file: Path, line: int, columns: list[str], first: list[str], record: list[str]) -> str:
    """Return the problem of a row with other fields than the first line; "" if there is none."""
    if len(record) == len(columns):
        return ""
    hint = other_separator(file, first) or " Text that holds the separator goes in quotes, in a .csv."
    return (
        f"{file} cannot be parsed: line {line} has {len(record)} fields where the first line has "
        f"{len(columns)}.{hint}"
    )


def _first_line(file: Path) -> str:
    """Return a line that cannot be parsed, unchanged."""
    with opened_content(file) as content:
        return content.readline().decode("utf-8-sig", errors="replace").strip()


def _checked_header(file: Path, names: list[str]) -> list[str]:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{file} has two columns named {twice[0]!r}. Rename one.")
    return names


def _json_rows(lines: RowLines) -> Iterator[Row]:
    blank = lines.end.offset == 0
    line = lines.end.line
    for content in lines:
        problem = lines.next_row()
        if content.strip():
            blank, values = False, None
            if not problem:
                values, problem = _json_record(lines.file, line, content)
            yield Row(line, values, problem, lines.end)
        line = lines.end.line
    if blank:
        raise DataError(f"{lines.file} is empty.")


def _json_record(file: Path, line: int, content: str) -> tuple[dict[str, Any] | None, str]:
    try:
        record = json.loads(content, object_pairs_hook=_object)
    except _TwiceError as error:
        return None, f"{file} cannot be parsed: line {line} has two values of {error.args[0]!r}. Keep one."
    except (ValueError, RecursionError) as error:
        return None, f"{file} cannot be parsed: line {line} is not JSON ({error})."
    if not isinstance(record, dict):
        found = content.strip()[:40]
        return None, f"{file} cannot be parsed: line {line} must be a JSON object. Received {found!r}."
    return record, ""


class _TwiceError(Exception):
    """A name that a JSON object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, each of whose names has one value: Python alone would keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found
