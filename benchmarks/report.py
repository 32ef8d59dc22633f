"""Results of `python -m benchmarks`, as tables on the terminal and as files."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.results import Result, Table

_LEAST = {"cpu median ms": "cpu min ms", "wall median ms": "wall min ms"}  # shown behind it
_PIPE = 120  # columns
_PERCENT = {
    "of matmul rate",
    "rate",
    "accuracy",
    "as ours",
    "test exact",
    "longer exact",
    "4 beams exact",
    "4 beams symbol errors",
    "test symbol errors",
}
_TINY = {"difference", "gradient"}


def check_plot(plot: Path | None) -> None:
    """Fail before anything is measured if a requested figure cannot be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    if plot is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError("--plot needs matplotlib: pip install 'keras-selfattn[plots]'.") from None


def report(
    table: "Table",
    shown: dict[str, str],
    csv_file: Path | None,
    plot: Path | None,
    drawn: tuple[str, str] | None,
) -> None:
    """Print a table for each row, then write the requested files.

    Args:
        table: the results.
        shown: header by figure, in the order of the columns.
        csv_file: CSV to write, or None.
        plot: figure to write, or None.
        drawn: the figure that the bars show, and their label; None draws the growth of `bench scaling`.

    Raises:
        ConfigError: nothing was measured.
    """
    from benchmarks.machine import machine, versions
    from benchmarks.results import write_csv

    if not table.results:
        raise ConfigError("Nothing to measure: no row and contestant together hold all that --only asks for.")
    for line in (machine(), versions(), *table.notes):
        console.print(line, highlight=False, soft_wrap=True)
    for row in dict.fromkeys(result.row for result in table.results):
        _print_row(row, [result for result in table.results if result.row == row], shown)
    if csv_file is not None:
        write_csv(csv_file, table.results)
        console.print(f"Wrote {csv_file}")
    if plot is not None:
        _draw(table, drawn, plot)
        console.print(f"Wrote {plot}")


def _print_row(row: str, results: "list[Result]", shown: dict[str, str]) -> None:
    names = [name for name in shown if any(name in result.figures for result in results)]
    headers = [shown[name] for name in names]
    table = columns(None, "", *headers, right=headers)
    table.columns[0].no_wrap = True
    for result in results:
        if not result.skipped:
            table.add_row(result.contestant, *(_cell(name, result.figures) for name in names))
    console.print(f"\n{row}", style="bold", highlight=False, soft_wrap=True)
    if names:
        wide_console().print(table)
    for result in results:
        remark = f"skipped: {result.skipped}" if result.skipped else result.note
        if remark:
            console.print(f"  {result.contestant}: {remark}", highlight=False, soft_wrap=True)


def _cell(name: str, figures: dict[str, float]) -> str:
    least = number(name, figures.get(_LEAST.get(name, "")))
    return number(name, figures.get(name)) + (f" ({least})" if least else "")


def number(name: str, value: float | None) -> str:
    """Return a value of a figure as it is shown; empty for none."""
    if value is None:
        return ""
    if name in _PERCENT:
        return f"{value:.1%}"
    if name in _TINY:
        return f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _draw(table: "Table", drawn: tuple[str, str] | None, plot: Path) -> None:
    import io

    from benchmarks import figures
    from keras_selfattn.files.atomic import write_file

    figure = figures.scaling(table.results) if drawn is None else figures.bars(table.results, *drawn)
    image = io.BytesIO()
    figure.savefig(image, format=plot.suffix.lstrip(".") or "png", dpi=120)
    write_file(plot, image.getvalue())


def wide_console() -> Console:
    """Return the console for tables: a pipe sets no width, and folded numbers cannot be read."""
    return console if console.is_terminal else Console(markup=False, emoji=False, width=_PIPE)
