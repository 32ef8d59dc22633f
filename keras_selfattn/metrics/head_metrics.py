"""The figures of one head's answers: a class for each kind of head, found by the head's class.

A further head has a subclass of `HeadMetrics` beside its report in this folder, registered with
`@head_metrics.register(ItsHead)`; `report_of_model` imports it. Heads derived from a registered one have its
metrics.

Axes: B (rows), C (classes).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError
from keras_selfattn.metrics.report import Report
from keras_selfattn.metrics.span_matches import Span
from keras_selfattn.models.heads.class_heads import Head

AnyHead = TypeVar("AnyHead", bound=Head)
Line = tuple[Any, ...]
"""A mistake: the row's place in its source, its number, a value for each column, its probability or error."""


class Decisions(NamedTuple):
    """Answers beside their probabilities.

    Args:
        right: True for a right answer, bool `[answers]`.
        probability: that the head gave each, float `[answers]`.
    """

    right: np.ndarray
    probability: np.ndarray


class RowOfSpans(NamedTuple):
    """A row with wrong spans.

    Args:
        row: its number.
        there: its spans.
        given: the predicted ones.
        wrong: the number of spans that are missed, not there, or others than those that they overlap.
    """

    row: int
    there: Sequence[Span]
    given: Sequence[Span]
    wrong: int


class HeadMetrics(ABC, Generic[AnyHead]):
    """All that reports ask of a head's outputs on rows with known targets.

    Args:
        head: the head of the model.

    Attributes:
        columns: names of the values of a mistake, after the columns of its row.
        ranked_by: of the last value, by which mistakes are ranked: the probability of a wrong answer, or the
            error of one that is never exactly right, so that all rows are listed.
        decided: in words, what a probability belongs to, for the section about them.
        rows_of_epoch: the most rows of which `chooses_epoch` is computed after each epoch; None for all.
    """

    columns: ClassVar[Sequence[str]] = ("label", "predicted")
    ranked_by: ClassVar[Literal["probability", "error"]] = "probability"
    decided: ClassVar[str] = "each answer"
    rows_of_epoch: ClassVar[int | None] = None

    def __init__(self, head: AnyHead) -> None:
        self.head = head

    @abstractmethod
    def report(self, targets: Sequence[Any], outputs: Any, baselines: Mapping[str, np.ndarray]) -> Report:
        """Return the figures of outputs.

        Args:
            targets: as the head reads them. Labels that the model does not know count as never predicted.
            outputs: the model's predictions for the rows, in their order.
            baselines: predictions of baselines for the same rows, by name; there are some for numbers only.
        """

    @abstractmethod
    def mistakes(self, rows: LabelledRows, outputs: Any) -> list[Line]:
        """Return the rows that are predicted wrongly, in any order; of numbers, all."""

    @abstractmethod
    def decisions(self, targets: Sequence[Any], outputs: Any) -> Decisions | None:
        """Return which answers are right, and their probabilities; None for a head without probabilities.

        Without them a report has no section about their reliability.
        """

    def chooses_epoch(self, targets: Sequence[Any]) -> str | None:
        """Return the figure of a report whose best epoch is kept: the lowest error rate, else the highest.

        None if the mean over steps tells as much: then the metric that the head monitors chooses the epoch,
        and the answers to the validation rows are not computed a second time.

        Args:
            targets: of the validation rows.
        """
        return None

    def rows_of_spans(self, rows: LabelledRows, outputs: Any) -> "list[RowOfSpans]":
        """Return the rows with wrong spans, those with the most first; none of a head without spans."""
        return []


@singledispatch
def head_metrics(head: Head) -> HeadMetrics[Any]:
    """Return the metrics of a head.

    Raises:
        ConfigError: for a head without any.
    """
    name = type(head).__name__
    raise ConfigError(
        f"There are no metrics for a head of the class {name}: add a subclass of `HeadMetrics` in "
        f"keras_selfattn/metrics/, registered with `@head_metrics.register({name})` and imported by "
        "metrics/report_of_model.py."
    )


def epoch_figure(head: Head, targets: Sequence[Any]) -> str | None:
    """Return what `HeadMetrics.chooses_epoch` says; None of a head without metrics, as of hidden words."""
    if head_metrics.dispatch(type(head)) is head_metrics.dispatch(object):
        return None
    return head_metrics(head).chooses_epoch(targets)


def short(number: float) -> float:
    """Return a number with the digits of a float32."""
    return float(f"{number:.7g}")
