"""The head for a label at every position of a row, and its accuracy.

Axes: B (batch), T (positions), C (classes).
"""

from collections.abc import Sequence, Set
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.sample_weights import aligned
from keras_selfattn.models.heads.class_heads import ClassHead
from keras_selfattn.models.heads.integer_labels import named
from keras_selfattn.models.heads.label_rules import largest
from keras_selfattn.models.tokens.span_labels import PathRule, SpanDecoder, rule_of
from keras_selfattn.rows.label_names import LabelList, as_name_lists, indices_of, label_rows, without_column
from keras_selfattn.rows.span_schemes import scheme_of
from keras_selfattn.rows.targets import LABEL_PER_POSITION

Tensor = Any

_ROWS = 256  # decoded at once


class PositionHead(ClassHead):
    """A label for every position of a row.

    Args:
        labels: label names in the order of the classes.
        spans: the rule by which labels that mark spans follow each other, see `span_labels.PathRule`; False
            if every label may follow any other. True is "IOB2": the only rule that models saved before know.
    """

    task = "labelling"
    target_kind = LABEL_PER_POSITION
    per_position = True
    # With several labels a row, confidence exceeds accuracy long before accuracy stops to grow. Calibration
    # corrects confidence, but nothing corrects a lower accuracy.
    monitored = "val_accuracy"

    def __init__(self, labels: Sequence[str], spans: bool | PathRule = False) -> None:
        super().__init__(labels)
        self.decoder = SpanDecoder(self.labels, "IOB2" if spans is True else spans) if spans else None

    @classmethod
    def from_targets(cls, targets: Sequence[Sequence[str]]) -> "PositionHead":
        """Return the head for the labels that occur."""
        found = ClassHead.from_targets([name for names in targets for name in names])
        scheme = scheme_of(found.labels)
        return cls(found.labels, (scheme is not None and rule_of(scheme, targets)) or False)

    @property
    def state(self) -> dict[str, Any]:
        return {**super().state, "spans": False if self.decoder is None else self.decoder.rule}

    def chosen(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the indices of the labels of rows, int `[T]` each, from their probabilities, `[T, C]`."""
        if self.decoder is None:
            return [largest(row) for row in outputs]
        decode = tf.function(self.decoder, reduce_retracing=True, autograph=False)
        found: list[np.ndarray] = [np.zeros(0, np.int32)] * len(outputs)
        batches = LengthSortedBatches(outputs, batch_size=_ROWS)
        places = iter(batches.order)
        for (padded,) in batches:
            for row in np.asarray(decode(np.nan_to_num(padded), ~np.isnan(padded[..., 0]))):
                place = next(places)
                found[place] = row[: batches.lengths[place]]
        return found

    def answered(self, outputs: Sequence[np.ndarray]) -> list[list[str]]:
        return [[self.labels[place] for place in row.tolist()] for row in self.chosen(outputs)]

    @staticmethod
    def read(y: Any) -> list[LabelList]:
        y = _without_column(y)
        for row, labels in enumerate([] if y is None else label_rows(y)):
            if isinstance(labels, Set):
                raise DataError(
                    f"The labels of row {row} (counted from 0) must be a list, one for each token in order. "
                    f"Received {labels!r:.80}."
                )
        return as_name_lists(y)

    def named(self, y: Any) -> Any:
        return named(_without_column(y), self.labels, per_position=True)

    def encoded(self, targets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        return [indices_of(names, self.labels) for names in targets]

    def metrics(self) -> list[Any]:
        return [PositionAccuracy(name="accuracy")]

    def class_weights(self, asked: Any, targets: Sequence[Any]) -> dict[int, float] | None:
        if asked is not None:
            raise ConfigError(
                f"`class_weight` is for one label a row. The task is {self.task}. Give `sample_weight`: for "
                "each row a list with a number for each token."
            )
        return None


def _without_column(y: Any) -> Any:
    return without_column(y) if getattr(y, "ndim", 0) == 3 else y


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PositionAccuracy(keras.metrics.Mean):
    """Share of the positions with the right label, with equal weights and without padding.

    Keras' own metric averages over each batch first, so a position counts less in a batch of longer rows.

    Call arguments:
        y_true: int `[batch, length]`, or a column of them `[batch, length, 1]`; negative for padding.
        y_pred: float `[batch, length, classes]`, with its Keras mask if there is padding.
        sample_weight: float `[batch]`, `[batch, 1]` or `[batch, length]`, or None.

    Example:

        >>> import numpy as np
        >>> accuracy = PositionAccuracy()
        >>> accuracy.update_state(np.array([[0, 1]]), np.array([[[0.9, 0.1], [0.8, 0.2]]]))
        >>> float(accuracy.result())
        0.5
    """

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        chosen: Any = ops.argmax(y_pred, axis=-1)  # [B, T]
        known = ops.reshape(ops.cast(y_true, chosen.dtype), ops.shape(chosen))
        right, mask = ops.equal(chosen, known), getattr(y_pred, "_keras_mask", None)
        real = ops.greater_equal(known, 0)
        weights = ops.cast(real if mask is None else ops.logical_and(real, mask), self.dtype)
        if sample_weight is not None:
            weights = weights * ops.cast(aligned(sample_weight, y_pred), self.dtype)
        super().update_state(ops.reshape(right, [-1]), ops.reshape(weights, [-1]))
