"""Keys written into a cache by TensorFlow's own operations, which every runtime of SavedModels has.

Axes: B (batch), T (tokens of a step), C (positions of the cache), G (key-value heads), D (features of one
head).
"""

from typing import Any

from keras_selfattn.layers.tensorflow import tf

Tensor = Any


def written(cached: Tensor, new: Tensor, first: Tensor) -> Tensor:
    """Return `[B, G, C, D]` with `[B, G, T, D]` from position `first` on.

    Beyond C a graph fails; one that does not know C returns more positions, whose step is NaN: `valid_rows`.
    """
    after = first + tf.shape(new)[2]
    whole = tf.concat([cached[:, :, :first], new, cached[:, :, after:]], axis=2)
    return tf.ensure_shape(whole, cached.shape)
