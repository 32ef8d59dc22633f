"""The figures as SVG: charts of lines, histograms, bars by name, confusion matrices, and alignments.

The sizes are for a column of 360 pixels, which a telephone shows without a change; wider places scale them.
"""

from collections.abc import Sequence

from keras_selfattn.drawing.colours import level_of
from keras_selfattn.drawing.figures import Alignment, Bars, Chart, Confusion, Histogram, Line
from keras_selfattn.drawing.markup import Markup, join, shortened, tag
from keras_selfattn.drawing.scales import LARGEST, Scale, number, span, tick_name, ticks

WIDTH, HEIGHT = 360, 232
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 16, 40
_MOST_DOTS = 60  # of a line; more would hide it
_DASHES = (None, "6 3", "2 3", "8 3 2 3")
# Counts are written in the cells of so many classes, names at the sides of so many.
_COUNTED, NAMED = 12, 60
MOST_CLASSES = 200
"""Classes of a matrix as a picture; the cells of more would be too small."""
MOST_CELLS = 4_000
"""Cells of a matrix as a picture, those with the most rows; it bounds the size of the file."""
_LETTERS = 14  # of a name at the side
_TOLD = 40  # of a name in a tooltip; it bounds the size of the file


def chart(figure: Chart) -> Markup:
    """Return a chart with its title and legend."""
    xs = [x for line in figure.lines for x in line.x]
    ys = [y for line in figure.lines for y in line.y]
    if figure.diagonal:
        xs, ys = xs + ys, xs + ys
    across = Scale(*((0, 1) if figure.shares else span(xs)), _LEFT, WIDTH - _RIGHT)
    up = Scale(*((0, 1) if figure.shares else _with_room(*span(ys))), HEIGHT - _BOTTOM, _TOP)
    parts = [axes(across, up, figure.x_name, figure.y_name, whole=figure.whole)]
    if figure.diagonal:
        low, high = max(across.low, up.low), min(across.high, up.high)
        parts.append(_segment(across(low), up(low), across(high), up(high), "diagonal"))
    if figure.mark is not None:
        parts.append(_mark(across(figure.mark[0]), figure.mark[1]))
    parts += [_line(line, place, across, up) for place, line in enumerate(figure.lines)]
    names = [line.name for line in figure.lines]
    return framed(figure.title, join(parts), legend(names, lines=not all(line.dots for line in figure.lines)))


def histogram(figure: Histogram) -> Markup:
    """Return a histogram with its title and legend; the groups stand before each other."""
    across = Scale(figure.edges[0], figure.edges[-1], _LEFT, WIDTH - _RIGHT)
    highest = span([value for _, values in figure.groups for value in values], least=0)[1]
    up = Scale(0, highest * 1.05, HEIGHT - _BOTTOM, _TOP)
    parts = [
        axes(
            across,
            up,
            figure.x_name,
            "share of the rows" if figure.shares else "rows",
            counts=not figure.shares,
        )
    ]
    for place, (name, values) in enumerate(figure.groups):
        drawn = _outline if place else _columns
        parts += drawn(figure.edges, values, name, place, across, up)
    return framed(figure.title, join(parts), legend([name for name, _ in figure.groups]))


def _columns(
    edges: Sequence[float], values: Sequence[float], name: str, place: int, across: Scale, up: Scale
) -> list[Markup]:
    """Return the columns of a group's counts."""
    found = []
    for left, right, value in zip(edges, edges[1:], values, strict=False):
        if value:
            said = f"{name + ', ' if name else ''}{number(left)} to {number(right)}: {number(value)}"
            size = {
                "width": max(0.5, round(across(right) - across(left) - 0.5, 1)),
                "height": round(up(0) - up(value), 1),
            }
            found.append(
                tag("rect", tag("title", said), x=across(left), y=up(value), **size, class_=f"bar c{place}")
            )
    return found


def _outline(
    edges: Sequence[float], values: Sequence[float], name: str, place: int, across: Scale, up: Scale
) -> list[Markup]:
    """Return the outline of a group's counts, which leaves the columns behind it in sight."""
    corners = [f"{across(edges[0]):g},{up(0):g}"]
    for left, right, value in zip(edges, edges[1:], values, strict=False):
        corners += [f"{across(left):g},{up(value):g}", f"{across(right):g},{up(value):g}"]
    corners.append(f"{across(edges[-1]):g},{up(0):g}")
    return [tag("polyline", tag("title", name), points=" ".join(corners), class_=f"line c{place}")]


def framed(
    title: str, content: Markup, below: Markup | None = None, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> Markup:
    """Return a drawing as a figure: its title, then the picture, then what is below."""
    width, height = size
    picture = tag(
        "svg",
        content,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
    )
    return tag("figure", tag("figcaption", tag("bdi", title)), picture, below)


def legend(names: Sequence[str], *, lines: bool = False) -> Markup | None:
    """Return the names of lines or bars beside their colours; None for one without a name."""
    if not any(names):
        return None
    shown = []
    for place, name in enumerate(names):
        if lines:
            key = tag(
                "line", x1=0, y1=5, x2=22, y2=5, class_=f"line c{place % 8}", stroke_dasharray=dash(place)
            )
        else:
            key = tag("rect", x=4, y=0, width=10, height=10, class_=f"bar c{place % 8}")
        shown.append(tag("li", tag("svg", key, width=22, height=10, aria_hidden="true"), tag("bdi", name)))
    return tag("ul", *shown, class_="legend")


def dash(place: int) -> str | None:
    """Return the dashes of a line, which tell it from others without its colour."""
    return _DASHES[place % len(_DASHES)]


def axes(
    across: Scale, up: Scale, x_name: str, y_name: str, *, whole: bool = False, counts: bool = False
) -> Markup:
    """Return both axes with their ticks and names, and the lines of a grid.

    Args:
        across: the horizontal axis.
        up: the vertical axis.
        x_name: of the horizontal axis.
        y_name: of the vertical axis.
        whole: True for ticks at whole numbers across.
        counts: True for ticks at whole numbers upwards.
    """
    parts = []
    for value in ticks(up.low, up.high, whole=counts):
        parts.append(_segment(_LEFT, up(value), WIDTH - _RIGHT, up(value), "grid"))
        parts.append(tag("text", tick_name(value), x=_LEFT - 5, y=up(value) + 4, text_anchor="end"))
    for value in ticks(across.low, across.high, whole=whole):
        parts.append(
            tag("text", tick_name(value), x=across(value), y=HEIGHT - _BOTTOM + 15, text_anchor="middle")
        )
    parts.append(_segment(_LEFT, HEIGHT - _BOTTOM, WIDTH - _RIGHT, HEIGHT - _BOTTOM, "axis"))
    middle = (HEIGHT - _BOTTOM + _TOP) / 2
    parts.append(
        tag("text", x_name, x=(WIDTH + _LEFT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="name")
    )
    turned = f"rotate(-90 10 {middle:g})"
    parts.append(tag("text", y_name, x=10, y=middle, text_anchor="middle", transform=turned, class_="name"))
    return join(parts)


def _line(line: Line, place: int, across: Scale, up: Scale) -> Markup:
    """Return a line, with gaps where a value is not finite or too large, and a title for each point."""
    style = f"c{place % 8}"
    known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if abs(x) < LARGEST and abs(y) < LARGEST]
    parts = []
    if not line.dots and len(known) > 1:
        points = " ".join(f"{across(x):g},{up(y):g}" for x, y in known)
        parts.append(tag("polyline", points=points, class_=f"line {style}", stroke_dasharray=dash(place)))
    if line.dots or len(known) <= _MOST_DOTS:
        parts += [
            tag(
                "circle",
                tag("title", f"{line.name + ': ' if line.name else ''}{number(x)}, {number(y)}"),
                cx=across(x),
                cy=up(y),
                r=2.2,
                class_=f"dot {style}",
            )
            for x, y in known
        ]
    return join(parts)


def _mark(x: float, name: str) -> Markup:
    """Return a vertical line with its name above the plot, where no line crosses it."""
    right = x < (WIDTH + _LEFT) / 2
    words = tag("text", name, x=x, y=_TOP - 4, text_anchor="start" if right else "end")
    return join([_segment(x, _TOP, x, HEIGHT - _BOTTOM, "mark"), words])


def _segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _with_room(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.05
    return (low if low == 0 else low - room), high + room


def confusion(figure: Confusion) -> Markup:
    """Return a confusion matrix: the colour is the share of the label's rows; each cell has its counts."""
    count = len(figure.labels)
    side = max(4.5, min(44.0, 340 / count)) if count > NAMED else max(16.0, min(44.0, 264 / count))
    names = count <= NAMED
    letters = max(len(shortened(label, _LETTERS)) for label in figure.labels) if names else 0
    room = 26 + round(6.6 * letters)
    cells = sorted(figure.cells, key=lambda cell: -cell[2])[:MOST_CELLS]
    length = round(count * side, 1)
    parts = [tag("rect", x=room, y=room, width=length, height=length, class_="matrix")]
    parts += [_cell(figure, *cell, room, side) for cell in cells]
    if names:
        parts += [_name(label, place, room, side) for place, label in enumerate(figure.labels)]
    middle = room + length / 2
    parts.append(tag("text", "predicted", x=middle, y=12, text_anchor="middle", class_="name"))
    turned = f"rotate(-90 12 {middle:g})"
    parts.append(tag("text", "label", x=12, y=middle, text_anchor="middle", transform=turned, class_="name"))
    whole = round(room + length + 4)
    # As wide as other figures: a matrix of two classes would be drawn at three times its size.
    return framed(figure.title, join(parts), _colour_key(), (max(whole, WIDTH), whole))


def _cell(figure: Confusion, row: int, column: int, rows: int, room: float, side: float) -> Markup:
    share = rows / max(1, figure.totals[row])
    x, y = round(room + column * side, 1), round(room + row * side, 1)
    label, predicted = (shortened(figure.labels[place], _TOLD) for place in (row, column))
    words = f"{label} predicted as {predicted}: {rows:,} of {figure.totals[row]:,} ({share:.0%})"
    parts = [
        tag("title", words),
        tag("rect", x=x, y=y, width=round(side, 1), height=round(side, 1), class_=level_of(share)),
    ]
    if len(figure.labels) <= _COUNTED:
        place = {"x": round(x + side / 2, 1), "y": round(y + side / 2 + 4, 1)}
        parts.append(
            tag("text", number(rows), **place, text_anchor="middle", class_=f"count {level_of(share)}")
        )
    return tag("g", *parts)


def _name(label: str, place: int, room: float, side: float) -> Markup:
    """Return a label's name at the left and, turned, above."""
    return join([_name_at_left(label, place, room, room, side), _name_above(label, place, room, room, side)])


def _name_at_left(label: str, place: int, left: float, top: float, side: float) -> Markup:
    told, shown, middle = _told(label, place, top, side)
    return tag("text", told, shown, x=left - 4, y=middle + 4, text_anchor="end")


def _name_above(label: str, place: int, left: float, top: float, side: float) -> Markup:
    told, shown, middle = _told(label, place, left, side)
    return tag("text", told, shown, transform=f"translate({middle + 4:g} {top - 4:g}) rotate(-90)")


def _told(label: str, place: int, room: float, side: float) -> tuple[Markup, str, float]:
    """Return a name's tooltip, what is shown of it, and the middle of its row or column."""
    told = tag("title", shortened(label, _TOLD))
    return told, shortened(label, _LETTERS), round(room + (place + 0.5) * side, 1)


def _colour_key(whole: str = "of the label's rows; empty cells: none") -> Markup:
    steps = [tag("rect", x=12 * n, y=0, width=12, height=10, class_=level_of(n / 10)) for n in range(11)]
    scale = tag("svg", *steps, width=132, height=10, aria_hidden="true")
    return tag("p", "0% ", scale, f" 100% {whole}", class_="key")


def alignment(figure: Alignment) -> Markup:
    """Return the weights of an answer's symbols as a matrix: its symbols at the left, the source's above."""
    side = max(14.0, min(24.0, 264 / max(1, len(figure.source))))
    left, top = (
        12 + round(6.6 * max((len(shortened(name, _LETTERS)) for name in names), default=0))
        for names in (figure.target, figure.source)
    )
    width, height = (round(len(names) * side, 1) for names in (figure.source, figure.target))
    parts = [tag("rect", x=left, y=top, width=width, height=height, class_="matrix")]
    parts += [_name_above(name, place, left, top, side) for place, name in enumerate(figure.source)]
    for row, (written, weights) in enumerate(zip(figure.target, figure.weights, strict=True)):
        parts.append(_name_at_left(written, row, left, top, side))
        for column, (read, weight) in enumerate(zip(figure.source, weights, strict=True)):
            place = {"x": round(left + column * side, 1), "y": round(top + row * side, 1)}
            size = {"width": round(side, 1), "height": round(side, 1)}
            words = f"{shortened(written, _TOLD)} reads {shortened(read, _TOLD)}: {weight:.0%}"
            parts.append(tag("g", tag("title", words), tag("rect", **place, **size, class_=level_of(weight))))
    size = max(round(left + width + 4), WIDTH), round(top + height + 4)
    return framed(figure.title, join(parts), _colour_key("of what a symbol reads"), size)


def bars(figure: Bars) -> Markup:
    """Return bars, or dots, from the left to the right, a line for each name."""
    left, width, row = 118, 360, 14 if figure.dots else 8 + 9 * len(figure.groups)
    height = row * len(figure.names) + 40
    values = [value for _, each in figure.groups for value in each]
    across = Scale(0, figure.limit or span(values, least=0)[1], left, width - 22)
    bottom = height - 34
    parts = []
    for value in ticks(0, across.high, 4):
        parts.append(tag("line", x1=across(value), y1=2, x2=across(value), y2=bottom, class_="grid"))
        parts.append(tag("text", tick_name(value), x=across(value), y=bottom + 14, text_anchor="middle"))
    for place, name in enumerate(figure.names):
        y = 4 + place * row
        shown, told = shortened(name, 16), shortened(name, _TOLD)
        parts.append(tag("text", tag("title", told), shown, x=left - 6, y=y + row / 2 + 1, text_anchor="end"))
        parts += _marks(figure, place, told, y, row, across)
    middle = (left + width) / 2
    parts.append(tag("text", figure.value_name, x=middle, y=height - 5, text_anchor="middle", class_="name"))
    return framed(figure.title, join(parts), legend([name for name, _ in figure.groups]), (width, height))


def _marks(figure: Bars, place: int, name: str, y: float, row: float, across: Scale) -> Sequence[Markup]:
    found = []
    for group, (title, values) in enumerate(figure.groups):
        value = values[place]
        words = tag("title", f"{name}{', ' + title if title else ''}: {number(value)}")
        style = f"{'dot' if figure.dots else 'bar'} c{group}"
        if figure.dots:
            found.append(_dot(words, across(value), y + row / 2 - 3, style, group))
        else:
            size = {"width": round(across(value) - across(0), 1), "height": 8}
            found.append(tag("rect", words, x=across(0), y=y + 9 * group, **size, class_=style))
    return found


def _dot(words: Markup, x: float, y: float, style: str, group: int) -> Markup:
    """Return a circle or, of the second group, an upright line, so that both are seen in one place."""
    if group:
        return tag("rect", words, x=round(x - 1.5, 1), y=y - 5.5, width=3, height=11, class_=style)
    return tag("circle", words, cx=x, cy=y, r=4, class_=style)
