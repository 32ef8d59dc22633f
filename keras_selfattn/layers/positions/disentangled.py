"""Disentangled attention: the vector of a distance is projected as a token is, to a query and to a key.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features of one
head), R (rows of the table), L (distances), N (chunks of keys). A distance is key position - query position.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import checked_count, checked_positive
from keras_selfattn.layers.attention_math import at_least_one, dot_product, wide_dtype, widened
from keras_selfattn.layers.jax import is_dimension
from keras_selfattn.layers.positions.strategy import PositionStrategy, Project, Weights

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class DisentangledPositions(PositionStrategy):
    """DeBERTa's positions: content attends to the distance, and the distance to content.

    `logit(t, s) = scale (q_t . k_s + q_t . K[d] + Q[d] . k_s)` with d = s - t. A table has a row for each
    bucket of distances; `Q` and `K` are its normalised rows, projected by the layer's own kernels and biases
    of query and key, as DeBERTa-v2 and v3 share them. So the inputs have `num_heads head_dim` features. Half
    of `num_buckets` on either side hold one distance each; the others grow logarithmically up to
    `max_distance`, beyond which all distances share the last one.

    The paper scales by `1 / sqrt(3 head_dim)`, for three terms: pass it as the layer's `scale`. It shares one
    table among all layers; here each layer has its own. Only rows of distances that the inputs have are
    projected, once a call.

    Args:
        num_buckets: buckets on either side, even, at least 4; 256 is DeBERTa-v3's. The table has twice as
            many rows.
        max_distance: the least distance that has the last bucket; more than half of `num_buckets` and one
            more; 512 is DeBERTa-v3's.
        norm_epsilon: positive number added to the variance of a row; 1e-7 is DeBERTa's.

    Raises:
        ValueError: for an argument out of range, or, when a layer is built, inputs of another width.

    Learns: `relative_embeddings` `[2 num_buckets, H D]`, normal with deviation 0.02, the row of a distance d
    being `num_buckets - bucket(d)`; and the gain and shift of its normalisation, `relative_gain` and
    `relative_shift` `[H D]`.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> positions = DisentangledPositions(num_buckets=8, max_distance=16)
        >>> layer = layers.MultiHeadSelfAttention(2, position=positions, scale=(3 * 4) ** -0.5)
        >>> tuple(layer(np.ones((1, 3, 8))).shape)
        (1, 3, 8)

    Reference: He et al. 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", section 3.1; its
    code for version 2 has the buckets.
    """

    def __init__(self, num_buckets: int = 256, max_distance: int = 512, norm_epsilon: float = 1e-7) -> None:
        self.num_buckets = checked_count("num_buckets", num_buckets)
        self.max_distance = checked_count("max_distance", max_distance)
        self.norm_epsilon = checked_positive("norm_epsilon", norm_epsilon)
        if self.num_buckets < 4 or self.num_buckets % 2:
            raise ValueError(f"`num_buckets` must be even and at least 4. Received {num_buckets}.")
        if self.max_distance <= self.num_buckets // 2 + 1:
            raise ValueError(
                "`max_distance` must be greater than half of `num_buckets` and one more. "
                f"Received max_distance={max_distance}, num_buckets={num_buckets}."
            )
        self._buckets = np.array([self.bucket(away) for away in range(self.max_distance + 1)], np.int32)

    def weights(self, num_heads: int, head_dim: int) -> Weights:
        width = num_heads * head_dim
        return {
            "relative_embeddings": (
                (2 * self.num_buckets, width),
                lambda seed: keras.initializers.RandomNormal(stddev=0.02, seed=seed),
            ),
            "relative_gain": ((width,), lambda _: "ones"),
            "relative_shift": ((width,), lambda _: "zeros"),
        }

    def tables(
        self, learned: dict[str, Tensor], project: Project, length: Tensor | None
    ) -> dict[str, Tensor]:
        rows = learned["relative_embeddings"]  # [2 buckets, H D]
        if length is not None and not is_dimension(length):
            rows = self._rows_within(rows, length)
        wide = wide_dtype(rows.dtype)
        rows = ops.layer_normalization(
            ops.cast(rows, wide),
            ops.cast(learned["relative_gain"], wide),
            ops.cast(learned["relative_shift"], wide),
            epsilon=self.norm_epsilon,
        )
        query, key = project(rows)  # [1, H, R, D], [1, G, R, D]
        return {"relative_queries": query, "relative_keys": key}

    def pair_logits(
        self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Tensor, *, causal: bool
    ) -> Tensor | None:
        queries, keys = ops.shape(distance)
        if 0 in (x for x in (queries, keys) if isinstance(x, int)):
            return None
        first = ops.max(distance[:1, :1])  # as a graph may have no pair at all
        to_position = self._to_positions(learned["relative_keys"], query, first, keys)
        to_content = self._to_contents(learned["relative_queries"], key, first, queries)
        return widened(to_position) + widened(to_content)

    def get_config(self) -> dict[str, Any]:
        names = ("num_buckets", "max_distance", "norm_epsilon")
        return {name: getattr(self, name) for name in names}

    def bucket(self, distance: int) -> int:
        """Return the bucket of a distance, odd in it, from `-num_buckets` to `num_buckets`."""
        away, exact = abs(distance), self.num_buckets // 2
        if away > exact:
            # In float32, as the models were trained.
            growth = np.log(np.float32(away / exact)) / np.log(np.float32((self.max_distance - 1) / exact))
            away = min(int(np.ceil(growth * np.float32(exact - 1))) + exact, self.num_buckets)
        return away if distance >= 0 else -away

    def _rows_within(self, table: Tensor, length: Tensor) -> Tensor:
        """Return the rows of the distances that a sequence has: of an odd number, or all."""
        if isinstance(length, int):
            reach: Any = int(self._buckets[min(max(length - 1, 0), self.max_distance)])
        else:
            reach = ops.take(self._buckets, ops.clip(length - 1, 0, self.max_distance))
        least = self.num_buckets - reach
        return table[least : least + 2 * reach + 1]  # one less where the table ends

    def _at(self, rows: Tensor, distances: Tensor) -> Tensor:
        """Return the rows `[1, H, R, D]` of distances, in their shape, `[1, H, ..., D]`."""
        away = ops.clip(ops.absolute(distances), 0, self.max_distance)
        bucket = ops.take(ops.convert_to_tensor(self._buckets), away) * ops.sign(distances)
        count = ops.shape(rows)[2]
        return ops.take(rows, ops.clip(count // 2 - bucket, 0, count - 1), axis=2)

    def _to_positions(self, rows: Tensor, query: Tensor, first: Tensor, keys: Tensor) -> Tensor:
        """Return the products of each query with the keys of its distances, `[B, H, T, S]`."""
        length = ops.shape(query)[2]
        ahead = ops.arange(length + keys, dtype="int32") + (first - length + 1)  # [L = T + S]
        return _skewed(dot_product(query, _of_each_sample(self._at(rows, ahead), query)), keys)

    def _to_contents(self, rows: Tensor, key: Tensor, first: Tensor, queries: Tensor) -> Tensor:
        """Return the products of each key with the queries of its distances, `[B, H, T, S]`.

        In chunks of as many keys as there are queries: each key has that many distances, and all keys
        together have far more.
        """
        batch, groups, length, width = ops.shape(key)
        heads = rows.shape[1]
        if heads != groups:
            key = ops.repeat(key, heads // groups, axis=1)
        count = (length + at_least_one(queries) - 1) // at_least_one(queries)
        beyond = ops.zeros((batch, heads, count * queries - length, width), dtype=key.dtype)
        chunks = ops.reshape(ops.concatenate([key, beyond], axis=2), (batch, heads, count, queries, width))
        starts = first + ops.arange(count, dtype="int32") * queries  # [N], of the first query to a chunk
        ahead = starts[:, None] + (queries - 1) - ops.arange(2 * queries, dtype="int32")  # [N, L = 2 T]
        near = _of_each_sample(self._at(rows, ahead), key)  # [B, H, N, 2 T, D]
        products = ops.matmul(chunks, ops.swapaxes(near, -1, -2))  # [B, H, N, T, 2 T]
        found = _skewed(products, queries)  # [B, H, N, keys of a chunk, T]
        by_query = ops.transpose(found, (0, 1, 4, 2, 3))
        return ops.reshape(by_query, (batch, heads, queries, count * queries))[..., :length]


def _of_each_sample(rows: Tensor, x: Tensor) -> Tensor:
    """Return rows `[1, ...]` for each sample of `x`.

    A product that broadcasts them itself writes beyond its memory in some shapes, in TensorFlow 2.16 and 2.21
    with oneDNN.
    """
    return ops.broadcast_to(rows, (ops.shape(x)[0], *ops.shape(rows)[1:]))


def _skewed(x: Tensor, size: Tensor) -> Tensor:
    """Return, for s below `size`, element `[..., t, s - t + T - 1]` of `x`, which is `[..., T, L]`.

    L must be at least T + `size`. In the flattened matrix, each row then begins one element earlier than in a
    matrix of L columns.
    """
    *around, rows, columns = ops.shape(x)
    flat = ops.reshape(x, (*around, rows * columns))
    kept = flat[..., rows - 1 : rows * columns - 1]
    return ops.reshape(kept, (*around, rows, columns - 1))[..., :size]
