"""Figures of labels for each position: of the labels, and of the spans that they mark."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.metrics.classes import ClassificationReport, classification_report
from keras_selfattn.metrics.report import Columns, Report, class_columns
from keras_selfattn.metrics.spans import SpanReport, span_report
from keras_selfattn.models.tokens.span_labels import mark_spans


@dataclass(frozen=True)
class LabellingReport(Report):
    """Figures of predictions of a label for each position of a row.

    Args:
        positions: figures of the labels, with the same weight for each position.
        spans: figures of the spans that the labels mark; None without spans.
        count: number of rows.
    """

    positions: ClassificationReport
    spans: SpanReport | None
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        if self.spans is None:
            return self.positions.summary()
        spans = {"f1": self.spans.f1, "precision": self.spans.precision, "recall": self.spans.recall}
        return {f"span_{name}": value for name, value in spans.items()} | self.positions.summary()

    def tables(self) -> dict[str, Columns]:
        spans = {} if self.spans is None else {"spans": class_columns(self.spans.kinds)}
        return {**self.positions.tables(), **spans}


def labelling_report(
    labels: Sequence[str],
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    confidence: np.ndarray,
) -> LabellingReport:
    """Return the figures of predicted labels.

    Args:
        labels: every label the model knows, in its order.
        true: the labels of each row.
        predicted: the same number of labels.
        confidence: the probability of each prediction, float `[positions of all rows]`.

    Raises:
        DataError: for rows without a single position.

    Example:

        >>> true, found = [["DET"], ["NOUN", "NOUN"]], [["DET"], ["NOUN", "DET"]]
        >>> labelling_report(["DET", "NOUN"], true, found, np.array([0.9, 0.8, 0.7])).positions.accuracy
        0.6666666666666666
    """
    flat_true, flat_found = list(chain.from_iterable(true)), list(chain.from_iterable(predicted))
    if not flat_true:
        raise DataError(f"All {len(true)} rows are empty, so that nothing can be measured on them.")
    return LabellingReport(
        positions=classification_report(labels, flat_true, flat_found, confidence),
        spans=span_report(true, predicted) if mark_spans(labels) else None,
        count=len(true),
    )
