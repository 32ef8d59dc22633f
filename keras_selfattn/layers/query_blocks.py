"""Attention by blocks of queries in `keras.ops`: memory for one block of pairs where tokens are not packed.

For JAX, PyTorch and XLA. A block's scores are not kept for the gradient but made again.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features of one
head), C (queries of a block), N (blocks).

Reference: Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory", section 2.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.shapes import arange, sizes
from keras_selfattn.layers.tensorflow import tf

Tensor = Any

# Scores of a block, all samples and heads (8 MB of float32): faster than all at once, which no cache holds,
# even in training, where they are made again.
_SCORES = 2**21
# A GPU or TPU needs more at once to be busy (256 MB); not measured on one.
_SCORES_OF_ACCELERATOR = 2**26
_LEAST_QUERIES = 32


def block_size(query: Tensor, width: int) -> Tensor | None:
    """Return how many queries share a block, or None: all, for they are few.

    Args:
        query: `[B, H, T, D]`.
        width: numbers of memory that a score takes.

    Returns:
        A number; of sizes that only a running graph of TensorFlow's knows, a scalar tensor, which may be T.
    """
    batch, heads, length, _ = sizes(query)
    scores = _SCORES if _on_cores(query) else _SCORES_OF_ACCELERATOR
    if not (isinstance(batch, int) and isinstance(length, int)):
        if tf is None:
            return None
        row: Any = ops.maximum(batch * heads * length * width, 1)
        return ops.maximum(ops.minimum(ops.maximum(scores // row, _LEAST_QUERIES), length), 1)
    size = max(scores // max(batch * heads * length * width, 1), _LEAST_QUERIES)
    return None if size >= length else size


def _on_cores(query: Tensor) -> bool:
    """Return whether a CPU computes with `query`, as far as can be told while a graph is traced."""
    if keras.backend.backend() == "torch":
        return query.device.type == "cpu"
    return all(name.startswith("cpu") for name in keras.distribution.list_devices())


def map_queries(
    attend: Callable[..., Tensor], query: Tensor, size: Tensor, arguments: list[Tensor]
) -> Tensor:
    """Return the context of all queries, `[B, H, T, D]`, one block after the other.

    Args:
        attend: queries `[B, H, C, D]`, the position of each, int32 `[C]`, and `arguments` to the context
            `[B, H, C, D]`. Behind the last query stand others at its position.
        query: `[B, H, T, D]`.
        size: C.
        arguments: tensors to which gradients flow.
    """
    batch, heads, length, width = sizes(query)
    count = -(-length // size)
    if not isinstance(count, int):
        count = ops.maximum(count, 1)  # a block of none, of which there is a shape
    beyond = ops.zeros((batch, heads, count * size - length, width), dtype=query.dtype)
    query = ops.concatenate([query, beyond], axis=2)
    blocks = ops.transpose(ops.reshape(query, (batch, heads, count, size, width)), (2, 0, 1, 3, 4))
    rows = ops.reshape(ops.clip(arange(count * size), 0, length - 1), (count, size))
    if tf is not None:  # tensors, not variables, whose gradients TensorFlow would lose
        arguments = [tf.convert_to_tensor(x) for x in arguments]

    def context(block: tuple[Tensor, Tensor]) -> Tensor:
        step = keras.remat(lambda query, *others: attend(query, block[1], *others))
        return step(block[0], *arguments)

    found: Any = ops.map(context, (blocks, rows))  # [N, B, H, C, D]
    joined = ops.transpose(found, (1, 2, 0, 3, 4))
    return ops.reshape(joined, (batch, heads, count * size, found.shape[-1]))[:, :, :length]
