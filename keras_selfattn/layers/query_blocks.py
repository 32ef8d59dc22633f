"""Attention by blocks of queries in `keras.ops`: memory for one block of pairs where tokens are not packed.

For JAX, PyTorch and XLA. A block's scores are not kept for the gradient, but computed again.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features of one
head), C (queries of a block), N (blocks).

Reference: Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory", section 2.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Tensor = Any


def map_queries(
    attend: Callable[..., Tensor], query: Tensor, size: Tensor, arguments: list[Tensor]
) -> Tensor:
    """Return the context of all queries, `[B, H, T, D]`, one block after the other.

    Args:
        attend: function from queries `[B, H, C, D]`, their positions, int32 `[C]`, and `arguments` to the
            context `[B, H, C, D]`. The last block is padded with zero queries that carry the last query's
            position.
        query: `[B, H, T, D]`.
        size: C.
        arguments: tensors (no variables) to which gradients flow.
    """
    batch, heads, length, width = ops.shape(query)
    count = -(-length // size)
    if not isinstance(count, int):
        count = ops.maximum(count, 1)  # for length 0 one empty block, which has a shape
    beyond = ops.zeros((batch, heads, count * size - length, width), dtype=query.dtype)
    query = ops.concatenate([query, beyond], axis=2)
    blocks = ops.transpose(ops.reshape(query, (batch, heads, count, size, width)), (2, 0, 1, 3, 4))
    rows = ops.reshape(ops.clip(ops.arange(count * size, dtype="int32"), 0, length - 1), (count, size))

    def context(block: tuple[Tensor, Tensor]) -> Tensor:
        step = keras.remat(lambda query, *others: attend(query, block[1], *others))
        return step(block[0], *arguments)

    found: Any = ops.map(context, (blocks, rows))  # [N, B, H, C, D]
    joined = ops.transpose(found, (1, 2, 0, 3, 4))
    return ops.reshape(joined, (batch, heads, count * size, found.shape[-1]))[:, :, :length]
