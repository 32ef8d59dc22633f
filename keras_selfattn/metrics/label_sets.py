"""Figures of predictions of several labels for each row, from the counts of each label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_selfattn.metrics.report import (
    ClassReport,
    Columns,
    Report,
    class_columns,
    precision_recall_f1,
)


@dataclass(frozen=True)
class LabelSetReport(Report):
    """Figures of predictions of any number of labels for each row.

    Args:
        accuracy: share of rows for which exactly the true labels were predicted.
        micro_f1: F1 over all labels of all rows.
        macro_f1: mean of the F1 of the labels that occur among labels or predictions.
        classes: figures of each label, in the model's order.
        count: number of rows.
    """

    accuracy: float
    micro_f1: float
    macro_f1: float
    classes: tuple[ClassReport, ...]
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        return {"micro_f1": self.micro_f1, "macro_f1": self.macro_f1, "accuracy": self.accuracy}

    def tables(self) -> dict[str, Columns]:
        return {"classes": class_columns(self.classes)}


def label_set_report(labels: Sequence[str], true: np.ndarray, predicted: np.ndarray) -> LabelSetReport:
    """Return the figures of predicted label sets.

    Args:
        labels: every label the model knows, in its order.
        true: bool `[rows, labels]`.
        predicted: bool `[rows, labels]`.

    Example:

        >>> true, found = np.array([[True, False], [True, True]]), np.array([[True, False], [True, False]])
        >>> figures = label_set_report(["a", "b"], true, found)
        >>> figures.accuracy, round(figures.micro_f1, 3)
        (0.5, 0.8)
    """
    right, answered, there = (each.sum(axis=0) for each in (true & predicted, predicted, true))
    counts = zip(labels, right.tolist(), answered.tolist(), there.tolist(), strict=True)
    classes = tuple(ClassReport(label, *precision_recall_f1(*count), count[-1]) for label, *count in counts)
    occurring = np.flatnonzero((true | predicted).any(axis=0)).tolist()
    return LabelSetReport(
        accuracy=float((true == predicted).all(axis=1).mean()),
        micro_f1=precision_recall_f1(int(right.sum()), int(answered.sum()), int(there.sum()))[-1],
        macro_f1=float(np.mean([classes[place].f1 for place in occurring] or [0.0])),
        classes=classes,
        count=len(true),
    )
