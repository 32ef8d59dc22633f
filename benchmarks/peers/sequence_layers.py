"""Layers that read a sequence, one of each kind, on TensorFlow: a `tf.function` of any length.

Axes: B (batch), T (positions), D (features).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.prepared import Prepared

KERNEL = 9  # positions that a convolution sees
HEADS = 8


def build(fields: dict[str, Any]) -> Prepared:
    """Build `fields["layer"]` of a width for one sequence of a length; with `training`, its gradient, too."""
    import tensorflow as tf

    width, length = fields["width"], fields["length"]
    layer = _makers(fields)[fields["layer"]](width)
    layer.build((None, None, width))
    random = np.random.default_rng(0)
    for weight in layer.weights:
        weight.assign(random.standard_normal(weight.shape) / max(1, weight.shape[0]) ** 0.5)
    x = tf.constant(random.standard_normal((1, length, width), np.float32))
    call = _step(layer, width) if fields.get("training") else _inference(layer, width)
    return Prepared(run=lambda: call(x), warm=lambda: call(x[:, :128]))


def _makers(fields: dict[str, Any]) -> dict[str, Callable[[int], Any]]:
    import keras

    from keras_selfattn import layers

    return {
        "convolution": lambda width: keras.layers.Conv1D(width, KERNEL, padding="same"),
        "dilated convolution": lambda width: keras.layers.Conv1D(
            width, KERNEL, padding="same", dilation_rate=KERNEL
        ),
        "LSTM": lambda width: keras.layers.LSTM(width, return_sequences=True),
        "GRU": lambda width: keras.layers.GRU(width, return_sequences=True),
        "self-attention": lambda _: layers.MultiHeadSelfAttention(HEADS),
        "window attention": lambda _: layers.MultiHeadSelfAttention(HEADS, window=fields.get("window")),
        "linear attention": lambda _: layers.LinearSelfAttention(HEADS),
    }


def _inference(layer: Any, width: int) -> Any:
    import tensorflow as tf

    signature = [tf.TensorSpec([None, None, width])]
    return tf.function(lambda x: layer(x, training=False), input_signature=signature)


def _step(layer: Any, width: int) -> Any:
    import tensorflow as tf

    weights = [variable.value for variable in layer.trainable_weights]

    @tf.function(input_signature=[tf.TensorSpec([None, None, width])])
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, training=True) ** 2)
        return tape.gradient(loss, weights)

    return step
