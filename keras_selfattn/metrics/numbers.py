"""Figures of predicted numbers: their distance from the true ones, beside baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.head_metrics import HeadMetrics, Line, head_metrics, short
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.models.heads.number_head import NumbersHead


class Errors(NamedTuple):
    """Mean absolute and root mean squared error, in the units of the targets."""

    absolute: float
    squared: float


@dataclass(frozen=True)
class NumberReport(Report):
    """Errors of a set of predictions.

    Args:
        errors: of the model.
        baselines: the errors of baselines on the same rows, by name.
        count: number of rows.
    """

    errors: Errors
    baselines: Mapping[str, Errors]
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        """Return the errors by name; the names for a baseline end in its name."""
        found = _named("", self.errors)
        for name, errors in self.baselines.items():
            found |= _named(f"_of_{name.replace(' ', '_')}", errors)
        return found

    def tables(self) -> dict[str, Columns]:
        rows = [(name, *errors) for name, errors in {"model": self.errors, **self.baselines}.items()]
        return {"errors": Columns(["answers", "mean_absolute_error", "root_mean_squared_error"], rows)}


def number_report(
    true: np.ndarray, predicted: np.ndarray, baselines: Mapping[str, np.ndarray]
) -> NumberReport:
    """Return the errors of `predicted`, and of each baseline, against `true`.

    Args:
        true: float `[rows, numbers]`.
        predicted: the same, from the model.
        baselines: the same, from baselines, by name.

    Example:

        >>> figures = number_report(np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]]), {})
        >>> figures.errors.absolute
        0.5
    """
    return NumberReport(
        _errors(true, predicted), {name: _errors(true, each) for name, each in baselines.items()}, len(true)
    )


def _errors(true: np.ndarray, predicted: np.ndarray) -> Errors:
    error = np.asarray(predicted, np.float64) - np.asarray(true, np.float64)
    return Errors(float(np.abs(error).mean()), float(np.sqrt((error**2).mean())))


def _named(suffix: str, errors: Errors) -> dict[str, float]:
    names = ("mean_absolute_error", "root_mean_squared_error")
    return {f"{name}{suffix}": value for name, value in zip(names, errors, strict=True)}


@head_metrics.register(NumbersHead)
class NumberMetrics(HeadMetrics[NumbersHead]):
    """Of one number for each row, or several."""

    ranked_by = "error"

    def report(
        self, targets: Sequence[np.ndarray], outputs: Any, baselines: Mapping[str, np.ndarray]
    ) -> Report:
        return number_report(self.head.encoded(targets), outputs, baselines)

    def mistakes(self, rows: LabelledRows, outputs: Any) -> list[Line]:
        targets = self.head.in_order(rows.targets)
        errors = np.abs(targets - outputs).mean(axis=-1).tolist()
        each = enumerate(zip(targets, outputs, errors, strict=True))
        return [
            (rows.place(row), row, _plain(true), _plain(found), error) for row, (true, found, error) in each
        ]

    def decisions(self, targets: Sequence[np.ndarray], outputs: Any) -> None:
        return None


def _plain(numbers: np.ndarray) -> Any:
    """Return the numbers of a row as a list, or the only one."""
    found = [short(number) for number in numbers.tolist()]
    return found[0] if len(found) == 1 else found
