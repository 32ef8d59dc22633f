"""A learned bias for each distance that a call is given: of nodes of a graph, or of whatever is no sequence.

Axes: B (batch), T (query tokens), S (key tokens), H (heads), K (kinds of distances).
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import checked_count
from keras_selfattn.layers.attention_math import wide_dtype
from keras_selfattn.layers.positions.strategy import PositionStrategy, Weights

Tensor = Any

# Distances that heads look at first, and what a step away from them lowers a logit by.
_FOCI, _STRENGTH = 4, 4.0


@keras.saving.register_keras_serializable(package="keras_selfattn")
class DistanceBias(PositionStrategy):
    """Graphormer's bias: each head learns a number for each distance between two nodes, added to the logits.

    The distances are the call argument `distances`, int `[batch, length, length]`, from the query (first) to
    the key (second), as `data.graph_distances` counts them:

    - less than 0: no path leads from one to the other;
    - 0: the token itself;
    - 1 to `edge_kinds`: an edge joins the two, of this kind;
    - `edge_kinds` + d - 1: the shortest path has d edges, d > 1. Paths of more than `max_distance` edges
      share a number.

    With one kind of edges these are the lengths of the shortest paths. Tokens have no order, so the outputs
    follow them if they, and both axes of `distances`, are permuted.

    Args:
        max_distance: edges of the longest path with a number of its own.
        edge_kinds: kinds of edges.

    Raises:
        ValueError: for an argument that is no positive integer, and for a call without `distances`.

    Learns: `distance_bias` `[edge_kinds + max_distance + 2, H]`: no path, the token itself, the kinds of
    edges, 2 to `max_distance` edges, more. At first head h looks at nodes that are h modulo 4 edges away, and
    an edge more or less is worth -4: a head that begins with all nodes alike, from random numbers as
    Graphormer's, is slow to leave their mean (docs/graphs.md has figures).

    Example: three nodes in a row, and one alone.

        >>> import numpy as np
        >>> from keras_selfattn import layers
        >>> distances = np.array([[[0, 1, 2, -1], [1, 0, 1, -1], [2, 1, 0, -1], [-1, -1, -1, 0]]])
        >>> attention = layers.MultiHeadSelfAttention(2, position=DistanceBias())
        >>> tuple(attention(np.ones((1, 4, 8), "float32"), distances=distances).shape)
        (1, 4, 8)

    Reference: Ying et al. 2021, "Do Transformers Really Perform Bad for Graph Representation?", section
    3.1.2. There edges enter by the mean over a path of what is learned for each; here an edge's kind counts
    between the nodes that it joins.
    """

    reads_distances = True

    def __init__(self, max_distance: int = 8, edge_kinds: int = 1) -> None:
        self.max_distance = checked_count("max_distance", max_distance)
        self.edge_kinds = checked_count("edge_kinds", edge_kinds)

    def weights(self, num_heads: int, head_dim: int) -> Weights:
        joined = np.ones(self.edge_kinds)
        # Edges of each row of the table; those of no path are more than any.
        away = np.array([self.max_distance + 1, 0, *joined, *range(2, self.max_distance + 2)])
        focus = np.arange(num_heads) % _FOCI
        first = -_STRENGTH * np.abs(away[:, None] - focus)  # [K, H]

        def initial(shape: Any, dtype: Any = None) -> Tensor:
            return ops.convert_to_tensor(first, dtype=dtype)

        return {"distance_bias": (first.shape, lambda _seed: initial)}

    def logits(self, learned: dict[str, Tensor], query: Tensor, distance: Tensor, *, causal: bool) -> Tensor:
        if len(distance.shape) != 4:
            raise ValueError("DistanceBias reads the call argument `distances`; decoders take none.")
        biases = ops.cast(learned["distance_bias"], wide_dtype(query.dtype))  # [K, H]
        rows = ops.clip(distance, -1, self.edge_kinds + self.max_distance) + 1  # [B, 1, T, S]
        # A row of numbers for each head, so that no axis of heads is moved behind.
        heads: Any = ops.unstack(biases, axis=1)
        return ops.concatenate([ops.take(of_head, rows) for of_head in heads], axis=1)

    def get_config(self) -> dict[str, Any]:
        return {"max_distance": self.max_distance, "edge_kinds": self.edge_kinds}
