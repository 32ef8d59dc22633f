"""Inverted dropout: seeded, exact in rate, absent at inference.

Reference: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
"""

from numbers import Real
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.checks import checked_seed
from keras_selfattn.layers.seeds import split_seed

Tensor = Any


class Dropout(keras.layers.Layer):
    """Zeroes each element with probability `rate` in training and scales the others by `1 / (1 - rate)`.

    Unlike `keras.layers.Dropout` it takes the whole closed interval: rate 0 draws no random numbers and
    makes no seed variable, rate 1 gives zeros.

    Args:
        rate: probability in [0, 1] that an element becomes zero.
        seed: int, or None for a random one.

    Call arguments:
        inputs: tensor of any shape.
        training: dropout acts only if True.

    Returns:
        A tensor like `inputs`.

    Raises:
        ValueError: if `rate` is not a number in [0, 1].

    Example:

        >>> import numpy as np
        >>> print(np.asarray(Dropout(1.0)(np.ones(3, "float32"), training=True)))
        [0. 0. 0.]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = checked_rate("dropout", rate)
        self.seed = checked_seed(seed)
        self.supports_masking = True
        draws = 0 < self.rate < 1
        self._seeds = keras.random.SeedGenerator(split_seed(self.seed, 1)[0]) if draws else None
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        if self._seeds is None:
            return ops.zeros_like(inputs)
        draws = keras.random.uniform(ops.shape(inputs), dtype="float32", seed=self._seeds)
        zero = ops.zeros((), dtype=inputs.dtype)
        return ops.where(draws >= self.rate, inputs * (1.0 / (1.0 - self.rate)), zero)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def checked_rate(name: str, rate: Any) -> float:
    """Returns `rate` as a float, or raises ValueError naming the argument if it is outside [0, 1]."""
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= float(rate) <= 1:
        raise ValueError(
            f"`{name}` must be a number in [0, 1], the share that dropout zeroes. Received {rate!r}."
        )
    return float(rate)
