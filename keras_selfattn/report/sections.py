"""The parts of a report as data: sections of figures, tables and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_selfattn.drawing.figures import Bars, Chart, Confusion, Histogram

Figure = Chart | Bars | Histogram | Confusion
"""A figure on the page, and as a picture of its own."""


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
class Named:
    """A figure with the name of its picture's file.

    Args:
        name: without ending.
        figure: what is drawn.
    """

    name: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Args:
        title: its heading.
        blocks: sentences, figures and tables, in their order.
    """

    title: str
    blocks: Sequence[str | Named | Table]


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

    def figures(self) -> list[Named]:
        """Return all figures, in their order."""
        return [block for part in self.sections for block in part.blocks if isinstance(block, Named)]
