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


def block_size(query: Tensor, width: int) -> int | None:
    """Returns how many queries share a block, or None: all, for they are few or of a number not known.

    Args:
        query: `[B, H, T, D]`.
        width: numbers of memory that a score takes.
    """
    batch, heads, length, _ = query.shape
    if length is None:
        return None
    scores = _SCORES if _on_cores(query) else _SCORES_OF_ACCELERATOR
    size = max(scores // max((batch or 1) * heads * length * width, 1), _LEAST_QUERIES)
    return None if size >= length else size


def _on_cores(query: Tensor) -> bool:
    """Returns whether a CPU computes with `query`, as far as can be told while a graph is traced."""
    if keras.backend.backend() == "torch":
        return query.device.type == "cpu"
    return all(name.startswith("cpu") for name in keras.distribution.list_devices())


def map_queries(attend: Callable[..., Tensor], query: Tensor, size: int, arguments: list[Tensor]) -> Tensor:
    """Returns the context of all queries, `[B, H, T, D]`, one block after the other.

    Args:
        attend: queries `[B, H, C, D]`, the position of each, int32 `[C]`, and `arguments` to the context
            `[B, H, C, D]`. Behind the last query stand others at its position.
        query: `[B, H, T, D]`.
        size: C.
        arguments: tensors to which gradients flow.
    """
    batch, heads, length, width = sizes(query)
    count = -(-length // size)
    query = ops.pad(query, ((0, 0), (0, 0), (0, count * size - length), (0, 0)))
    blocks = ops.transpose(ops.reshape(query, (batch, heads, count, size, width)), (2, 0, 1, 3, 4))
    rows = ops.reshape(ops.minimum(arange(count * size), length - 1), (count, size))
    if tf is not None:  # tensors, not variables, whose gradients TensorFlow would lose
        arguments = [tf.convert_to_tensor(x) for x in arguments]
    step = keras.remat(attend)
    found = ops.map(lambda block: step(*block, *arguments), (blocks, rows))  # [N, B, H, C, D]
    joined = ops.transpose(found, (1, 2, 0, 3, 4))
    return ops.reshape(joined, (batch, heads, count * size, -1))[:, :, :length]
