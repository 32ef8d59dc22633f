"""Inputs and layers with weights that the attention tests share."""

import numpy as np
import reference
from backend import array

from keras_selfattn.layers import MultiHeadSelfAttention

# A different prime for every axis, so that a swapped one fails.
BATCH, LENGTH, HEADS, HEAD_DIM, WIDTH = 2, 7, 3, 5, 11


def inputs(batch=BATCH, length=LENGTH, width=WIDTH, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, length, width)).astype("float32")


def randomised(layer, width=WIDTH, deviation=0.5):
    """The layer with weights that are all different, biases included (they start at zero)."""
    if not layer.built:
        layer.build((None, None, width))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * deviation for w in layer.weights])
    return layer


def built(**settings):
    return randomised(MultiHeadSelfAttention(HEADS, HEAD_DIM, **settings))


def expected(layer, x, allowed=reference.everything, scale=HEAD_DIM**-0.5, **rules):
    return reference.self_attention(x, layer.get_weights(), HEADS, scale, allowed, **rules)


def close(found, wanted, rtol=1e-4, atol=2e-5):
    found = found if isinstance(found, np.ndarray) else array(found)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def check_gradients(layer, loss):
    """Compare TensorFlow's gradient of each trained weight with differences of a loss in float64."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, layer.trainable_variables)
    random = np.random.default_rng(2)
    for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
        before, direction, sides = variable.numpy(), random.normal(size=variable.shape), []
        for sign in (1, -1):
            variable.assign(before + sign * 1e-6 * direction)
            sides.append(float(loss()))
        variable.assign(before)
        found = float(tf.reduce_sum(tf.convert_to_tensor(gradient) * direction))
        np.testing.assert_allclose(found, (sides[0] - sides[1]) / 2e-6, rtol=1e-5, atol=1e-8)
