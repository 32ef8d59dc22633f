"""The rows that a model predicts wrongly, each as a line of a table, the worst first."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.report import Columns
from keras_selfattn.models.heads.class_heads import THRESHOLD, ClassHead, Head, MultiLabelHead
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.rows.targets import LABEL_PER_POSITION, LABEL_SET, NUMBERS, ONE_LABEL, TargetKind

_Line = tuple[Any, ...]


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
    return Columns([where, *columns, score], [(*line[:-1], _short(line[-1])) for line in lines])


def ranked_mistakes(head: Head, rows: LabelledRows, outputs: Any) -> tuple[list[str], list[_Line], str]:
    """Return the columns, the lines and the last column's name of `mistakes_of`, the worst line first.

    A line is the row's place in its source, its number, a value for each column, and its probability or
    error.
    """
    columns, found, score = _FINDERS[head.target_kind]
    return columns, sorted(found(head, rows, outputs), key=_worst_first), score


def _worst_first(line: _Line) -> float:
    return -math.inf if math.isnan(line[-1]) else -line[-1]


def _of_classes(head: Head, rows: LabelledRows, outputs: np.ndarray) -> list[_Line]:
    labels = cast(ClassHead, head).labels
    found = []
    for row, (target, answer) in enumerate(zip(rows.targets, outputs, strict=True)):
        place = int(answer.argmax())
        if labels[place] != target:
            found.append((rows.place(row), row, target, labels[place], float(answer[place])))
    return found


def _of_label_sets(head: Head, rows: LabelledRows, outputs: np.ndarray) -> list[_Line]:
    labels = cast(MultiLabelHead, head).labels
    found = []
    for row, (target, answer) in enumerate(zip(rows.targets, outputs, strict=True)):
        borne = np.isin(labels, target)
        wrong = (answer >= THRESHOLD) != borne
        unknown = set(target) - set(labels)
        if wrong.any() or unknown:
            sure = 1.0 if unknown else float(np.maximum(answer, 1 - answer)[wrong].max())
            answered = [name for name, share in zip(labels, answer, strict=True) if share >= THRESHOLD]
            found.append((rows.place(row), row, list(target), answered, sure))
    return found


def _of_positions(head: Head, rows: LabelledRows, outputs: Sequence[np.ndarray]) -> list[_Line]:
    labelling = cast(PositionHead, head)
    found = []
    for row, (answer, chosen) in enumerate(zip(outputs, labelling.chosen(outputs), strict=True)):
        tokens, targets = rows.inputs[row], rows.targets[row]
        for position, place in enumerate(chosen.tolist()):
            if labelling.labels[place] != targets[position]:
                judged = (targets[position], labelling.labels[place], float(answer[position, place]))
                found.append((rows.place(row), row, position, tokens[position], " ".join(tokens), *judged))
    return found


def _of_numbers(head: Head, rows: LabelledRows, outputs: np.ndarray) -> list[_Line]:
    def plain(numbers: np.ndarray) -> Any:
        found = [_short(number) for number in numbers.tolist()]
        return found[0] if len(found) == 1 else found

    errors = np.abs(np.stack(rows.targets) - outputs).mean(axis=-1).tolist()
    each = enumerate(zip(rows.targets, outputs, errors, strict=True))
    return [(rows.place(row), row, plain(true), plain(found), error) for row, (true, found, error) in each]


def _short(number: float) -> float:
    """Return a number with the digits of a float32."""
    return float(f"{number:.7g}")


_JUDGED = ["label", "predicted"]
_FINDERS: dict[TargetKind, tuple[list[str], Callable[[Head, LabelledRows, Any], list[_Line]], str]] = {
    ONE_LABEL: (_JUDGED, _of_classes, "probability"),
    LABEL_SET: (_JUDGED, _of_label_sets, "probability"),
    LABEL_PER_POSITION: (["position", "token", "text", *_JUDGED], _of_positions, "probability"),
    NUMBERS: (_JUDGED, _of_numbers, "error"),
}
