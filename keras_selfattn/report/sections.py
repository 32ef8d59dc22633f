"""The parts of a report as data: sections of figures, tables and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_selfattn.drawing.figures import Alignment, Bars, Chart, Confusion, Histogram

Figure = Chart | Bars | Histogram | Confusion | Alignment
"""A figure on the page."""


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: above.
        header: names of the columns.
        rows: cells: texts, numbers, which are aligned to the right, or markup.
        folded: True shows the title alone until it is clicked.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Args:
        title: its heading.
        blocks: sentences, figures and tables, in their order.
    """

    title: str
    blocks: Sequence[str | Figure | Table]


@dataclass(frozen=True)
class Page:
    """A whole page.

    Args:
        title: its heading.
        about: sentences below it.
        tiles: the most important figures: name and value as text.
        sections: in their order.
    """

    title: str
    about: Sequence[str]
    tiles: Sequence[tuple[str, str]]
    sections: Sequence[Section]
