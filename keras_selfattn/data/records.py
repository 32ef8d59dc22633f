"""Rows of CSV, TSV and JSON Lines files, read and checked one by one, with one in memory."""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

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
        path: the file.
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
    file = Path(path)
    ending = checked_ending(file, _SEPARATORS)
    separator = as_separator(separator, file) or _SEPARATORS[ending]
    with _opened(file) as opened:
        content: Any = opened if wrap is None else wrap(opened)
        # Split only at line feeds: JSON strings and quoted fields may hold other line separators.
        newline = "\n" if separator is None else ""
        lines = io.TextIOWrapper(content, encoding="utf-8-sig", newline=newline)
        try:
            if separator is None:
                yield from _json_records(file, lines)
            else:
                yield from _rows(file, lines, separator, quoted=ending != ".tsv")
        except UnicodeDecodeError:
            raise _not_utf8(file) from None
        finally:
            lines.detach()


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
        lines = io.TextIOWrapper(opened, encoding="utf-8-sig", newline="\n")
        try:
            for number, line in enumerate(lines, start=1):
                yield number, line.rstrip("\r\n")
        except UnicodeDecodeError:
            raise _not_utf8(file) from None
        finally:
            lines.detach()


def checked_ending(file: Path, endings: Collection[str]) -> str:
    """Return the ending of a file in lower case, if it is known.

    Raises:
        DataError: if it is unknown, or there is no file, or a folder instead.
    """
    ending = file.suffix.lower()
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
    if file.suffix.lower() not in endings:
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
    if len(columns) != 1 or file.suffix.lower() not in (".csv", ".tsv"):
        return ""
    mark = next((mark for mark in ";\t|," if mark in columns[0]), None)
    if mark is None:
        return ""
    spelled = r"\t" if mark == "\t" else mark
    return (
        f" That is one column with '{spelled}' in its name: a .csv is separated by commas, a .tsv by tabs. "
        f"If '{spelled}' separates the columns, add --separator '{spelled}' (`separator` in Python)."
    )


def _opened(file: Path) -> BinaryIO:
    try:
        opened = file.open("rb")
        empty = not opened.peek(1)
    except FileNotFoundError:
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    if empty:
        opened.close()
        raise DataError(f"{file} is empty.")
    return opened


def _not_utf8(file: Path) -> DataError:
    """Return the error with the line, which decoding in pieces does not know."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return DataError(
                    f"{file} is not UTF-8: byte 0x{line[error.start]:02x} in line {number}. Convert it "
                    f"first, for example with `iconv -f latin1 -t utf-8 {file} > utf8{file.suffix}`."
                )
    return DataError(f"{file} is not UTF-8. Convert it first.")


def _rows(file: Path, lines: io.TextIOBase, separator: str, *, quoted: bool) -> Iterator[Record]:
    """Rows of separated values. pandas is not used: it accepts an extra comma."""
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    # Larger than any field: Python's limit of 131,072 characters is for untrusted input of unknown size.
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True)
    header: list[str] | None = None
    end = 0
    try:
        for record in reader:
            start, end = end + 1, reader.line_num
            if not record:
                continue
            if header is None:
                header = _checked_header(file, record)
            elif len(record) != len(header):
                hint = other_separator(file, header) or (
                    " Text that holds the separator goes in quotes, in a .csv."
                )
                raise DataError(
                    f"{file} cannot be parsed: line {start} has {len(record)} fields where the header has "
                    f"{len(header)}.{hint}"
                )
            else:
                yield start, dict(zip(header, record, strict=True))
    except csv.Error as error:
        hint = other_separator(file, header or [_first_line(file)])
        raise DataError(
            f"{file} cannot be parsed: {error}, in the row from line {end + 1} on.{hint}"
        ) from error
    if header is None:
        raise DataError(f"{file} is empty.")


def _first_line(file: Path) -> str:
    """Return a line that cannot be parsed, unchanged."""
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        return lines.readline().strip()


def _checked_header(file: Path, names: list[str]) -> list[str]:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{file} has two columns named {twice[0]!r}. Rename one.")
    return names


def _json_records(file: Path, lines: io.TextIOBase) -> Iterator[Record]:
    blank = True
    for number, line in enumerate(lines, start=1):
        if line.strip():
            blank = False
            yield number, _json_record(file, number, line)
    if blank:
        raise DataError(f"{file} is empty.")


def _json_record(file: Path, line: int, content: str) -> dict[str, Any]:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be parsed: line {line} is not JSON ({error}).") from error
    if not isinstance(record, dict):
        found = content.strip()[:40]
        raise DataError(f"{file} cannot be parsed: line {line} must be a JSON object. Received {found!r}.")
    return record
