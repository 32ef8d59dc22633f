"""Predict the hidden tokens at some encoded positions.

Axes: B (batch), T (tokens), N (hidden tokens), D (features), V (vocabulary).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.heads import Head

Tensor = Any


class MaskedTokenHead(Head):
    """Predict the hidden tokens; the texts themselves are the targets."""

    task = "masked tokens"
    per_position = True

    @property
    def state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_targets(cls, targets: Sequence[Any]) -> "MaskedTokenHead":
        return cls()

    @staticmethod
    def read(y: Any) -> list[Any]:
        """Return no targets.

        Raises:
            DataError: if there are any.
        """
        if y is not None and any(target is not None for target in y):
            raise DataError("A model of masked tokens learns from texts alone. Leave the targets out.")
        return []

    def encoded(self, targets: Sequence[Any]) -> list[Any]:
        return []

    def outputs(self, x: Tensor, wide: Tensor | None = None) -> Tensor:
        """Return the features to compare with the vectors of all tokens, float32 `[N, D]`."""
        x = keras.layers.Dense(x.shape[-1], "gelu", dtype="float32", name="guess")(x)
        return keras.layers.LayerNormalization(dtype="float32", name="guess_norm")(x)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        if label_smoothing:
            raise ConfigError(f"`label_smoothing` is for labels. The task is {self.task}.")
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self) -> list[Any]:
        return ["accuracy"]


class Gathered(keras.layers.Layer):
    """Gather positions of all rows: float `[B, T, D]` and int32 `[N]` to float `[N, D]`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Tensor:
        x, places = inputs
        return ops.take(ops.reshape(x, [-1, x.shape[-1]]), places, axis=0)  # [B T, D] to [N, D]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None  # only real tokens are gathered

    def compute_output_shape(self, input_shape: Any) -> tuple:
        return (*input_shape[1], input_shape[0][-1])


class SharedLogits(keras.layers.Layer):
    """Compare features with the vectors of all tokens, `[N, D]` to `[N, V]`; its only weight is a bias.

    Args:
        table: returns the vectors, `[V, D]`.
    """

    def __init__(self, table: Callable[[], Tensor], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._table = table

    def build(self, input_shape: tuple) -> None:
        self.bias = self.add_weight(shape=(self._table().shape[0],), initializer="zeros", name="bias")

    def call(self, inputs: Tensor) -> Tensor:
        table = ops.cast(self._table(), self.compute_dtype)
        return ops.matmul(inputs, ops.transpose(table)) + self.bias

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self._table().shape[0])
