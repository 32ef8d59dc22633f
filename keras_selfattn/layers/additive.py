"""Self-attention by learned scores: additive (Bahdanau) and multiplicative (Luong's "general").

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features of one head).
"""

import math
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.affine import affine
from keras_selfattn.layers.attention import additive_score, dot_product
from keras_selfattn.layers.checks import checked_positive
from keras_selfattn.layers.scored import Distance, ScoredSelfAttention
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.shapes import sizes

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AdditiveSelfAttention(ScoredSelfAttention):
    """Self-attention whose score is a small network of query and key: `v . tanh(q_t + k_s)` for each head.

    It needs memory for `H T S head_dim` numbers where the dot product needs `H T S`; a `window` bounds both.

    Args:
        num_heads: number of heads H.
        head_dim: features of one head, which is also the width of the score's hidden layer; by default the
            input's features divided by `num_heads`.
        causal, window, dropout, use_bias, seed: as for `MultiHeadSelfAttention`.

    Call arguments:
        inputs, mask, valid_lens, attention_mask, training, return_weights: as for `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, key]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Weights, in order: query-key-value kernel `[features, 3 H head_dim]` and its bias, as in
    `MultiHeadSelfAttention`; output kernel `[H head_dim, features]`; its bias; score vector `[H, head_dim]`.

    Example:

        >>> import numpy as np
        >>> tuple(AdditiveSelfAttention(num_heads=2)(np.ones((3, 5, 8), "float32")).shape)
        (3, 5, 8)

    Reference: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    appendix A.1.2.
    """

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        # Glorot of a layer from head_dim to 1, for each head.
        limit = math.sqrt(6 / (self._head_dim + 1))
        seed = split_seed(self.seed, 3)[2]
        self._score_vector = self.add_weight(
            name="score_vector",
            shape=(self.num_heads, self._head_dim),
            initializer=keras.initializers.RandomUniform(-limit, limit, seed),
        )

    def _build_heads(self, features: int, seed: int | None) -> None:
        self._add_fused("query_key_value", features, [self.num_heads * self._head_dim] * 3, seed)

    def _project(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self._project_fused(inputs)  # each [B, T, H, D]
        return query, key, value

    @property
    def _score_width(self) -> int:
        return self._head_dim

    def _score_weights(self) -> dict[str, Tensor]:
        return {"score_vector": ops.convert_to_tensor(self._score_vector)}

    def _score(self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Distance) -> Tensor:
        return additive_score(query, key, ops.cast(learned["score_vector"], query.dtype))


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MultiplicativeSelfAttention(ScoredSelfAttention):
    """Self-attention whose score is a learned matrix between the inputs themselves: `x_t . W_h x_s`.

    Each head has a full matrix, where dot-product attention has the product of two of rank `head_dim`; it
    costs `H features` multiplications a pair where the dot product costs `H head_dim`.

    Args:
        num_heads: number of heads H.
        head_dim: features of the values of one head; by default the input's features divided by `num_heads`.
        scale: factor of the logits; by default `1 / sqrt(features)`, which keeps the variance of their start
            at 1. 1.0 gives the paper's score.
        causal, window, dropout, use_bias, seed: as for `MultiHeadSelfAttention`.

    Call arguments:
        inputs, mask, valid_lens, attention_mask, training, return_weights: as for `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, key]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Weights, in order: value kernel `[features, H head_dim]`; its bias; output kernel `[H head_dim,
    features]`; its bias; score kernel `[features, H features]`, head-major columns: `x_t` times it meets
    `x_s`.

    Example:

        >>> import numpy as np
        >>> tuple(MultiplicativeSelfAttention(num_heads=2)(np.ones((3, 5, 8), "float32")).shape)
        (3, 5, 8)

    Reference: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    section 3.1 ("general").
    """

    def __init__(
        self, num_heads: int, head_dim: int | None = None, *, scale: float | None = None, **settings: Any
    ) -> None:
        super().__init__(num_heads, head_dim, **settings)
        self.scale = None if scale is None else checked_positive("scale", scale)

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        features = input_shape[-1]
        limit = math.sqrt(3 / features)  # Glorot's for one head
        self._score_kernel = self.add_weight(
            name="score_kernel",
            shape=(features, self.num_heads * features),
            initializer=keras.initializers.RandomUniform(-limit, limit, split_seed(self.seed, 3)[2]),
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}

    def _build_heads(self, features: int, seed: int | None) -> None:
        self._add_fused("value", features, [self.num_heads * self._head_dim], seed)

    def _project(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, features = sizes(inputs)
        scale = features**-0.5 if self.scale is None else self.scale
        query = affine(inputs * scale, self._score_kernel, None)  # [B, T, H features]
        query = ops.reshape(query, (batch, length, self.num_heads, features))
        return query, inputs[:, :, None], *self._project_fused(inputs)

    def _score(self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Distance) -> Tensor:
        return dot_product(query, key)  # all heads meet the same keys
