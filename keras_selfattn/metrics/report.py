"""The interface of all reports: figures for `metrics.json`, and tables for the run folder."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Columns(NamedTuple):
    """A table: its header, and rows with one value for each column."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class ClassReport:
    """Figures of one class, each in [0, 1] except `rows`, the number of rows with the label."""

    label: str
    precision: float
    recall: float
    f1: float
    rows: int


def precision_recall_f1(right: int, answered: int, there: int) -> tuple[float, float, float]:
    """Return precision, recall and F1 from counts; 0 where they are not defined.

    Args:
        right: count of true positives.
        answered: count of predicted positives.
        there: count of actual positives.
    """
    return right / max(1, answered), right / max(1, there), 2 * right / max(1, answered + there)


class Report(ABC):
    """Figures of a set of predictions."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def summary(self) -> dict[str, float]:
        """Return the figures of all rows by name, the most important first."""

    @abstractmethod
    def tables(self) -> dict[str, Columns]:
        """Return the tables to write to separate files, by name."""


def class_reports(labels: Sequence[str], columns: Sequence[Any]) -> tuple[ClassReport, ...]:
    """Return the figures of each class from columns of precision, recall, F1 and rows."""
    return tuple(
        ClassReport(label, float(precision), float(recall), float(f1), int(rows))
        for label, precision, recall, f1, rows in zip(labels, *columns, strict=True)
    )


def class_columns(classes: Sequence[ClassReport]) -> Columns:
    """Return the figures of each class as a table."""
    return Columns(
        ["label", "precision", "recall", "f1", "rows"],
        [(c.label, c.precision, c.recall, c.f1, c.rows) for c in classes],
    )
