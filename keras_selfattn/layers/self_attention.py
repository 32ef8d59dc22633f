"""Multi-head self-attention as a Keras layer.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
"""

import math
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.attention import attend
from keras_selfattn.layers.checks import checked_count, checked_seed, checked_sequence
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.masks import pair_mask, token_mask, zero_masked
from keras_selfattn.layers.seeds import split_seed

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MultiHeadSelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product self-attention with a fused query-key-value projection.

    A query with nothing to attend to gets weights and context of exactly zero, so its output is the
    projection's bias; outputs at masked positions are exactly zero; what padding holds does not matter.

    Args:
        num_heads: number of heads H.
        head_dim: features of one head; by default the input's features divided by `num_heads`.
        scale: factor of the logits; by default `1 / sqrt(head_dim)`, which keeps their variance at 1 (paper,
            section 3.2.1). 1.0 gives the unscaled dot product.
        causal: if True, a position attends to itself and what stands before it.
        dropout: share in [0, 1] of attention weights dropped in training.
        use_bias: whether the projections have biases, as those of Keras and BERT do.
        seed: int for initial weights and dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real token; propagated by Keras.
        valid_lens: int `[batch]`, tokens from there on are padding; or int `[batch, length]`, the number of
            leading keys each query attends to.
        attention_mask: bool `[length, length]`, `[batch, length, length]` or `[batch, heads or 1, length,
            length]`, True where the query (first) may attend to the key (second).
        training: dropout acts only if True.
        return_weights: if True, returns the attention weights as well.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, key]`.

    Raises:
        ValueError: for an argument out of range, a feature width that does not divide by `num_heads`, or a
            mask of the wrong dtype, rank or size.

    Weights, in order: query-key-value kernel `[features, 3 H head_dim]`, its columns query | key | value,
    each head-major; its bias; output kernel `[H head_dim, features]`; its bias.

    Example:

        >>> import numpy as np
        >>> layer = MultiHeadSelfAttention(num_heads=5)
        >>> layer(np.ones((2, 4, 100), "float32"), valid_lens=np.array([3, 2])).shape
        TensorShape([2, 4, 100])

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        scale: float | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = checked_count("num_heads", num_heads)
        self.head_dim = None if head_dim is None else checked_count("head_dim", head_dim)
        self.scale = scale
        self.causal = causal
        self.dropout = dropout
        self.use_bias = use_bias
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        if self.head_dim is None and features % self.num_heads:
            raise ValueError(
                "The feature width must be divisible by `num_heads` unless `head_dim` is given. "
                f"Received width {features}, num_heads={self.num_heads}."
            )
        self._head_dim = self.head_dim or features // self.num_heads
        width = self.num_heads * self._head_dim
        # Glorot for one projection, drawn once for all three: each gets its own numbers under one seed.
        fused_seed, output_seed = split_seed(self.seed, 2)
        limit = math.sqrt(6 / (features + width))
        self._qkv_kernel = self.add_weight(
            name="query_key_value_kernel",
            shape=(features, 3 * width),
            initializer=keras.initializers.RandomUniform(-limit, limit, seed=fused_seed),
        )
        self._qkv_bias = self._add_bias("query_key_value_bias", 3 * width)
        self._output_kernel = self.add_weight(
            name="output_kernel",
            shape=(width, features),
            initializer=keras.initializers.GlorotUniform(output_seed),
        )
        self._output_bias = self._add_bias("output_bias", features)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        real = token_mask(inputs, mask, valid_lens)  # [B, T]
        pairs = pair_mask(
            inputs,
            real,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            causal=self.causal,
            num_heads=self.num_heads,
        )
        # Zeros for padding: a weight of 0 would not keep its NaN, infinity or overflow from the sum.
        query, key, value = self._project(zero_masked(inputs, real))
        drops = training and self._dropout.rate > 0
        context, weights = attend(
            query,
            key,
            value,
            pairs,
            scale=1 / math.sqrt(self._head_dim) if self.scale is None else self.scale,
            dropout=(lambda kept: self._dropout(kept, training=True)) if drops else None,
        )
        outputs = zero_masked(self._merge(context), real)  # [B, T, D]
        return (outputs, weights) if return_weights else outputs

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(self, inputs: Tensor, *_: Any, return_weights: bool = False, **__: Any) -> Any:
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        batch, length, _features = inputs.shape
        weights = keras.KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)
        return outputs, weights

    def get_config(self) -> dict[str, Any]:
        names = ("num_heads", "head_dim", "scale", "causal", "dropout", "use_bias", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _add_bias(self, name: str, width: int) -> Any:
        return self.add_weight(name=name, shape=(width,), initializer="zeros") if self.use_bias else None

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length = ops.shape(inputs)[0], ops.shape(inputs)[1]
        fused = _affine(inputs, self._qkv_kernel, self._qkv_bias)  # [B, T, 3 H D]
        fused = ops.reshape(fused, (batch, length, 3, self.num_heads, self._head_dim))  # [B, T, 3, H, D]
        query, key, value = ops.unstack(ops.transpose(fused, (2, 0, 3, 1, 4)), 3)  # each [B, H, T, D]
        return query, key, value

    def _merge(self, context: Tensor) -> Tensor:
        batch, length = ops.shape(context)[0], ops.shape(context)[2]
        joined = ops.transpose(context, (0, 2, 1, 3))  # [B, T, H, D]
        joined = ops.reshape(joined, (batch, length, self.num_heads * self._head_dim))  # [B, T, H D]
        return _affine(joined, self._output_kernel, self._output_bias)


def _affine(inputs: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    product = ops.matmul(inputs, kernel)
    return product if bias is None else ops.add(product, bias)
