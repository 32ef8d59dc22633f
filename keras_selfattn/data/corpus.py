"""Texts without labels, from plain text and from tables."""

from pathlib import Path

from keras_selfattn.data.records import as_separator, checked_ending, iter_lines
from keras_selfattn.data.tables import read_columns, texts_of
from keras_selfattn.errors import DataError

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def read_corpus(path: str | Path, text: str = "text", *, separator: str | None = None) -> list[str]:
    """Read texts from a `.txt` file, one a line, or a column of a table, in UTF-8; blank ones are left out.

    Args:
        path: a `.txt`, `.csv`, `.tsv`, `.jsonl` or `.ndjson` file.
        text: name of the column with the texts, of a table.
        separator: what stands between the columns of a table, as `records.iter_records` has it.

    Raises:
        ConfigError: for a separator that is none, or of a file that has none.
        DataError: if the file is missing, empty, of another kind, not UTF-8 (with the line), cannot be
            parsed, has no such column (with those it has), a list for a text, or no text that is not blank.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "corpus.txt")
        ...     _ = file.write_text("a good film\\n\\na bad one\\n")
        ...     read_corpus(file)
        ['a good film', 'a bad one']
    """
    file = Path(path)
    if checked_ending(file, (".txt", *_TABLES)) == ".txt":
        as_separator(separator, file)
        texts = [line for _, line in iter_lines(file)]
    else:
        texts = texts_of(file, text, read_columns(file, (text,), separator=separator))
    found = [each for each in texts if each and not each.isspace()]
    if not found:
        raise DataError(f"{file} holds no texts: all {len(texts)} of its rows are blank.")
    return found
