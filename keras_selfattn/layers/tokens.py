"""The tokens of a batch as a matrix, one row a token, and back: what works on single tokens works on that.

Axes: B (batch), T (positions), D (features), N (tokens).
"""

from dataclasses import dataclass
from typing import Any

from keras import ops

from keras_selfattn.layers.masks import zero_masked
from keras_selfattn.layers.shapes import arange, sizes

Tensor = Any


@dataclass(frozen=True)
class Numbers:
    """A number for each token, int32 `[N]`, below `count`."""

    numbers: Tensor
    count: Tensor


class PaddedTokens:
    """Every position of a batch, padding too, where it stands.

    Args:
        inputs: `[B, T, D]`.
        real: bool `[B, T]`, which tokens are no padding, or None: all.
    """

    def __init__(self, inputs: Tensor, real: Tensor | None) -> None:
        self.batch, self.length = sizes(inputs)[:2]
        self._real = real

    @property
    def positions(self) -> Tensor:
        """The positions of a sequence of `sequences`, int32 `[T]`."""
        return arange(self.length)

    @property
    def by_token(self) -> Numbers:
        """A number of its own for each token."""
        count = self.batch * self.length
        return Numbers(arange(count), count)

    @property
    def by_sample(self) -> Numbers:
        """The number of each token's sample."""
        return Numbers(arange(self.batch * self.length) // self.length, self.batch)

    def pack(self, x: Tensor) -> Tensor:
        """Return `[B, T, D]` as `[N, D]`, zeros for padding: no NaN of it must get into a product."""
        return ops.reshape(zero_masked(x, self._real), (self.batch * self.length, x.shape[-1]))

    def unpack(self, x: Tensor) -> Tensor:
        """Return `[N, D]` as `[B, T, D]`, zeros for padding."""
        return zero_masked(self.sequences(x), self._real)

    def sequences(self, x: Tensor) -> Tensor:
        """Return `[N, ...]` as a batch of sequences, `[B, T, ...]`."""
        return ops.reshape(x, (self.batch, self.length, *x.shape[1:]))
