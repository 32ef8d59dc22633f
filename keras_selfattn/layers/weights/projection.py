"""Linear projections: to heads, side by side in one kernel; and biases that are right in half precision.

Axes: B (batch), T (positions), H (heads), D (features of one head), N (tokens).
"""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.attention_math import split
from keras_selfattn.layers.attention_paths import Tokens
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.tensorflow import fuses_biases, norm_and_bias
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels
from keras_selfattn.layers.tensorflow.packing import PackedTokens
from keras_selfattn.layers.weights.low_rank import Kernel, LowRankUpdates, he_uniform
from keras_selfattn.layers.weights.policy_maps import settle_policy
from keras_selfattn.layers.weights.quantized import (
    QuantizationHook,
    QuantizedKernel,
    check_mode,
    inputs_quantizer,
)
from keras_selfattn.layers.weights.settings import WeightSettings

Tensor = Any


class HeadProjection:
    """Several projections of the same tokens to heads, their kernels and biases side by side.

    Args:
        layer: the layer that owns the weights: kernel `[features, sum(num_heads) head_dim]` and bias.
        name: prefix of the weights' names: the names of the projections, joined.
        features: width of the tokens.
        num_heads: number of heads of each projection.
        head_dim: features of one head.
        use_bias: whether there is a bias.
        settings: how kernels and biases start, and what penalises and bounds them.
        updates: of the kernels.
        seed: int for initial weights; None draws one.
        first: number of the first of them among the layer's projections.
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
        settings: WeightSettings,
        updates: LowRankUpdates,
        seed: int | None,
        first: int = 0,
    ) -> None:
        self._num_heads = num_heads
        self._names, self._updates = tuple(name.split("_")), updates
        self._widths = [heads * head_dim for heads in num_heads]
        self._settings = settings
        # Like the seeds of Keras' initializers: Keras' global generator may not be made inside a call.
        drawn = random.randint(1, 2**31 - 1) if seed is None else seed

        def glorot(shape: tuple, dtype: Any = None) -> Tensor:
            """Return all kernels of one draw: each has its own numbers of the seed, and its own limits."""
            limits = [math.sqrt(6 / (features + width)) for width in self._widths for _ in range(width)]
            draws = keras.random.uniform(shape, -1.0, 1.0, dtype="float32", seed=drawn)
            return ops.cast(draws * ops.convert_to_tensor(limits, dtype="float32"), dtype)

        count = len(num_heads)
        seeds = split_seed(seed, 2 * count)
        shapes = [(features, width) for width in self._widths]
        self.kernel = settings.add(
            layer, f"{name}_kernel", "kernel", shapes, seeds[:count], first=first, drawn=glorot
        )
        self._bias = None
        if use_bias:
            shapes = [(width,) for width in self._widths]
            self._bias = settings.add(layer, f"{name}_bias", "bias", shapes, seeds[count:], first=first)

    def __call__(self, x: Tensor, tokens: Tokens) -> list[Tensor]:
        """Return the heads of each projection of tokens `[N, features]`, as `tokens.split_heads` does."""
        if not isinstance(tokens, PackedTokens):
            product = affine(x, self.kernel, self._bias)
            if self._updates.started:
                product = self._updates.added(self._names, self._widths, product, x)
            self._penalise(lambda: split(product, self._widths), tokens)
            return tokens.split_parts(product, self._num_heads)
        # Split the kernel or the product, whichever has fewer rows; the kernel if that is unknown. Tokens are
        # rounded once for a quantized kernel, so it stays whole.
        whole = isinstance(self.kernel, QuantizedKernel) or constant_kernels.get() is not None
        if whole or (x.shape[0] is not None and x.shape[0] <= x.shape[1]):
            product = affine(x, self.kernel, self._bias, packed=True)
            if self._updates.started:
                product = self._updates.added(self._names, self._widths, product, x)
            parts = split(product, self._widths)
        else:
            kernels = split(self.kernel, self._widths)
            biases = [None] * len(kernels) if self._bias is None else split(self._bias, self._widths)
            parts = [affine(x, *weights, packed=True) for weights in zip(kernels, biases, strict=True)]
            if self._updates.started:
                of_parts = zip(self._names, self._widths, parts, strict=True)
                parts = [self._updates.added([name], [width], part, x) for name, width, part in of_parts]
        self._penalise(lambda: parts, tokens)
        return [tokens.split_heads(part, heads) for part, heads in zip(parts, self._num_heads, strict=True)]

    def kernels(self) -> dict[str, Kernel]:
        """Return the kernel of each projection by its name."""
        starts = itertools.accumulate(self._widths, initial=0)
        of_parts = zip(self._names, starts, self._widths, strict=False)
        return {name: Kernel(self.kernel, start, width) for name, start, width in of_parts}

    def _penalise(self, parts: Callable[[], list[Tensor]], tokens: Tokens) -> None:
        if self._settings.activity_regularizer is not None:
            for part in parts():
                self._settings.penalise(part, tokens)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Dense(keras.layers.Dense):
    """Keras' layer, which adds its bias with `biased`; low-rank updates and int8 are as in attention.

    Where a bias is trained in the dtype of a model, this class is used and not Keras' own. It has the name of
    Keras' class because files of functional models name the weights of their layers by it.

    Call arguments:
        inputs: float `[..., features]`.

    Returns:
        float `[..., units]`.
    """

    def __init__(self, units: int, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(units, activation, **kwargs)
        self._updates = LowRankUpdates(dtype=self.dtype_policy, name="lora")
        self._hook = QuantizationHook(
            self.quantize, lambda: [self._kernel], dtype=self.dtype_policy, name=self.name
        )

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        self._updates.build(input_shape)
        self._hook.build(input_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self._outputs(_product(inputs, self.kernel), inputs)

    def _int8_call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # Keras 3.12 has no configs.
        of_inputs = inputs_quantizer(getattr(self, "quantization_config", None))
        kernel = QuantizedKernel(self._kernel, self.kernel_scale, of_inputs)
        return self._outputs(kernel.product(inputs), inputs)

    def _outputs(self, product: Tensor, inputs: Tensor) -> Tensor:
        outputs = biased(product, self.bias)
        if self._updates.started:
            outputs = self._updates.added([self.name], [self.units], outputs, inputs)
        return outputs if self.activation is None else self.activation(outputs)

    def as_kernel(self) -> Kernel:
        """Return the kernel to update."""
        return Kernel(self.kernel, 0, self.units)

    def start_lora(self, rank: int, alpha: float, seed: int | None) -> None:
        """Begin an update of the kernel, which is frozen."""
        self._updates.start({self.name: self.as_kernel()}, rank, alpha, he_uniform(seed, 1))

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        """Round the kernel to int8; see `MultiHeadSelfAttention.quantize`."""
        check_mode(self, mode)
        settle_policy(self)
        super().quantize(mode, type_check=False, config=config)
        self._updates.hold_apart({self.name: self.as_kernel()})

    def save_own_variables(self, store: Any) -> None:
        with self._updates.merged():
            super().save_own_variables(store)


def affine(
    x: Tensor, kernel: Tensor | QuantizedKernel, bias: Tensor | None, *, packed: bool = False
) -> Tensor:
    """Return `x @ kernel + bias` for tokens `[N, features]`, padded or packed.

    `x` is a matrix because TensorFlow fuses product and bias in two dimensions, not in three.
    """
    if packed and bias is not None and not isinstance(kernel, QuantizedKernel) and fuses_biases(x.dtype):
        return norm_and_bias.affine(x, kernel, bias)
    return biased(_product(x, kernel), bias)  # [N, width]


def _product(x: Tensor, kernel: Tensor | QuantizedKernel) -> Tensor:
    if isinstance(kernel, QuantizedKernel):
        return kernel.product(x)
    constants = constant_kernels.get()
    if constants is not None and constants.holds(kernel):
        return constants.product(x, kernel)
    return ops.matmul(x, kernel)


def biased(product: Tensor, bias: Tensor | None) -> Tensor:
    """Return `product + bias`, for a product `[..., width]` and a bias `[width]`."""
    if bias is None:
        return product
    if keras.backend.backend() == "tensorflow" and product.dtype in ("float16", "bfloat16"):
        return norm_and_bias.add_bias(product, bias)
    return ops.add(product, bias)
