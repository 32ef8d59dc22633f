"""How good predictions are, by scikit-learn's definitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support


@dataclass(frozen=True)
class ClassReport:
    """Figures of one class, each in [0, 1] but `rows`, the number of rows that bear the label."""

    label: str
    precision: float
    recall: float
    f1: float
    rows: int


@dataclass(frozen=True)
class Report:
    """Figures of a set of predictions.

    Args:
        accuracy: share of rows whose label was predicted.
        macro_f1: mean of the F1 of the classes that occur among labels or predictions.
        classes: figures of each class, in the order of the model's labels.
        confusion: int `[classes, classes]`, rows by label, columns by prediction.
    """

    accuracy: float
    macro_f1: float
    classes: tuple[ClassReport, ...]
    confusion: np.ndarray

    @property
    def rows(self) -> int:
        """Number of rows the figures are of."""
        return int(self.confusion.sum())

    def most_confused(self, count: int) -> list[tuple[str, str, int]]:
        """Returns up to `count` (label, prediction, rows), the most frequent mistakes first."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        names = [report.label for report in self.classes]
        places = np.argsort(-wrong, axis=None, kind="stable")[:count]
        pairs = zip(*np.unravel_index(places, wrong.shape), strict=True)
        return [(names[i], names[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]


def report(labels: Sequence[str], true: Sequence[str], predicted: Sequence[str]) -> Report:
    """Returns the figures of `predicted` against `true`.

    Args:
        labels: every label the model knows, in its order.
        true: the label of each row, one of `labels`.
        predicted: the prediction for each row, one of `labels`.

    Example:

        >>> figures = report(["+", "-"], ["+", "+", "-"], ["+", "-", "-"])
        >>> round(figures.accuracy, 3), figures.most_confused(1)
        (0.667, [('+', '-', 1)])
    """
    names = list(labels)
    columns: Any = precision_recall_fscore_support(
        true, predicted, labels=names, average=None, zero_division=cast(Any, 0.0)
    )
    classes = tuple(
        ClassReport(label, float(precision), float(recall), float(f1), int(rows))
        for label, precision, recall, f1, rows in zip(names, *columns, strict=True)
    )
    present = set(true) | set(predicted)
    return Report(
        accuracy=float(accuracy_score(true, predicted)),
        macro_f1=float(np.mean([figures.f1 for figures in classes if figures.label in present])),
        classes=classes,
        confusion=confusion_matrix(true, predicted, labels=names),
    )
