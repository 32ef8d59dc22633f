"""Figures of predictions of one label for each row, by scikit-learn's definitions; and their calibration."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.head_metrics import Decisions, HeadMetrics, Line, head_metrics
from keras_selfattn.metrics.reliability import reliability
from keras_selfattn.metrics.report import ClassReport, Columns, Report, class_columns, class_reports
from keras_selfattn.models.heads.class_heads import ClassHead
from keras_selfattn.rows.label_names import sorted_names


def calibration_error(true: Sequence[Any], predicted: Sequence[Any], confidence: np.ndarray) -> float:
    """Return the expected calibration error: the mean gap of confidence and accuracy over 15 equal bins.

    Args:
        true: the label of each row.
        predicted: the prediction for each row.
        confidence: the probability of each prediction, float `[rows]`, in [0, 1].

    Example:

        >>> round(calibration_error(["+", "+"], ["+", "-"], np.array([0.9, 0.9])), 3)
        0.4

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """
    right = [label == found for label, found in zip(true, predicted, strict=True)]
    return reliability(np.array(right, bool), confidence).error


@dataclass(frozen=True)
class ClassificationReport(Report):
    """Figures of a set of predictions.

    Args:
        accuracy: share of rows whose label was predicted.
        macro_f1: mean of the F1 of the classes that occur among labels or predictions.
        classes: figures of each class, in the order of the model's labels.
        confusion: int `[classes, classes]`, rows by label, columns by prediction.
        calibration_error: the distance of confidence from accuracy, in [0, 1]; None without confidence.
    """

    accuracy: float
    macro_f1: float
    classes: tuple[ClassReport, ...]
    confusion: np.ndarray
    calibration_error: float | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.confusion.sum())

    def summary(self) -> dict[str, float]:
        figures = {"accuracy": self.accuracy, "macro_f1": self.macro_f1}
        if self.calibration_error is not None:
            figures["calibration_error"] = self.calibration_error
        return figures

    def tables(self) -> dict[str, Columns]:
        labels = [c.label for c in self.classes]
        counts = zip(labels, self.confusion.tolist(), strict=True)
        confusion = Columns(["label", *labels], [[label, *row] for label, row in counts])
        return {"classes": class_columns(self.classes), "confusion": confusion}

    def most_confused(self, count: int) -> list[tuple[str, str, int]]:
        """Return up to `count` (label, prediction, rows), the most frequent mistakes first."""
        names = [report.label for report in self.classes]
        rows, columns = np.nonzero(self.confusion)
        wrong = rows != columns
        rows, columns = rows[wrong], columns[wrong]
        counts = self.confusion[rows, columns]
        most = np.argsort(-counts, kind="stable")[:count].tolist()
        return [(names[rows[place]], names[columns[place]], int(counts[place])) for place in most]


def with_unknown(labels: Sequence[str], true: Iterable[str]) -> list[str]:
    """Return the labels that a model knows, followed by the unknown ones, in order.

    Example:

        >>> with_unknown(["b", "a"], ["a", "d", "c", "d"])
        ['b', 'a', 'c', 'd']
    """
    return [*labels, *sorted_names(set(true) - set(labels))]


def classification_report(
    labels: Sequence[str],
    true: Sequence[str],
    predicted: Sequence[str],
    confidence: np.ndarray | None = None,
) -> ClassificationReport:
    """Return the figures of `predicted` against `true`.

    Args:
        labels: every label the model knows, in its order.
        true: the label of each row. An unknown label is a separate class after the others, which is never
            predicted.
        predicted: the prediction for each row, one of `labels`.
        confidence: the probability of each prediction, float `[rows]`.

    Example:

        >>> figures = classification_report(["+", "-"], ["+", "+", "-"], ["+", "-", "-"])
        >>> round(figures.accuracy, 3), figures.most_confused(1)
        (0.667, [('+', '-', 1)])
    """
    names = with_unknown(labels, true)
    columns: Any = precision_recall_fscore_support(
        true, predicted, labels=names, average=None, zero_division=cast(Any, 0.0)
    )
    classes = class_reports(names, columns)
    present = set(true) | set(predicted)
    return ClassificationReport(
        accuracy=float(accuracy_score(true, predicted)),
        macro_f1=float(np.mean([figures.f1 for figures in classes if figures.label in present])),
        classes=classes,
        confusion=confusion_matrix(true, predicted, labels=names),
        calibration_error=None if confidence is None else calibration_error(true, predicted, confidence),
    )


@head_metrics.register(ClassHead)
class OneLabelMetrics(HeadMetrics[ClassHead]):
    """Of one label for each row."""

    def report(self, targets: Sequence[str], outputs: Any, baselines: Mapping[str, np.ndarray]) -> Report:
        answers = self.head.answered(outputs)
        return classification_report(self.head.labels, targets, answers, np.max(outputs, axis=-1))

    def mistakes(self, rows: LabelledRows, outputs: Any) -> list[Line]:
        found = []
        answers = zip(rows.targets, outputs, self.head.answered(outputs), strict=True)
        for row, (target, probabilities, answer) in enumerate(answers):
            if answer != target:
                found.append((rows.place(row), row, target, answer, float(probabilities.max())))
        return found

    def decisions(self, targets: Sequence[str], outputs: Any) -> Decisions:
        answers = zip(self.head.answered(outputs), targets, strict=True)
        right = [answer == label for answer, label in answers]
        return Decisions(np.array(right, bool), np.max(outputs, axis=-1))
