"""The input of `query`: rows from arguments, standard input or a file, in the form of the signature."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from keras_selfattn.batch.cells import input_columns, input_value
from keras_selfattn.cli.console import error_console
from keras_selfattn.data.records import as_separator, iter_records
from keras_selfattn.errors import DataError
from keras_selfattn.serving.client import Signature

# The endings of files of series.
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
        ({name: line}, {name: input_value(signature, name, line, f"row {number}")})
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
        if not columns:
            if column in record:
                _only_input(signature, "--column")
            columns = input_columns(signature, file, list(record), column)
        missing = [name for name in columns.values() if record.get(name) is None]
        if missing:
            raise DataError(f"{file}: line {line} has no {missing[0]!r}.")
        where = f"{file}: line {line}"
        yield (
            record,
            {name: input_value(signature, name, record[source], where) for name, source in columns.items()},
        )


def _only_input(signature: Signature, what: str) -> str:
    if len(signature.inputs) == 1:
        return next(iter(signature.inputs))
    inputs = ", ".join(map(repr, signature.inputs))
    raise click.UsageError(
        f"The model takes {inputs}: {what} can be for one input only. Use --file with their columns."
    )


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
