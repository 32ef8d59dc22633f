"""The `keras-selfattn` command: finds the subcommand, and prints errors that users can fix as one line."""

import difflib
import importlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import Any

import click

from keras_selfattn import __version__
from keras_selfattn.asking.exit_status import FAILED, exit_status, output_failed
from keras_selfattn.cli.shared.panels import AFTER_INTERRUPT
from keras_selfattn.errors import MissingExtraError, PackageMisfitError, SelfAttentionError, Terminated
from keras_selfattn.extras import extras_of, install, misfit_error, missing_extra, raised_by_import
from keras_selfattn.serving.errors import ServingError

# In the order of their use. A module is imported only for its own command, so that `query` needs no
# TensorFlow.
_COMMANDS = (
    "quickstart",
    "pretrain",
    "train",
    "import",
    "evaluate",
    "compare",
    "export",
    "inspect",
    "versions",
    "predict",
    "serve",
    "open",
    "query",
    "embed",
    "status",
    "metadata",
)

# `import` is no name of a module, and `open` is a function.
_MODULES = {"import": "import_folder", "open": "open_page"}

# Seconds after which an interrupt that was dropped is raised once more.
_AGAIN = 0.1
_SIGNALLED = 128  # what a shell adds to the number of the signal that ended a program


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, so that drafts are removed; yield those received."""
    received: list[int] = []
    timers: list[Timer] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    # Python and native code print an exception that has nowhere to go, and go on: one of a `__del__`, such as
    # TensorFlow's, or of a function that JAX calls.
    def again(kind: type[BaseException], printed: Callable[[], Any]) -> None:
        if received and issubclass(kind, KeyboardInterrupt):
            timers.append(Timer(_AGAIN, os.kill, (os.getpid(), received[0])))
            timers[-1].start()
        else:
            printed()

    hooks = sys.unraisablehook, sys.excepthook
    sys.unraisablehook = lambda lost: again(lost.exc_type, lambda: hooks[0](lost))
    sys.excepthook = lambda *lost: again(lost[0], lambda: hooks[1](*lost))
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for timer in timers:
            timer.cancel()
        sys.unraisablehook, sys.excepthook = hooks
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings as their message alone, without file and line."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


class CommandGroup(click.Group):
    """A group that prints errors that users can fix as one line, and that signals interrupt.

    For a mistyped command it suggests the nearest ones; click does not if commands are imported late.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0].lower(), self.list_commands(ctx))
            if not near or "Did you mean" in error.message:
                raise
            suggested = f"{error.message} Did you mean {' or '.join(map(repr, near))}?"
            raise click.UsageError(suggested, ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        with _signals_interrupt() as received, _short_warnings():
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()  # here: at Python's end an error would be a traceback
                return result
            except (Exception, KeyboardInterrupt) as error:
                # TensorFlow's tracing turns an interrupt into errors of its own.
                if received:
                    click.echo(f"Interrupted.{ctx.meta.get(AFTER_INTERRUPT, '')}", err=True)
                    sys.exit(_SIGNALLED + received[0])
                if isinstance(error, SelfAttentionError | ServingError):
                    click.echo(f"Error: {error}", err=True)
                    sys.exit(exit_status(error))
                if isinstance(error, ModuleNotFoundError) and (extra := missing_extra(error)):
                    click.echo(
                        f"Error: This command needs {error.name}, which is not installed: {install(extra)}",
                        err=True,
                    )
                    sys.exit(FAILED)
                if (explained := _misfit(error, ctx.invoked_subcommand or "")) is not None:
                    click.echo(f"Error: {explained}", err=True)
                    sys.exit(FAILED)
                if isinstance(error, OSError) and error.filename is None:
                    sys.exit(output_failed(error))
                raise


CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}
"""Settings of every group's `click.Context`."""


class _Commands(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        try:
            return importlib.import_module(f"keras_selfattn.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and (extra := missing_extra(error, cmd_name)):
                words = f"This command needs {error.name}, which is not installed: {install(extra)}"
                missing = MissingExtraError(words)
                return _stand_in(cmd_name, missing, f"Not installed: {install(extra)}", error)
            explained = error if isinstance(error, PackageMisfitError) else _misfit(error, cmd_name)
            if explained is None:
                raise
            return _stand_in(cmd_name, explained, "Its packages do not fit each other.", error)


def _misfit(error: BaseException, command: str) -> PackageMisfitError | None:
    """Return the error that names packages which do not fit, if they may be why a module is not imported."""
    if not isinstance(error, Exception) or not raised_by_import(error.__traceback__):
        return None
    return misfit_error(error, extras_of(command), f"`{command}`" if command else "This command")


def _stand_in(name: str, explained: Exception, short_help: str, error: Exception) -> click.Command:
    """Return a stand-in for a command that cannot be imported: it says why, and what to install."""

    def fail(**_: Any) -> None:
        raise explained from error

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        name,
        callback=fail,
        params=[words],
        add_help_option=False,
        short_help=short_help,
        context_settings={"ignore_unknown_options": True},
    )


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="keras-selfattn")
def main() -> None:
    """Train, export, serve and query self-attention classifiers.

    Begin with `keras-selfattn quickstart`: all of it in one go, in a few minutes, with no download.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" instead of failing
