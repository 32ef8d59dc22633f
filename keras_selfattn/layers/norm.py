"""Normalisation of each token's features, in the form that TensorFlow fuses.

References: Ba et al. 2016, "Layer Normalization", section 3. Zhang and Sennrich 2019, "Root Mean Square Layer
Normalization", section 4.
"""

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.attention_paths import Tokens
from keras_selfattn.layers.remat import NoRemat
from keras_selfattn.layers.tensorflow import fuses_norms, runs_kernels
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels
from keras_selfattn.layers.tensorflow.norm_and_bias import layer_norm
from keras_selfattn.layers.tensorflow.packing import PackedTokens

Tensor = Any

# PyTorch's and Llama's; Keras' 1e-3 is for batch normalisation.
EPSILON = {"layer": 1e-5, "rms": 1e-6, "layer_no_shift": 1e-5}


def make_norm(kind: str, policy: Any, name: str, epsilon: float | None = None) -> keras.layers.Layer:
    """Return the normalisation layer that `norm=kind` names."""
    layer = NORMS[kind]
    made = layer(epsilon=EPSILON[kind] if epsilon is None else epsilon, dtype=policy, name=name)
    made.supports_masking = True  # Keras' RMSNormalization works position by position but does not say so
    return made


class LayerNormalization(NoRemat, keras.layers.LayerNormalization):
    """Keras' layer over the last axis, with a gain and, if `center`, a shift, in fewer steps.

    For many tokens it is computed as the pattern of operations that TensorFlow fuses into one, on machines
    where it does: elsewhere that pattern takes 5 times as long as the plain formula.
    """

    def __init__(self, *, epsilon: float, dtype: Any, name: str, center: bool = True) -> None:
        super().__init__(epsilon=epsilon, center=center, dtype=dtype, name=name)

    def call(self, inputs: Tensor, many: bool = False) -> Tensor:
        # In int8 the last bit of a token decides how it is rounded: one way of computing for all batches.
        many = many or (constant_kernels.get() is not None and len(inputs.shape) == 2)
        fused = many and inputs.dtype in ("float32", "bfloat16") and fuses_norms()
        if fused and runs_kernels(inputs):
            found = layer_norm(inputs, self.gamma, self.beta, self.epsilon)
        else:
            found = _plain(inputs, self.gamma, self.beta, self.epsilon)
        return ops.cast(found, self.compute_dtype)  # Keras' layer takes inputs as they are


NORMS = {
    "layer": LayerNormalization,
    "rms": keras.layers.RMSNormalization,
    "layer_no_shift": partial(LayerNormalization, center=False),
}


def normalised(norm: keras.layers.Layer | None, x: Tensor, tokens: Tokens) -> Tensor:
    """Return `norm(x)` for tokens `[N, D]`; `x` without a norm."""
    if norm is None:
        return x
    # For few tokens, which are not packed, the fused operation takes longer than its parts.
    many = isinstance(norm, LayerNormalization) and isinstance(tokens, PackedTokens)
    return norm(x, many=True) if many else norm(x)


def _plain(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """Return the layer normalisation of the last axis, in float32 at least and in fewer steps than Keras."""
    wide: Tensor = ops.cast(x, wide_dtype(x.dtype))
    centred = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    normal = centred * ops.rsqrt(variance + epsilon)
    scaled = normal * ops.cast(gain, wide.dtype)
    return ops.cast(scaled if shift is None else scaled + ops.cast(shift, wide.dtype), x.dtype)
