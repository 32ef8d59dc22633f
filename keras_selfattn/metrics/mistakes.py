"""The rows that a model predicts wrongly, each as a line of a table, the worst first."""

import math
from collections.abc import Sequence
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.head_metrics import Line, short
from keras_selfattn.metrics.report import Columns
from keras_selfattn.metrics.report_of_model import head_metrics
from keras_selfattn.models.heads.class_heads import Head


def mistakes_of(head: Head, rows: LabelledRows, outputs: Any) -> Columns:
    """Return the rows that a model predicts wrongly, worst first.

    For labels, the worst row is the most confident one; `probability` is the prediction's. If a row has
    several labels, `probability` is that of the most confident wrong decision on one label; an unknown label
    counts as rejected with certainty. If a row has a label for each token, a line is one token. Numbers are
    never exactly right, so all rows are listed, the one with the largest mean error first. The first column
    is a row's place in its source, such as the number of its line.

    Args:
        head: the head of the model.
        rows: as the head reads them.
        outputs: the model's predictions for the rows, in their order.
    """
    columns, lines, score = ranked_mistakes(head, rows, outputs)
    columns = [*rows.kind.headings, *columns]
    lines = [(line[0], *rows.kind.cells(rows.inputs[line[1]]), *line[2:]) for line in lines]
    where = "line" if len(rows) and isinstance(rows.place(0), int) else "where"
    return Columns([where, *columns, score], [(*line[:-1], short(line[-1])) for line in lines])


def ranked_mistakes(head: Head, rows: LabelledRows, outputs: Any) -> tuple[Sequence[str], list[Line], str]:
    """Return the columns, the lines and the last column's name of `mistakes_of`, the worst line first.

    A line is the row's place in its source, its number, a value for each column, and its probability or
    error.
    """
    metrics = head_metrics(head)
    lines = sorted(metrics.mistakes(rows, outputs), key=_worst_first)
    return metrics.columns, lines, metrics.ranked_by


def _worst_first(line: Line) -> float:
    return -math.inf if math.isnan(line[-1]) else -line[-1]
