"""Multi-head scaled dot-product self-attention as a Keras layer.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), G (key-value heads), D
    (features).
"""

from dataclasses import replace
from typing import Any, Unpack

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import (
    checked_flag,
    checked_kv_heads,
    checked_positive,
    or_none,
)
from keras_selfattn.layers.attention_base import AttentionBase, Projected
from keras_selfattn.layers.attention_math import (
    DotProduct,
    Formula,
    add_gains,
    rms_normalised,
    softmax_attention,
)
from keras_selfattn.layers.attention_paths import Heads, PaddedTokens, Tokens, attend
from keras_selfattn.layers.decoding.cache import Cached, extended, new_keys
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.positions.position_argument import checked_strategy
from keras_selfattn.layers.positions.strategy import PositionStrategy
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.tensorflow.packing import PackedTokens
from keras_selfattn.layers.weights.saved_state import restore_state
from keras_selfattn.layers.weights.settings import LayerArguments

Tensor = Any

_SETTINGS = ("num_kv_heads", "scale", "qk_norm", "logit_cap")  # stored unchanged, unlike `position`


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MultiHeadSelfAttention(AttentionBase):
    """Multi-head scaled dot-product self-attention with a fused query-key-value projection.

    A query with nothing to attend to gets weights and context of exactly zero, so its output is the
    projection's bias. Outputs at masked positions are exactly zero. Padding values have no effect.

    Args:
        num_heads: number of query heads H.
        head_dim: features of one head; by default the input's features divided by `num_heads`.
        num_kv_heads: number of key-value heads G, a divisor of `num_heads`; query head h reads key-value head
            `h // (H / G)`. 1 is multi-query attention; by default each head has its own.
        scale: factor of the logits; by default `1 / sqrt(head_dim)`, which keeps their variance at 1 (paper,
            section 3.2.1). 1.0 gives the unscaled dot product.
        position: how the distance between query and key enters: `RotaryPositions`, `LinearBias`,
            `BucketedBias`, `RelativePositions` or `DisentangledPositions`, or "rotary", "alibi", "t5", "shaw"
            or "disentangled" for these with their defaults; or `DistanceBias`, for distances that are given;
            None = not at all.
        causal: if True, a position attends only to itself and the positions before it.
        window: local attention: an int w (a query attends to keys at most w positions away) or (left, right).
            Time and memory fall with the window unless weights are returned. None = no limit.
        dropout: share in [0, 1] of attention weights dropped in training.
        use_bias: whether the projections have biases, as those of Keras and BERT do.
        qk_norm: if True, the queries and keys of each head are divided by their root mean square, with
            learned gains; it keeps the logits of wide models from growing.
        logit_cap: bound c of the scaled products of queries and keys, `c tanh(logits / c)`; the term of
            `position` is added after it. None = no bound.
        seed: int for initial weights and dropout; None draws one.
        kernel_initializer, bias_initializer: initial values of the kernel and the bias of each projection
            (query, key, value, output), as if it were a `keras.layers.Dense` of its own: a name, an object,
            its config or a function. One object with a seed gives the first the values of that seed, and
            each other projection its own. Without a seed it takes `seed`.
        kernel_regularizer, bias_regularizer: penalty of each kernel and each bias, added to the loss.
        kernel_constraint, bias_constraint: applied to each kernel and each bias after each optimizer step.
        activity_regularizer: penalty of each projection's outputs, divided by the batch size and added to the
            loss, as in `keras.layers.MultiHeadAttention`; masked positions add nothing.
        kwargs: as for every Keras layer (`name`, `dtype`, `trainable`).

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real token; propagated by Keras. Integers are taken, too, where
            their values can be seen to be zeros and ones.
        valid_lens: int `[batch]`, the number of leading real tokens, the rest is padding; or int
            `[batch, length]`, the number of leading keys each query attends to.
        attention_mask: bool (or integers, as of `mask`) `[length, length]`, `[batch, length or 1, length]` or
            `[batch, heads or 1, length or 1, length]`, True where the query (first) may attend to the key
            (second); a size of 1 is every head, or every query.
        training: dropout acts only if True.
        return_weights: if True, returns the attention weights as well.
        distances: int `[batch, length, length]`, from each query to each key, for a `position` that reads
            them, such as `DistanceBias`: tokens are the nodes of a graph, or lie in space.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights before dropout, float
        `[batch, heads, query, key]`, zero where the key is padding (rows of padding queries mean nothing).

    Raises:
        ValueError: for an argument out of range, a feature width that does not divide by `num_heads`, a
            `window` that `causal` contradicts, or a mask of the wrong dtype, rank or size.
        TypeError: for a name of Keras' attention that is another one here, such as `key_dim` or
            `return_attention_scores`; the message has ours.

    Weights, in order: query-key-value kernel `[features, (H + 2 G) head_dim]`, its columns query | key |
    value, each head-major; its bias; output kernel `[H head_dim, features]`; its bias; with `qk_norm` the
    gains of query and key, `[head_dim]` each; then what `position` learns.

    Example:

        >>> import numpy as np
        >>> layer = MultiHeadSelfAttention(num_heads=5)
        >>> tuple(layer(np.ones((2, 4, 100), "float32"), valid_lens=np.array([3, 2])).shape)
        (2, 4, 100)

    References: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2. Ainslie et al. 2023, "GQA",
    section 2.2 (`num_kv_heads`). Beltagy et al. 2020, "Longformer", section 3.1 (`window`). Henry et al.
    2020, "Query-Key Normalization for Transformers" and Gemma Team 2025, "Gemma 3", section 2 (`qk_norm`).
    Gemma Team 2024, "Gemma 2", section 2 (`logit_cap`).
    """

    _arguments = (*AttentionBase._arguments, "window", "dropout", *_SETTINGS)

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        num_kv_heads: int | None = None,
        scale: float | None = None,
        position: PositionStrategy | str | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        qk_norm: bool = False,
        logit_cap: float | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(num_heads, head_dim, causal=causal, use_bias=use_bias, seed=seed, **kwargs)
        self._set_window_and_dropout(window, dropout)
        self.num_kv_heads = checked_kv_heads(num_kv_heads, self.num_heads)
        self.scale = or_none(checked_positive, "scale", scale)
        self.position = checked_strategy(position)
        self.qk_norm = checked_flag("qk_norm", qk_norm)
        self.logit_cap = or_none(checked_positive, "logit_cap", logit_cap)

    def build(self, input_shape: tuple) -> None:
        kv_heads = self.num_kv_heads or self.num_heads
        self._build_projections(
            input_shape, Projected("query_key_value", [self.num_heads, kv_heads, kv_heads])
        )
        self._dot_product = DotProduct.of(self, self._head_dim, self.position, causal=self.causal)
        self._gains = add_gains(self, self._head_dim) if self.qk_norm else None
        strategy = self.position or PositionStrategy()
        if self._overrides("tables") and input_shape[-1] != self.num_heads * self._head_dim:
            raise ValueError(
                f"With {type(strategy).__name__} the inputs must have `num_heads` times `head_dim` features, "
                f"here {self.num_heads * self._head_dim}. Received width {input_shape[-1]}."
            )
        shapes = strategy.weights(self.num_heads, self._head_dim)
        # The first two seeds are those of the projections.
        seeds = split_seed(self.seed, 2 + len(shapes))[2:]
        self._learned = {
            name: self.add_weight(name=name, shape=shape, initializer=make_initializer(seed))
            for (name, (shape, make_initializer)), seed in zip(shapes.items(), seeds, strict=True)
        }
        width = strategy.score_width(self.num_heads, self._head_dim)
        product = self._dot_product
        alone = self.logit_cap is None and not self._position_enters_scores
        self._formula = Formula(
            product.score,
            self.weights_dropout,
            product.combine,
            self._learned,
            width,
            product_scale=product.factors[1] if alone else None,
        )
        restore_state(self)

    @property
    def sees_distance(self) -> bool:
        """True if the distance from query to key matters."""
        return self._position_enters_scores or super().sees_distance

    @property
    def _position_enters_scores(self) -> bool:
        """True if `position` does more than rotate queries and keys."""
        return any(map(self._overrides, ("logits", "pair_logits", "context")))

    def _overrides(self, method: str) -> bool:
        """Return True if `position` has a method of its own."""
        kind = type(self.position or PositionStrategy())
        return getattr(kind, method) is not getattr(PositionStrategy, method)

    def _attend(
        self, heads: Heads, tokens: Tokens, pairs: PairMask, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        return attend(heads, tokens, pairs, self._formula_of(tokens.length), training, return_weights)

    def _formula_of(self, length: Tensor | None) -> Formula:
        """Return the formula of a call, with the tables of `position` for so many positions; None for all."""
        if self.position is None or not self._overrides("tables"):
            return self._formula

        def project(rows: Tensor) -> tuple[Tensor, Tensor]:
            rows = ops.cast(rows, self.compute_dtype)
            query, key, _ = self._heads(rows, PaddedTokens(rows[None], None))
            return query, key

        return replace(
            self._formula, variables=self.position.tables(self._formula.learned(), project, length)
        )

    def _heads(self, x: Tensor, tokens: Tokens) -> Heads:
        query, key, value = self._projections[0](x, tokens)  # [B, H or G, T, D], packed [N, H or G, D]
        if self._gains is not None:
            query, key = (
                rms_normalised(each, gain) for each, gain in zip((query, key), self._gains, strict=True)
            )
        if self.position is not None:
            query, key = self._rotated(query, tokens), self._rotated(key, tokens)
        return self._dot_product.scaled(query), key, value

    def new_cache(self, batch: Tensor, max_length: Tensor | int | None) -> Cached:
        """Return the cache of a causal layer before the first token; see `Decoder.start`."""
        heads = self.num_kv_heads or self.num_heads
        return new_keys(batch, heads, self._head_dim, self.compute_dtype, self._reach[0], max_length)

    def is_cached(self, heads: Tensor) -> bool:
        """Return True if keys or values of a cache, `[B, G, C, D]`, may be this layer's."""
        shape = tuple(heads.shape)
        wanted = (self.num_kv_heads or self.num_heads, self._head_dim)
        # A graph may not know a size.
        return len(shape) == 4 and all(
            each in (None, size) for each, size in zip(shape[1::2], wanted, strict=True)
        )

    def step_tokens(self, x: Tensor, tokens: PaddedTokens, cached: Cached) -> tuple[Tensor, Cached]:
        """Return outputs `[N, features]` of a step's tokens, and the cache after it; see `Decoder.step`."""
        query, key, value = self._heads(x, tokens)
        seen, after = extended(cached, key, value, tokens.first, self._reach[0])
        context, _ = softmax_attention(
            query,
            seen.key,
            seen.value,
            seen.mask,
            self._formula_of(None),
            lambda: seen.distance,
            rows_may_be_empty=False,
        )
        return self._outputs(tokens.join_heads(context), tokens), after

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "position": keras.saving.serialize_keras_object(self.position)}

    def _rotated(self, x: Tensor, tokens: Tokens) -> Tensor:
        assert self.position is not None
        if type(self.position).rotate is PositionStrategy.rotate:
            return x
        if not isinstance(tokens, PackedTokens):
            return self.position.rotate(x, tokens.positions)  # [B, H or G, T, D]
        sequence = ops.transpose(x, (1, 0, 2))[None]  # [1, H or G, N, D]
        return ops.transpose(self.position.rotate(sequence, tokens.positions)[0], (1, 0, 2))
