"""`keras-selfattn compare`: the figures and the settings of several runs beside each other."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from keras_selfattn.cli.shared.console import check_page_file, columns, console
from keras_selfattn.cli.shared.panels import PATH, Option, PanelCommand
from keras_selfattn.errors import DataError
from keras_selfattn.files.atomic import text_destination
from keras_selfattn.runs.run_folder import check_no_file_of_run

if TYPE_CHECKING:
    from keras_selfattn.report.comparison import Compared, RunFiles

_EDGES = 3  # of a column: a line and two blanks
_WIDEST = 32  # of a column beside others; longer cells are folded

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
        check_no_file_of_run("--html", html)
        check_page_file("--html", html)
    found = read_runs(runs)
    _print(found)
    if html is not None:
        from keras_selfattn.report.page import page_html

        _write(html, page_html(comparison(found)))


def _print(runs: Sequence["RunFiles"]) -> None:
    """Print the figures, and the settings that differ."""
    from keras_selfattn.report.comparison import compared_figures, different_settings, warning_of_rows

    names = [run.name for run in runs]
    _print_beside("Figures", "figure", names, compared_figures(runs), right=True)
    if warning := warning_of_rows(runs):
        console.print(warning)
    settings = different_settings(runs)
    if not settings:
        console.print("All settings are the same.")
        return
    _print_beside("Settings that differ", "setting", names, settings, right=False)


def _print_beside(
    title: str, what: str, names: Sequence[str], lines: Sequence["Compared"], *, right: bool
) -> None:
    """Print a table of the runs, or several below each other if the terminal has no room for all."""
    for shown in _tables_of([what, *(each.name for each in lines)], names, lines):
        table = columns(title, what, *(names[n] for n in shown), right=[names[n] for n in shown] * right)
        for each in lines:
            cells = [Text(each.values[n], "bold" if n in each.best else "") for n in shown]
            table.add_row(each.name, *cells)
        console.print(table)


def _tables_of(
    first: Sequence[str], names: Sequence[str], lines: Sequence["Compared"]
) -> Iterator[list[int]]:
    """Yield the places of the runs of each table, as many as stand beside the first column."""
    start = _EDGES + min(max(map(len, first)), _WIDEST)
    used, shown = start, []
    for place, name in enumerate(names):
        widest = max(len(name), *(len(each.values[place]) for each in lines), 1)
        width = _EDGES + min(widest, _WIDEST)
        if shown and used + width >= console.width:
            yield shown
            used, shown = start, []
        used, shown = used + width, [*shown, place]
    yield shown


def _write(file: Path, content: str) -> None:
    try:
        with text_destination(file) as stream:
            stream.write(content)
    except OSError as error:
        raise DataError(f"--html {file} cannot be written: {error.strerror or error}.") from error
    console.print(f"Wrote the page to {file}.", soft_wrap=True)
