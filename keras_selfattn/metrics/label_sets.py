"""Figures of predictions of several labels for each row, from the counts of each label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.classes import with_unknown
from keras_selfattn.metrics.head_metrics import Decisions, HeadMetrics, Line, head_metrics
from keras_selfattn.metrics.report import (
    ClassReport,
    Columns,
    Report,
    class_columns,
    precision_recall_f1,
)
from keras_selfattn.models.heads.class_heads import MultiLabelHead


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


@head_metrics.register(MultiLabelHead)
class LabelSetMetrics(HeadMetrics[MultiLabelHead]):
    """Of any number of labels for each row."""

    decided = "each label"

    def report(
        self, targets: Sequence[Sequence[str]], outputs: Any, baselines: Mapping[str, np.ndarray]
    ) -> Report:
        known = self.head.labels
        labels = with_unknown(known, chain.from_iterable(targets))
        true = np.asarray(MultiLabelHead(labels).encoded(targets), bool)
        unknown = np.zeros((len(targets), len(labels) - len(known)), bool)
        return label_set_report(labels, true, np.concatenate([self.head.chosen(outputs), unknown], axis=-1))

    def mistakes(self, rows: LabelledRows, outputs: Any) -> list[Line]:
        found, answered = [], self.head.answered(outputs)
        for row, (target, answer, chosen) in enumerate(
            zip(rows.targets, outputs, self.head.chosen(outputs), strict=True)
        ):
            wrong = chosen != np.isin(self.head.labels, target)
            unknown = set(target) - set(self.head.labels)
            if wrong.any() or unknown:
                sure = 1.0 if unknown else float(np.maximum(answer, 1 - answer)[wrong].max())
                found.append((rows.place(row), row, list(target), answered[row], sure))
        return found

    def decisions(self, targets: Sequence[Sequence[str]], outputs: Any) -> Decisions:
        """Return a decision for each label of each row: the label is there, with its probability."""
        there = np.array([np.isin(self.head.labels, list(target)) for target in targets])
        return Decisions(there.ravel(), np.asarray(outputs).ravel())
