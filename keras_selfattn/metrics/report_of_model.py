"""Compute the report of a task from a model's outputs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from keras_selfattn.metrics.classes import classification_report, with_unknown
from keras_selfattn.metrics.label_sets import label_set_report
from keras_selfattn.metrics.numbers import number_report
from keras_selfattn.metrics.positions import labelling_report
from keras_selfattn.metrics.report import Report
from keras_selfattn.models.heads.class_heads import THRESHOLD, ClassHead, Head, MultiLabelHead
from keras_selfattn.models.series.number_head import NumbersHead
from keras_selfattn.models.tokens.position_head import PositionHead


def report_of(
    head: Head, targets: Sequence[Any], outputs: Any, baselines: Mapping[str, np.ndarray] | None = None
) -> Report:
    """Return the figures of a model's outputs on rows with known targets.

    Args:
        head: the head of the model.
        targets: as the head reads them. Labels that the model does not know count as never predicted.
        outputs: the model's predictions for the rows, in their order.
        baselines: baseline predictions of numbers for the same rows, by name.
    """
    if isinstance(head, NumbersHead):
        return number_report(head.encoded(targets), outputs, baselines or {})
    return _REPORTS[type(head)](head, targets, outputs)


def _of_classes(head: Head, targets: Sequence[str], outputs: np.ndarray) -> Report:
    labels = cast(ClassHead, head).labels
    predicted = [labels[index] for index in np.argmax(outputs, axis=-1)]
    return classification_report(labels, targets, predicted, np.max(outputs, axis=-1))


def _of_label_sets(head: Head, targets: Sequence[Sequence[str]], outputs: np.ndarray) -> Report:
    known = cast(MultiLabelHead, head).labels
    labels = with_unknown(known, chain.from_iterable(targets))
    true = np.asarray(MultiLabelHead(labels).encoded(targets), bool)
    unknown = np.zeros((len(targets), len(labels) - len(known)), bool)
    return label_set_report(labels, true, np.concatenate([outputs >= THRESHOLD, unknown], axis=-1))


def _of_positions(head: Head, targets: Sequence[Sequence[str]], outputs: Sequence[np.ndarray]) -> Report:
    labelling = cast(PositionHead, head)
    chosen = labelling.chosen(outputs)
    predicted = [[labelling.labels[place] for place in row.tolist()] for row in chosen]
    pairs = zip(outputs, chosen, strict=True)
    confidence = np.concatenate([row[np.arange(len(row)), places] for row, places in pairs])
    return labelling_report(labelling.labels, targets, predicted, confidence)


_REPORTS: dict[type[Head], Callable[[Head, Any, Any], Report]] = {
    ClassHead: _of_classes,
    MultiLabelHead: _of_label_sets,
    PositionHead: _of_positions,
}
