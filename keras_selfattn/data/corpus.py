"""Texts without labels, from plain text and from tables."""

from pathlib import Path

from keras_selfattn.data.records import as_separator, checked_ending, iter_lines
from keras_selfattn.data.text_tables import read_columns, texts_of
from keras_selfattn.errors import DataError

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def read_corpus(path: str | Path, text: str = "text", *, separator: str | None = None) -> list[str]:
    """Read texts from the lines of a `.txt` file or a column of a table, in UTF-8, without blank ones.

    Args:
        path: a `.txt`, `.csv`, `.tsv`, `.jsonl` or `.ndjson` file.
        text: for a table, the name of the column with the texts.
        separator: the separator of columns, as for `records.iter_records`.

    Raises:
        ConfigError: for an invalid separator, or one for a file without columns.
        DataError: if the file is missing, empty, of another kind, not UTF-8 (with the line), cannot be
            parsed, has no such column (with its columns), has a list in place of a text, or only blank texts.

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
