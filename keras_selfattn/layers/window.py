"""Local attention whose time and memory fall with the window: chunks of queries against the keys near them.

Axes: B (batch), T (positions), H (heads), D (features), N (chunks), C (queries of a chunk), K (keys of a
chunk). Chunks are folded into the batch, so that attention sees `[B N, H, C, D]` and `[B N, H, K, D]`.

Reference: Beltagy et al. 2020, "Longformer: The Long-Document Transformer", section 3.1 (sliding window).
"""

from typing import Any

from keras import ops

from keras_selfattn.layers.attention_math import at_least_one
from keras_selfattn.layers.jax import is_dimension
from keras_selfattn.layers.masks import PairMask, all_of, within

Tensor = Any

_SMALLEST_CHUNK = 16


def keys_of_chunk(left: int, right: int) -> int:
    """Return K of a whole chunk, whose queries see `left` keys before and `right` keys after themselves."""
    size = max(_SMALLEST_CHUNK, left, right)
    return size * (-(-left // size) + 1 + -(-right // size))


class Chunks:
    """A sequence cut into chunks of C queries, each with the K keys that a window can reach.

    C is the longer reach, at least 16, so K is at most 3 C. With half of that C, fewer pairs are compared,
    but each key is copied five times instead of three: slower to train at a reach of 64, equal at 256. Twice
    that C was slower at both.

    Args:
        length: T, a number or a scalar tensor.
        left: how many positions a query sees before itself.
        right: how many positions a query sees after itself.
        size: C; by default the longer reach, at least 16.
    """

    def __init__(self, length: Tensor, left: int, right: int, size: int | None = None) -> None:
        self.length = length
        longest = size or max(_SMALLEST_CHUNK, left, right)
        self.before = -(-left // longest)
        self.after = -(-right // longest)
        # A short sequence is one chunk as long as itself; an empty one is all padding.
        # So is one of which JAX is not told the length.
        self.size = length if is_dimension(length) else at_least_one(_smaller(longest, length))
        self.num_keys = self.size * (self.before + 1 + self.after)
        self.count = 1 if is_dimension(length) else at_least_one((length + self.size - 1) // self.size)

    def queries(self, x: Tensor) -> Tensor:
        """Cut `[B, H, T, D]` into `[B N, H, C, D]`."""
        return _fold(self._cut(x))

    def keys(self, x: Tensor) -> Tensor:
        """Cut `[B, H, T, D]` into overlapping `[B N, H, K, D]`; zeros beyond both ends."""
        chunks = self._cut(x)  # [B, H, N, C, D]
        batch, heads, _, _, width = ops.shape(chunks)
        around = [
            ops.zeros((batch, heads, beyond, self.size, width), dtype=x.dtype)
            for beyond in (self.before, self.after)
        ]
        padded = ops.concatenate([around[0], chunks, around[1]], axis=2)
        shifted = [padded[:, :, j : j + self.count] for j in range(self.before + 1 + self.after)]
        return _fold(ops.concatenate(shifted, axis=3))

    def join(self, x: Tensor) -> Tensor:
        """Put `[B N, H, C, D]` together again, `[B, H, T, D]`."""
        folded, heads, _, width = ops.shape(x)
        split = ops.reshape(x, (folded // self.count, self.count, heads, self.size, width))
        whole = ops.transpose(split, (0, 2, 1, 3, 4))  # [B, H, N, C, D]
        whole = ops.reshape(whole, (folded // self.count, heads, self.count * self.size, width))
        return whole[:, :, : self.length]

    def distances(self) -> Tensor:
        """Return key position - query position inside a chunk, int32 `[C, K]`; the same in all chunks."""
        queries = self.before * self.size + ops.arange(self.size, dtype="int32")
        return ops.arange(self.num_keys, dtype="int32")[None, :] - queries[:, None]

    def mask(self, pairs: PairMask, batch: Tensor) -> Tensor:
        """Return which pairs of each chunk may attend, bool that broadcasts to `[B N, H, C, K]`."""
        distance = self.distances()
        real = pairs.real
        if real is None:
            real = ops.ones((batch, self.length), dtype="bool")
        # As numbers: where bools are transposed, oneDNN logs an error on processors without AVX-512.
        real = ops.cast(real, "float32")[:, None, :, None]
        real = ops.swapaxes(self.keys(real), -1, -2) > 0  # [B N, 1, 1, K], False beyond both ends
        parts = [real, within(pairs.reach, distance)[None, None]]
        if pairs.lens is not None:
            # key s < lens means s - t < lens - t
            left_over = pairs.lens - ops.arange(self.length, dtype="int32")  # [B, T]
            parts.append(self.queries(left_over[:, None, :, None]) > distance)  # [B N, 1, C, K]
        if pairs.chosen is not None:
            parts.append(self._chosen(pairs.chosen, batch))
        mask = all_of(parts)
        assert mask is not None
        return mask

    def _chosen(self, chosen: Tensor, batch: Tensor) -> Tensor:
        if chosen.shape[2] == 1:  # the same keys for every query
            chosen = ops.broadcast_to(chosen, (batch, *ops.shape(chosen)[1:]))
            near = self.keys(ops.swapaxes(ops.cast(chosen, "float32"), -1, -2))  # [B N, H or 1, K, 1]
            return ops.swapaxes(near, -1, -2) > 0
        rows = self._cut(chosen)  # [B or 1, H or 1, N, C, T]
        # One more column, so that there is one to read when T is 0; the mask of real keys excludes it.
        rows = ops.concatenate([rows, ops.zeros((*ops.shape(rows)[:-1], 1), dtype="bool")], axis=-1)
        starts = (ops.arange(self.count, dtype="int32") - self.before) * self.size  # [N]
        columns = starts[:, None] + ops.arange(self.num_keys, dtype="int32")  # [N, K]
        columns = ops.clip(columns, 0, self.length)
        near = ops.take_along_axis(
            rows, columns[None, None, :, None, :], axis=-1
        )  # [B or 1, H or 1, N, C, K]
        shape = (batch, *ops.shape(near)[1:])
        return _fold(ops.broadcast_to(near, shape))

    def _cut(self, x: Tensor) -> Tensor:
        """Return `[B, H, T, D]` as `[B, H, N, C, D]`, the last chunk filled up with zeros."""
        batch, heads, length, width = ops.shape(x)
        missing = self.count * self.size - length
        filled = ops.concatenate([x, ops.zeros((batch, heads, missing, width), dtype=x.dtype)], axis=2)
        return ops.reshape(filled, (batch, heads, self.count, self.size, width))


def _smaller(number: int, length: Tensor) -> Tensor:
    return min(number, length) if isinstance(length, int) else ops.minimum(number, length)


def _fold(chunks: Tensor) -> Tensor:
    """Return `[B, H, N, C, D]` as `[B N, H, C, D]`."""
    batch, heads, count, size, width = ops.shape(chunks)
    return ops.reshape(ops.transpose(chunks, (0, 2, 1, 3, 4)), (batch * count, heads, size, width))
