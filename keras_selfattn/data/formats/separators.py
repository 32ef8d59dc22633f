"""The separator of a table's columns."""

from collections.abc import Collection, Sequence
from pathlib import Path

from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.errors import ConfigError

# Spellings of separators for shells and files that cannot hold a tab.
_SPELLED = {
    **dict.fromkeys((r"\t", r"'\t'", r"$'\t'", "tab"), "\t"),
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
}


def checked_separator(
    file: Path, separator: str | None, has_header: bool = True, endings: Collection[str] = (".csv", ".tsv")
) -> str | None:
    """Return the separator of columns as one character, from any of its spellings; None for None.

    Args:
        file: of the columns.
        separator: as for `records.iter_records`.
        has_header: as for `records.iter_records`.
        endings: those of files that have columns and a header.

    Raises:
        ConfigError: for an invalid separator; for one, or no header, of a file with another ending.

    Example:

        >>> checked_separator(Path("t.csv"), "\\\\t"), checked_separator(Path("t.csv"), "semicolon")
        ('\\t', ';')
    """
    if (separator is not None or not has_header) and ending_of(file) not in endings:
        name = "`has_header=False` (--no-header)" if separator is None else "`separator` (--separator)"
        raise ConfigError(
            f"{name} is for files ending in {' or '.join(endings)}. The file is {file}: leave it out."
        )
    if separator is None:
        return None
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
