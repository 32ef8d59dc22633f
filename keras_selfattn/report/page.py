"""A report as one HTML file that loads nothing, runs nothing, and escapes every text of rows and labels."""

import base64
import hashlib
from collections.abc import Callable
from itertools import groupby
from typing import Any

from keras_selfattn import __version__
from keras_selfattn.drawing.charts import NAMED, alignment, bars, chart, confusion, histogram
from keras_selfattn.drawing.figures import Alignment, Bars, Chart, Confusion, Histogram
from keras_selfattn.drawing.markup import Markup, isolated, tag
from keras_selfattn.drawing.scales import number
from keras_selfattn.drawing.style import STYLE
from keras_selfattn.report.sections import Figure, Page, Section, Table

_DRAW: dict[type, Callable[[Any], Markup]] = {
    Chart: chart,
    Bars: bars,
    Histogram: histogram,
    Confusion: confusion,
    Alignment: alignment,
}
# Characters of a cell up to which it is one line, and up to which it is a name, not a text.
_SHORT, _LONG = 18, 60


def page_html(page: Page) -> str:
    """Return a page as HTML."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"keras-selfattn {__version__}"),
        tag("title", page.title),
        tag("style", Markup(STYLE)),
    )
    tiles = [tag("li", tag("b", value), tag("bdi", name)) for name, value in page.tiles]
    links = [tag("a", part.title, href=f"#part-{place}") for place, part in enumerate(page.sections)]
    main = [
        tag("h1", page.title, dir="auto"),
        *(tag("p", sentence, dir="auto") for sentence in page.about),
        tag("ul", *tiles, class_="tiles") if tiles else None,
        tag("nav", *links, aria_label="Sections"),
        *(_section(part, place) for place, part in enumerate(page.sections)),
    ]
    body = tag("body", tag("main", *main))
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _section(part: Section, place: int) -> Markup:
    """Return a section; figures that follow each other stand side by side where there is room."""
    shown = []
    for are_figures, blocks in groupby(part.blocks, key=lambda block: isinstance(block, Figure)):
        if are_figures:
            shown.append(tag("div", *(_figure(block) for block in blocks), class_="figures"))  # type: ignore[union-attr]
        else:
            shown += [
                _table(block, part.title) if isinstance(block, Table) else _sentence(block)
                for block in blocks
            ]
    return tag("section", tag("h2", part.title), *shown, id=f"part-{place}")


def _figure(figure: Figure) -> Markup:
    drawn = _DRAW[type(figure)](figure)
    if isinstance(figure, Confusion | Alignment) and _across(figure) > NAMED // 2:
        return Markup(drawn.replace("<figure>", '<figure class="wide">', 1))
    return drawn


def _across(figure: Confusion | Alignment) -> int:
    """Return the number of columns of a matrix."""
    return len(figure.labels if isinstance(figure, Confusion) else figure.source)


def _sentence(text: Any) -> Markup:
    return tag("p", text, dir="auto")


def _table(table: Table, heading: str) -> Markup:
    """Return a table; its title is left out if it is the section's heading."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in table.header)))
    body = tag("tbody", *(tag("tr", *map(_cell, row)) for row in table.rows))
    caption = None if table.folded or table.title == heading else tag("caption", table.title)
    drawn = tag("div", tag("table", caption, head, body), class_="scroll", tabindex=0)
    return tag("details", tag("summary", table.title), drawn) if table.folded else drawn


def _cell(value: Any) -> Markup:
    if isinstance(value, Markup):
        return tag("td", value, class_="text" if "<bdi" in value else None)
    if isinstance(value, bool) or value is None:
        return tag("td", "" if value is None else str(value))
    if isinstance(value, int | float):
        return tag("td", number(value), class_="number")
    size = len(str(value))
    kind = "short" if size <= _SHORT else "name" if size <= _LONG else "text"
    return tag("td", isolated(str(value)), class_=kind, dir="auto")
