"""How good predictions of several labels a row are, by scikit-learn's definitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.metrics import f1_score, precision_recall_fscore_support

from keras_selfattn.metrics.report import ClassReport, Columns, Report, class_columns, class_reports


@dataclass(frozen=True)
class LabelSetReport(Report):
    """Figures of predictions of any number of labels a row.

    Args:
        accuracy: share of rows whose labels were predicted, all of them and no others.
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
        """Number of rows the figures are of."""
        return self.count

    def summary(self) -> dict[str, float]:
        return {"micro_f1": self.micro_f1, "macro_f1": self.macro_f1, "accuracy": self.accuracy}

    def tables(self) -> dict[str, Columns]:
        return {"classes": class_columns(self.classes)}


def label_set_report(labels: Sequence[str], true: np.ndarray, predicted: np.ndarray) -> LabelSetReport:
    """Returns the figures of predicted label sets.

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
    zero = cast(Any, 0.0)
    columns: Any = precision_recall_fscore_support(true, predicted, average=None, zero_division=zero)
    classes = class_reports(labels, columns)
    occurring = np.flatnonzero((true | predicted).any(axis=0)).tolist()
    return LabelSetReport(
        accuracy=float((true == predicted).all(axis=1).mean()),
        micro_f1=float(f1_score(true, predicted, average="micro", zero_division=zero)),
        macro_f1=float(np.mean([classes[place].f1 for place in occurring] or [0.0])),
        classes=classes,
        count=len(true),
    )
