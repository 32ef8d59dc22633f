"""Layer normalisation and biases that TensorFlow fuses, bias gradients right in half precision, chosen rows.

Axes: N (tokens), D (features).
"""

from collections.abc import Callable
from typing import Any

from keras_selfattn.layers.tensorflow import tf
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient

Tensor = Any


def add_bias(product: Tensor, bias: Tensor) -> Tensor:
    """Return `product + bias`, for a product `[..., width]` in half precision and a bias `[width]`.

    TensorFlow's own gradient adds up in half precision on a CPU: 26 % off after 3,100 tokens of bfloat16.
    """
    axes = list(range(len(product.shape) - 1))

    @custom_gradient
    def added(product: Tensor, bias: Tensor) -> tuple[Tensor, Callable]:
        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
            return upstream, _wide_sum(upstream, axes)

        return tf.nn.bias_add(product, bias), gradient

    # A tensor: the gradient of a variable would have to be returned separately.
    return added(product, tf.cast(tf.convert_to_tensor(bias), product.dtype))


def affine(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return `x @ kernel + bias` for tokens `[N, features]`, a kernel `[features, width]` and a bias.

    TensorFlow gives a product of two dimensions and its bias to oneDNN's inner product. In bfloat16, with
    weights that may change, this sums in a float32 matrix of its own, and reads it again to add the bias. A
    product of four dimensions with a factor and a bias is one matrix product, as fast as without them.
    """
    kernel, bias = (tf.cast(tf.convert_to_tensor(weight), x.dtype) for weight in (kernel, bias))
    # A factor of 1 that is known before the graph runs would be folded away, and the pattern with it.
    one = tf.cast(tf.shape(x)[0] >= 0, x.dtype)

    @custom_gradient
    def added(product: Tensor, bias: Tensor) -> tuple[Tensor, Callable]:
        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
            return upstream, _wide_sum(upstream, [0, 1, 2])

        return product * one + tf.reshape(bias, [1, 1, 1, -1]), gradient

    product = tf.matmul(tf.reshape(x, [1, 1, -1, x.shape[1]]), kernel[None, None])
    return tf.reshape(added(product, bias), [-1, kernel.shape[1]])


def _wide_sum(x: Tensor, axes: list[int]) -> Tensor:
    """Return the sum over axes, added up in float32.

    On a CPU TensorFlow's own sum of bfloat16 does so, of float16 it does not: 14 % off after 4,000 tokens.
    """
    if x.dtype != tf.float16:
        return tf.reduce_sum(x, axis=axes)
    return tf.cast(tf.reduce_sum(tf.cast(x, tf.float32), axis=axes), x.dtype)


def chosen_rows(x: Tensor, chosen: Tensor) -> Tensor:
    """Return `[..., D]` with zeros where `chosen` `[...]` is False.

    TensorFlow's first `Select` copies whole rows. `tf.where`, which broadcasts, takes twice as long.
    """
    rows = tf.reshape(x, [-1, x.shape[-1]]) if len(x.shape) != 2 else x
    found = tf.raw_ops.Select(condition=tf.reshape(chosen, [-1]), x=rows, y=tf.zeros_like(rows))
    return found if len(x.shape) == 2 else tf.reshape(found, tf.shape(x))


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """Return the layer normalisation of `[N, D]`; a shift of None is none.

    It is written as batch normalisation with each token as a channel. TensorFlow's graph optimiser replaces
    this by its layer normalisation (remapper.cc, FindMklLayerNorm) if it stands between reshapes, with ones
    and zeros that are filled in when the graph runs. If the mean is 10,000 times the deviation, its error is
    two or three times that of Keras' layer.
    """
    count, features = tf.shape(x)[0], x.shape[1]
    nothing = tf.constant([], tf.float32)
    normal = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, count, features, 1]),
        scale=tf.fill([count], 1.0),
        offset=tf.fill([count], 0.0),
        mean=nothing,
        variance=nothing,
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,
    )[0]
    normal = tf.reshape(normal, tf.shape(x)) * tf.cast(gain, x.dtype)
    if shift is None:
        # Zeros that are known before the graph runs would be folded away, and the pattern with them.
        shift = tf.ensure_shape(tf.fill([tf.maximum(-count, features)], 0.0), [features])
    return tf.cast(shift, x.dtype) + normal
