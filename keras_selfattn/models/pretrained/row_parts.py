"""Layers from the pieces of each token to rows of pieces for an encoder, and back to a vector for each token.

Axes: B (rows), T (tokens), K (pieces of a token), S (parts of all rows), P (pieces of a part), D (features).
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_selfattn.models.long_rows import SPECIAL, pieces_within

Tensor = Any

_FAR = tf.int32.max


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RowParts(keras.layers.Layer):
    """Join the pieces of the tokens of each row, between [CLS] and [SEP], and cut longer rows into parts.

    A part holds as many whole tokens as it can. So every token is in one part, and has an answer.

    Args:
        max_tokens: pieces of a part, [CLS] and [SEP] included; at least 3.
        cls_id: id of [CLS].
        sep_id: id of [SEP].

    Call arguments:
        inputs: int32 `[batch, tokens, pieces]`, the ids of each token's pieces, 0 after the last; a token
            without any is padding. Of one with more than `max_tokens` - 2 only these are read.

    Returns:
        int32 ids `[parts, length]` with 0 as padding; and int32 `[batch, tokens]`, the place of each token's
        first piece among the `parts * length` ids, -1 for padding.

    Example:

        >>> import numpy as np
        >>> row = np.array([[[7, 8], [9, 0], [6, 5], [0, 0]]])
        >>> ids, places = RowParts(max_tokens=5, cls_id=2, sep_id=3)(row)
        >>> np.asarray(ids).tolist(), np.asarray(places).tolist()
        ([[2, 7, 8, 9, 3], [2, 6, 5, 3, 0]], [[1, 3, 6, -1]])
    """

    def __init__(self, max_tokens: int, cls_id: int, sep_id: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_tokens, self.cls_id, self.sep_id = max_tokens, cls_id, sep_id

    def call(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        limit = pieces_within(self.max_tokens)
        pieces = tf.cast(inputs[..., :limit], tf.int32)
        real = pieces != 0  # [B, T, K]
        sizes = tf.math.count_nonzero(real, axis=-1, dtype=tf.int32)  # [B, T]
        ends = tf.cumsum(sizes, axis=1)
        numbers, starts = _parts(ends - sizes, ends, limit)
        counts = 1 + tf.reduce_max(tf.pad(numbers, [[0, 0], [1, 0]]), axis=1)  # [B]
        parts = tf.cumsum(counts, exclusive=True)[:, None] + numbers  # [B, T]
        count = tf.reduce_sum(counts)
        lengths = tf.maximum(tf.math.unsorted_segment_max(ends - starts, parts, count), 0)  # [S]
        length = SPECIAL + tf.reduce_max(tf.pad(lengths, [[1, 0]]))
        firsts = parts * length + 1 + ends - sizes - starts  # [B, T]
        found = tf.where(real)  # [pieces of all, 3]
        inner = tf.gather_nd(firsts, found[:, :2]) + tf.cast(found[:, 2], tf.int32)
        begins = tf.range(count) * length
        special = tf.repeat([self.cls_id, self.sep_id], count)
        ids = tf.scatter_nd(
            tf.concat([inner, begins, begins + 1 + lengths], 0)[:, None],
            tf.concat([tf.boolean_mask(pieces, real), special], 0),
            [count * length],
        )
        return tf.reshape(ids, [count, length]), tf.where(sizes > 0, firsts, -1)

    def compute_output_spec(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return (
            keras.KerasTensor((None, None), "int32"),
            keras.KerasTensor(inputs.shape[:2], "int32"),
        )

    def get_config(self) -> dict[str, Any]:
        names = ("max_tokens", "cls_id", "sep_id")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _parts(before: Tensor, ends: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Return the part of each token, counted from 0 in each row, and the row's pieces before that part.

    Args:
        before: int32 `[B, T]`, the row's pieces before each token.
        ends: int32 `[B, T]`, the same with those of the token.
        limit: pieces of a part, at least those of each token.

    Returns:
        int32 `[B, T]` each.
    """

    def lacking(_numbers: Tensor, starts: Tensor) -> Tensor:
        return tf.reduce_any(ends - starts > limit)

    def step(numbers: Tensor, starts: Tensor) -> list[Tensor]:
        beyond = ends - starts > limit
        following = tf.reduce_min(tf.where(beyond, before, _FAR), axis=1, keepdims=True)  # [B, 1]
        return [numbers + tf.cast(beyond, tf.int32), tf.where(beyond, following, starts)]

    return tf.while_loop(lacking, step, [tf.zeros_like(ends), tf.zeros_like(ends)])


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FirstPieces(keras.layers.Layer):
    """Return the vector of each token's first piece, and mask padding.

    Call arguments:
        inputs: float `[parts, length, features]`, the vectors of all pieces; and int32 `[batch, tokens]`,
            the place of each token among them, -1 for padding.

    Returns:
        float `[batch, tokens, features]`, with a mask of the real tokens; any vector at padding.

    Example:

        >>> import numpy as np
        >>> vectors = np.arange(6, dtype="float32").reshape(2, 3, 1)
        >>> np.asarray(FirstPieces()([vectors, np.array([[1, 4]])])).tolist()
        [[[1.0], [4.0]]]

    Reference: Devlin et al. 2019, "BERT", section 5.3.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: list[Tensor]) -> Tensor:
        x, places = inputs
        flat = ops.reshape(x, (-1, x.shape[-1]))  # [S P, D]
        return ops.take(flat, ops.maximum(places, 0), axis=0)  # [B, T, D]

    def compute_mask(self, inputs: list[Tensor], previous_mask: Any = None) -> Tensor:
        return ops.greater_equal(inputs[1], 0)

    def compute_output_shape(self, input_shape: list[tuple]) -> tuple:
        x, places = input_shape
        return (*places, x[-1])
