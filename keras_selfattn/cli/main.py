"""The `keras-selfattn` command: finds the subcommand, and turns what users can mend into one clear line."""

import importlib
import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from keras_selfattn import __version__
from keras_selfattn.cli.exit_status import exit_status
from keras_selfattn.errors import SelfAttentionError
from keras_selfattn.serving.errors import ServingError

# In the order in which one needs them. A module is imported when its command is asked for: `query` answers
# without TensorFlow.
_COMMANDS = (
    "quickstart",
    "pretrain",
    "train",
    "evaluate",
    "export",
    "inspect",
    "versions",
    "serve",
    "query",
    "status",
    "metadata",
    "bench",
)

_SIGNALLED = 128  # what a shell adds to the number of the signal that ended a program


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """Lets SIGINT and SIGTERM raise KeyboardInterrupt, so that drafts are removed; yields those received."""
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return importlib.import_module(f"keras_selfattn.cli.{cmd_name}").command

    def invoke(self, ctx: click.Context) -> Any:
        with _signals_interrupt() as received:
            try:
                return super().invoke(ctx)
            except (Exception, KeyboardInterrupt) as error:
                # TensorFlow's tracing makes errors of its own of an interrupt that meets it.
                if received:
                    click.echo("Interrupted.", err=True)
                    sys.exit(_SIGNALLED + received[0])
                if isinstance(error, SelfAttentionError | ServingError):
                    click.echo(f"Error: {error}", err=True)
                    sys.exit(exit_status(error))
                raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="keras-selfattn")
def main() -> None:
    """Train, export, serve and query self-attention classifiers.

    Begin with `keras-selfattn quickstart`: all of it in one go, in a few minutes, with no download.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" instead of failing
