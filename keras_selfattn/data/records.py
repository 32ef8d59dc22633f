"""Rows of CSV, TSV and JSON Lines files, read and checked one by one, with one in memory."""

import csv
import gzip
import io
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from keras_selfattn.data.row_lines import Place, RowLines
from keras_selfattn.errors import ConfigError, DataError

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".jsonl": None, ".ndjson": None}
# Spellings of separators for shells and files that cannot hold a tab.
_SPELLED = {
    **dict.fromkeys((r"\t", r"'\t'", r"$'\t'", "tab"), "\t"),
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
}

_PACKED = ".gz"
# These have a compression of their own, and are no text.
_NEVER_PACKED = (".npz", ".parquet", ".feather")

# Rows of JSON Lines that tell the columns.
_FIRST_ROWS = 1000

# The line of a row's beginning, and its values by column.
Record = tuple[int, dict[str, Any]]


def iter_records(
    path: str | Path,
    wrap: Callable[[BinaryIO], BinaryIO] | None = None,
    *,
    separator: str | None = None,
) -> Iterator[Record]:
    """Yield the rows of a `.csv`, `.tsv`, `.jsonl` or `.ndjson` file in UTF-8, by column name.

    A .csv follows RFC 4180: quotes may enclose commas and line breaks. A .tsv follows IANA's
    text/tab-separated-values, without quoting. Empty lines are skipped.

    Args:
        path: the file; packed by gzip it ends in `.csv.gz` and the like.
        wrap: wraps the opened file, for example in a progress bar that counts its bytes.
        separator: the separator of columns of a .csv or .tsv: one character, or the name of one, such
            as ";" or "\\t"; by default a comma or a tab, by the file's ending.

    Raises:
        ConfigError: for an invalid separator, or one for a file of JSON Lines.
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
    for row in iter_rows(path, wrap, separator=separator):
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
    start: Place | None = None,
) -> Iterator[Row]:
    """Yield the rows as `iter_records` does, and go on after a row that cannot be read.

    Args:
        path: as for `iter_records`.
        wrap: as for `iter_records`.
        separator: as for `iter_records`.
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
    separator = as_separator(separator, file) or _SEPARATORS[ending]
    with _opened(file, wrap) as content:
        if separator is None:
            yield from _json_rows(RowLines(file, content, start))
        else:
            yield from _rows(file, content, separator, start, quoted=ending != ".tsv")


def columns_of(path: str | Path, *, separator: str | None = None) -> list[str]:
    """Return the columns of a table: those of the header, or all of the first 1,000 rows of JSON Lines.

    Raises:
        ConfigError: as for `iter_records`.
        DataError: if the file is missing, empty, of another kind, or has no header.
    """
    file = Path(path)
    ending = checked_ending(file, _SEPARATORS)
    separator = as_separator(separator, file) or _SEPARATORS[ending]
    if separator is None:
        rows = itertools.islice(iter_rows(file), _FIRST_ROWS)
        return list(dict.fromkeys(name for row in rows for name in row.values or ()))
    with _opened(file) as opened:
        return _header(file, opened, separator, ending != ".tsv")[0]


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
    with _opened(file) as opened:
        lines = RowLines(file, opened)
        for number, line in enumerate(lines, start=1):
            if problem := lines.next_row():
                raise DataError(problem)
            yield number, line.rstrip("\r\n")


def ending_of(file: Path) -> str:
    """Return the ending of a file in lower case: the one before ".gz", if it is packed by gzip.

    Example:

        >>> ending_of(Path("rows.TSV")), ending_of(Path("rows.csv.gz"))
        ('.tsv', '.csv')
    """
    packed = file.suffix.lower() == _PACKED
    return (Path(file.stem) if packed else file).suffix.lower()


def checked_ending(file: Path, endings: Collection[str]) -> str:
    """Return the ending of a file as `ending_of` does, if it is known.

    Raises:
        DataError: if it is unknown, or there is no file, or a folder instead; for a packed file that is no
            text.
    """
    ending = ending_of(file)
    if ending in endings and ending in _NEVER_PACKED and file.suffix.lower() == _PACKED:
        raise DataError(f"{file} is packed by gzip, which is for texts. Unpack it: `gunzip {file}`.")
    if ending in endings:
        return ending
    if not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    wrong = "is a folder" if file.is_dir() else "has no known ending"
    raise DataError(f"{file} {wrong}. Give a file ending in {', '.join(endings)}.")


def as_separator(
    separator: str | None, file: Path, endings: Collection[str] = (".csv", ".tsv")
) -> str | None:
    """Return the separator of columns as one character, from any of its spellings; None for None.

    Raises:
        ConfigError: for an invalid separator, or a file with another ending than those given.

    Example:

        >>> as_separator("\\\\t", Path("t.csv")), as_separator("semicolon", Path("t.csv"))
        ('\\t', ';')
    """
    if separator is None:
        return None
    if ending_of(file) not in endings:
        raise ConfigError(
            f"`separator` (--separator) is for files ending in {' or '.join(endings)}. The file is {file}: "
            "leave it out."
        )
    found = _SPELLED.get(separator.lower(), separator) if isinstance(separator, str) else ""
    if len(found) != 1 or found in '"\r\n' or found.isalnum():
        raise ConfigError(
            "`separator` (--separator) must be one character other than a letter, digit, quote or line "
            f"break, such as ';', '|' or '\\t'. Received {separator!r}."
        )
    return found


def other_separator(file: Path, columns: Sequence[str]) -> str:
    """Return a hint for a table whose only column looks like several with another separator, or ""."""
    if len(columns) != 1 or ending_of(file) not in (".csv", ".tsv"):
        return ""
    mark = next((mark for mark in ";\t|," if mark in columns[0]), None)
    if mark is None:
        return ""
    spelled = r"\t" if mark == "\t" else mark
    return (
        f" That is one column with '{spelled}' in its name: a .csv is separated by commas, a .tsv by tabs. "
        f"If '{spelled}' separates the columns, add --separator '{spelled}' (`separator` in Python)."
    )


@contextmanager
def _opened(file: Path, wrap: Callable[[BinaryIO], BinaryIO] | None = None) -> Iterator[Any]:
    """Yield the content of a file, unpacked; `wrap` sees its bytes as they are."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    with opened:
        if not opened.peek(1):
            raise DataError(f"{file} is empty.")
        content: Any = opened if wrap is None else io.BufferedReader(cast(Any, wrap(opened)))
        try:
            yield gzip.GzipFile(fileobj=content) if file.suffix.lower() == _PACKED else content
        finally:
            if content is not opened:
                content.detach()


def _rows(
    file: Path, content: BinaryIO, separator: str, start: Place | None, *, quoted: bool
) -> Iterator[Row]:
    """Rows of separated values. pandas is not used: it accepts an extra comma."""
    header, lines = _header(file, content, separator, quoted)
    if start is not None and start.offset > lines.end.offset:
        lines = RowLines(file, content, start, lone_returns=True)
    reader = _reader(lines, separator, quoted)
    while True:
        begin = lines.end.line
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = other_separator(file, header)
            problem = f"{file} cannot be parsed: {error}, in the row from line {begin} on.{hint}"
            yield Row(begin, None, lines.next_row() or problem, lines.end)
            continue
        problem = lines.next_row()
        if record:
            problem = problem or _width_problem(file, begin, header, record)
            values = None if problem else dict(zip(header, record, strict=True))
            yield Row(begin, values, problem, lines.end)


def _header(file: Path, content: BinaryIO, separator: str, quoted: bool) -> tuple[list[str], RowLines]:
    """Return the names of the columns, and the lines from there on."""
    lines = RowLines(file, content, lone_returns=True)
    try:
        header = next(filter(None, _reader(lines, separator, quoted)), None)
    except csv.Error as error:
        hint = other_separator(file, [_first_line(file)])
        raise DataError(f"{file} cannot be parsed: {error}, in the row from line 1 on.{hint}") from error
    if problem := lines.next_row():
        raise DataError(problem)
    if header is None:
        raise DataError(f"{file} is empty.")
    return _checked_header(file, header), lines


def _reader(lines: RowLines, separator: str, quoted: bool) -> Any:
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    # Larger than any field: Python's limit of 131,072 characters is for untrusted input of unknown size.
    csv.field_size_limit(2**31 - 1)
    return csv.reader(iter(lines), delimiter=separator, quoting=quoting, strict=True)


def _width_problem(file: Path, line: int, header: list[str], record: list[str]) -> str:
    """Return the problem of a row with other fields than the header; "" if there is none."""
    if len(record) == len(header):
        return ""
    hint = other_separator(file, header) or " Text that holds the separator goes in quotes, in a .csv."
    return (
        f"{file} cannot be parsed: line {line} has {len(record)} fields where the header has "
        f"{len(header)}.{hint}"
    )


def _first_line(file: Path) -> str:
    """Return a line that cannot be parsed, unchanged."""
    with _opened(file) as content:
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
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        return None, f"{file} cannot be parsed: line {line} is not JSON ({error})."
    if not isinstance(record, dict):
        found = content.strip()[:40]
        return None, f"{file} cannot be parsed: line {line} must be a JSON object. Received {found!r}."
    return record, ""
