"""Linear self-attention: time and memory grow with the length, not its square.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features of one head), N
(chunks), C (positions of a chunk).

Reference: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with Linear
Attention", section 3.
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.attention_base import AttentionBase, Projected
from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.attention_paths import Heads
from keras_selfattn.layers.masks import PairMask, all_of
from keras_selfattn.layers.weights.saved_state import restore_state
from keras_selfattn.layers.window import Chunks

Tensor = Any

# Keeps the sum of a query's weights from underflowing to 0; elu(x) + 1 is below it only for x < -13.8.
_SMALLEST_FEATURE = 1e-6

_CHUNK = 128  # positions; the state of each chunk is D x D


@keras.saving.register_keras_serializable(package="keras_selfattn")
class LinearSelfAttention(AttentionBase):
    """Self-attention with weights `phi(q_t) . phi(k_s)`, normalised, phi(x) = elu(x) + 1, in linear time.

    There is no softmax and no matrix of all pairs: the keys and values are summed first, in float32 at least
    under every dtype policy. Returning the weights takes memory for all pairs. Dropout of weights, an
    `attention_mask` of pairs and a length for each query would need that matrix, so they are not supported.

    Args:
        num_heads: number of heads H.
        head_dim: features of one head; by default the input's features divided by `num_heads`.
        causal: if True, a position attends only to itself and the positions before it, still in linear time.
        use_bias: whether the projections have biases.
        seed: int for initial weights; None draws one.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint,
            bias_constraint, activity_regularizer: as for `MultiHeadSelfAttention`.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real token; propagated by Keras.
        valid_lens: int `[batch]`, the number of leading real tokens; the rest is padding.
        attention_mask: bool `[batch, 1, length]` or `[batch, heads or 1, 1, length]`, True for keys that the
            queries may attend to.
        return_weights: if True, returns the attention weights as well.

    Returns:
        float `[batch, length, features]`; with `return_weights` also float `[batch, heads, query, key]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does, and for an `attention_mask` of pairs or `valid_lens` of
            rank 2.

    Weights, in order: those of `MultiHeadSelfAttention`.

    Example:

        >>> import numpy as np
        >>> tuple(LinearSelfAttention(num_heads=2)(np.ones((3, 5, 8), "float32")).shape)
        (3, 5, 8)
    """

    _may_pack = False  # each row has its own sums over keys, which need rows of one length

    def build(self, input_shape: tuple) -> None:
        self._build_projections(input_shape, Projected("query_key_value", [self.num_heads] * 3))
        restore_state(self)

    def pairs(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        valid_lens: Tensor | None,
        attention_mask: Tensor | None,
        distances: Tensor | None = None,
    ) -> PairMask:
        """Return the checked rules of which tokens are attended to."""
        pairs = super().pairs(inputs, mask, valid_lens, attention_mask, distances)
        if pairs.lens is not None or (pairs.chosen is not None and pairs.chosen.shape[2] != 1):
            raise ValueError(
                "LinearSelfAttention never forms the pairs that `attention_mask` and `valid_lens` of shape "
                "[batch, length] choose from; use `mask`, `valid_lens` of shape [batch], an `attention_mask` "
                "of keys, [batch, 1, length], or `causal`, or MultiHeadSelfAttention."
            )
        return pairs

    def _attend(
        self, heads: Heads, tokens: Any, pairs: PairMask, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the context `[N, H D]`, and the weights `[B, H, T, S]` or None; see the functions below."""
        query, key, value = (ops.cast(x, wide_dtype(x.dtype)) for x in heads)
        query, key = feature_map(query), feature_map(key)
        keys = [] if pairs.real is None else [ops.expand_dims(pairs.real, (1, 3))]
        keys += [] if pairs.chosen is None else [ops.swapaxes(pairs.chosen, -1, -2)]  # [B, H or 1, S, 1]
        if keys:
            key = ops.where(all_of(keys), key, 0.0)  # [B, H, S, D]
        context = (causal_attention if self.causal else full_attention)(query, key, value)
        weights = linear_weights(query, key, pairs) if return_weights else None
        dtype = heads[2].dtype
        context = tokens.join_heads(ops.cast(context, dtype))
        return context, None if weights is None else ops.cast(weights, dtype)


def feature_map(x: Tensor) -> Tensor:
    """Return `elu(x) + 1`, at least 1e-6."""
    # Below 0 this is exp(x); as (exp(x) - 1) + 1 only a few of its digits would be left.
    return ops.where(x > 0, x + 1.0, ops.maximum(ops.exp(ops.minimum(x, 0.0)), _SMALLEST_FEATURE))


def full_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the context `[B, H, T, D]` where each query sees all keys.

    Args:
        query: features of the queries, float32 or float64 `[B, H, T, D]`, positive.
        key: features of the keys, the same shape, all zero where masked.
        value: `[B, H, T, D]`.
    """
    state = ops.matmul(ops.swapaxes(key, -1, -2), value)  # [B, H, D, D]
    total = ops.sum(key, axis=2)[..., None]  # [B, H, D, 1]
    return _divided(ops.matmul(query, state), ops.matmul(query, total))


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the context `[B, H, T, D]` where each query sees keys up to its own position.

    The context is computed in chunks: from the pairs inside a chunk, and from the sums of the chunks before.

    Args:
        query, key, value: as for `full_attention`.
    """
    batch = ops.shape(query)[0]
    chunks = Chunks(ops.shape(query)[2], left=0, right=0, size=_CHUNK)
    q, k, v = (chunks.queries(x) for x in (query, key, value))  # [B N, H, C, D]
    inside = ops.tril(ops.matmul(q, ops.swapaxes(k, -1, -2)))  # [B N, H, C, C]
    before = _sums_before(ops.matmul(ops.swapaxes(k, -1, -2), v), batch, chunks.count)  # [B N, H, D, D]
    total_before = _sums_before(ops.sum(k, axis=2)[..., None], batch, chunks.count)  # [B N, H, D, 1]
    context = _divided(
        ops.matmul(inside, v) + ops.matmul(q, before),
        ops.sum(inside, axis=-1, keepdims=True) + ops.matmul(q, total_before),
    )
    return chunks.join(context)


def linear_weights(query: Tensor, key: Tensor, pairs: PairMask) -> Tensor:
    """Return the weights that the functions above never form, `[B, H, T, S]`; rows without a key are 0."""
    products = ops.matmul(query, ops.swapaxes(key, -1, -2))  # [B, H, T, S]
    mask = pairs.dense(ops.shape(query)[2])
    if mask is not None:
        products = ops.where(mask, products, 0.0)
    return _divided(products, ops.sum(products, axis=-1, keepdims=True))


def _sums_before(x: Tensor, batch: Tensor, count: Tensor) -> Tensor:
    """Return for each of N chunks the sum of the chunks before it, `[B N, H, D, E]` as given."""
    _, heads, rows, columns = ops.shape(x)
    chunks = ops.reshape(x, (batch, count, heads, rows, columns))
    earlier = ops.concatenate([ops.zeros_like(chunks[:, :1]), chunks[:, :-1]], axis=1)
    return ops.reshape(ops.cumsum(earlier, axis=1), ops.shape(x))


def _divided(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return the quotient; 0, with finite gradients, where the denominator is 0: for a query without keys."""
    empty = denominator == 0
    return ops.where(empty, 0.0, numerator / ops.where(empty, 1.0, denominator))
