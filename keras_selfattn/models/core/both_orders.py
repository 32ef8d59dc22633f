"""Both orders of pairs of texts as one batch, and the mean of their vectors: a pair answers as its reverse.

Axes: B (pairs), T (tokens), D (features).
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

Tensor = Any

COLUMNS = 2
"""The columns of a token of a pair in one order: its id and its type."""
_HASHES = 2**63 - 1


def pair_input(*, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the input of pairs, int32 `[B, T, 2]` or of both orders `[B, T, 4]`, and what layers read of it.

    Args:
        symmetric: True for both orders.
    """
    columns = 2 * COLUMNS if symmetric else COLUMNS
    given = keras.Input((None, columns), dtype="int32", name="ids")
    return given, BothOrders(name="both_orders")(given) if symmetric else given


def in_one_order(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two texts a row, string `[B]` each, in an order that is the same for a row and its reverse.

    The mean of both orders does not depend on it, but for the rounding of sums, which would make the answers
    differ in their last bits. The order is that of fingerprints: TensorFlow does not compare strings.

    Example:

        >>> first, second = in_one_order(tf.constant(["a", "b"]), tf.constant(["b", "a"]))
        >>> bool(first[0] == first[1]), bool(second[0] == second[1])
        (True, True)
    """
    hashes = [tf.strings.to_hash_bucket_fast(texts, _HASHES) for texts in (first, second)]
    swapped = hashes[0] > hashes[1]
    return tf.where(swapped, second, first), tf.where(swapped, first, second)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class BothOrders(keras.layers.Layer):
    """Put the tokens of pairs in both orders into one batch; in training, one order of each, at random.

    So a step of training costs no more than of one order, and sees the other order in another epoch.

    Call arguments:
        inputs: int32 `[B, T, 4]`: ids and types of the tokens in one order, then in the other.
        training: True chooses one order.

    Returns:
        int32 `[2 B, T, 2]`: all pairs in one order, then in the other; in training `[B, T, 2]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(BothOrders()(np.array([[[1, 0, 2, 0], [2, 1, 1, 1]]]))).tolist()
        [[[1, 0], [2, 1]], [[2, 0], [1, 1]]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._seeds = keras.random.SeedGenerator()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        orders = inputs[..., :COLUMNS], inputs[..., COLUMNS:]
        if not training:
            return ops.concatenate(orders, axis=0)
        drawn = keras.random.uniform((ops.shape(inputs)[0], 1, 1), dtype="float32", seed=self._seeds)
        return ops.where(drawn < 0.5, *orders)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return None, *input_shape[1:-1], COLUMNS


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MeanOfOrders(keras.layers.Layer):
    """The mean of the vectors of both orders of pairs, as `BothOrders` makes them; in training unchanged.

    An output layer without a function is linear: of mean vectors it gives the mean of both orders' logits, or
    of their numbers.

    Call arguments:
        inputs: float `[2 B, D]`, all pairs in one order, then in the other; in training `[B, D]`.
        training: True for one order of each.

    Returns:
        float32 `[B, D]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(MeanOfOrders()(np.array([[1.0], [5.0], [3.0], [5.0]]))).tolist()
        [[2.0], [5.0]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if training:
            return inputs
        pairs = ops.shape(inputs)[0] // 2
        return (inputs[:pairs] + inputs[pairs:]) / 2

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return None, *input_shape[1:]
