"""The padded layout of a batch's tokens; `tensorflow/packing.py` has the other one.

Axes: B (batch), T (positions), H (heads), D (features), N (tokens: all B T positions).
"""

import operator
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_selfattn.layers.attention_math import split
from keras_selfattn.layers.dropout import TokenNumbers
from keras_selfattn.layers.jax import jax
from keras_selfattn.layers.masks import zero_masked

Tensor = Any


class PaddedTokens:
    """The padded layout: every position of a batch in its place, padding included; see `PackedTokens`.

    Args:
        inputs: `[B, T, D]`.
        real: bool `[B, T]`, True for real tokens, False for padding; None if all are real.
        few: True if the batch is known to have few tokens, although its length is not known.

    Attributes:
        losses: scalars, the penalties of a call (see `WeightSettings`).
    """

    def __init__(self, inputs: Tensor, real: Tensor | None, few: bool = False) -> None:
        self.batch, self.length = ops.shape(inputs)[:2]
        self.few = few
        self.losses: list[Tensor] = []
        self._joined: Tensor | None = None
        self._parts: tuple[Tensor, ...] = ()
        self._flat_real = None if real is None else ops.reshape(real, (-1,))  # [N]

    @property
    def positions(self) -> Tensor:
        """The positions of a sequence, int32 `[T]`."""
        return ops.arange(self.length, dtype="int32")

    @property
    def by_token(self) -> TokenNumbers:
        """A unique number for each token."""
        count = self.batch * self.length
        return TokenNumbers(ops.arange(count, dtype="int32"), count)

    @property
    def by_sample(self) -> TokenNumbers:
        """The number of each token's sample."""
        return TokenNumbers(self.by_token.numbers // self.length, self.batch)

    def pack(self, x: Tensor) -> Tensor:
        """Return `[B, T, D]` as `[N, D]`, with zeros for padding, whose NaN must not enter a product."""
        return zero_masked(ops.reshape(x, (-1, x.shape[-1])), self._flat_real)

    def unpack(self, x: Tensor) -> Tensor:
        """Return `[N, D]` as `[B, T, D]`, zeros for padding."""
        whole = zero_masked(x, self._flat_real)
        return ops.reshape(whole, (self.batch, self.length, x.shape[-1]))

    def split_heads(self, x: Tensor, num_heads: int) -> Tensor:
        """Return `[N, H D]` as `[B, H, T, D]`."""
        by_position = ops.reshape(x, (self.batch, self.length, num_heads, x.shape[-1] // num_heads))
        return ops.transpose(by_position, (0, 2, 1, 3))

    def split_parts(self, x: Tensor, num_heads: list[int]) -> list[Tensor]:
        """Return the heads of projections that lie side by side in `[N, H D]`, `[B, H, T, D]` each."""
        heads = self.split_heads(x, sum(num_heads))  # transposed at once, before they are split
        parts = split(heads, num_heads, axis=1)
        if jax is not None:  # only JAX' kernels ask for it; elsewhere it would keep memory
            self._joined, self._parts = x, tuple(parts)
        return parts

    def side_by_side(self, heads: Sequence[Tensor]) -> Tensor | None:
        """Return `[B, T, all heads, D]` if these are all parts of the last `split_parts`, unchanged."""
        x = self._joined
        if x is None or len(self._parts) != len(heads) or any(map(operator.is_not, heads, self._parts)):
            return None
        width = heads[0].shape[-1]
        return ops.reshape(x, (self.batch, self.length, x.shape[-1] // width, width))

    def join_heads(self, x: Tensor) -> Tensor:
        """Return `[B, H, T, D]` as `[N, H D]`."""
        return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, x.shape[1] * x.shape[3]))
