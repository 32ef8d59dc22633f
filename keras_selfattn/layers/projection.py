"""Linear projections: to heads, side by side in one kernel; and biases that are right in half precision.

Axes: B (batch), T (positions), H (heads), D (features of one head), N (tokens).
"""

import itertools
import math
import random
from typing import Any, cast

import keras
from keras import ops

from keras_selfattn.layers.attention_paths import Tokens
from keras_selfattn.layers.tensorflow.fused import add_bias
from keras_selfattn.layers.tensorflow.packing import PackedTokens

Tensor = Any


class HeadProjection:
    """Several projections of the same tokens to heads, their kernels and biases side by side.

    Args:
        layer: the layer that owns the weights: kernel `[features, sum(num_heads) head_dim]` and bias.
        name: prefix of the weights' names.
        features: width of the tokens.
        num_heads: number of heads of each projection.
        head_dim: features of one head.
        use_bias: whether there is a bias.
        seed: int for initial weights; None draws one.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        name: str,
        *,
        features: int,
        num_heads: list[int],
        head_dim: int,
        use_bias: bool,
        seed: int | None,
    ) -> None:
        self._num_heads = num_heads
        self._widths = [heads * head_dim for heads in num_heads]
        # Glorot limits of each projection. One draw for all, so that each gets its own numbers from one seed.
        limits = [math.sqrt(6 / (features + width)) for width in self._widths for _ in range(width)]

        # Like the seeds of Keras' initializers: Keras' global generator may not be made inside a call.
        drawn = random.randint(1, 2**31 - 1) if seed is None else seed

        def initial(shape: tuple, dtype: Any = None) -> Tensor:
            draws = keras.random.uniform(shape, -1.0, 1.0, dtype="float32", seed=drawn)
            return ops.cast(draws * ops.convert_to_tensor(limits, dtype="float32"), dtype)

        width = sum(self._widths)
        self._kernel = layer.add_weight(name=f"{name}_kernel", shape=(features, width), initializer=initial)
        self._bias = None
        if use_bias:
            self._bias = layer.add_weight(name=f"{name}_bias", shape=(width,), initializer="zeros")

    def __call__(self, x: Tensor, tokens: Tokens) -> list[Tensor]:
        """Return the heads of each projection of tokens `[N, features]`, as `tokens.split_heads` does."""
        if not isinstance(tokens, PackedTokens):  # transposed at once, before they are split
            heads = tokens.split_heads(affine(x, self._kernel, self._bias), sum(self._num_heads))
            return _split(heads, self._num_heads, axis=1)  # each [B, H, T, D]
        # Split the kernel or the product, whichever has fewer rows; the kernel if that is unknown.
        if x.shape[0] is not None and x.shape[0] <= x.shape[1]:
            parts = _split(affine(x, self._kernel, self._bias), self._widths)
        else:
            kernels = _split(self._kernel, self._widths)
            biases = [None] * len(kernels) if self._bias is None else _split(self._bias, self._widths)
            parts = [affine(x, *weights) for weights in zip(kernels, biases, strict=True)]
        return [tokens.split_heads(part, heads) for part, heads in zip(parts, self._num_heads, strict=True)]


class Projection(keras.layers.Dense):
    """Keras' `Dense`, which adds its bias with `biased`."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = biased(ops.matmul(inputs, self.kernel), self.bias)
        return outputs if self.activation is None else self.activation(outputs)


def affine(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Return `x @ kernel + bias` for tokens `[N, features]`.

    `x` is a matrix because TensorFlow fuses product and bias in two dimensions, not in three.
    """
    return biased(ops.matmul(x, kernel), bias)  # [N, width]


def biased(product: Tensor, bias: Tensor | None) -> Tensor:
    """Return `product + bias`, for a product `[..., width]` and a bias `[width]`."""
    if bias is None:
        return product
    if keras.backend.backend() == "tensorflow" and product.dtype in ("float16", "bfloat16"):
        return add_bias(product, bias)
    return ops.add(product, bias)


def _split(x: Tensor, sizes: list[int], axis: int = -1) -> list[Tensor]:
    """Cut an axis, the last by default, into parts of the given sizes."""
    if len(sizes) == 1:
        return [ops.convert_to_tensor(x)]
    bounds = list(itertools.accumulate(sizes[:-1]))
    return cast(list, ops.split(ops.convert_to_tensor(x), bounds, axis=axis))
