"""The report of a model's outputs; each import registers the metrics of a kind of head."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_selfattn.metrics import (  # noqa: F401
    classes,
    label_sets,
    numbers,
    positions,
    scores,
    text_answers,
    vectors,
)
from keras_selfattn.metrics.head_metrics import head_metrics
from keras_selfattn.metrics.report import Report
from keras_selfattn.models.heads.class_heads import Head


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
    return head_metrics(head).report(targets, outputs, baselines or {})
