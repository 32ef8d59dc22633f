"""The consoles of all subcommands, and what they print in one form: tables, commands, bars, durations."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rich.console import Console
from rich.table import Table

from keras_selfattn.errors import ConfigError
from keras_selfattn.files.atomic import check_writable, is_stream

if TYPE_CHECKING:
    from rich.progress import Progress

    from keras_selfattn.data.labelled import LabelledRows

# No markup: the output holds users' texts and labels, in which "[red]" is not a colour.
console = Console(markup=False, emoji=False)
# For output beside the result, such as a progress bar while the rows go into a pipe.
error_console = Console(markup=False, emoji=False, stderr=True)


def program() -> str:
    """Return the command that calls this program: its name, or its relative path if it is not on the PATH."""
    name = "keras-selfattn"
    if shutil.which(name) or Path(sys.argv[0]).name != name:
        return name
    return os.path.relpath(sys.argv[0])


def print_command(*words: object) -> None:
    """Print a command to paste, on one line however long."""
    quoted = " ".join(shlex.quote(str(word)) for word in words)
    console.print(f"  {program()} {quoted}", soft_wrap=True, highlight=False)


def print_notes(*rows: "LabelledRows | None") -> None:
    """Print what readers found in the files of rows, a line for each file that has more than its rows."""
    for each in rows:
        if each is not None and each.note:
            console.print(f"Read {each.note}", soft_wrap=True, highlight=False)


def report_in_words(run: Path) -> str:
    """Return the sentence, after a blank, that names the report of a run; "" if it could not be written."""
    report = run / "report.html"
    return f" Look at {report} in a browser." if report.is_file() else ""


def check_page_file(flag: str, file: Path) -> None:
    """Raise ConfigError if a page could not be written to a file, or would replace another kind of file."""
    try:
        if file.is_dir():
            raise ConfigError(f"{flag} must be a file. Received {str(file)!r}, a folder.")
        if file.exists() and is_stream(file):
            return
        if file.suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{flag} must end in .html, as a browser needs it. Received {str(file)!r}.")
        check_writable(file)
    except OSError as error:
        raise ConfigError(f"{flag} {file} cannot be written: {error.strerror or error}.") from error


def columns(title: str | None, *headers: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table with the given headers; those in `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table


@contextmanager
def reading_bar(file: Path | None) -> Iterator[Callable[[BinaryIO], BinaryIO] | None]:
    """Show a bar on standard error, if it is a terminal, while a file is read in the block.

    Yield the function that wraps the opened file; None where rows come from elsewhere.
    """
    if file is None:
        yield None
        return
    with _passing_bar() as bar:
        yield lambda opened: bar.wrap_file(opened, file.stat().st_size, description=file.name)


@contextmanager
def reading_steps() -> Iterator[None]:
    """Show a bar on standard error, if it is a terminal, while readers open many files in the block."""
    from keras_selfattn.data.shown_steps import showing

    with _passing_bar() as bar, showing(lambda steps, what: bar.track(steps, description=what)):
        yield


def _passing_bar() -> "Progress":
    """Return a bar that is gone when it is done."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

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


def clock(seconds: float) -> str:
    """Return a duration as clocks show it.

    Example:

        >>> clock(5), clock(3725)
        ('0:05', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
