"""The feed-forward network of a Transformer block, plain or gated.

Axes: B (batch), T (positions), N (tokens), D (features).

References: Vaswani et al. 2017, "Attention Is All You Need", section 3.3. Shazeer 2020, "GLU Variants Improve
Transformer", section 2 (gated). Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import checked_sequence
from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.attention_paths import Tokens
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.remat import NoRemat
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.tensorflow import builds_portable_graph
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels
from keras_selfattn.layers.weights.low_rank import Kernel
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.layers.weights.settings import WeightSettings

Tensor = Any

_ROOT_HALF, _PEAK = math.sqrt(1 / 2), 1 / math.sqrt(2 * math.pi)


class FeedForward(NoRemat):
    """`activation(x W_1 + b_1) W_2 + b_2`; gated, `(activation(x W_1 + b_1) * (x V + c)) W_2 + b_2`.

    Args:
        hidden_dim: width of the hidden layer; by default 4 times the features.
        activation: function of the hidden layer.
        gated: whether a second projection multiplies the first.
        use_bias: whether the projections have biases.
        dropout: share in [0, 1] of the hidden layer dropped in training.
        settings: how kernels and biases start, and what penalises and bounds them.
        seed: int for initial weights and dropout; None draws one.

    Call arguments:
        inputs: float `[tokens, features]`.
        tokens: their layout.
        training: dropout acts only if True.
    """

    def __init__(
        self,
        hidden_dim: int | None,
        activation: Callable,
        *,
        gated: bool = False,
        use_bias: bool = True,
        dropout: float = 0.0,
        settings: WeightSettings,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.activation = activation
        self.gated = gated
        self.use_bias = use_bias
        self._settings = settings
        self._seeds = split_seed(seed, 4)
        self.hidden_dropout = Dropout(dropout, self._seeds[0], dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        hidden = self.hidden_dim or 4 * features
        self._hidden = self._dense(hidden, 0, "hidden")
        self._output = self._dense(features, 1, "output")
        self._gate = self._dense(hidden, 2, "gate") if self.gated else None
        self._hidden.build(input_shape)
        self._output.build((*input_shape[:-1], hidden))
        if self._gate is not None:
            self._gate.build(input_shape)

    def call(self, inputs: Tensor, tokens: Tokens, training: bool | None = None) -> Tensor:
        hidden = self._penalised(self._activated(self._hidden(inputs), training), tokens)  # [N, hidden]
        if self._gate is not None:
            gate = self._penalised(self._gate(inputs), tokens)
            hidden = hidden * ops.cast(gate, hidden.dtype)
        hidden = self.hidden_dropout(hidden, training=training, tokens=tokens.by_token)
        return self._penalised(self._output(hidden), tokens)  # [N, D]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def kernels(self) -> dict[str, Kernel]:
        """Return the kernel of each projection by its name."""
        return {f"feed-forward {each.name}": each.as_kernel() for each in self._projections()}

    def start_lora(self, rank: int, alpha: float) -> None:
        """Begin low-rank updates of all kernels, which are frozen."""
        for each, seed in zip(self._projections(), split_seed(self._seeds[0], 3), strict=False):
            each.start_lora(rank, alpha, seed)

    def _projections(self) -> list[Dense]:
        return [self._hidden, self._output, *([] if self._gate is None else [self._gate])]

    def _activated(self, hidden: Tensor, training: bool | None) -> Tensor:
        if self.activation is keras.activations.gelu:
            return gelu(hidden, training)
        return self.activation(hidden)

    def _dense(self, units: int, place: int, name: str) -> Dense:
        seed, settings = self._seeds[1 + place], self._settings
        return Dense(
            units,
            use_bias=self.use_bias,
            kernel_initializer=cast(Any, settings.initializer("kernel", place, seed)),
            bias_initializer=cast(Any, settings.initializer("bias", place, split_seed(seed, 1)[0])),
            kernel_regularizer=settings.kernel_regularizer,
            bias_regularizer=settings.bias_regularizer,
            kernel_constraint=settings.kernel_constraint,
            bias_constraint=settings.bias_constraint,
            dtype=self.dtype_policy,
            name=name,
        )

    def _penalised(self, activity: Tensor, tokens: Tokens) -> Tensor:
        if self._settings.activity_regularizer is not None:
            self._settings.penalise(activity, tokens)
        return activity


def gelu(x: Tensor, training: bool | None = None) -> Tensor:
    """Return the Gaussian error linear unit of `x`, by the error function.

    TensorFlow's own rounds the square root of 2 to float32, even for float64, and is made of an operation
    that other runtimes lack; in training it keeps four arrays for the gradient. JAX' own computes two forms
    in half precision and chooses one.

    Args:
        x: floats.
        training: True if gradients will be asked for.

    Example:

        >>> print(gelu(ops.array([-1.0, 0.0, 1.0])).numpy())
        [-0.15865526  0.          0.8413447 ]
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    backend = keras.backend.backend()
    if backend == "jax" and dtype in ("bfloat16", "float16"):
        return ops.cast(_of_error(ops.cast(x, "float32")), dtype)
    if backend == "tensorflow" and training:
        return _with_slope(x)
    # TensorFlow fuses its own with a product of floats; behind others it takes twice as long as this.
    fused = constant_kernels.get() is None and not builds_portable_graph()
    if dtype != "float64" and fused:
        return keras.activations.gelu(x)
    return _of_error(x)


def _of_error(x: Tensor) -> Tensor:
    error: Tensor = ops.erf(x / math.sqrt(2))
    return 0.5 * x * (1.0 + error)


@custom_gradient
def _with_slope(x: Tensor) -> tuple[Tensor, Callable]:
    """Return the unit, whose slope is computed beside it: its gradient needs no other array."""
    wide: Any = ops.cast(x, wide_dtype(x.dtype))  # in half precision, so that each result is rounded once
    error: Any = ops.erf(_ROOT_HALF * wide)
    below = 0.5 + 0.5 * error  # the share of a normal distribution below x
    bell: Any = ops.exp(-0.5 * wide * wide)
    slope = ops.cast(below + wide * (_PEAK * bell), x.dtype)
    return ops.cast(wide * below, x.dtype), lambda upstream: upstream * slope


@keras.saving.register_keras_serializable(package="keras_selfattn")
def gelu_tanh(x: Tensor) -> Tensor:
    """Return the approximation of GELU by a hyperbolic tangent."""
    return ops.gelu(x, approximate=True)
