"""Relative positions: terms of the distance between query and key, in the logits and in the context.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features of one head). A distance
is key position - query position.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import checked_count
from keras_selfattn.layers.attention_math import wide_dtype, widened
from keras_selfattn.layers.positions.strategy import PositionStrategy, Weights

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class LinearBias(PositionStrategy):
    """Attention with linear biases (ALiBi): each head lowers a logit by its slope times the distance.

    Nothing is learned. The bias is the same for keys before and after the query; with `causal` it is the
    paper's. If the number of heads H is a power of 2, the slopes are `2**(-8 h / H)` for h = 1..H. Otherwise
    they are the slopes of the power of 2 below H, then every second slope of the power of 2 above H.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> tuple(layers.MultiHeadSelfAttention(2, position=LinearBias())(np.ones((1, 3, 8))).shape)
        (1, 3, 8)

    Reference: Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", section 3.
    """

    def logits(self, learned: dict[str, Tensor], query: Tensor, distance: Tensor, *, causal: bool) -> Tensor:
        dtype = wide_dtype(query.dtype)
        slopes: Tensor = ops.convert_to_tensor(alibi_slopes(query.shape[1]), dtype=dtype)  # [H]
        away = ops.cast(ops.absolute(distance), dtype)  # [T, S]
        return -slopes[:, None, None] * away  # [H, T, S]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class BucketedBias(PositionStrategy):
    """T5's relative bias: each head learns a number for each bucket of distances, added to the logits.

    Half of a direction's buckets hold one distance each. The other half hold ranges up to `max_distance` that
    grow logarithmically; all distances beyond share the last bucket. The buckets are split between the two
    directions; with `causal`, all serve the past. T5 itself leaves the logits unscaled (`scale=1.0`) and
    shares one table among its layers; here each layer learns its own.

    Args:
        num_buckets: even, at least 4; 32 is T5's.
        max_distance: distances beyond it look alike; more than half of `num_buckets`; 128 is T5's.

    Raises:
        ValueError: for an argument out of range.

    Learns: `relative_bias` `[num_buckets, H]`, normal with deviation 0.02.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> layer = layers.MultiHeadSelfAttention(2, position=BucketedBias(), scale=1.0)
        >>> tuple(layer(np.ones((1, 3, 8))).shape)
        (1, 3, 8)

    Reference: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1.
    """

    def __init__(self, num_buckets: int = 32, max_distance: int = 128) -> None:
        self.num_buckets = checked_count("num_buckets", num_buckets)
        self.max_distance = checked_count("max_distance", max_distance)
        if self.num_buckets < 4 or self.num_buckets % 2:
            raise ValueError(f"`num_buckets` must be even and at least 4. Received {num_buckets}.")
        if self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                "`max_distance` must be greater than half of `num_buckets`. "
                f"Received max_distance={max_distance}, num_buckets={num_buckets}."
            )

    def weights(self, num_heads: int, head_dim: int) -> Weights:
        shape = (self.num_buckets, num_heads)
        return {
            "relative_bias": (shape, lambda seed: keras.initializers.RandomNormal(stddev=0.02, seed=seed))
        }

    def logits(self, learned: dict[str, Tensor], query: Tensor, distance: Tensor, *, causal: bool) -> Tensor:
        # A table holds the bucket of each distance up to `max_distance`; distances beyond are clipped to it.
        reach = self.max_distance
        table = [self.bucket(d, causal) for d in range(-reach, reach + 1)]
        buckets = ops.take(
            ops.convert_to_tensor(table, dtype="int32"), ops.clip(distance, -reach, reach) + reach
        )
        biases = ops.cast(learned["relative_bias"], wide_dtype(query.dtype))  # [buckets, H]
        bias = ops.take(biases, buckets, axis=0)  # [T, S, H]
        return ops.transpose(bias, (2, 0, 1))  # [H, T, S]

    def get_config(self) -> dict[str, Any]:
        return {"num_buckets": self.num_buckets, "max_distance": self.max_distance}

    def bucket(self, distance: int, causal: bool) -> int:
        buckets = self.num_buckets if causal else self.num_buckets // 2
        away = max(-distance, 0) if causal else abs(distance)
        exact = buckets // 2
        if away >= exact:
            growth = math.log(away / exact) / math.log(self.max_distance / exact)
            away = min(exact + int(growth * (buckets - exact) + 1e-9), buckets - 1)
        return away + (buckets if distance > 0 and not causal else 0)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RelativePositions(PositionStrategy):
    """Shaw's relative positions: a learned vector per clipped distance is added to the keys and the values.

    `logit(t, s) = scale q_t . (k_s + a_K[d])` and `context_t = sum_s w(t, s) (v_s + a_V[d])` with d = s - t,
    clipped to [-max_distance, max_distance]. The vectors are shared by the heads.

    Args:
        max_distance: distances beyond it share a vector; 16 is the paper's for translation.

    Raises:
        ValueError: if `max_distance` is not a positive integer.

    Learns: `relative_keys` and `relative_values`, each `[2 max_distance + 1, head_dim]`, Glorot uniform.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> layer = layers.MultiHeadSelfAttention(2, position=RelativePositions(max_distance=4))
        >>> tuple(layer(np.ones((1, 3, 8))).shape)
        (1, 3, 8)

    Reference: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.
    """

    def __init__(self, max_distance: int = 16) -> None:
        self.max_distance = checked_count("max_distance", max_distance)

    def weights(self, num_heads: int, head_dim: int) -> Weights:
        shape = (2 * self.max_distance + 1, head_dim)
        return dict.fromkeys(("relative_keys", "relative_values"), (shape, keras.initializers.GlorotUniform))

    def logits(self, learned: dict[str, Tensor], query: Tensor, distance: Tensor, *, causal: bool) -> Tensor:
        vectors = ops.cast(self._vectors(learned["relative_keys"], distance), query.dtype)  # [T, S, D]
        return widened(ops.einsum("bhtd,tsd->bhts", query, vectors))

    def context(self, learned: dict[str, Tensor], weights: Tensor, distance: Tensor) -> Tensor:
        vectors = ops.cast(self._vectors(learned["relative_values"], distance), weights.dtype)  # [T, S, D]
        return ops.einsum("bhts,tsd->bhtd", weights, vectors)

    def score_width(self, num_heads: int, head_dim: int) -> int:
        return 1 + 2 * head_dim // num_heads  # the vectors of keys and of values, which the heads share

    def get_config(self) -> dict[str, Any]:
        return {"max_distance": self.max_distance}

    def _vectors(self, table: Tensor, distance: Tensor) -> Tensor:
        clipped = ops.clip(distance, -self.max_distance, self.max_distance)
        return ops.take(table, clipped + self.max_distance, axis=0)  # [T, S, D]


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Return the slope of each head, float64 `[num_heads]` (see `LinearBias`).

    Example:

        >>> print(alibi_slopes(4))
        [0.25       0.0625     0.015625   0.00390625]
    """
    below = 2 ** int(math.log2(num_heads))
    slopes = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
    above = [2.0 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1, 2)]
    return np.array(slopes + above[: num_heads - below])
