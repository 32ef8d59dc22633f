"""Texts, and pairs of them, from files: labelled ones from tables and fastText's lines; others, too."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.formats.arrow_tables import ARROW_ENDINGS, arrow_records
from keras_selfattn.data.formats.cells import text_of
from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.endings import checked_ending, ending_of
from keras_selfattn.data.formats.fasttext_lines import read_fasttext
from keras_selfattn.data.formats.plain_numbers import number_of
from keras_selfattn.data.formats.records import Record, iter_lines, iter_records
from keras_selfattn.data.formats.separators import checked_separator, other_separator
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.label_names import LabelList, LabelReader, is_missing
from keras_selfattn.rows.targets import LABEL_SET, ONE_LABEL, TargetKind
from keras_selfattn.rows.text_pairs import TEXT_PAIRS
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.rows.written_lists import WrittenList, written_list
from keras_selfattn.user_warnings import warn_user

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", *ARROW_ENDINGS)
"""The endings of tables that hold texts."""
# Names of columns in a message.
_SHOWN = 20
# So many different numbers are a flag, such as 0 and 1.
_FLAGS = 2


def read_table(
    path: str | Path,
    text: str = "text",
    label: str = "label",
    label_separator: str | None = None,
    *,
    text_pair: str | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read a text and a label column of a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet` or `.feather` file.

    Text is in UTF-8. A `.txt` file is read in fastText's form, without columns (`read_fasttext`).

    Values are not interpreted: "NA" is a text, "007" a label. An empty text is a valid row, and a missing one
    (null, NaN) is empty. A .csv may quote fields (RFC 4180); a .tsv has no quoting (IANA's
    text/tab-separated-values). If labels are lists, in JSON Lines or Parquet, if all are JSON lists written
    as text, or if `label_separator` is given, a row has any number of labels.

    Args:
        path: the file.
        text: name of the column with the texts; its number, such as "2", without a header.
        label: name of the column with the labels, or its number.
        label_separator: the separator of a row's labels, if it can have several.
        text_pair: name of the column with the second text of each row, or its number: rows are then pairs,
            `(text, text_pair)`. A row may lack one of its texts, which is counted in a warning.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.

    Raises:
        ConfigError: for an invalid `separator`; for one, `text_pair` or no header of a file without columns.
        DataError: for an empty `label_separator`; for one column that is named twice; for a `text_pair` that
            is empty in all rows; if the file is missing, empty, of another kind, not UTF-8
            (with the line), has no such column (with its columns), rows of another width (with the line), no
            rows, rows without a label (with their number and first line), or lists as labels in another
            form, or in some rows only (with the line).

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label\\ngood,+\\nbad,-\\n")
        ...     read_table(file).targets
        ['+', '-']
    """
    file = Path(path)
    if label_separator == "":
        raise DataError("`label_separator` must be at least one character. Received ''.")
    if ending_of(file) == ".txt":
        checked_separator(file, separator, has_header)
        if text_pair is not None:
            raise ConfigError(
                f"`text_pair` (--text-pair) is a column, and {file} has none: its lines are labels and a "
                "text. Give a table, such as a .csv."
            )
        return read_fasttext(file)
    records = _table_records(file, (text, text_pair, label), separator=separator, has_header=has_header)
    texts = texts_of(file, text, records)
    inputs: Sequence[Any] = texts if text_pair is None else pairs_of(file, texts, text_pair, records)
    labels, target_kind, note = labels_of(file, label, label_separator, records)
    kind = TEXTS if text_pair is None else TEXT_PAIRS
    kinds = {"kind": kind, "target_kind": target_kind}
    return LabelledRows(inputs, labels, str(file), [line for line, _ in records], note=note, **kinds)


def _table_records(file: Path, columns: tuple[str, str | None, str], **form: Any) -> list[Record]:
    """Return the rows of a table with the columns `text`, `text_pair` (None for one text) and `label`."""
    text, text_pair, label = columns
    check_columns_differ(text=[text], label=[label], text_pair=[text_pair])
    if text_pair is None:
        hint = " Name those with `text` (--text) and `label` (--label), or the task if it is another."
        return read_columns(file, (text, label), hint, **form)
    hint = " Name those with `text` (--text), `text_pair` (--text-pair) and `label` (--label)."
    return read_columns(file, (text, text_pair, label), hint, **form)


def pairs_of(
    file: Path, texts: Sequence[str], column: str, records: Sequence[Record]
) -> list[tuple[str, str]]:
    """Return the pairs of the texts and those of a second column, whose empty ones are told."""
    seconds = texts_of(file, column, records)
    if not any(second.strip() for second in seconds):
        raise DataError(
            f"{file}: the {column!r} is empty in all {len(records):,} rows, so they are no pairs. Name the "
            "column of the second texts with `text_pair` (--text-pair), or leave it out for one text a row."
        )
    # Rows of JSON without the key have a warning of their own.
    rows = zip(records, seconds, strict=True)
    empty = [line for (line, record), second in rows if column in record and not second.strip()]
    if empty:
        warn_user(
            f"{file}: {len(empty):,} of {len(records):,} rows have an empty {column!r}, the first at line "
            f"{empty[0]}. Each is a pair with an empty second text."
        )
    return list(zip(texts, seconds, strict=True))


def read_columns(
    file: Path,
    columns: Sequence[str],
    hint: str = "",
    *,
    separator: str | None = None,
    has_header: bool = True,
    within: str | None = None,
    more: Sequence[str] = (),
) -> list[Record]:
    """Return the rows of a table, which must have these columns; `hint` is the next step if one is missing.

    Args:
        file: the table.
        columns: their names.
        hint: the end of the message about one that is missing, as a sentence.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.
        within: a column whose objects hold the columns, if the rows themselves lack one of them.
        more: names of columns that the rows have, too, if the table does; others may be missing.

    Raises:
        DataError: as for `read_table`.
    """
    if checked_ending(file, TABLES) in ARROW_ENDINGS:
        checked_separator(file, separator, has_header)
        records = arrow_records(file, columns, more)
    else:
        records = list(iter_records(file, separator=separator, has_header=has_header))
    if not records:
        raise DataError(f"{file} has no rows below its header. Give at least one.")
    present = dict.fromkeys(name for _, record in records for name in record)
    if within in present and not set(columns) <= present.keys():
        inner = [(line, record.get(within)) for line, record in records]
        outside = present
        records = [(line, each if isinstance(each, dict) else {}) for line, each in inner]
        present = dict.fromkeys(name for _, record in records for name in record)
        if twice := next((name for name in columns if name in outside and name in present), None):
            raise DataError(
                f"{file} has {twice!r} as a column and within {within!r}, so it is not clear which is meant. "
                "Rename or remove one of them."
            )
    for column in columns:
        if column not in present:
            known = ", ".join(map(repr, list(present)[:_SHOWN])) + (", …" if len(present) > _SHOWN else "")
            if has_header and ending_of(file) in (".csv", ".tsv"):
                hint += (
                    " If its first line is a row, add --no-header (`has_header=False`): columns have numbers."
                )
            hint = other_separator(file, list(present)) or hint
            raise DataError(f"{file} has no column {column!r}. Its columns are {known}.{hint}")
    return records


def texts_of(file: Path, column: str, records: Sequence[Record]) -> list[str]:
    """Return the texts of a column; absent, null and NaN values are empty.

    Raises:
        DataError: for a list, an object or an infinite number in place of a text, with the line.
    """
    warn_of_absent(file, [column], records, "an empty text")
    for line, record in records:
        value = record.get(column)
        if isinstance(value, list | dict):
            kind = "a list" if isinstance(value, list) else "an object"
            raise DataError(
                f"{file}: the {column!r} in line {line} must be a text. Received {kind}, {str(value)[:60]}. "
                "Lists of tokens are read with the task tokens (--task tokens)."
            )
    return [text_of(record.get(column), f"{file}: the {column!r} in line {line}") for line, record in records]


def labels_of(
    file: Path, column: str, separator: str | None, records: Sequence[Record]
) -> tuple[Sequence[Any], TargetKind, str]:
    """Return the labels of a column, their kind, and what is told of them.

    Raises:
        DataError: for rows without a label, or lists in another form or in some rows only, with the line.
    """
    if separator == "":
        raise DataError("`label_separator` must be at least one character. Received ''.")
    if not any(isinstance(record.get(column), list) for _, record in records):
        records = _with_lists(file, column, separator, list(records))
    if separator is not None or any(isinstance(record.get(column), list) for _, record in records):
        return _label_lists(file, column, separator, records), LABEL_SET, ""
    names = _labels(file, column, records)
    return names, ONE_LABEL, _note_of_numbers(names)


def warn_of_absent(file: Path, columns: Sequence[str], records: Sequence[Record], meaning: str) -> None:
    """Warn of columns that some lines of JSON lack: a key that is written in two ways is no missing value.

    Args:
        file: for the message.
        columns: those that are read.
        records: the rows.
        meaning: what is read in their place.
    """
    for column in columns:
        lines = [line for line, record in records if column not in record]
        if lines:
            warn_user(
                f"{file}: {len(lines)} of {len(records)} lines have no {column!r}, the first is line "
                f"{lines[0]}. It is read as {meaning}; null says so without this warning."
            )


def _with_lists(file: Path, column: str, separator: str | None, records: list[Record]) -> list[Record]:
    """Return the rows with lists in place of labels that are JSON lists written as text, if all are.

    Raises:
        DataError: for a list in another form, in some rows only, or beside a separator.
    """
    values = [record.get(column) for _, record in records]
    found = [written_list(value) if isinstance(value, str) else None for value in values]
    if separator is None and all(each is not None and each.names is not None for each in found):
        lists = [each.names or [] for each in found if each is not None]
        if any(lists) and not any(isinstance(name, str) for names in lists for name in names):
            place = next(place for place, names in enumerate(lists) if names)
            raise DataError(
                f"{file}: the {column!r} in line {records[place][0]}, {values[place]!r:.60}, can be a list "
                "of labels or the name of a range, like all others. Write labels as texts, "
                '["0", "10"], or names without brackets, 0-10.'
            )
        return [
            (line, {**record, column: names}) for (line, record), names in zip(records, lists, strict=True)
        ]
    certain = {place: each for place, each in enumerate(found) if each is not None and each.is_certain}
    if certain:
        # Another form first: where it is mended, all may be JSON.
        place = min(certain, key=lambda place: (certain[place].names is not None, place))
        raise DataError(
            f"{file}: the {column!r} in line {records[place][0]} is {certain[place].form}, "
            f"{values[place]!r:.60}{_advice(certain[place], separator, found, records, values)}"
        )
    return records


def _advice(
    found: WrittenList,
    separator: str | None,
    others: Sequence[WrittenList | None],
    records: Sequence[Record],
    values: Sequence[Any],
) -> str:
    """Return the end of the sentence about a list that is written as text, and the next step."""
    if found.names is None:
        return (
            ". Write it as JSON (json.dumps in Python), or names alone with a character between them, and "
            "name that with --label-separator (`label_separator`). If it is a name, write it without "
            "brackets."
        )
    if separator is not None:
        return ", which needs no separator. Leave --label-separator (`label_separator`) out."
    place = next(place for place, each in enumerate(others) if each is None or not each.is_certain)
    return (
        f", where line {records[place][0]} has {values[place]!r:.60}. Write a JSON list in each row "
        "(json.dumps in Python), with [] for none."
    )


def _labels(file: Path, column: str, records: Sequence[Record]) -> list[str]:
    """Return the single label of each row."""
    missing = [line for line, record in records if _is_blank(record.get(column))]
    if missing:
        raise DataError(
            f"{file}: {len(missing)} of {len(records)} rows have no {column!r}, the first at line "
            f"{missing[0]}. Label these rows or remove them."
        )
    read = LabelReader()
    for line, record in records:
        if isinstance(record[column], dict):
            raise DataError(
                f"{file}: the {column!r} in line {line} must be a label. Received {record[column]!r:.200}. "
                "Give a name, or a list of names if rows have several."
            )
    return [read(f"{file}: the {column!r} in line {line}", _bare(record[column])) for line, record in records]


def _note_of_numbers(labels: Sequence[Any]) -> str:
    """Return what is told of labels that are all numbers, which may be meant as scores; "" for others."""
    different = set(labels)
    numbers = [number_of(label) for label in different]
    if len(different) <= _FLAGS or not all(
        number is not None and math.isfinite(number) for number in numbers
    ):
        return ""
    return (
        f"{len(different)} labels that are all numbers, as names of classes. If they are scores, such as "
        "stars, --task score learns them as numbers."
    )


def _bare(value: Any) -> Any:
    """Return a text without the blanks around it, and anything else unchanged."""
    return value.strip() if isinstance(value, str) else value


def _label_lists(
    file: Path, column: str, separator: str | None, records: Sequence[Record]
) -> list[LabelList]:
    """Return the labels of each row, in a list that may be empty."""
    found, read = [], LabelReader()
    for line, record in records:
        value = record.get(column)
        if separator is not None and (value is None or isinstance(value, str)):
            value = (value or "").split(separator)
        holds_more = isinstance(value, list) and any(isinstance(name, list | dict) for name in value)
        if not isinstance(value, list) or holds_more:
            hint = " Spans of texts are read with the task tokens: --task tokens." if holds_more else ""
            raise DataError(
                f"{file}: the {column!r} in line {line} must be a list of labels. Received "
                f"{value!r:.200}.{hint}"
            )
        given = (name for name in value if not _is_blank(name))
        names = (read(f"{file}: a {column!r} in line {line}", _bare(name)) for name in given)
        found.append(LabelList(dict.fromkeys(names)))
    return found


def _is_blank(label: Any) -> bool:
    return is_missing(label) or (isinstance(label, str | bytes) and not label.strip())


def read_corpus(
    path: str | Path, text: str = "text", *, separator: str | None = None, has_header: bool = True
) -> list[str]:
    """Read texts from the lines of a `.txt` file or a column of a table, in UTF-8, without blank ones.

    Args:
        path: a `.txt`, `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet` or `.feather` file.
        text: for a table, the name of the column with the texts; its number without a header.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line of a table is a row.

    Raises:
        ConfigError: for an invalid separator; for one, or no header, of a file without columns.
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
    if checked_ending(file, (".txt", *TABLES)) == ".txt":
        checked_separator(file, separator, has_header)
        texts = [line for _, line in iter_lines(file)]
    else:
        texts = texts_of(file, text, read_columns(file, (text,), separator=separator, has_header=has_header))
    found = [each for each in texts if each and not each.isspace()]
    if not found:
        raise DataError(f"{file} holds no texts: all {len(texts)} of its rows are blank.")
    return found
