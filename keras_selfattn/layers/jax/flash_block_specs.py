"""The part of each array that a program of flash attention reads or writes.

Queries, keys and values are arrays of their own, or lie side by side in one, as a projection writes them.

Axes: B (batch), H (heads), G (key-value heads), D (features of one head), P (positions, filled up to whole
blocks).
"""

from collections.abc import Callable
from typing import Any

from keras_selfattn.layers.jax import flash_kernels as kernels
from keras_selfattn.layers.jax import pallas
from keras_selfattn.layers.jax.flash_kernels import Masks

Tensor = Any
Arrays = tuple[Tensor, ...]  # query, key and value [B, H or G, P, D]; or one [B, P, H + 2 G, D]
HeadCounts = tuple[int, int]  # of heads H, and of key-value heads G


class Parts:
    """The part of each array that a program sees (block i, head h, sample b); a block of None is all.

    Args:
        arrays: query, key and value, `[B, H or G, P, D]`; or all in one, `[B, P, H + 2 G, D]`.
        counts: H and G.

    Attributes:
        arrays: query, key and value, or three times the one that holds them.
        shape: of the context, `[B, P, H, D]`.
        groups: G.
        joined: True if one array holds all; the gradients then have the shape of the context.
    """

    def __init__(self, arrays: Arrays, counts: HeadCounts) -> None:
        self.counts = counts
        heads, self.groups = counts
        self.joined = len(arrays) == 1
        self.arrays = arrays * 3 if self.joined else arrays
        batch, *_, width = arrays[0].shape
        length = arrays[0].shape[1 if self.joined else 2]
        self.shape = (batch, length, heads, width)
        self._shared = heads // self.groups

    @property
    def gradient_shape(self) -> tuple[int, ...]:
        """The shape of each query head's gradients."""
        batch, length, heads, width = self.shape
        return self.shape if self.joined else (batch, heads, length, width)

    def of_query(self, block: int | None) -> Any:
        return self._of_heads(block, lambda h: h)

    def of_key(self, block: int | None) -> Any:
        first = self.shape[2] if self.joined else 0
        return self._of_heads(block, lambda h: first + h // self._shared)

    def of_value(self, block: int | None) -> Any:
        first = self.shape[2] + self.groups if self.joined else 0
        return self._of_heads(block, lambda h: first + h // self._shared)

    def of_gradient(self, block: int | None) -> Any:
        """Return the spec of an array of `gradient_shape`."""
        return self._of_heads(block, lambda h: h)

    def of_context(self, block: int | None) -> Any:
        """Return the spec of an array `[B, P, H, D]`."""
        return self._by_position(block, lambda h: h)

    def of_rows(self, block: int | None) -> Any:
        """Return the spec of an array `[B, H, P]`."""
        return _part((None, None, block or self.shape[1]), lambda i, h, b: (b, h, i if block else 0))

    def of_masks(self, masks: Masks, block: int | None) -> list[Any]:
        """Return the specs of the masks that are given, with a block of queries."""
        length = self.shape[1]
        found = [_part((None, size), lambda _i, _h, b: (b, 0)) for size in (1, length)]
        if masks.row_keys is None:
            return found
        sizes = (length, length // kernels.TILE)
        return [*found, self.of_rows(block), *(_part((size,), lambda *_at: (0,)) for size in sizes)]

    def _of_heads(self, block: int | None, head: Callable[[Any], Any]) -> Any:
        """Return the spec of queries, keys or values; `head` is the place of head h in it."""
        if self.joined:
            return self._by_position(block, head)
        shape = (None, None, block or self.shape[1], self.shape[3])
        return _part(shape, lambda i, h, b: (b, head(h), i if block else 0, 0))

    def _by_position(self, block: int | None, head: Callable[[Any], Any]) -> Any:
        shape = (None, block or self.shape[1], None, self.shape[3])
        return _part(shape, lambda i, h, b: (b, i if block else 0, head(h), 0))


def _part(shape: tuple, index: Callable) -> Any:
    pl, _ = pallas()
    return pl.BlockSpec(shape, index)
