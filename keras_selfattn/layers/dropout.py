"""Inverted dropout: seeded, exact in rate, absent at inference.

References: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting". Huang
et al. 2016, "Deep Networks with Stochastic Depth", section 3 (whole samples).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import checked_rate, checked_seed
from keras_selfattn.layers.jax import dropout_bits as bits_of_jax
from keras_selfattn.layers.remat import NoRemat
from keras_selfattn.layers.seeds import SeedDraws, split_seed
from keras_selfattn.layers.tensorflow import dropout_bits as bits_of_tensorflow

Tensor = Any

# PyTorch draws from its own generator.
_KEEP_MASKS = {"tensorflow": bits_of_tensorflow.keep_mask, "jax": bits_of_jax.keep_mask}


@dataclass(frozen=True)
class TokenNumbers:
    """A number for each token, or each query of a head, int32 of any shape, below `count`."""

    numbers: Tensor
    count: Tensor


class Dropout(NoRemat):
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
        tokens: a number for each token of inputs `[tokens, features]`; with `per_sample`, the number of the
            token's sample. On TensorFlow and JAX the numbers decide what is dropped, so that packed and
            padded tokens drop the same elements. By default tokens are numbered in their order.

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
        # Of the dtype of its inputs: a map of policies may have another one for its path.
        super().__init__(**{"autocast": False, **kwargs})
        self.rate = checked_rate("dropout", rate)
        self.seed = checked_seed(seed)
        self.per_sample = per_sample
        self.supports_masking = True
        draws = 0 < self.rate < 1
        self.seeds = SeedDraws(split_seed(self.seed, 1)[0]) if draws else None
        self.built = True

    def call(
        self, inputs: Tensor, training: bool | None = None, tokens: TokenNumbers | None = None
    ) -> Tensor:
        if not (training and self.acts):
            return inputs
        if self.seeds is None:
            return ops.zeros_like(inputs)
        sizes: Any = ops.shape(inputs)
        shape = list(sizes)
        if self.per_sample:
            shape[1:] = [1] * (len(shape) - 1)
        zero = ops.zeros((), dtype=inputs.dtype)
        return ops.where(self._kept(shape, tokens), inputs * self.scale, zero)

    @property
    def acts(self) -> bool:
        """True if elements are dropped in training; every path of attention asks here."""
        return self.rate > 0

    def draw(self) -> Tensor:
        """Draw what `keep_masks` takes, once for all parts of a call."""
        return ops.zeros((2,), dtype="int32") if self.seeds is None else self.seeds.next()

    def keep_masks(self, draw: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Return a function from rows, columns and first column to that part of `keep_mask` of a draw."""
        if self.seeds is None:
            return _nothing
        keep_mask = _KEEP_MASKS[keras.backend.backend()]
        return lambda rows, columns, first: keep_mask(draw, rows, columns, self.rate, first)

    @property
    def scale(self) -> float:
        """The factor of kept values; 1 at rate 1, where none is kept."""
        return 1.0 / (1.0 - self.rate) if self.rate < 1 else 1.0

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def _kept(self, shape: list[Any], tokens: TokenNumbers | None) -> Tensor:
        """Return True for each element that is kept, bool of `shape`."""
        if keras.backend.backend() in _KEEP_MASKS:
            *leading, columns = [1, *shape] if len(shape) < 2 else shape
            if tokens is None:
                rows = ops.reshape(ops.arange(math.prod(leading), dtype="int32"), leading)
            else:
                rows = tokens.numbers
            return ops.reshape(self.keep_masks(self.draw())(rows, columns, 0), shape)
        if tokens is not None and self.per_sample:
            draws = keras.random.uniform((tokens.count, 1), dtype="float32", seed=self.seeds)
            return ops.take(draws, tokens.numbers, axis=0) >= self.rate
        return keras.random.uniform(tuple(shape), dtype="float32", seed=self.seeds) >= self.rate

    def get_config(self) -> dict[str, Any]:
        config = {"rate": self.rate, "seed": self.seed, "per_sample": self.per_sample}
        return {**super().get_config(), **config}


def _nothing(rows: Tensor, columns: Tensor, first_column: Tensor) -> Tensor:
    shape: Any = ops.shape(rows)
    return ops.zeros((*shape, columns), dtype="bool")
