"""Figures of the benchmarks' results, as matplotlib figures that pyplot does not manage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.results import Result
from benchmarks.scaling import EXPONENTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3  # of panels
_PANEL = (4.6, 2.6)  # inches
_PANELS = (
    ("n", "cpu median ms", "CPU ms", "time with length"),
    ("n", "memory MB", "memory, MB", "memory with length"),
    ("d", "cpu median ms", "CPU ms", "time with width"),
)
_AXES = {"n": "length n", "d": "width d"}


def bars(results: Sequence[Result], figure: str, label: str) -> "Figure":
    """Return a panel for each row, with a bar for each contestant that has the figure.

    Args:
        results: the measurements.
        figure: the name of the figure to draw.
        label: of the horizontal axis.
    """
    shown = [result for result in results if figure in result.figures]
    rows = list(dict.fromkeys(result.row for result in shown))
    columns = min(_COLUMNS, max(1, len(rows)))
    lines = max(1, -(-len(rows) // columns))
    drawn = _figure(_PANEL[0] * columns, _PANEL[1] * lines)
    panels = list(drawn.subplots(lines, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_visible(False)
    for axes, row in zip(panels, rows, strict=False):
        axes.set_visible(True)
        _bar_panel(axes, row, [result for result in shown if result.row == row], figure)
        axes.set_xlabel(label)
    return drawn


def scaling(results: Sequence[Result]) -> "Figure":
    """Return time and memory against length and time against width, with the fitted exponents."""
    drawn = _figure(15, 5)
    exponents = {result.contestant: result.figures for result in results if result.row == EXPONENTS}
    measured = [result for result in results if "n" in result.figures and not result.skipped]
    for axes, (size, figure, label, exponent) in zip(drawn.subplots(1, 3), _PANELS, strict=True):
        for name in dict.fromkeys(result.contestant for result in measured):
            points = _points(measured, name, size, figure)
            if not points:
                continue
            fitted = exponents.get(name, {}).get(exponent)
            shown = name if fitted is None else f"{name}: {fitted:.2f}"
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=shown)
        axes.set(xscale="log", yscale="log", xlabel=_AXES[size], ylabel=label)
        values = sorted({result.figures[size] for result in measured if figure in result.figures})
        axes.set_xticks(values, [f"{value:,.0f}" for value in values])
        axes.minorticks_off()
        axes.legend(fontsize="small", title="fitted exponent", title_fontsize="small")
    return drawn


def _points(measured: Sequence[Result], name: str, size: str, figure: str) -> list[tuple[float, float]]:
    """Points along one size, at the most frequent value of the other size."""
    other = "d" if size == "n" else "n"
    own = [result.figures for result in measured if result.contestant == name and figure in result.figures]
    values = [figures[other] for figures in own]
    most = max(values, key=values.count, default=None)
    found = {figures[size]: figures[figure] for figures in own if figures[other] == most}
    return sorted(found.items())


def _bar_panel(axes: Any, row: str, results: Sequence[Result], figure: str) -> None:
    values = [result.figures[figure] for result in results]
    container = axes.barh([result.contestant for result in results], values)
    axes.bar_label(container, fmt="%.3g", padding=2, fontsize="small")
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_title(row, fontsize="medium")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
