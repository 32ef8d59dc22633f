"""Heads of models: reading and encoding of targets, the last layers, loss and metrics.

Axes: B (batch), T (positions), D (features), C (classes).
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.core.ensemble import logits_of
from keras_selfattn.models.heads.integer_labels import by_place, named
from keras_selfattn.models.heads.label_rules import at_least_half, largest
from keras_selfattn.models.heads.probabilities import FIRST_SHARES, Mixture, Probabilities, Shares
from keras_selfattn.rows.label_names import LabelList, as_name_lists, as_names, indices_of, sorted_names
from keras_selfattn.rows.targets import LABEL_SET, ONE_LABEL, TargetKind

Tensor = Any


class _Smoothed(keras.losses.Loss):
    """A loss with label smoothing."""

    def __init__(
        self,
        label_smoothing: float = 0.0,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SmoothedCrossentropy(_Smoothed):
    """Cross-entropy of integer targets `[...]`, or a column `[..., 1]`, and probabilities `[..., C]`.

    Args:
        label_smoothing: share in [0, 1) of each target that is spread evenly over all classes.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Example:

        >>> import numpy as np
        >>> float(SmoothedCrossentropy()(np.array([0]), np.array([[0.5, 0.5]], "float32")))
        0.6931471824645996

    Reference: Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7.
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) == len(y_pred.shape):  # a column of labels
            y_true = ops.squeeze(y_true, axis=-1)
        if len(y_pred.shape) == 3:  # those of padding, which the mask leaves out, may be negative
            y_true = ops.maximum(y_true, 0)
        if not self.label_smoothing:
            return keras.losses.sparse_categorical_crossentropy(y_true, y_pred)  # [B] or [B, T]
        borne = ops.one_hot(y_true, y_pred.shape[-1], dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(borne, y_pred, label_smoothing=self.label_smoothing)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SmoothedBinaryCrossentropy(_Smoothed):
    """Cross-entropy of targets 0 or 1 and probabilities, both `[B, C]`, mean over the classes.

    Args:
        label_smoothing: share in [0, 1) of each target that is moved to one half.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Example:

        >>> import numpy as np
        >>> one, half = np.ones((1, 2), "float32"), np.full((1, 2), 0.5, "float32")
        >>> float(SmoothedBinaryCrossentropy()(one, half))
        0.6931471824645996
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return keras.losses.binary_crossentropy(y_true, y_pred, label_smoothing=self.label_smoothing)


# Names of which rows of equal length may be indicators.
BITS = {"0", "1", "0.0", "1.0", "False", "True"}


class Head(ABC):
    """The head of a model.

    The figures of its answers are in `metrics/`, the names of its outputs in the graph of an export in
    `export/signatures/answers.py`; both are found by its class, or by the nearest base class that has some.

    Attributes:
        task: the model's task, as reports and exports call it.
        target_kind: the kind of its targets, as `read` returns them.
        per_position: True if there is a target for each position instead of one for each row.
        monitored: the monitored metric on the validation rows, to stop and to keep the best weights.
    """

    task: ClassVar[str]
    target_kind: ClassVar[TargetKind]
    per_position: ClassVar[bool] = False
    monitored: ClassVar[Literal["val_loss", "val_accuracy"]] = "val_loss"

    @property
    @abstractmethod
    def state(self) -> dict[str, Any]:
        """State to save, as JSON types, by argument of the model's constructor."""

    @classmethod
    @abstractmethod
    def from_targets(cls, targets: Sequence[Any]) -> "Head":
        """Return the head for targets as `read` returns them."""

    @staticmethod
    @abstractmethod
    def read(y: Any) -> list[Any]:
        """Return targets in any container as a list, each checked for its kind."""

    def named(self, y: Any) -> Any:
        """Return targets in any container, before `read`, with names for integers that are indices."""
        return y

    @abstractmethod
    def encoded(self, targets: Sequence[Any]) -> Any:
        """Return the targets in the loss's form: one array, or one for each row."""

    @abstractmethod
    def outputs(
        self, x: Tensor | list[Tensor], wide: Tensor | None = None, first: Shares = FIRST_SHARES
    ) -> Tensor:
        """Return float32 outputs of pooled features `[B, D]`, or of all positions `[B, T, D]`.

        Args:
            x: the features; for several encoders a list.
            wide: logits of a wide path beside them, float32 `[B, C]`, if the head has classes.
            first: the initial shares of both.
        """

    @abstractmethod
    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Return the training loss of the head."""

    @abstractmethod
    def metrics(self) -> list[Any]:
        """Return the metrics that training reports."""

    @property
    def smooths_labels(self) -> bool:
        """True if the loss can spread a share of each target over all classes."""
        return self.target_kind.has_labels

    def class_weights(self, asked: Any, targets: Sequence[Any]) -> dict[int, float] | None:
        """Return Keras' `class_weight`, from weights by label or index (`integer_labels`), or "balanced"."""
        if asked is not None:
            raise ConfigError(f"`class_weight` is for one label a row. The task is {self.task}.")
        return None

    def out_of_reach(self, targets: Sequence[Any], what: str = "rows") -> str:
        """Return a sentence about rows whose target no answer of the model can equal, or "".

        Labels that the model does not know are told by their names elsewhere.

        Args:
            targets: as `read` returns them.
            what: the name of the rows in the sentence.
        """
        return ""

    @staticmethod  # noqa: B027  most heads have one loss
    def check_validation(targets: Sequence[Any], held_out: Sequence[Any]) -> None:
        """Raise DataError for validation targets that another loss than that of training would measure.

        Args:
            targets: of the training rows, as `read` returns them.
            held_out: of the validation rows.
        """


class LabelHead(Head):
    """Probabilities of named classes.

    Args:
        labels: label names in the order of the classes.

    Attributes:
        exclusive: True if one class excludes the others, so that the probabilities sum to 1.
    """

    exclusive: ClassVar[bool]

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = checked_labels(labels)

    @abstractmethod
    def chosen(self, outputs: Any) -> Any:
        """Return the classes that probabilities decide for, as indices or, of several a row, as bool."""

    @abstractmethod
    def answered(self, outputs: Any) -> list[Any]:
        """Return the labels that probabilities decide for, by name: for each row as a target of `read`."""

    def outputs(
        self, x: Tensor | list[Tensor], wide: Tensor | None = None, first: Shares = FIRST_SHARES
    ) -> Tensor:
        logits = _logits(x, wide, first, self.labels, exclusive=self.exclusive)
        activation = "softmax" if self.exclusive else "sigmoid"
        return Probabilities(activation, dtype="float32", name="probabilities")(logits)


class ClassHead(LabelHead):
    """One label for a row, of several.

    Args:
        labels: label names in the order of the classes.
    """

    task = "classification"
    target_kind = ONE_LABEL
    exclusive = True

    @classmethod
    def from_targets(cls, targets: Iterable[str]) -> "ClassHead":
        """Return the head for the labels that occur.

        Raises:
            DataError: for fewer than two.
        """
        labels = sorted_names(set(targets))
        if len(labels) < 2:
            only = repr(labels[0]) if labels else "none"
            raise DataError(f"A classifier needs at least two classes. The labels hold only {only}.")
        return cls(labels)

    @property
    def state(self) -> dict[str, Any]:
        return {"labels": self.labels}

    @staticmethod
    def read(y: Any) -> list[str]:
        return as_names(y)

    def named(self, y: Any) -> Any:
        return named(y, self.labels)

    def encoded(self, targets: Sequence[str]) -> np.ndarray:
        return indices_of(targets, self.labels)

    def chosen(self, outputs: Any) -> Any:
        """Return the index of each row's label, int `[B]`, from probabilities `[B, C]`."""
        return largest(outputs)

    def answered(self, outputs: Any) -> list[Any]:
        return [self.labels[place] for place in self.chosen(outputs).tolist()]

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return SmoothedCrossentropy(label_smoothing)

    def metrics(self) -> list[Any]:
        return ["accuracy"]

    def class_weights(self, asked: Any, targets: Sequence[str]) -> dict[int, float] | None:
        if asked is None:
            return None
        if isinstance(asked, Mapping):
            # A class without a weight counts as 1, as in Keras, which refuses it in some kinds of data.
            return dict.fromkeys(range(len(self.labels)), 1.0) | _weights_by_place(asked, self.labels)
        if isinstance(asked, str) and asked == "balanced" and targets:
            counts = Counter(targets)
            share = len(targets) / len(counts)
            return {place: share / max(1, counts[name]) for place, name in enumerate(self.labels)}
        raise ConfigError(f'`class_weight` must be a dict or, with raw rows, "balanced". Received {asked!r}.')


class MultiLabelHead(LabelHead):
    """Any number of labels for a row: none, some or all.

    Args:
        labels: label names in the order of the classes.
    """

    task = "multi-label"
    target_kind = LABEL_SET
    exclusive = False

    @classmethod
    def from_targets(cls, targets: Iterable[Sequence[str]]) -> "MultiLabelHead":
        """Return the head for the labels that occur.

        Raises:
            DataError: for none.
        """
        targets = list(targets)
        labels = sorted_names({name for names in targets for name in names})
        if not labels:
            raise DataError("No row has a label. Give at least one label to one row.")
        if set(labels) <= BITS and len(set(map(len, targets))) == 1 and len(targets[0]) > 1:
            raise DataError(
                f"All rows of labels are zeros and ones. Received {targets[0]!r} in row 0, which can be "
                "read in two ways. One-hot, one class a row: give the model `multi_label=False`. Several "
                "labels a row: give it `multi_label=True`, or lists of the names of each row's labels."
            )
        return cls(labels)

    @property
    def state(self) -> dict[str, Any]:
        return {"labels": self.labels, "multi_label": True}

    @staticmethod
    def read(y: Any) -> list[LabelList]:
        return as_name_lists(y)

    def encoded(self, targets: Sequence[Sequence[str]]) -> np.ndarray:
        found = np.zeros((len(targets), len(self.labels)), dtype=np.float32)
        for row, names in enumerate(targets):
            found[row, indices_of(names, self.labels)] = 1
        return found

    def chosen(self, outputs: Any) -> Any:
        """Return which labels each row has, bool `[B, C]`, from probabilities `[B, C]`."""
        return at_least_half(outputs)

    def answered(self, outputs: Any) -> list[Any]:
        return [[self.labels[place] for place in row.nonzero()[0]] for row in self.chosen(outputs)]

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return SmoothedBinaryCrossentropy(label_smoothing)

    def metrics(self) -> list[Any]:
        return [keras.metrics.BinaryAccuracy(name="accuracy")]


def checked_labels(labels: Any) -> list[str]:
    """Return label names in the order of the classes; a number is named by its text, as in `fit`.

    Raises:
        ConfigError: for no labels, two equal ones, or a container without an order.
        DataError: for labels that `LabelReader` refuses.
    """
    names = as_names(labels) if isinstance(labels, list | tuple | np.ndarray) else []
    if not names or len(set(names)) != len(names):
        raise ConfigError(
            "`labels` must be names that differ, at least one, in a list in the order of the classes. "
            f"Received {labels!r:.200}."
        )
    return names


def _weights_by_place(asked: Mapping[Any, Any], labels: Sequence[str]) -> dict[int, float]:
    """Return weights by the index of the class."""
    found = by_place("class_weight", asked, labels)
    for place, weight in found.items():
        if not isinstance(weight, int | float | np.number) or not (np.isfinite(weight) and weight >= 0):
            raise ConfigError(
                f"`class_weight` of {labels[place]!r} must be 0 or greater. Received {weight!r}."
            )
    return {place: float(weight) for place, weight in found.items()}


def _logits(
    x: Tensor, wide: Tensor | None, first: Shares, labels: Sequence[str], *, exclusive: bool
) -> Tensor:
    """Return the logits of the classes, `[..., C]`, those of a wide path mixed in."""
    logits = logits_of(x, len(labels), exclusive=exclusive)
    if wide is None:
        return logits
    return Mixture(exclusive, first, dtype="float32", name="mixture")([logits, wide])
