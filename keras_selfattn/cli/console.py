"""The console of all subcommands, and how TensorFlow is kept from printing over it."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.table import Table

from keras_selfattn.native_messages import held_back_stderr

# No markup: what is printed holds texts and labels of users, and "[red]" in one of them is no colour.
console = Console(markup=False, emoji=False)
# For what is not the result: a bar beside rows that go into a pipe.
error_console = Console(markup=False, emoji=False, stderr=True)


def import_tensorflow() -> None:
    """Import TensorFlow without its start-up messages; if that fails, they are shown."""
    with starting_tensorflow():
        import tensorflow as tf

        tf.config.list_physical_devices()  # looks for GPUs, and says so where there is none
        # Where one command trains several models, graphs are made anew, which TensorFlow warns of.
        tf.get_logger().setLevel("ERROR")


@contextmanager
def starting_tensorflow() -> Iterator[None]:
    """Import TensorFlow: say so, and hold its start-up messages back unless that fails."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Where nobody looks a status is not even to be written as nothing: that fails on a full device.
    waiting = console.status("Starting TensorFlow") if console.is_terminal else nullcontext()
    with waiting, held_back_stderr():
        yield


def program() -> str:
    """Return how this program is called from where the user stands: its path, if it is not on theirs."""
    name = "keras-selfattn"
    if shutil.which(name) or Path(sys.argv[0]).name != name:
        return name
    return os.path.relpath(sys.argv[0])


def print_command(*words: object) -> None:
    """Print a command to paste, on one line however long."""
    quoted = " ".join(shlex.quote(str(word)) for word in words)
    console.print(f"  {program()} {quoted}", soft_wrap=True, highlight=False)


def columns(title: str | None, *headers: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table with the given headers; those in `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table
