"""GELU: its values, gradients and what training keeps for them, beside the formula in double precision."""

import math

import keras
import numpy as np
import pytest
from backend import BACKEND, array

from keras_selfattn.layers.feed_forward import gelu

X = np.linspace(-6, 6, 999)
BELOW = np.array([1 + math.erf(each / 2**0.5) for each in X]) / 2
NORMAL = np.exp(-(X**2) / 2) / math.sqrt(2 * math.pi)
of_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="a gradient of TensorFlow's")


@pytest.mark.parametrize("training", [None, False, True])
def test_values_are_those_of_the_formula(training):
    assert np.abs(array(gelu(keras.ops.cast(X, "float32"), training)) - X * BELOW).max() < 1e-6


def _gradients(dtype):
    import tensorflow as tf

    x = tf.constant(X, dtype)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = gelu(x, training=True)
        slope = first.gradient(y, x)
    return slope, second.gradient(slope, x)


@of_tensorflow
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("in_graph", [False, True])
def test_first_and_second_gradients_are_those_of_the_formula(dtype, error, in_graph):
    import tensorflow as tf

    first, second = (tf.function(_gradients) if in_graph else _gradients)(dtype)
    assert np.abs(first.numpy() - (BELOW + X * NORMAL)).max() < error
    assert np.abs(second.numpy() - (2 - X**2) * NORMAL).max() < 2 * error


@of_tensorflow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_as_near_to_the_formula_as_kerass(dtype):
    import tensorflow as tf

    x = tf.cast(tf.constant(X), dtype)
    near = tf.cast(x, tf.float64).numpy()
    below = np.array([1 + math.erf(each / 2**0.5) for each in near]) / 2
    slope = below + near * np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi)

    def errors(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        found = tape.gradient(y, x)
        of_values = np.abs(tf.cast(y, tf.float64).numpy() - near * below)
        of_slopes = np.abs(tf.cast(found, tf.float64).numpy() - slope)
        return np.array([of_values.mean(), of_slopes.mean()])

    assert (errors(lambda x: gelu(x, True)) <= errors(keras.activations.gelu)).all()


@of_tensorflow
def test_training_keeps_two_arrays():
    """The unit, for the product behind it, and its slope: what operations give to those of the gradient."""
    import tensorflow as tf

    weights = tf.random.normal((4, 4))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            hidden = gelu(x @ weights, True)
            y = tf.reduce_sum((hidden @ weights) ** 2)
        return tape.gradient(y, weights)

    graph = step.get_concrete_function(tf.random.normal((8, 4))).graph
    with_gelu = _kept(graph)
    assert len(with_gelu) == 2 + 1, with_gelu  # and the last product, for its square


def _kept(graph):
    """Return the names of arrays of 8 x 4 that a graph makes before its gradient and reads in it."""
    operations = graph.get_operations()
    first = next(place for place, each in enumerate(operations) if each.name.startswith("gradient_tape"))
    before = {
        output.name for each in operations[:first] if each.type != "Placeholder" for output in each.outputs
    }
    read = {source.name for each in operations[first:] for source in each.inputs if source.shape == (8, 4)}
    return before & read


@pytest.mark.skipif(BACKEND != "jax", reason="elsewhere it is Keras' own")
@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 8), ("float16", 11)])
def test_half_precision_on_jax_is_rounded_once(dtype, bits):
    x = keras.ops.cast(np.linspace(-4, 4, 999), dtype)
    exact = array(x).astype("float64")
    exact = exact * np.array([1 + math.erf(each / 2**0.5) for each in exact]) / 2
    error = np.abs(array(gelu(x)) - exact)
    assert (error <= np.abs(exact) * 2.0**-bits + 1e-6).all()
