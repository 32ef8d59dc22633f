"""The base class of position strategies, which bring positions into the attention of a layer.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features of one
head). A distance is key position - query position.
"""

from collections.abc import Callable
from typing import Any

Tensor = Any
Weights = dict[str, tuple[tuple[int, ...], Callable[[int | None], Any]]]


class PositionStrategy:
    """A way for positions to enter attention: a serializable config that holds no weights.

    A strategy overrides the methods that it needs: `weights` (names weights for the layer to learn), `rotate`
    (changes queries and keys), `logits` (returns a term to add to the logits), `context` (returns a term to
    add to the context), `score_width` (if these compute vectors for each pair); and `get_config` if it takes
    arguments. Registered with Keras, it is saved with the model. Its weights belong to the attention layer
    that uses it, so one strategy may serve many layers.

    Example:

        >>> import keras
        >>> from keras_selfattn import layers
        >>> @keras.saving.register_keras_serializable(package="example")
        ... class Recency(layers.PositionStrategy):
        ...     def __init__(self, rate=0.1):
        ...         self.rate = rate
        ...     def weights(self, num_heads, head_dim):
        ...         return {"strength": ((num_heads, 1, 1), lambda seed: "ones")}
        ...     def logits(self, learned, query, distance, *, causal):
        ...         away = keras.ops.cast(keras.ops.abs(distance), "float32")  # [T, S]
        ...         return -self.rate * learned["strength"] * away  # [H, T, S]
        ...     def get_config(self):
        ...         return {"rate": self.rate}
        >>> attention = layers.MultiHeadSelfAttention(2, position=Recency(rate=0.5))
        >>> tuple(attention(keras.ops.ones((1, 3, 4))).shape)
        (1, 3, 4)
    """

    def weights(self, num_heads: int, head_dim: int) -> Weights:
        """Return the weights to learn: `{name: (shape, function from a seed to an initializer)}`."""
        return {}

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return queries or keys `[B, H or G, T, D]` changed by their `positions`, int32 `[T]`."""
        return x

    def logits(
        self, learned: dict[str, Tensor], query: Tensor, distance: Tensor, *, causal: bool
    ) -> Tensor | None:
        """Return a term to add to the logits, which broadcasts to `[B, H, T, S]`, or None.

        The logits and this term are float32, or float64 if the queries are.
        With a window, this method is called for blocks: T and S are those of one block, B counts all blocks.

        Args:
            learned: the layer's weights by the names of `weights`.
            query: `[B, H, T, D]`, multiplied by the layer's scale.
            distance: int32 `[T, S]`.
            causal: whether the layer hides the keys after a query.
        """
        return None

    def context(self, learned: dict[str, Tensor], weights: Tensor, distance: Tensor) -> Tensor | None:
        """Return a term to add to the context `[B, H, T, D]`, for weights `[B, H, T, S]`, or None."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {}

    def score_width(self, num_heads: int, head_dim: int) -> int:
        """Return the floats that a score takes while `logits` or `context` computes; blocks are cut by it."""
        return 1

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PositionStrategy":
        return cls(**config)
