"""Figures as data, as the report of a run has them, drawn by matplotlib."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.drawing.colours import ink_on, sequential
from keras_selfattn.drawing.figures import Bars, Chart, Confusion, Histogram
from keras_selfattn.drawing.grids import NAMED
from keras_selfattn.drawing.markup import shortened
from keras_selfattn.plots.new_figures import count_along, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COUNTED = 12  # classes of a matrix whose cells have their counts written in
_LETTERS = 24  # of a name
_DASHES = ("-", "--", ":", "-.")


def drawn(figure: Chart | Bars | Histogram | Confusion, title: str | None = None) -> "Figure":
    """Return a figure drawn by matplotlib.

    Args:
        figure: the data.
        title: text above, by default the figure's own.
    """
    size, draw = _DRAW[type(figure)](figure)
    made = new_figure(*size, None)
    draw(made.subplots())
    made.suptitle(figure.title if title is None else title, wrap=True, parse_math=False)
    return made


def draw_chart(figure: Chart, axes: "Axes") -> None:
    """Draw lines, or dots, into axes."""
    for place, line in enumerate(figure.lines):
        style: dict[str, Any] = {"linestyle": "none" if line.dots else _DASHES[place % len(_DASHES)]}
        few = len(line.x) <= 60
        axes.plot(
            line.x, line.y, label=line.name, marker="o" if line.dots or few else None, markersize=3, **style
        )
    if figure.shares:
        axes.set(xlim=(0, 1), ylim=(0, 1))
    if figure.diagonal:
        axes.axline((0, 0), slope=1, color="0.5", linestyle=":", linewidth=1)
    if figure.mark is not None:
        axes.axvline(figure.mark[0], color="0.5", linestyle="--", linewidth=1)
        axes.annotate(
            figure.mark[1], (figure.mark[0], 1), xycoords=("data", "axes fraction"), va="bottom", ha="center"
        )
    axes.set(xlabel=figure.x_name, ylabel=figure.y_name)
    if figure.whole:
        count_along(axes.xaxis)
    _legend(axes, [line.name for line in figure.lines])


def draw_confusion(figure: Confusion, axes: "Axes") -> None:
    """Draw a confusion matrix into axes; the colour is the share of the label's rows."""
    from matplotlib.colors import ListedColormap

    count = len(figure.labels)
    shares = np.full((count, count), np.nan)
    for row, column, rows in figure.cells:
        shares[row, column] = rows / max(1, figure.totals[row])
        if count <= _COUNTED:
            ink = ink_on(1 - float(shares[row, column]))
            axes.text(column, row, f"{rows:,}", ha="center", va="center", color=ink)
    colours = ListedColormap([sequential(1 - place / 100) for place in range(101)])
    image = axes.imshow(shares, cmap=colours, vmin=0, vmax=1)
    bar: Any = axes.figure
    bar.colorbar(image, ax=axes, label="share of the label's rows", shrink=0.8)
    axes.set(xlabel="predicted", ylabel="label")
    if count > NAMED:
        return
    names = [shortened(label, _LETTERS) for label in figure.labels]
    axes.set_xticks(range(count), names, rotation=90, parse_math=False)
    axes.set_yticks(range(count), names, parse_math=False)


def _chart(figure: Chart) -> Any:
    return (5.6, 3.6), partial(draw_chart, figure)


def _confusion(figure: Confusion) -> Any:
    side = min(12.0, max(4.6, 2.4 + 0.3 * len(figure.labels)))
    return (side + 1, side), partial(draw_confusion, figure)


def _bars(figure: Bars) -> Any:
    return (5.6, 1.2 + 0.22 * len(figure.names) * (1 if figure.dots else len(figure.groups))), partial(
        _draw_bars, figure
    )


def _draw_bars(figure: Bars, axes: "Axes") -> None:
    places = np.arange(len(figure.names))
    high = 0.8 / len(figure.groups)
    for place, (name, values) in enumerate(figure.groups):
        if figure.dots:
            axes.plot(values, places, "|" if place else "o", markersize=9 - 3 * (not place), label=name)
        else:
            axes.barh(places + high * place, values, high, label=name)
    axes.set_yticks(
        places + (0 if figure.dots else 0.4 - high / 2),
        [shortened(name, _LETTERS) for name in figure.names],
        parse_math=False,
    )
    axes.set(xlabel=figure.value_name)
    axes.invert_yaxis()
    _legend(axes, [name for name, _ in figure.groups])


def _histogram(figure: Histogram) -> Any:
    return (5.6, 3.6), partial(_draw_histogram, figure)


def _draw_histogram(figure: Histogram, axes: "Axes") -> None:
    for place, (name, values) in enumerate(figure.groups):
        axes.stairs(values, figure.edges, fill=not place, alpha=0.7 if not place else 1, label=name)
    axes.set(xlabel=figure.x_name, ylabel="share of the rows" if figure.shares else "rows")
    _legend(axes, [name for name, _ in figure.groups])


def _legend(axes: "Axes", names: Sequence[str]) -> None:
    if any(names):
        for text in axes.legend().get_texts():
            text.set_parse_math(False)


_DRAW: dict[type, Callable[[Any], tuple[tuple[float, float], Callable[["Axes"], None]]]] = {
    Chart: _chart,
    Bars: _bars,
    Histogram: _histogram,
    Confusion: _confusion,
}
