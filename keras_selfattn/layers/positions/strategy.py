"""The base class of position strategies, which bring positions into the attention of a layer.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features of one
head). A distance is key position - query position.
"""

from collections.abc import Callable
from typing import Any, ClassVar

Tensor = Any
Weights = dict[str, tuple[tuple[int, ...], Callable[[int | None], Any]]]
Project = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From rows `[R, features]` to their queries `[1, H, R, D]` and keys `[1, G, R, D]`."""


class PositionStrategy:
    """A way for positions to enter attention: a serializable config that holds no weights.

    A strategy overrides the methods that it needs: `weights` (names weights for the layer to learn), `rotate`
    (changes queries and keys), `logits` (returns a term to add to the logits) or `pair_logits` (if that needs
    the keys, too), `tables` (computes of the weights, once a call, what these read), `context` (returns a
    term to add to the context), `score_width` (if these compute vectors for each pair); and `get_config` if
    it takes arguments. Registered with Keras, it is saved with the model. Its weights belong to the attention
    layer that uses it, so one strategy may serve many layers.

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

    reads_distances: ClassVar[bool] = False
    """True if the distances are those of the call argument `distances`, `[B, 1, T, S]`, instead."""

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
            distance: int32 `[T, S]`; `[B, 1, T, S]` if `reads_distances`.
            causal: whether the layer hides the keys after a query.
        """
        return None

    def pair_logits(
        self, learned: dict[str, Tensor], query: Tensor, key: Tensor, distance: Tensor, *, causal: bool
    ) -> Tensor | None:
        """Return the term of `logits`, for a strategy that reads the keys `[B, G, S, D]`, too.

        Queries and keys are consecutive: `distance[t, s]` is `distance[0, 0] + s - t`, but at queries after
        the last one, where it may be anything.
        """
        return self.logits(learned, query, distance, causal=causal)

    def tables(
        self, learned: dict[str, Tensor], project: Project, length: Tensor | None
    ) -> dict[str, Tensor]:
        """Return what `pair_logits` and `context` get as `learned`: by default the weights themselves.

        Args:
            learned: the layer's weights by the names of `weights`.
            project: makes queries and keys of rows as wide as the layer's inputs, as the layer makes them of
                tokens, the scale of the queries included. The inputs must have H D features.
            length: the most positions of a sequence; None if that is not known.
        """
        return learned

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
