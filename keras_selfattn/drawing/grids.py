"""A confusion matrix, and bars by name, as SVG."""

from collections.abc import Sequence

from keras_selfattn.drawing.charts import WIDTH, framed, legend
from keras_selfattn.drawing.colours import level_of
from keras_selfattn.drawing.figures import Bars, Confusion
from keras_selfattn.drawing.markup import Markup, join, shortened, tag
from keras_selfattn.drawing.scales import Scale, number, span, tick_name, ticks

# Counts are written in the cells of so many classes, names at the sides of so many.
_COUNTED, NAMED = 12, 60
MOST_CLASSES = 200
"""Classes of a matrix as a picture; the cells of more would be too small."""
MOST_CELLS = 4_000
"""Cells of a matrix as a picture, those with the most rows; it bounds the size of the file."""
_LETTERS = 14  # of a name at the side
_TOLD = 40  # of a name in a tooltip; it bounds the size of the file


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
    shown, middle = shortened(label, _LETTERS), round(room + (place + 0.5) * side, 1)
    told = tag("title", shortened(label, _TOLD))
    left = tag("text", told, shown, x=room - 4, y=middle + 4, text_anchor="end")
    turned = f"translate({middle + 4:g} {room - 4}) rotate(-90)"
    return join([left, tag("text", told, shown, transform=turned)])


def _colour_key() -> Markup:
    steps = [tag("rect", x=12 * n, y=0, width=12, height=10, class_=level_of(n / 10)) for n in range(11)]
    scale = tag("svg", *steps, width=132, height=10, aria_hidden="true")
    return tag("p", "0% ", scale, " 100% of the label's rows; empty cells: none", class_="key")


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
