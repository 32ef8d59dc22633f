"""Figures as data: computed once, and drawn as SVG or by matplotlib.

A figure holds Python numbers and texts; a value that is not finite is a gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """A line through points.

    Args:
        name: for the legend.
        x: the place of each point.
        y: its value.
        dots: True draws the points alone.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over two axes.

    Args:
        title: above.
        x_name: of the horizontal axis.
        y_name: of the vertical axis.
        lines: in the order of their colours, at most eight.
        mark: a place on the horizontal axis and its name.
        diagonal: True draws the line of equal values.
        whole: True for places that are whole numbers, such as epochs.
        shares: True for axes that both span 0 to 1.
    """

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    mark: tuple[float, str] | None = None
    diagonal: bool = False
    whole: bool = False
    shares: bool = False


@dataclass(frozen=True)
class Bars:
    """Values of groups, side by side for each name.

    Args:
        title: above.
        names: in the order of the bars.
        groups: values by the name of the group, one for each of `names`.
        value_name: of the values' axis.
        limit: the end of the values' axis, if not that of the values.
        dots: True draws dots in place of bars.
    """

    title: str
    names: Sequence[str]
    groups: Sequence[tuple[str, Sequence[float]]]
    value_name: str
    limit: float | None = None
    dots: bool = False


@dataclass(frozen=True)
class Histogram:
    """Counts of values between edges.

    Args:
        title: above.
        x_name: of the values.
        edges: one more than the counts.
        groups: counts by the name of the group.
        shares: True for shares of the group in place of counts.
    """

    title: str
    x_name: str
    edges: Sequence[float]
    groups: Sequence[tuple[str, Sequence[float]]]
    shares: bool = False


@dataclass(frozen=True)
class Confusion:
    """Counts of rows by label and prediction.

    Args:
        title: above.
        labels: of both axes, in their order.
        cells: row, column and count of each cell above 0.
        totals: rows of each label.
    """

    title: str
    labels: Sequence[str]
    cells: Sequence[tuple[int, int, int]]
    totals: Sequence[int] = field(default=())


@dataclass(frozen=True)
class Alignment:
    """How strongly each symbol of an answer attends to each one of its source.

    Args:
        title: above.
        source: the symbols of the source, across.
        target: those of the answer, from the top down.
        weights: of each symbol of the answer, those of the source, in [0, 1].
    """

    title: str
    source: Sequence[str]
    target: Sequence[str]
    weights: Sequence[Sequence[float]]
