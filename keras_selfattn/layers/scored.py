"""Shared parts of the layers that attend by a softmax of scores: windows, dropout, and the ways to run.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features), N (tokens).
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from keras import ops

from keras_selfattn.layers.affine import affine
from keras_selfattn.layers.attention import attend, weighted_sum
from keras_selfattn.layers.checks import checked_window
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.heads import SelfAttentionBase
from keras_selfattn.layers.masks import Pairs, distances
from keras_selfattn.layers.query_blocks import block_size, map_queries
from keras_selfattn.layers.seeds import part_of_draw
from keras_selfattn.layers.shapes import arange, sizes
from keras_selfattn.layers.tensorflow import runs_kernels
from keras_selfattn.layers.tensorflow.block_attention import Formula, attend_in_blocks
from keras_selfattn.layers.tensorflow.packing import PackedTokens
from keras_selfattn.layers.token_layer import Tokens
from keras_selfattn.layers.tokens import Numbers
from keras_selfattn.layers.window import Blocks

Tensor = Any
Distance = Callable[[], Tensor]  # called only by what needs it


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
        """Return where the real tokens of `inputs` stand, as far as this attention needs to know."""
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
        """True if it matters how far a key is from a query."""
        return self._reach != (None, None)

    @property
    def _score_width(self) -> int:
        """Numbers that a score takes in memory while it is computed."""
        return 1

    def _score_weights(self) -> dict[str, Tensor]:
        """Return the weights that `_score` and `_combine` use, by name."""
        return {}

    def _score(self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Distance) -> Tensor:
        """Return logits `[B, H, T, S]`; `distance()` is key - query position, int32 `[T, S]`."""
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
        if not return_weights and left is not None and right is not None:
            blocks = Blocks(length, left, right)
            if not isinstance(length, int) or length > blocks.num_keys:
                return self._attend_blocks(heads, pairs, blocks, training), None
        # TensorFlow's own kernels come here with few tokens only.
        if not return_weights and not runs_kernels(heads[0]):
            size = block_size(heads[0], self._score_width)
            if size is not None:
                return self._attend_queries(heads, pairs, size, training), None
        return self._attend_pairs(
            heads,
            pairs.dense(length),
            partial(distances, length),
            self._dropout(arange(length), length, training),
            # Padding may get whatever weights where none are to be seen.
            empty=return_weights or pairs.rows_may_be_empty,
        )

    def _attend_queries(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, size: Tensor, training: bool | None
    ) -> Tensor:
        query, *keys_and_values = heads
        length, learned = sizes(query)[2], self._score_weights()
        seeds = self.weights_dropout.seeds if training else None
        draw = None if seeds is None else seeds.next()

        def context(query: Tensor, rows: Tensor, key: Tensor, value: Tensor, *weights: Tensor) -> Tensor:
            with nullcontext() if seeds is None else seeds.holding(part_of_draw(draw, rows[0])):
                return self._attend_pairs(
                    (query, key, value),
                    pairs.of_queries(rows, length),
                    lambda: arange(length)[None, :] - rows[:, None],
                    self._dropout(rows, length, training),
                    dict(zip(learned, weights, strict=True)),
                    empty=pairs.rows_may_be_empty,
                )[0]

        return map_queries(context, query, size, [*keys_and_values, *learned.values()])

    def _attend_blocks(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, blocks: Blocks, training: bool | None
    ) -> Tensor:
        query, key, value = heads
        near = (blocks.queries(query), blocks.keys(key), blocks.keys(value))  # [B N, H, C or K, D]
        mask = blocks.mask(pairs, sizes(query)[0])
        dropout = self._dropout(arange(blocks.size), blocks.size, training)
        empty = pairs.rows_may_be_empty
        return blocks.join(self._attend_pairs(near, mask, blocks.distances, dropout, empty=empty)[0])

    def _attend_pairs(
        self,
        heads: tuple[Tensor, Tensor, Tensor],
        mask: Tensor,
        distance: Distance,
        dropout: Callable[[Tensor], Tensor] | None,
        learned: dict[str, Tensor] | None = None,
        *,
        empty: bool,
    ) -> tuple[Tensor, Tensor]:
        weights = self._score_weights() if learned is None else learned
        return attend(
            *heads,
            mask,
            score=lambda query, key: self._score(weights, query, key, distance),
            combine=lambda kept, value: self._combine(weights, kept, value, distance),
            dropout=dropout,
            rows_may_be_empty=empty,
        )

    def _dropout(
        self, rows: Tensor, length: Tensor, training: bool | None
    ) -> Callable[[Tensor], Tensor] | None:
        """Return dropout of the weights of queries at `rows`, which are numbered as packed tokens do it."""
        if not training or self.weights_dropout.rate == 0:
            return None

        def dropped(weights: Tensor) -> Tensor:  # [B, H, C, S]
            batch, heads = sizes(weights)[:2]
            tokens = (arange(batch) * length)[:, None, None] + rows  # [B, 1, C]
            numbers = Numbers(tokens * heads + arange(heads)[:, None], batch * length * heads)  # [B, H, C]
            return self.weights_dropout(weights, training=True, tokens=numbers)

        return dropped


def _unbatched(x: Tensor) -> Tensor:
    """`[1, N, H, D]` to `[N, H, D]`."""
    return ops.reshape(x, (-1, *x.shape[2:]))
