"""Attention and a wide path, answering together."""

from typing import Any

import keras

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Mixture(keras.layers.Layer):
    """Adds the wide path's logits to those of attention, which in training are alone.

    The weights of the two are fitted on validation rows by `calibration.calibrate`; until then attention,
    which is surer than it should be, has the smaller one.

    Args:
        exclusive: whether a row has one label; the logits of attention are normalised first then.

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

    def __init__(self, exclusive: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.exclusive = exclusive

    def build(self, input_shape: Any) -> None:
        self.shares = self.add_weight(
            shape=(2,), initializer=_first_shares, trainable=False, name="shares", dtype="float32"
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
        return {**super().get_config(), "exclusive": self.exclusive}


def _first_shares(shape: Any, dtype: Any = None) -> Tensor:
    return keras.ops.convert_to_tensor([0.3, 1.0], dtype)
