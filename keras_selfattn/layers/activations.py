"""The Gaussian error linear unit, exact and approximate.

Reference: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.tensorflow import builds_portable_graph
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels

Tensor = Any

_ROOT_HALF, _PEAK = math.sqrt(1 / 2), 1 / math.sqrt(2 * math.pi)


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
