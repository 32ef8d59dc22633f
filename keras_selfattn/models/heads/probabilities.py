"""Turn the logits of attention, and of a wide path beside it, into probabilities."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

Tensor = Any


class Shares(NamedTuple):
    """Initial weights of attention and a wide path, and the validation rows needed to change them.

    Args:
        deep: weight of attention, which is overconfident.
        wide: weight of the wide path.
        rows: the smallest number of validation rows that changes them.
    """

    deep: float = 0.3
    wide: float = 1.0
    rows: int = 0


FIRST_SHARES = Shares()


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Mixture(keras.layers.Layer):
    """Add the wide path's logits to those of attention; training uses attention's only.

    The weights of the two are fitted on validation rows by `training.calibration`, if there are enough.

    Args:
        exclusive: True if a row has one label; the logits of attention are then normalised first.
        first: the initial weights, and the number of rows needed to change them.

    Call arguments:
        inputs: logits of attention and of the wide path, float `[batch, classes]` each.

    Returns:
        float32 `[batch, classes]`.

    Example:

        >>> import numpy as np
        >>> deep, wide = np.zeros((1, 2), "float32"), np.array([[1.0, 2.0]], "float32")
        >>> np.asarray(Mixture(exclusive=False)([deep, wide])).tolist()
        [[1.0, 2.0]]

    Reference: Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems".
    """

    def __init__(self, exclusive: bool, first: Sequence[Any] = FIRST_SHARES, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.exclusive, self.first = exclusive, Shares(*first)

    def build(self, input_shape: Any) -> None:
        def first(shape: Any, dtype: Any = None) -> Tensor:
            return keras.ops.convert_to_tensor([self.first.deep, self.first.wide], dtype)

        self.shares = self.add_weight(
            shape=(2,), initializer=first, trainable=False, name="shares", dtype="float32"
        )

    def call(self, inputs: Any, training: bool | None = None) -> Tensor:
        deep, wide = (keras.ops.cast(each, "float32") for each in inputs)
        if training:
            return deep
        if self.exclusive:
            deep = keras.ops.log_softmax(deep)
        return self.shares[0] * deep + self.shares[1] * wide

    def compute_output_shape(self, input_shape: Any) -> tuple:
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "exclusive": self.exclusive, "first": list(self.first)}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Probabilities(keras.layers.Layer):
    """Turn logits into probabilities; outside training, divide the logits by a temperature first.

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

    @property
    def exclusive(self) -> bool:
        """True if one class excludes the others, so that the probabilities sum to 1."""
        return self.activation == "softmax"

    def build(self, input_shape: tuple) -> None:
        self.temperature = self.add_weight(
            shape=(), initializer="ones", trainable=False, name="temperature", dtype="float32"
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        logits = keras.ops.cast(inputs, "float32")
        # With the temperature, continued training would follow the gradients of another loss.
        logits = logits if training else logits / self.temperature
        return keras.activations.get(self.activation)(logits)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "activation": self.activation}
