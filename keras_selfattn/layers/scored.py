"""What the layers that attend by a softmax of scores share: windows, dropout, and the ways to run.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features), N (tokens).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from keras import ops

from keras_selfattn.layers.affine import affine
from keras_selfattn.layers.attention import attend, weighted_sum
from keras_selfattn.layers.block_attention import Formula, attend_in_blocks
from keras_selfattn.layers.checks import checked_window
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.heads import SelfAttentionBase
from keras_selfattn.layers.masks import Pairs, distances
from keras_selfattn.layers.packing import PackedTokens
from keras_selfattn.layers.shapes import arange, sizes
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
        # Padding may get whatever weights where none are to be seen.
        empty = return_weights or pairs.rows_may_be_empty
        left, right = pairs.reach
        if return_weights or left is None or right is None:  # weights are of all pairs
            return self._attend_dense(heads, pairs, length, training, empty)
        blocks = Blocks(length, left, right)
        if isinstance(length, int) and length <= blocks.num_keys:
            return self._attend_dense(heads, pairs, length, training, empty)
        return self._attend_blocks(heads, pairs, blocks, training, empty), None

    def _attend_dense(
        self,
        heads: tuple[Tensor, Tensor, Tensor],
        pairs: Pairs,
        length: Tensor,
        training: bool | None,
        empty: bool,
    ) -> tuple[Tensor, Tensor]:
        return self._attend_pairs(heads, pairs.dense(length), partial(distances, length), training, empty)

    def _attend_blocks(
        self,
        heads: tuple[Tensor, Tensor, Tensor],
        pairs: Pairs,
        blocks: Blocks,
        training: bool | None,
        empty: bool,
    ) -> Tensor:
        query, key, value = heads
        near = (blocks.queries(query), blocks.keys(key), blocks.keys(value))  # [B N, H, C or K, D]
        mask = blocks.mask(pairs, sizes(query)[0])
        return blocks.join(self._attend_pairs(near, mask, blocks.distances, training, empty)[0])

    def _attend_pairs(
        self,
        heads: tuple[Tensor, Tensor, Tensor],
        mask: Tensor,
        distance: Distance,
        training: bool | None,
        empty: bool,
    ) -> tuple[Tensor, Tensor]:
        drops = training and self.weights_dropout.rate > 0
        learned = self._score_weights()
        return attend(
            *heads,
            mask,
            score=lambda query, key: self._score(learned, query, key, distance),
            combine=lambda weights, value: self._combine(learned, weights, value, distance),
            dropout=self._dropped if drops else None,
            rows_may_be_empty=empty,
        )

    def _dropped(self, weights: Tensor) -> Tensor:
        """Returns `weights` `[B, H, T, S]` after dropout that numbers its rows as packed tokens do."""
        batch, heads, length, _ = sizes(weights)
        rows = arange(batch * length * heads)
        rows = ops.transpose(ops.reshape(rows, (batch, length, heads)), (0, 2, 1))  # [B, H, T]
        return self.weights_dropout(weights, training=True, tokens=Numbers(rows, batch * length * heads))


def _unbatched(x: Tensor) -> Tensor:
    """`[1, N, H, D]` to `[N, H, D]`."""
    return ops.reshape(x, (-1, *x.shape[2:]))
