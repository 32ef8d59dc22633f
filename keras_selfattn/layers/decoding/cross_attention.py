"""Multi-head attention from one sequence to another as a Keras layer.

Axes: B (batch), T (query positions), S (positions of the memory), H (heads), G (key-value heads), D (features
of one head), N (tokens of the queries), M (tokens of the memory).
"""

from typing import Any, Unpack

import keras
from keras import ops
from keras.src.backend import get_keras_mask  # Keras exports no way to read the mask of a tensor

from keras_selfattn.layers.argument_checks import (
    RENAMED_IN_CALLS,
    checked_flag,
    checked_kv_heads,
    checked_positive,
    checked_sequence,
    or_none,
    sequence_spec,
)
from keras_selfattn.layers.attention_base import AttentionBase, Projected
from keras_selfattn.layers.attention_math import (
    DotProduct,
    Formula,
    add_gains,
    rms_normalised,
    softmax_attention,
)
from keras_selfattn.layers.attention_paths import GivenMemory, Memory, PaddedTokens, Tokens, attend, on_tokens
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.masks import PairMask, check_cross_masks, check_masks, cross_mask, row_mask
from keras_selfattn.layers.weights.saved_state import restore_state
from keras_selfattn.layers.weights.settings import LayerArguments

Tensor = Any

_SETTINGS = ("dropout", "num_kv_heads", "scale", "qk_norm", "logit_cap")
_OF_MEMORY = "`memory`, of which the layer makes keys and values"
_RENAMED = {
    **{name: ours for name, ours in RENAMED_IN_CALLS.items() if name != "use_causal_mask"},
    "query": "`inputs`, of which the layer makes queries",
    "key": _OF_MEMORY,
    "value": _OF_MEMORY,
    "key_mask": "`memory_mask`",
    "value_mask": "`memory_mask`",
}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MultiHeadCrossAttention(AttentionBase):
    """Multi-head scaled dot-product attention from one sequence to another: the memory.

    Queries are made of the inputs, keys and values of the memory. A query with nothing to attend to gets
    weights and context of exactly zero, so its output is the projection's bias. Outputs at masked queries are
    exactly zero. Padding values of either sequence have no effect. The distance from a query to a token of
    another sequence means nothing, so there are no positions, windows and causal masks.

    Args:
        num_heads: number of query heads H.
        head_dim: features of one head; by default the queries' features divided by `num_heads`.
        num_kv_heads: number of key-value heads G, a divisor of `num_heads`; query head h reads key-value head
            `h // (H / G)`. By default each head has its own.
        scale: factor of the logits; by default `1 / sqrt(head_dim)`.
        dropout: share in [0, 1] of attention weights dropped in training.
        use_bias: whether the projections have biases.
        qk_norm: if True, the queries and keys of each head are divided by their root mean square, with
            learned gains.
        logit_cap: bound c of the scaled products of queries and keys, `c tanh(logits / c)`. None = no bound.
        seed: int for initial weights and dropout; None draws one.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint,
            bias_constraint, activity_regularizer: as for `MultiHeadSelfAttention`.
        kwargs: as for every Keras layer (`name`, `dtype`, `trainable`).

    Call arguments:
        inputs: float `[batch, length, features]`, of which queries are made.
        memory: float `[batch, memory length, memory features]`, of which keys and values are made.
        mask: bool `[batch, length]`, True = a real token of the inputs; propagated by Keras.
        memory_mask: bool `[batch, memory length]`, the same of the memory; propagated by Keras.
        valid_lens: int `[batch]`, the number of leading real tokens of the inputs.
        memory_lens: int `[batch]`, the number of leading real tokens of the memory.
        attention_mask: bool (or integers, as of `mask`) `[length, memory length]`, `[batch, length or 1,
            memory length]` or `[batch, heads or 1, length or 1, memory length]`, True where the query (first)
            may attend to the token of the memory (second); a size of 1 is every head, or every query.
        training: dropout acts only if True.
        return_weights: if True, returns the attention weights as well.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, token of the memory]`, zero where that is padding.

    Raises:
        ValueError: for an argument out of range, a feature width that does not divide by `num_heads`, a
            memory of another rank or number of rows, or a mask of the wrong dtype, rank or size.
        TypeError: for a name of Keras' attention that is another one here.

    Weights, in order: query kernel `[features, H head_dim]`; its bias; key-value kernel `[memory features,
    2 G head_dim]`, its columns key | value, each head-major; its bias; output kernel `[H head_dim,
    features]`; its bias; with `qk_norm` the gains of query and key, `[head_dim]` each.

    Example:

        >>> import numpy as np
        >>> words, picture = np.ones((2, 4, 6), "float32"), np.ones((2, 9, 10), "float32")
        >>> attention = MultiHeadCrossAttention(num_heads=3)
        >>> outputs, weights = attention(words, picture, memory_lens=np.array([9, 2]), return_weights=True)
        >>> tuple(outputs.shape), tuple(weights.shape)
        ((2, 4, 6), (2, 3, 4, 9))

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3.
    """

    _arguments = (*(name for name in AttentionBase._arguments if name != "causal"), *_SETTINGS)
    _renamed_in_calls = _RENAMED

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        num_kv_heads: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        qk_norm: bool = False,
        logit_cap: float | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        if "causal" in kwargs:
            raise TypeError(
                "No token of the memory comes after a query: leave `causal` out, or give an "
                f"`attention_mask`. Received causal={kwargs['causal']!r}."
            )
        super().__init__(num_heads, head_dim, use_bias=use_bias, seed=seed, **kwargs)
        self._memory_features: int | None = None
        self.dropout = dropout
        self.weights_dropout = Dropout(dropout, self.seed, dtype=self.dtype_policy, name="dropout")
        self.num_kv_heads = checked_kv_heads(num_kv_heads, self.num_heads)
        self.scale = or_none(checked_positive, "scale", scale)
        self.qk_norm = checked_flag("qk_norm", qk_norm)
        self.logit_cap = or_none(checked_positive, "logit_cap", logit_cap)

    def build(self, inputs_shape: tuple, memory_shape: tuple) -> None:
        kv_heads = self.num_kv_heads or self.num_heads
        self._memory_features = checked_sequence(memory_shape)
        self._build_projections(
            inputs_shape,
            Projected("query", [self.num_heads]),
            Projected("key_value", [kv_heads, kv_heads], self._memory_features),
        )
        self.input_spec = sequence_spec(checked_sequence(inputs_shape))
        product = self._dot_product = DotProduct.of(self, self._head_dim)
        self._gains = add_gains(self, self._head_dim) if self.qk_norm else None
        scale = product.factors[1] if self.logit_cap is None else None
        self._formula = Formula(product.score, self.weights_dropout, product_scale=scale)
        restore_state(self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        args, options = with_mask_of_inputs(args, options)
        return super().__call__(*args, **options)

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        memory_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        real = row_mask(inputs, mask, valid_lens, "the inputs of cross-attention")
        rules = self.memory_pairs(inputs, memory, memory_mask, memory_lens, attention_mask)
        given = GivenMemory(memory, rules)
        pairs = PairMask(real, None, None, (None, None))
        return on_tokens(self, inputs, pairs, training, return_weights, memory=given)

    def memory_pairs(
        self,
        inputs: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        memory_lens: Tensor | None,
        attention_mask: Tensor | None,
        name: str = "attention_mask",
    ) -> PairMask:
        """Return the checked rules of which query may attend to which token of the memory."""
        return cross_mask(
            inputs, memory, memory_mask, memory_lens, attention_mask, num_heads=self.num_heads, name=name
        )

    def call_tokens(
        self,
        x: Tensor,
        tokens: Tokens,
        pairs: PairMask,
        training: bool | None,
        return_weights: bool,
        memory: Memory | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs `[N, features]` of tokens `[N, features]`, and the attention weights or None.

        The blocks of a decoder share the memory; `pairs` says nothing of it.
        """
        assert memory is not None
        memory.tokens.losses = tokens.losses  # penalties of keys and values count as those of queries
        heads = (self.queries(x, tokens), *self.keys_and_values(memory.x, memory.tokens))
        context, weights = attend(
            heads, tokens, memory.pairs, self._formula, training, return_weights, memory.tokens
        )
        return self._outputs(context, tokens), weights

    def queries(self, x: Tensor, tokens: Tokens) -> Tensor:
        """Return queries `[B, H, T, D]`, packed `[N, H, D]`, of tokens `[N, features]`."""
        (query,) = self._projections[0](x, tokens)
        if self._gains is not None:
            query = rms_normalised(query, self._gains[0])
        return self._dot_product.scaled(query)

    def keys_and_values(self, memory: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Return keys and values `[B, G, S, D]`, packed `[M, G, D]`, of tokens `[M, memory features]`."""
        self._check_features(memory)
        if memory.dtype != self.compute_dtype:  # as a map of policies says
            memory = ops.cast(memory, self.compute_dtype)
        key, value = self._projections[1](memory, tokens)
        return key if self._gains is None else rms_normalised(key, self._gains[1]), value

    def step_tokens(
        self, x: Tensor, tokens: PaddedTokens, heads: tuple[Tensor, Tensor], memory_mask: Tensor
    ) -> Tensor:
        """Return outputs `[N, features]` of a step's tokens `[N, features]`; see `Decoder.step`.

        Args:
            x: the tokens.
            tokens: their layout.
            heads: keys and values `[B, G, S, D]`, or of fewer rows, each for as many rows of tokens side by
                side.
            memory_mask: bool `[B, S]`, of as many rows.
        """
        tokens = tokens.of_rows(ops.shape(memory_mask)[0])
        mask, query = memory_mask[:, None, None, :], self.queries(x, tokens)
        context, _ = softmax_attention(query, *heads, mask, self._formula, lambda: None)
        return self._outputs(tokens.join_heads(context), tokens)

    def _check_features(self, memory: Tensor) -> None:
        wanted = self._memory_features
        if wanted is not None and memory.shape[-1] != wanted:
            raise ValueError(
                f"`memory` must have {wanted} features, as where {self.name} was built. "
                f"Received {memory.shape[-1]}."
            )

    def compute_output_shape(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> tuple:
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        memory_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Any:
        check_masks(inputs, mask, valid_lens, None, self.num_heads)
        check_cross_masks(inputs, memory, memory_mask, memory_lens, attention_mask, self.num_heads)
        self._check_features(memory)
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        shape = (inputs.shape[0], self.num_heads, inputs.shape[1], memory.shape[1])
        return outputs, keras.KerasTensor(shape, dtype=self.compute_dtype)


def with_mask_of_inputs(args: tuple, options: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments of a call with the mask that Keras propagates with the first of them.

    Keras itself hands a `mask` to layers with one tensor as argument alone.

    Args:
        args: of the call; the third is the mask.
        options: of the call, by name.
    """
    inputs, by_place = (args[0] if args else options.get("inputs")), len(args) > 2
    if (args[2] if by_place else options.get("mask")) is not None:
        return args, options
    mask = get_keras_mask(inputs)
    if mask is None:
        return args, options
    return ((*args[:2], mask, *args[3:]), options) if by_place else (args, {**options, "mask": mask})
