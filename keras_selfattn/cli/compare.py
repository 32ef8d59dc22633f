"""`keras-selfattn compare`: the figures and the settings of several runs beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from keras_selfattn.atomic import check_writable, is_stream, text_destination
from keras_selfattn.cli.console import columns, console
from keras_selfattn.cli.panels import PATH, Option, PanelCommand
from keras_selfattn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from keras_selfattn.report.comparison import RunFiles

_PANELS = {
    "Options": (
        Option(
            "--html",
            type=PATH,
            help="File to write a page to (.html): the tables, and the curves of all runs in one chart each.",
        ),
    )
}


@click.command("compare", cls=PanelCommand, panels=_PANELS)
@click.argument("runs", type=PATH, nargs=-1, required=True)
def command(runs: tuple[Path, ...], html: Path | None) -> None:
    """Compare RUNS, run folders of one task.

    The best value of each figure is bold. Of the settings those are shown that differ.
    """
    from keras_selfattn.report.comparison import comparison, read_runs

    if html is not None:
        _check_file(html)
    found = read_runs(runs)
    _print(found)
    if html is not None:
        from keras_selfattn.report.page import page

        _write(html, page(comparison(found)))


def _print(runs: Sequence["RunFiles"]) -> None:
    """Print the figures, and the settings that differ."""
    from keras_selfattn.report.comparison import compared_figures, different_settings, warning_of_rows

    names = [run.name for run in runs]
    table = columns("Figures", "figure", *names, right=names)
    for figure in compared_figures(runs):
        cells = [Text(value, "bold" if n in figure.best else "") for n, value in enumerate(figure.values)]
        table.add_row(figure.name, *cells)
    console.print(table)
    if warning := warning_of_rows(runs):
        console.print(warning)
    settings = different_settings(runs)
    if not settings:
        console.print("All settings are the same.")
        return
    table = columns("Settings that differ", "setting", *names)
    for setting in settings:
        table.add_row(setting.name, *setting.values)
    console.print(table)


def _check_file(file: Path) -> None:
    """Raise ConfigError if a page could not be written."""
    try:
        if file.is_dir():
            raise ConfigError(f"--html must be a file. Received {str(file)!r}, a folder.")
        if not (file.exists() and is_stream(file)):
            check_writable(file)
    except OSError as error:
        raise ConfigError(f"--html {file} cannot be written: {error.strerror or error}.") from error


def _write(file: Path, content: str) -> None:
    try:
        with text_destination(file) as stream:
            stream.write(content)
    except OSError as error:
        raise DataError(f"--html {file} cannot be written: {error.strerror or error}.") from error
    console.print(f"Wrote the page to {file}.", soft_wrap=True)
