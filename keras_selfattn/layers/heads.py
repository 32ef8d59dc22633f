"""What the self-attention layers share: their contract for masks, shapes and outputs, and their heads.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

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
from keras_selfattn.layers.masks import Pairs, distances, pair_rules
from keras_selfattn.layers.packing import PackedTokens
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.shapes import arange, sizes
from keras_selfattn.layers.token_layer import TokenLayer, Tokens
from keras_selfattn.layers.tokens import Numbers
from keras_selfattn.layers.window import Blocks

Tensor = Any
Distance = Callable[[], Tensor]  # called only by what needs it


class SelfAttentionBase(TokenLayer):
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

    def attention_layer(self) -> "SelfAttentionBase":
        return self

    def can_pack(self) -> bool:
        """Whether packed tokens can be attended to."""
        return False

    def pairs(
        self, inputs: Tensor, real: Tensor | None, valid_lens: Tensor | None, attention_mask: Tensor | None
    ) -> Pairs:
        """Returns the checked rules of which token may attend to which."""
        return pair_rules(
            inputs,
            real,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            reach=self._reach,
            num_heads=self.num_heads,
        )

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = self._project(tokens.sequences(x), tokens.positions)  # each [B, T, H, D]
        heads = (_turned(query), _turned(key), _turned(value))  # each [B, H, T, D]
        context, weights = self._attend(heads, pairs, training, return_weights)  # [B, H, T, D], [B, H, T, S]
        joined = ops.reshape(_turned(context), (-1, self.num_heads * self._head_dim))
        return affine(joined, self._output_kernel, self._output_bias), weights

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

    def _build_heads(self, features: int, seed: int | None) -> None:
        raise NotImplementedError

    def _project(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values `[B, T, heads, D]` of tokens at `positions`, int32 `[T]`."""
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
        self._widths = widths

    def _add_bias(self, name: str, width: int) -> Any:
        return self.add_weight(name=name, shape=(width,), initializer="zeros") if self.use_bias else None

    def _project_fused(self, inputs: Tensor) -> list[Tensor]:
        """Returns the heads of each projection, `[B, T, heads, D]`."""
        batch, length, features = sizes(inputs)
        kernel, bias = self._fused
        # Kernel or product is split, whichever has fewer rows, as far as is known.
        rows = inputs.shape[1] if inputs.shape[0] == 1 else 0
        if rows is not None and rows <= features:
            fused = _split(affine(inputs, kernel, bias), self._widths)
        else:
            biases = [None] * len(self._widths) if bias is None else _split(bias, self._widths)
            kernels = _split(kernel, self._widths)
            fused = [affine(inputs, *weights) for weights in zip(kernels, biases, strict=True)]
        heads = [width // self._head_dim for width in self._widths]
        return [
            ops.reshape(part, (batch, length, count, self._head_dim))
            for part, count in zip(fused, heads, strict=True)
        ]


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

    @property
    def _reach(self) -> tuple[int | None, int | None]:
        left, right = self.window if isinstance(self.window, tuple) else (self.window, self.window)
        return left, 0 if self.causal else right

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "window": self.window, "dropout": self.dropout}

    def can_pack(self) -> bool:
        return True

    def packed(self, inputs: Tensor, real: Tensor | None, pairs: Pairs) -> PackedTokens:
        """Returns where the real tokens of `inputs` stand, as far as this attention needs to know."""
        named = pairs.lens is not None or pairs.chosen is not None  # rules that name positions, from 0
        return PackedTokens(inputs, real, gaps=named or self._sees_distance, from_zero=named)

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        if not isinstance(tokens, PackedTokens):
            return super().call_tokens(x, tokens, pairs, training, return_weights)
        query, key, value = self._project(tokens.sequences(x), tokens.positions)  # each [1, N, H, D]
        heads = (_unbatched(query), _unbatched(key), _unbatched(value))
        keep = self.weights_dropout.keep_masks() if training and self.weights_dropout.rate > 0 else None
        formula = Formula(self._score, self._combine, self._score_width, keep, self.weights_dropout.scale)
        context = attend_in_blocks(heads, self._score_weights(), tokens, pairs, formula)  # [N, H D]
        return affine(context, self._output_kernel, self._output_bias), None

    @property
    def _sees_distance(self) -> bool:
        """Whether it matters how far a key is from a query."""
        return self._reach != (None, None)

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
            dropout=self._dropped if drops else None,
        )

    def _dropped(self, weights: Tensor) -> Tensor:
        """Returns `weights` `[B, H, T, S]` after dropout that numbers its rows as packed tokens do."""
        batch, heads, length, _ = sizes(weights)
        rows = arange(batch * length * heads)
        rows = ops.transpose(ops.reshape(rows, (batch, length, heads)), (0, 2, 1))  # [B, H, T]
        return self.weights_dropout(weights, training=True, tokens=Numbers(rows, batch * length * heads))


def _turned(x: Tensor) -> Tensor:
    """`[B, T, H, D]` to `[B, H, T, D]`, or back."""
    return ops.transpose(x, (0, 2, 1, 3))


def _unbatched(x: Tensor) -> Tensor:
    """`[1, N, H, D]` to `[N, H, D]`."""
    return ops.reshape(x, (-1, *x.shape[2:]))


def _split(x: Tensor, widths: list[int]) -> list[Tensor]:
    """Cuts the last axis into parts of the given widths."""
    if len(widths) == 1:
        return [ops.convert_to_tensor(x)]
    bounds = list(itertools.accumulate(widths[:-1]))
    return cast(list, ops.split(ops.convert_to_tensor(x), bounds, axis=-1))


def affine(inputs: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Returns `inputs @ kernel + bias`, for inputs `[..., features]`."""
    *leading, features = sizes(inputs)
    # As a matrix: TensorFlow fuses product and bias of two dimensions, not of three.
    product: Tensor = ops.matmul(ops.reshape(inputs, (-1, features)), kernel)  # [tokens, width]
    product = product if bias is None else ops.add(product, bias)
    return ops.reshape(product, (*leading, product.shape[-1]))
