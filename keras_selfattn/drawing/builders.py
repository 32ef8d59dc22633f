"""The figures of runs: curves, confusion, reliability, and predicted numbers beside true ones."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.drawing.figures import Chart, Confusion, Histogram, Line
from keras_selfattn.drawing.scales import LARGEST, span

if TYPE_CHECKING:
    from keras_selfattn.metrics.reliability import Reliability

_PREFIXES = ("val_", "attention_")
_MOST_POINTS = 800  # of a scatter


RATE = "learning_rate"
"""The column of the history with the learning rate at the end of each epoch."""


def metric_of(name: str) -> str:
    """Return the metric that a column of the history holds.

    Example:

        >>> metric_of("val_loss"), metric_of("attention_accuracy")
        ('loss', 'accuracy')
    """
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def rows_of(name: str, history: Mapping[str, Any]) -> str:
    """Return whose values a column of the history holds, in words."""
    paths = any(each.startswith("attention_") for each in history)
    if name.startswith("val_"):
        return "validation, both paths" if paths else "validation"
    return "training, attention alone" if name.startswith("attention_") else "training"


def curves(history: Mapping[str, Sequence[float]], best_epoch: int | None = None) -> list[Chart]:
    """Return a chart for each metric, with its training and validation values.

    Args:
        history: values by name, one for each epoch; the learning rate among them is no metric.
        best_epoch: the epoch whose weights were kept, counted from 1.
    """
    by_metric: dict[str, list[str]] = {}
    for name in history:
        if name != RATE:
            by_metric.setdefault(metric_of(name), []).append(name)
    mark = None if best_epoch is None else (float(best_epoch), f"epoch {best_epoch}")
    charts = []
    for metric in sorted(by_metric, key=lambda name: (name != "loss", name)):
        words = metric.replace("_", " ")
        # Training first: a colour means the same in all charts.
        names = sorted(by_metric[metric], key=lambda name: name.startswith("val_"))
        lines = [
            Line(
                rows_of(name, history),
                [float(n) for n in range(1, 1 + len(history[name]))],
                list(history[name]),
            )
            for name in names
        ]
        title = f"{words[:1].upper()}{words[1:]} by epoch"
        charts.append(Chart(title, "epoch", words, lines, mark, whole=True))
    return charts


def confusion_figure(labels: Sequence[str], counts: np.ndarray, title: str = "Confusion matrix") -> Confusion:
    """Return the counts of rows by label and prediction as a figure.

    Args:
        labels: of both axes.
        counts: int `[classes, classes]`, rows by label, columns by prediction.
        title: above.
    """
    rows, columns = np.nonzero(counts)
    cells = zip(rows.tolist(), columns.tolist(), counts[rows, columns].tolist(), strict=True)
    return Confusion(title, list(labels), list(cells), counts.sum(axis=1).tolist())


def scatter(true: np.ndarray, predicted: np.ndarray, which: str = "") -> Chart:
    """Return predicted against true numbers, float `[numbers]` each; of many, evenly spread ones.

    Args:
        true: the true numbers.
        predicted: the model's.
        which: numbers they are, for the title.
    """
    line, some = _points(true, predicted)
    return Chart(f"Predicted against true{which}{some}", "true", "predicted", [line], diagonal=True)


def cosines_by_score(scores: np.ndarray, cosines: np.ndarray) -> Chart:
    """Return cosines against scores, float `[pairs]` each; of many, evenly spread ones."""
    line, some = _points(scores, cosines)
    return Chart(f"Cosines against scores{some}", "score", "cosine", [line])


def lengths_of_answers(right: np.ndarray, answered: np.ndarray) -> Chart:
    """Return the lengths of answers against those of right answers, int `[rows]` each, in characters."""
    line, some = _points(right, answered)
    title = f"Characters of the answer against those of the right one{some}"
    return Chart(title, "right answer", "answer", [line], diagonal=True)


def _points(x: np.ndarray, y: np.ndarray) -> tuple[Line, str]:
    """Return a point for each row, of many for evenly spread ones, and how many of all for the title."""
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    some = f" ({len(chosen):,} of {len(x):,})" if len(chosen) < len(x) else ""
    return Line("", x[chosen].tolist(), y[chosen].tolist(), dots=True), some


def residuals(errors: np.ndarray) -> Histogram:
    """Return the histogram of predicted minus true numbers, float `[numbers]`."""
    return histogram_of("Residuals", "predicted minus true", {"": errors})


def errors_by_step(errors: dict[str, np.ndarray]) -> Chart:
    """Return the mean absolute error of each number of a row, of errors `[rows, numbers]` by name."""
    steps = [float(n) for n in range(1, 1 + next(iter(errors.values())).shape[1])]
    lines = [Line(name, steps, np.abs(each).mean(axis=0).tolist()) for name, each in errors.items()]
    return Chart(
        "Mean absolute error by step",
        "step, or place in the target",
        "mean absolute error",
        lines,
        whole=True,
    )


def histogram_of(
    title: str, x_name: str, groups: dict[str, np.ndarray], *, shares: bool = False
) -> Histogram:
    """Return a histogram of groups of numbers over common edges."""
    values = np.concatenate([np.asarray(each, float) for each in groups.values()])
    edges = _edges(values[np.abs(values) < LARGEST])
    counted = []
    for name, each in groups.items():
        counts = np.histogram(np.asarray(each, float), edges)[0]
        counted.append((name, (counts / max(1, counts.sum()) if shares else counts).tolist()))
    return Histogram(title, x_name, edges.tolist(), counted, shares)


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the edges of the bars of finite numbers, of which there may be none."""
    if not len(values):
        return np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    if high - low < 40 and max(-low, high) < 2**50 and np.all(values == np.round(values)):
        return np.arange(low - 0.5, high + 1.5)  # a bar for each whole number
    return np.linspace(*span([low, high]), 25)


def reliability_figure(
    found: "dict[str, Reliability]", title: str = "Reliability of the probabilities"
) -> Chart:
    """Return how often answers of each confidence are right, a line for each name."""
    lines = []
    for name, each in found.items():
        known = each.counts > 0
        lines.append(Line(name, each.confidence[known].tolist(), each.accuracy[known].tolist()))
    return Chart(title, "probability", "share that is right", lines, diagonal=True, shares=True)
