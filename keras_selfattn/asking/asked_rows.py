"""The rows to ask about, from arguments, standard input or a file, in the form of the signature."""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from keras_selfattn.asking.input_cells import (
    NamedColumns,
    check_text_pair,
    input_columns,
    input_value,
    is_text,
    stretched,
)
from keras_selfattn.asking.raw_texts import SignatureChoice, choice_for
from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.data.formats.records import FIRST_ROWS, TEXT_LINES, Record, iter_records, iter_text_lines
from keras_selfattn.data.formats.separators import checked_separator
from keras_selfattn.errors import DataError
from keras_selfattn.rows.recordings import END, START, read_recording
from keras_selfattn.serving.client import Signature
from keras_selfattn.serving.client.inputs import takes_pairs
from keras_selfattn.serving.errors import InvalidInputError
from keras_selfattn.serving.wire.signature_names import AUDIO, TEXT, TEXT_PAIR

# The endings of files of series.
_SERIES = frozenset({".ts", ".npz"})
# The endings of files whose rows may have different columns.
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
# The options of a table, by name.
_OF_FILES = {
    "column": "--column",
    "text_pair": "--text-pair",
    "separator": "--separator",
    "has_header": "--no-header",
}
# The columns that the user gave, to show beside the answer; and the row to send.
QueryRow = tuple[dict[str, Any], dict[str, Any]]
Wrap = Callable[[BinaryIO], BinaryIO]


def check_asked(texts: tuple[str, ...], file: Path | None, options: Mapping[str, Any]) -> None:
    """Raise an error for options that do not go together, or a missing file; before a server is asked.

    Raises:
        InvalidInputError: for options that do not go together, or no rows.
        DataError: if there is no such file.
    """
    if texts and file is not None:
        raise InvalidInputError("Give texts or --file, not both.")
    for name, flag in _OF_FILES.items():
        if options.get(name) is not None and file is None:
            raise InvalidInputError(f"{flag} is for a --file.")
    if options.get("pair"):
        _check_pairs(texts, file)
    if options.get("windows") is not None and (file is not None or not texts or options.get("pair")):
        raise InvalidInputError(
            "--windows is for recordings that are named in the command, without --pair. A --file names "
            "stretches in the columns start and end."
        )
    if file is not None and not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    if file is None and not texts and sys.stdin.isatty():
        raise InvalidInputError("Give texts, --file, or rows on standard input, one a line.")


def _check_pairs(texts: tuple[str, ...], file: Path | None) -> None:
    if file is not None:
        raise InvalidInputError("--pair is for texts. The columns of a --file are --column and --text-pair.")
    if not texts or len(texts) % 2:
        raise InvalidInputError(
            f"--pair takes an even number of texts: the two of each row. Received {len(texts)}."
        )


def asked_rows(
    signature: Signature,
    texts: tuple[str, ...],
    file: Path | None,
    options: Mapping[str, Any],
    wrap: Wrap | None = None,
) -> Iterator[QueryRow]:
    """Return the rows: those of the file, the texts or, without either, the lines of standard input.

    Args:
        signature: to ask.
        texts: rows of a model with one input; with the option `pair` each two are one.
        file: a table, or series.
        options: `column` and `text_pair`, of the table, its `separator`, and `has_header`, False for none;
            each may be None. And `pair`, a flag, and `windows`, seconds or None. A command of one text a row
            has none of `text_pair`, `pair` and `windows`.
        wrap: wraps the opened table, for example in a progress bar.

    Raises:
        InvalidInputError: if the model takes several inputs, and the rows give one.
        DataError: for a row that is no input of the model, when the iteration reaches it.
    """
    form = table_form(options)
    if file is not None and ending_of(file) in _SERIES:
        checked_separator(file, **form)
        return _series(signature, file, NamedColumns(options["column"], options.get("text_pair")))
    if file is not None:
        named = NamedColumns(options["column"], options.get("text_pair"))
        return _from_file(signature, file, named, form, wrap)
    if options.get("pair"):
        return _pairs(signature, texts)
    if options.get("windows") is not None:
        return _windows(signature, texts, options["windows"])
    lines = texts or (line.rstrip("\r\n") for line in sys.stdin)
    name = _only_input(signature, "the rows")
    return (
        ({name: line}, {name: input_value(signature, name, line, f"row {number}")})
        for number, line in enumerate(lines)
    )


def signature_choice(file: Path | None, options: Mapping[str, Any]) -> SignatureChoice:
    """Return the signature that the rows of a file ask for; other rows ask for tokens, if for anything.

    Args:
        file: a table, series, or None.
        options: as for `asked_rows`, and the `signature` that the user gives, or None.

    Raises:
        DataError: if the file cannot be read.
    """
    given = options["signature"]
    if file is None or given is not None or ending_of(file) in _SERIES:
        return SignatureChoice("tokens", "standard input", given)
    if file.is_fifo():  # its rows can be read once
        return SignatureChoice("either", str(file))
    records = _records(file, None, table_form(options))
    _, row = next(records, (0, {}))
    return choice_for(row, str(file), given, options["column"])


def table_form(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments `separator` and `has_header` of a table's readers."""
    return {"separator": options["separator"], "has_header": options["has_header"] is not False}


def _pairs(signature: Signature, texts: tuple[str, ...]) -> Iterator[QueryRow]:
    if not takes_pairs(signature):
        inputs = ", ".join(map(repr, signature.inputs))
        raise InvalidInputError(f"--pair is for a model of pairs of texts. The model takes {inputs}.")
    for row, pair in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        given: dict[str, Any] = dict(zip((TEXT, TEXT_PAIR), pair, strict=True))
        yield given, {name: input_value(signature, name, text, f"row {row}") for name, text in given.items()}


def _windows(signature: Signature, files: tuple[str, ...], seconds: float) -> Iterator[QueryRow]:
    if _only_input(signature, "--windows") != AUDIO:
        inputs = ", ".join(map(repr, signature.inputs))
        raise InvalidInputError(f"--windows is for a model of recordings. The model takes {inputs}.")
    for file in files:
        recording = read_recording(file)
        for start, end in recording.windows(seconds):
            row = {AUDIO: file, START: start, END: end}
            yield row, {AUDIO: recording.stretch(start, end).wav()}


def _series(signature: Signature, file: Path, named: NamedColumns) -> Iterator[QueryRow]:
    from keras_selfattn.data.series import read_long_series

    for name, flag in (("column", "--column"), ("text_pair", "--text-pair")):
        if getattr(named, name) is not None:
            raise InvalidInputError(f"{flag} is that of a table. {file} has none.")
    name = _only_input(signature, "a file of series")
    for row, series in enumerate(read_long_series(file)):
        yield {"row": row}, {name: series}


def _from_file(
    signature: Signature, file: Path, named: NamedColumns, form: dict[str, Any], wrap: Wrap | None
) -> Iterator[QueryRow]:
    known, records = _with_columns(file, _records(file, wrap, form))
    check_text_pair(signature, named.text_pair)
    if named.column in known and not takes_pairs(signature):
        _only_input(signature, "--column")
    columns = input_columns(signature, file, known, named) if known else {}
    for line, record in records:
        missing = [
            source
            for name, source in columns.items()
            if record.get(source) is None and not is_text(signature, name)
        ]
        if missing:
            raise DataError(f"{file}: line {line} has no {missing[0]!r}.")
        where, given = f"{file}: line {line}", columns.items()
        yield (
            record,
            {
                name: input_value(
                    signature, name, stretched(name, record.get(source), record), where, file.parent
                )
                for name, source in given
            },
        )


def _records(file: Path, wrap: Wrap | None, form: dict[str, Any]) -> Iterator[Record]:
    """Yield the rows of a table, or the lines of a `.txt`."""
    if ending_of(file) != TEXT_LINES:
        yield from iter_records(file, wrap, **form)
        return
    checked_separator(file, **form)
    for row in iter_text_lines(file, wrap):
        if row.values is None:
            raise DataError(row.problem)
        yield row.line, row.values


def _with_columns(file: Path, records: Iterator[Record]) -> tuple[list[str], Iterator[Record]]:
    """Return the columns of the first rows of JSON Lines, or those of all rows; and the rows.

    A row that cannot be read is an error when the iteration reaches it.
    """
    first: list[Record] = []
    problem: DataError | None = None
    try:
        for record in itertools.islice(records, FIRST_ROWS if ending_of(file) in _JSON_LINES else 1):
            first.append(record)
    except DataError as error:
        if not first:
            raise
        problem = error

    def rows() -> Iterator[Record]:
        yield from first
        if problem is not None:
            raise problem
        yield from records

    return list(dict.fromkeys(name for _, record in first for name in record)), rows()


def _only_input(signature: Signature, what: str) -> str:
    if len(signature.inputs) == 1:
        return next(iter(signature.inputs))
    if takes_pairs(signature):
        raise InvalidInputError(
            "The model takes pairs of texts: give --pair and the two texts of each row, or --file with their "
            "columns, --column and --text-pair."
        )
    inputs = ", ".join(map(repr, signature.inputs))
    raise InvalidInputError(
        f"The model takes {inputs}: {what} can be for one input only. Use --file with their columns."
    )
