"""Self-attention by learned scores: additive (Bahdanau) and multiplicative (Luong's "general").

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features of one head).
"""

from typing import Any, Unpack

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import checked_positive, or_none
from keras_selfattn.layers.attention_base import AttentionBase, Projected
from keras_selfattn.layers.attention_math import Distance, Formula, Learned, additive_score, dot_product
from keras_selfattn.layers.attention_paths import Heads, Tokens
from keras_selfattn.layers.weights.projection import affine
from keras_selfattn.layers.weights.saved_state import restore_state
from keras_selfattn.layers.weights.settings import LayerArguments

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AdditiveSelfAttention(AttentionBase):
    """Self-attention whose score is a small network of query and key: `v . tanh(q_t + k_s)` for each head.

    It needs memory for `H T S head_dim` numbers where the dot product needs `H T S`; a `window` bounds both.

    Args:
        num_heads: number of heads H.
        head_dim: features of one head, which is also the width of the score's hidden layer; by default the
            input's features divided by `num_heads`.
        causal, window, dropout, use_bias, seed: as for `MultiHeadSelfAttention`.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint,
            bias_constraint, activity_regularizer: as for `MultiHeadSelfAttention`. The score
            vector of each head is a kernel `[head_dim, 1]`.

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

    _arguments = (*AttentionBase._arguments, "window", "dropout")

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(num_heads, head_dim, causal=causal, use_bias=use_bias, seed=seed, **kwargs)
        self._set_window_and_dropout(window, dropout)

    def build(self, input_shape: tuple) -> None:
        self._build_projections(input_shape, Projected("query_key_value", [self.num_heads] * 3))
        # A kernel from head_dim to 1 for each head, in a row.
        vector = self._score_weight("score_vector", (self._head_dim, 1), first=4, transposed=True)
        self._formula = Formula(
            _additive, self.weights_dropout, variables={"score_vector": vector}, score_width=self._head_dim
        )
        restore_state(self)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MultiplicativeSelfAttention(AttentionBase):
    """Self-attention whose score is a learned matrix between the inputs themselves: `x_t . W_h x_s`.

    Each head has a full matrix; dot-product attention has a product of two matrices, of rank `head_dim`. A
    pair of tokens costs `H features` multiplications here, and `H head_dim` in dot-product attention.

    Args:
        num_heads: number of heads H.
        head_dim: features of the values of one head; by default the input's features divided by `num_heads`.
        scale: factor of the logits; by default `1 / sqrt(features)`, which keeps their initial variance at 1.
            1.0 gives the paper's score.
        causal, window, dropout, use_bias, seed: as for `MultiHeadSelfAttention`.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint,
            bias_constraint, activity_regularizer: as for `MultiHeadSelfAttention`. The score
            kernel of each head is a kernel `[features, features]`.

    Call arguments:
        inputs, mask, valid_lens, attention_mask, training, return_weights: as for `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, key]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Weights, in order: value kernel `[features, H head_dim]`; its bias; output kernel `[H head_dim,
    features]`; its bias; score kernel `[features, H features]`, head-major columns: the score is the dot
    product of `x_t` times the kernel and `x_s`.

    Example:

        >>> import numpy as np
        >>> tuple(MultiplicativeSelfAttention(num_heads=2)(np.ones((3, 5, 8), "float32")).shape)
        (3, 5, 8)

    Reference: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    section 3.1 ("general").
    """

    _arguments = (*AttentionBase._arguments, "window", "dropout", "scale")

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(num_heads, head_dim, causal=causal, use_bias=use_bias, seed=seed, **kwargs)
        self._set_window_and_dropout(window, dropout)
        self.scale = or_none(checked_positive, "scale", scale)

    def build(self, input_shape: tuple) -> None:
        self._build_projections(input_shape, Projected("value", [self.num_heads]))
        features = input_shape[-1]
        self._score_kernel = self._score_weight("score_kernel", (features, features), first=2)
        self._formula = Formula(_multiplicative, self.weights_dropout)
        restore_state(self)

    def _kernel_places(self) -> list[tuple[Any, str]]:
        return [*super()._kernel_places(), (self, "_score_kernel")]

    def _heads(self, x: Tensor, tokens: Tokens) -> Heads:
        scale = x.shape[-1] ** -0.5 if self.scale is None else self.scale
        query = affine(x * scale, self._score_kernel, None)  # [N, H features]
        query = tokens.split_heads(query, self.num_heads)  # [B, H, T, features], packed [N, H, features]
        key = tokens.split_heads(x, 1)  # all heads share the same keys
        (value,) = self._projections[0](x, tokens)  # [B, H, T, D], packed [N, H, D]
        return query, key, value


def _additive(learned: Learned, query: Tensor, key: Tensor, distance: Distance) -> Tensor:
    return additive_score(query, key, ops.cast(learned["score_vector"], query.dtype))  # [B, H, T, S]


def _multiplicative(learned: Learned, query: Tensor, key: Tensor, distance: Distance) -> Tensor:
    return dot_product(query, key)  # [B, H, T, S]
