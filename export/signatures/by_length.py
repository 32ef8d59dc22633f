"""Rows of very different lengths in one batch: each is padded to rows of similar length, not to the longest.

Axes: B (rows), T (positions), C (classes).
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Tensor = Any
_ragged: Any = tf.RaggedTensor

# Padding up to here, in tokens, costs less than a loop over groups of rows.
_PADDING = 2**14


def by_length(
    ids: Tensor,
    outputs: Callable[[Any], Tensor],
    columns: int,
    padding_id: int,
    beside: Tensor | None = None,
) -> Tensor:
    """Return the outputs of a model for each row, `[B, C]`, with bounded padding.

    If padding all rows to the longest would more than double the tokens, rows are sorted by length and go
    through the model in groups. In a group no row is shorter than half of the longest.

    Args:
        ids: int32 ragged `[B, T]`.
        outputs: from padded ids, int32 `[B, T]`, to float32 `[B, C]`; or from a list of them and `beside`.
        columns: C.
        padding_id: the id of padding.
        beside: other inputs of each row, `[B, ...]`.
    """
    others = [] if beside is None else [beside]
    lengths = tf.cast(ids.row_lengths(), tf.int32)  # [B]
    padded = tf.size(lengths) * tf.reduce_max(tf.concat([lengths, [0]], axis=0))
    total = tf.size(ids.flat_values)

    # As a separate function, a branch that is not taken costs its callers nothing.
    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def in_groups(values: Tensor, splits: Tensor, *others: Tensor) -> Tensor:
        rows = _ragged.from_row_splits(values, splits, validate=False)
        return _in_groups(rows, others, outputs, padding_id)

    found = tf.cond(
        padded <= 2 * total + _PADDING,
        lambda: outputs(_joined(ids.to_tensor(padding_id), others)),
        lambda: in_groups(ids.flat_values, ids.row_splits, *others),
    )
    return tf.ensure_shape(found, [None, columns])


def _joined(padded: Tensor, others: Sequence[Tensor]) -> Any:
    return [padded, *others] if others else padded


def _in_groups(
    ids: Tensor, others: Sequence[Tensor], outputs: Callable[[Any], Tensor], padding_id: int
) -> Tensor:
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)  # [B]
    lengths = tf.gather(lengths, order)
    rows = tf.size(order)

    def group(start: Tensor, count: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        end = tf.math.count_nonzero(2 * lengths >= lengths[start], dtype=tf.int32)
        chosen = order[start:end]
        padded = tf.gather(ids, chosen).to_tensor(padding_id)
        beside = [tf.gather(other, chosen) for other in others]
        return end, count + 1, found.write(count, outputs(_joined(padded, beside)))

    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
    _, _, found = tf.while_loop(lambda start, *_: start < rows, group, (0, 0, found), parallel_iterations=1)
    return tf.gather(found.concat(), tf.math.invert_permutation(order))
