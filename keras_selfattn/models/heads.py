"""What a model is asked for: how targets are read and encoded, the last layers, loss and metrics.

Axes: B (batch), T (positions), D (features), C (classes).
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.losses import SmoothedBinaryCrossentropy, SmoothedCrossentropy
from keras_selfattn.models.mixture import Mixture
from keras_selfattn.models.rows import as_column, as_name, as_names, indices_of, sorted_names

Tensor = Any


class Head(ABC):
    """The end of a model.

    Attributes:
        task: what the model does, as reports and exports call it.
        per_position: whether there is a target for each position instead of one for each row.
        watched: what training watches on the validation rows, to stop and to keep the best weights.
    """

    task: ClassVar[str]
    per_position: ClassVar[bool] = False
    watched: ClassVar[Literal["val_loss", "val_accuracy"]] = "val_loss"

    @property
    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What a saved model must bring back, as JSON types, by argument of the model's constructor."""

    @classmethod
    @abstractmethod
    def learned(cls, targets: Sequence[Any]) -> "Head":
        """Returns the head for targets as `read` returns them."""

    @staticmethod
    @abstractmethod
    def read(y: Any) -> list[Any]:
        """Returns targets in any container as a list, each checked for its kind."""

    @abstractmethod
    def encoded(self, targets: Sequence[Any]) -> Any:
        """Returns the targets read as the loss takes them: one array, or one for each row."""

    @abstractmethod
    def outputs(self, x: Tensor, wide: Tensor | None = None) -> Tensor:
        """Returns float32 outputs of pooled features `[B, D]`, or of all positions `[B, T, D]`.

        Args:
            x: the features.
            wide: logits of a wide path beside them, float32 `[B, C]`, where the head has classes.
        """

    @abstractmethod
    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Returns the loss that the head is trained with."""

    @abstractmethod
    def metrics(self) -> list[Any]:
        """Returns the metrics that are watched in training."""

    def class_weights(self, asked: Any, targets: Sequence[Any]) -> dict[int, float] | None:
        """Returns Keras' `class_weight`, from weights by label name, by place, or "balanced"."""
        if asked is not None:
            raise ConfigError(f"`class_weight` is for one label a row. The task is {self.task}.")
        return None


class ClassHead(Head):
    """One label for a row, of several.

    Args:
        labels: label names in the order of the classes.
    """

    task = "classification"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)

    @classmethod
    def learned(cls, targets: Iterable[str]) -> "ClassHead":
        """Returns the head for the labels that occur.

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

    def encoded(self, targets: Sequence[str]) -> np.ndarray:
        return indices_of(targets, self.labels)

    def outputs(self, x: Tensor, wide: Tensor | None = None) -> Tensor:
        logits = _logits(x, wide, self.labels, exclusive=True)
        return Probabilities("softmax", dtype="float32", name="probabilities")(logits)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return SmoothedCrossentropy(label_smoothing)

    def metrics(self) -> list[Any]:
        return ["accuracy"]

    def class_weights(self, asked: Any, targets: Sequence[str]) -> dict[int, float] | None:
        if asked is None:
            return None
        if asked == "balanced":
            counts = Counter(targets)
            share = len(targets) / len(counts)
            return {place: share / max(1, counts[name]) for place, name in enumerate(self.labels)}
        if not isinstance(asked, dict):
            raise ConfigError(f'`class_weight` must be a dict, or "balanced". Received {asked!r}.')
        by_place = {
            int(indices_of([key], self.labels)[0]) if isinstance(key, str) else key: float(weight)
            for key, weight in asked.items()
        }
        # Keras takes a class left out for one of weight 1 in some versions and fails in others.
        return dict.fromkeys(range(len(self.labels)), 1.0) | by_place


class MultiLabelHead(Head):
    """Any number of labels for a row: none, some or all.

    Args:
        labels: label names in the order of the classes.
    """

    task = "multi-label"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)

    @classmethod
    def learned(cls, targets: Iterable[Sequence[str]]) -> "MultiLabelHead":
        """Returns the head for the labels that occur.

        Raises:
            DataError: for none.
        """
        labels = sorted_names({name for names in targets for name in names})
        if not labels:
            raise DataError("No row has a label. Give at least one label to one row.")
        return cls(labels)

    @property
    def state(self) -> dict[str, Any]:
        return {"labels": self.labels, "multi_label": True}

    @staticmethod
    def read(y: Any) -> list[list[str]]:
        names = as_name_lists(y)
        _check_no_indicators(y)
        return names

    def encoded(self, targets: Sequence[Sequence[str]]) -> np.ndarray:
        found = np.zeros((len(targets), len(self.labels)), dtype=np.float32)
        for row, names in enumerate(targets):
            found[row, indices_of(names, self.labels)] = 1
        return found

    def outputs(self, x: Tensor, wide: Tensor | None = None) -> Tensor:
        logits = _logits(x, wide, self.labels, exclusive=False)
        return Probabilities("sigmoid", dtype="float32", name="probabilities")(logits)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return SmoothedBinaryCrossentropy(label_smoothing)

    def metrics(self) -> list[Any]:
        return [keras.metrics.BinaryAccuracy(name="accuracy")]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Probabilities(keras.layers.Layer):
    """Turns logits into probabilities, divided by a temperature first that training leaves alone.

    Args:
        activation: "softmax", or "sigmoid" for labels that do not exclude each other.

    Call arguments:
        inputs: float `[..., classes]`.

    Returns:
        float32 `[..., classes]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(Probabilities("softmax")(np.zeros((1, 2), "float32"))).tolist()
        [[0.5, 0.5]]

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2.
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        self.temperature = self.add_weight(
            shape=(), initializer="ones", trainable=False, name="temperature", dtype="float32"
        )

    def call(self, inputs: Tensor) -> Tensor:
        logits = keras.ops.cast(inputs, "float32") / self.temperature
        return keras.activations.get(self.activation)(logits)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "activation": self.activation}


def _logits(x: Tensor, wide: Tensor | None, labels: Sequence[str], *, exclusive: bool) -> Tensor:
    """Returns the logits of the classes, `[..., C]`, those of a wide path mixed in."""
    logits = keras.layers.Dense(len(labels), dtype="float32", name="logits")(x)
    if wide is None:
        return logits
    return Mixture(exclusive, dtype="float32", name="mixture")([logits, wide])


def as_name_lists(y: Any) -> list[list[str]]:
    """Returns a list of label names for each row.

    Raises:
        DataError: if there are none, or a row's is no list of names.
    """
    if y is None:
        raise DataError("Labels are needed with raw rows. Received None; give a list of labels a row.")
    found = []
    for row, names in enumerate(as_column("labels", y)):
        if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
            raise DataError(f"The labels of row {row} (counted from 0) must be a list. Received {names!r}.")
        found.append([as_name(f"A label of row {row}", name) for name in names])
    return found


def are_name_lists(y: Any) -> bool:
    """Whether targets hold lists of labels, not one label a row."""
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
        y = y.tolist() if y.dtype == object and y.ndim == 1 else []
    return any(isinstance(names, list | tuple | set | np.ndarray) for names in y)


def _check_no_indicators(y: Any) -> None:
    rows = as_column("labels", y)
    if _are_indicators(rows):
        raise DataError(
            "Label 0 (counted from 0) must be one name or number, or a list of the names that the row "
            f"bears. Received {rows[0]!r}, as are all rows: zeros and ones."
        )


def _are_indicators(rows: list[Any]) -> bool:
    """Whether all rows are as long, and of zeros and ones alone: vectors, hardly the names of labels."""
    if len({len(row) if hasattr(row, "__len__") else -1 for row in rows}) != 1:
        return False
    try:
        values = np.asarray(rows)
    except ValueError:
        return False
    return (
        values.ndim == 2
        and values.shape[1] > 1
        and values.dtype.kind in "biuf"
        and set(np.unique(values)) <= {0, 1}
    )
