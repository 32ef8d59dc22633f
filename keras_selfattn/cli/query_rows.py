"""The input of `query`: rows from arguments, standard input or a file, in the form of the signature."""

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from keras_selfattn.cli.console import error_console
from keras_selfattn.data.records import as_separator, iter_records, other_separator
from keras_selfattn.errors import DataError
from keras_selfattn.serving.client import Signature, TensorSpec

# Name of the input for files: the user gives their names, and their content is sent.
_FILES = "encoded"
# Name of the input for series, the rank of a batch of series, and the endings of their files.
_VALUES = "values"
_SERIES_RANK = 3
_SERIES = frozenset({".ts", ".npz"})
# The columns that the user gave, to show beside the answer; and the row to send.
QueryRow = tuple[dict[str, Any], dict[str, Any]]


def check_asked(texts: tuple[str, ...], file: Path | None, column: str | None, separator: str | None) -> None:
    """Raise an error for options that do not go together, or a missing file; before a server is asked."""
    if texts and file is not None:
        raise click.UsageError("Give texts or --file, not both.")
    for flag, given in (("--column", column), ("--separator", separator)):
        if given is not None and file is None:
            raise click.UsageError(f"{flag} is that of a --file.")
    if file is not None and not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    if file is None and not texts and sys.stdin.isatty():
        raise click.UsageError("Give texts, --file, or rows on standard input, one a line.")


@contextlib.contextmanager
def asked_rows(
    signature: Signature,
    texts: tuple[str, ...],
    file: Path | None,
    column: str | None,
    separator: str | None = None,
) -> Iterator[Iterator[QueryRow]]:
    """Yield the rows; while a file is read, show a progress bar on standard error, if it is a terminal."""
    if file is not None and file.suffix.lower() in _SERIES:
        as_separator(separator, file)
        yield _series(signature, file, column)
        return
    if file is not None:
        with _bar() as progress:
            yield _from_file(signature, file, column, separator, progress)
        return
    lines = texts or (line.rstrip("\r\n") for line in sys.stdin)
    name = _only_input(signature, "the rows")
    yield (
        ({name: line}, {name: _value(signature, name, line, f"row {number}")})
        for number, line in enumerate(lines)
    )


def _series(signature: Signature, file: Path, column: str | None) -> Iterator[QueryRow]:
    from keras_selfattn.data.series import read_long_series

    if column is not None:
        raise click.UsageError(f"--column is that of a table. {file} has none.")
    name = _only_input(signature, "a file of series")
    for row, series in enumerate(read_long_series(file)):
        yield {"row": row}, {name: series}


def _from_file(
    signature: Signature, file: Path, column: str | None, separator: str | None, progress: Progress
) -> Iterator[QueryRow]:
    def wrap(opened: Any) -> Any:
        return progress.wrap_file(opened, file.stat().st_size, description=file.name)

    columns: dict[str, str] = {}
    for line, record in iter_records(file, wrap, separator=separator):
        columns = columns or _columns(signature, file, record, column)
        missing = [name for name in columns.values() if record.get(name) is None]
        if missing:
            raise DataError(f"{file}: line {line} has no {missing[0]!r}.")
        where = f"{file}: line {line}"
        yield (
            record,
            {name: _value(signature, name, record[source], where) for name, source in columns.items()},
        )


def _columns(signature: Signature, file: Path, record: dict[str, Any], column: str | None) -> dict[str, str]:
    """Return the column of each input: that of its name; for a single input, `column` or the only one."""
    if column is not None and column not in record:
        known = ", ".join(map(repr, record))
        hint = other_separator(file, list(record))
        raise DataError(f"{file} has no column {column!r}. Its columns are {known}.{hint}")
    if column is not None:
        found = {_only_input(signature, "--column"): column}
    else:
        found = {name: name for name in signature.inputs if name in record}
        if not found and len(signature.inputs) == len(record) == 1:
            found = {next(iter(signature.inputs)): _only_column(file, next(iter(record)))}
    wanted = set(signature.inputs) - set(signature.defaults)
    if not wanted <= found.keys() or not set(found.values()) <= record.keys():
        known, inputs = ", ".join(map(repr, record)), ", ".join(map(repr, signature.inputs))
        hint = other_separator(file, list(record)) or " Name the column of a single input with --column."
        raise DataError(f"{file} has the columns {known}; the model takes {inputs}.{hint}")
    return found


def _only_column(file: Path, name: str) -> str:
    if hint := other_separator(file, [name]):
        raise DataError(
            f"{file} has the column {name!r}.{hint} If it is one column all the same, name it with --column."
        )
    return name


def _only_input(signature: Signature, what: str) -> str:
    if len(signature.inputs) == 1:
        return next(iter(signature.inputs))
    inputs = ", ".join(map(repr, signature.inputs))
    raise click.UsageError(
        f"The model takes {inputs}: {what} can be for one input only. Use --file with their columns."
    )


def _value(signature: Signature, name: str, value: Any, where: str) -> Any:
    """Return a cell as its input: text unchanged, tokens split, files read, numbers and lists from JSON."""
    if name == _tokens_input(signature):
        return _tokens(value, where)
    if name == _FILES and signature.inputs[name].dtype == "string" and isinstance(value, str):
        return _content(Path(value), where)
    spec = signature.inputs[name]
    if spec.dtype == "string":
        return value
    try:
        found = json.loads(value) if isinstance(value, str) else value
        return _frames(found, spec) if name == _VALUES and len(spec.shape or ()) == _SERIES_RANK else found
    except ValueError:
        raise DataError(
            f"{where}: {name!r} must be one row of {signature.inputs[name]!r}, written as JSON. "
            f"Received {value[:40]!r}."
        ) from None


def _frames(value: Any, spec: TensorSpec) -> Any:
    """Return a series as our exports take it: null becomes NaN, and a bare number a frame of one feature."""
    value = _with_gaps(value)
    bare = isinstance(value, list) and value and not any(isinstance(each, list) for each in value)
    return [[each] for each in value] if bare and (spec.shape or ())[-1] == 1 else value


def _with_gaps(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_gaps(each) for each in value]
    return math.nan if value is None else value


def without_padding(signature: Signature, row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a row of tokens, cut to its number of tokens: rows are padded to be sent."""
    name = _tokens_input(signature)
    if name is None:
        return answer
    positions = {
        output
        for output, spec in signature.outputs.items()
        if spec.shape is not None and len(spec.shape) > 1 and spec.shape[1] is None
    }
    count = len(row[name])
    return {output: value[:count] if output in positions else value for output, value in answer.items()}


def _tokens_input(signature: Signature) -> str | None:
    """Return the name of the input for rows of tokens, string `[batch, length]`, if there is one."""
    found = [name for name, spec in signature.inputs.items() if spec.dtype == "string"]
    return next((name for name in found if (signature.inputs[name].shape or ())[1:] == (None,)), None)


def _tokens(value: Any, where: str) -> list[str]:
    """Return the tokens of a row from a list, a list as JSON, or a text that is split at blanks."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.startswith("[") else value.split()
        except ValueError:
            value = value.split()
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise DataError(f"{where}: a row of tokens must be a list of strings. Received {value!r:.60}.")
    if "" in value:
        raise DataError(
            f"{where} has an empty token, which is padding: leave it out. Received {value!r:.60}."
        )
    return value


def _content(file: Path, where: str) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise DataError(f"{where}: the file {str(file)!r} cannot be read: {error}.") from error


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=error_console,
        disable=not error_console.is_terminal,
        transient=True,
        # Otherwise rich would send the answers to the bar's stream.
        redirect_stdout=False,
        redirect_stderr=False,
    )
