"""Inverted dropout: seeded, exact in rate, absent at inference.

References: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting". Huang
et al. 2016, "Deep Networks with Stochastic Depth", section 3 (whole samples).
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.checks import checked_rate, checked_seed
from keras_selfattn.layers.seeds import SeedDraws, split_seed
from keras_selfattn.layers.shapes import sizes

Tensor = Any


class Dropout(keras.layers.Layer):
    """Zeroes each element with probability `rate` in training and scales the others by `1 / (1 - rate)`.

    Unlike `keras.layers.Dropout` it takes the whole closed interval: rate 0 draws no random numbers and
    makes no seed variable, rate 1 gives zeros.

    Args:
        rate: probability in [0, 1] that an element becomes zero.
        seed: int, or None for a random one.
        per_sample: if True, a sample (first axis) is dropped or kept whole: stochastic depth, where the
            inputs are the branch of a residual connection.

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

    def __init__(self, rate: float, seed: int | None = None, per_sample: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = checked_rate("dropout", rate)
        self.seed = checked_seed(seed)
        self.per_sample = per_sample
        self.supports_masking = True
        draws = 0 < self.rate < 1
        self.seeds = SeedDraws(split_seed(self.seed, 1)[0]) if draws else None
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        if self.seeds is None:
            return ops.zeros_like(inputs)
        shape = sizes(inputs)
        if self.per_sample:
            shape[1:] = [1] * (len(shape) - 1)
        draws = keras.random.uniform(tuple(shape), dtype="float32", seed=self.seeds)
        zero = ops.zeros((), dtype=inputs.dtype)
        return ops.where(draws >= self.rate, inputs * (1.0 / (1.0 - self.rate)), zero)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        config = {"rate": self.rate, "seed": self.seed, "per_sample": self.per_sample}
        return {**super().get_config(), **config}
