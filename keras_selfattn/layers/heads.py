"""What the self-attention layers share: their contract for masks, shapes and outputs, and their heads.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.arguments import check_masks
from keras_selfattn.layers.attention import attend, weighted_sum
from keras_selfattn.layers.block_attention import Formula, attend_in_blocks
from keras_selfattn.layers.checks import (
    checked_count,
    checked_flag,
    checked_seed,
    checked_sequence,
    checked_window,
    sequence_spec,
)
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.masks import Pairs, distances, pair_rules, token_mask, zero_masked
from keras_selfattn.layers.packing import PackedTokens, packs
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.shapes import arange, sizes
from keras_selfattn.layers.window import Blocks

Tensor = Any
Distance = Callable[[], Tensor]  # called only by what needs it


class SelfAttentionBase(keras.layers.Layer):
    """Heads between a projection of the inputs and a projection to the outputs.

    A subclass gives `_build_heads` (weights of queries, keys and values), `_project`, and `_attend`.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        causal: bool = False,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = checked_count("num_heads", num_heads)
        self.head_dim = None if head_dim is None else checked_count("head_dim", head_dim)
        self.causal = checked_flag("causal", causal)
        self.use_bias = checked_flag("use_bias", use_bias)
        self.seed = checked_seed(seed)
        self.supports_masking = True

    @property
    def _reach(self) -> tuple[int | None, int | None]:
        return (None, 0) if self.causal else (None, None)

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        self.input_spec = sequence_spec(features)
        if self.head_dim is None and features % self.num_heads:
            raise ValueError(
                "The feature width must be divisible by `num_heads` unless `head_dim` is given. "
                f"Received width {features}, num_heads={self.num_heads}."
            )
        self._head_dim = self.head_dim or features // self.num_heads
        heads_seed, output_seed = split_seed(self.seed, 2)
        self._build_heads(features, heads_seed)
        self._output_kernel = self.add_weight(
            name="output_kernel",
            shape=(self.num_heads * self._head_dim, features),
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
        pairs = self._pairs(inputs, real, valid_lens, attention_mask)
        # Zeros for padding: a weight of 0 would not keep its NaN, infinity or overflow from the sum.
        inputs = zero_masked(inputs, real)
        heads = self._project(inputs, arange(sizes(inputs)[1]))  # each [B, T, H, D]
        heads = tuple(ops.transpose(x, (0, 2, 1, 3)) for x in heads)  # [B, H, T, D]
        context, weights = self._attend(heads, pairs, training, return_weights)  # [B, H, T, D], [B, H, T, S]
        outputs = zero_masked(self._merge(ops.transpose(context, (0, 2, 1, 3))), real)  # [B, T, D]
        return (outputs, weights) if return_weights else outputs

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Any:
        check_masks(inputs, mask, valid_lens, attention_mask, self.num_heads)
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        batch, length, _features = inputs.shape
        weights = keras.KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)
        return outputs, weights

    def get_config(self) -> dict[str, Any]:
        names = ("num_heads", "head_dim", "causal", "use_bias", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _pairs(
        self, inputs: Tensor, real: Tensor | None, valid_lens: Tensor | None, attention_mask: Tensor | None
    ) -> Pairs:
        return pair_rules(
            inputs,
            real,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            reach=self._reach,
            num_heads=self.num_heads,
        )

    def _build_heads(self, features: int, seed: int | None) -> None:
        raise NotImplementedError

    def _project(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values, each `[B, T, heads, D]`, of tokens at `positions`, int32 `[T]`."""
        raise NotImplementedError

    def _attend(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def _add_fused(self, name: str, features: int, widths: list[int], seed: int | None) -> None:
        """Adds kernel `[features, sum(widths)]` and bias of several projections side by side."""
        # Glorot for each projection, drawn once for all: each gets its own numbers under one seed.
        limits = [math.sqrt(6 / (features + width)) for width in widths for _ in range(width)]

        def initial(shape: tuple, dtype: Any = None) -> Tensor:
            draws = keras.random.uniform(shape, -1.0, 1.0, dtype="float32", seed=seed)
            return ops.cast(draws * ops.convert_to_tensor(limits, dtype="float32"), dtype)

        kernel = self.add_weight(name=f"{name}_kernel", shape=(features, sum(widths)), initializer=initial)
        self._fused = (kernel, self._add_bias(f"{name}_bias", sum(widths)))

    def _add_bias(self, name: str, width: int) -> Any:
        return self.add_weight(name=name, shape=(width,), initializer="zeros") if self.use_bias else None

    def _project_fused(self, inputs: Tensor) -> Tensor:
        """Returns all heads of the fused projections, `[B, T, heads, D]`."""
        batch, length, _ = sizes(inputs)
        fused = affine(inputs, *self._fused)  # [B, T, heads D]
        count = self._fused[0].shape[1] // self._head_dim
        return ops.reshape(fused, (batch, length, count, self._head_dim))

    def _merge(self, context: Tensor) -> Tensor:
        """Returns the outputs `[B, T, features]` for a context `[B, T, H, D]`."""
        batch, length, _, _ = sizes(context)
        joined = ops.reshape(context, (batch, length, self.num_heads * self._head_dim))  # [B, T, H D]
        return affine(joined, self._output_kernel, self._output_bias)


class ScoredSelfAttention(SelfAttentionBase):
    """Self-attention by a softmax of scores: a subclass says what the scores are (`_score`)."""

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
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, head_dim, causal=causal, use_bias=use_bias, seed=seed, **kwargs)
        self.window = checked_window(window)
        if causal and isinstance(self.window, tuple) and self.window[1] > 0:
            raise ValueError(
                "`window` and `causal` contradict each other: a causal query sees nothing to its right. "
                f"Received window={self.window}; pass ({self.window[0]}, 0)."
            )
        self.dropout = dropout
        self.weights_dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        if return_weights or not packs(inputs):
            return super().call(inputs, mask, valid_lens, attention_mask, training, return_weights)
        tokens, pairs = self.packed_tokens(inputs, mask, valid_lens, attention_mask)
        return tokens.unpack(self.call_packed(tokens.pack(inputs), tokens, pairs, training))

    def packed_tokens(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[PackedTokens, Pairs]:
        """Returns where the real tokens of `[B, T, features]` stand, and which may attend to which."""
        real = token_mask(inputs, mask, valid_lens)
        pairs = self._pairs(inputs, real, valid_lens, attention_mask)
        # Rules that name positions count them from 0.
        return PackedTokens(inputs, real, from_zero=pairs.lens is not None or pairs.chosen is not None), pairs

    def call_packed(
        self, inputs: Tensor, tokens: PackedTokens, pairs: Pairs, training: bool | None
    ) -> Tensor:
        """Returns the outputs of packed tokens, `[N, features]` for `[N, features]`."""
        heads = self._project(inputs[None], tokens.positions)  # each [1, N, H, D]
        heads = tuple(ops.reshape(x, (-1, *x.shape[2:])) for x in heads)
        dropout = self.weights_dropout
        if training and dropout.rate == 1:
            context = ops.zeros_like(heads[0][..., :1]) * heads[2][:, :1]  # [N, H, D]
        else:
            keep = dropout.keep_masks() if training and dropout.rate > 0 else None
            formula = Formula(self._score, self._combine, self._score_width, dropout.rate, keep)
            context = attend_in_blocks(heads, self._score_weights(), tokens, pairs, formula)  # [N, H D]
        return affine(context, self._output_kernel, self._output_bias)

    @property
    def _reach(self) -> tuple[int | None, int | None]:
        left, right = self.window if isinstance(self.window, tuple) else (self.window, self.window)
        return left, 0 if self.causal else right

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "window": self.window, "dropout": self.dropout}

    @property
    def _score_width(self) -> int:
        """Numbers that a score takes in memory while it is computed."""
        return 1

    def _score_weights(self) -> dict[str, Tensor]:
        """Returns the weights that `_score` and `_combine` use, by name."""
        return {}

    def _score(self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Distance) -> Tensor:
        """Returns logits `[B, H, T, S]`; `distance()` is key - query position, int32 `[T, S]`."""
        raise NotImplementedError

    def _combine(
        self, learned: dict[str, Tensor], weights: Tensor, value: Tensor, distance: Distance
    ) -> Tensor:
        return weighted_sum(weights, value)  # [B, H, T, D]

    def _attend(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        length = sizes(heads[0])[2]
        left, right = pairs.reach
        if return_weights or left is None or right is None:  # weights are of all pairs
            return self._attend_dense(heads, pairs, length, training)
        blocks = Blocks(length, left, right)
        if isinstance(length, int) and length <= blocks.num_keys:
            return self._attend_dense(heads, pairs, length, training)
        return self._attend_blocks(heads, pairs, blocks, training), None

    def _attend_dense(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, length: Tensor, training: bool | None
    ) -> tuple[Tensor, Tensor]:
        return self._attend_pairs(heads, pairs.dense(length), partial(distances, length), training)

    def _attend_blocks(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, blocks: Blocks, training: bool | None
    ) -> Tensor:
        query, key, value = heads
        near = (blocks.queries(query), blocks.keys(key), blocks.keys(value))  # [B N, H, C or K, D]
        mask = blocks.mask(pairs, sizes(query)[0])
        return blocks.join(self._attend_pairs(near, mask, blocks.distances, training)[0])

    def _attend_pairs(
        self, heads: tuple[Tensor, Tensor, Tensor], mask: Tensor, distance: Distance, training: bool | None
    ) -> tuple[Tensor, Tensor]:
        drops = training and self.weights_dropout.rate > 0
        learned = self._score_weights()
        return attend(
            *heads,
            mask,
            score=lambda query, key: self._score(learned, query, key, distance),
            combine=lambda weights, value: self._combine(learned, weights, value, distance),
            dropout=(lambda kept: self.weights_dropout(kept, training=True)) if drops else None,
        )


def affine(inputs: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Returns `inputs @ kernel + bias`, for inputs `[..., features]`."""
    *leading, features = sizes(inputs)
    # As a matrix: TensorFlow fuses product and bias of two dimensions, not of three.
    product = ops.matmul(ops.reshape(inputs, (-1, features)), kernel)  # [tokens, width]
    product = product if bias is None else ops.add(product, bias)
    return ops.reshape(product, (*leading, product.shape[-1]))
