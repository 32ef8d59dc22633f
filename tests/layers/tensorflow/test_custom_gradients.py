"""Custom gradients of TensorFlow's graphs go with the graph, and last as long as one can ask for them."""

import gc
import threading

import keras
import numpy as np
import pytest
from backend import BACKEND, tensorflow_only
from samples import randomised

from keras_selfattn import layers
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient, keep_in_graph, rematerialised

if BACKEND == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.framework import ops as framework

pytestmark = tensorflow_only

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
MASK = np.arange(5) < np.array([5, 3])[:, None]


def entries():
    """The number of custom gradients that TensorFlow has, once what is unreachable is gone."""
    gc.collect()
    return len(framework.gradient_registry.list())


def tripled(x, factor=None):
    """`x`, with three times its gradient, or `factor` times, which is a tensor of the graph around it."""

    @custom_gradient
    def same(x):
        return tf.identity(x), lambda upstream: upstream * (3.0 if factor is None else factor)

    return same(x)


def gradient_of(function, **settings):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    return tf.function(gradient, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.EncoderBlock(2, 4),
        lambda: layers.EncoderBlock(2, 4, remat=True),
        lambda: layers.MultiHeadSelfAttention(2, dtype="mixed_bfloat16"),
    ],
    ids=["packed blocks", "rematerialised", "half precision"],
)
def test_a_layer_leaves_no_entry_behind(make):
    def trace():
        layer = make()
        graph = gradient_of(lambda x: layer(x, mask=MASK, training=True))
        return graph.get_concrete_function(tf.TensorSpec([None, None, X.shape[-1]]))  # unknown sizes pack

    before, kept = entries(), trace()
    assert entries() > before
    del kept
    for _ in range(2):
        trace()
    assert entries() == before


def test_rematerialisation_has_no_entry_in_its_gradient_either():
    kernel = tf.Variable([[2.0]])

    def trace():
        graph = gradient_of(rematerialised(lambda x: x @ kernel.value() * x))
        np.testing.assert_allclose(graph(tf.constant([[3.0]])), [[12.0]])

    before = entries()
    trace()
    assert entries() == before


def test_rematerialisation_returns_the_gradients_of_variables():
    kernel = tf.Variable([[2.0]])
    step = rematerialised(lambda x: [x @ kernel, x * 5.0])

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(step(x)[0]) + tf.reduce_sum(step(x)[1])
        return tape.gradient(y, [x, kernel])

    of_x, of_kernel = gradients(tf.constant([[3.0]]))
    np.testing.assert_allclose([of_x, of_kernel], [[[7.0]], [[3.0]]])


def test_a_gradient_is_there_for_a_graph_whose_makers_are_gone():
    """Only the concrete function is kept; its gradient is asked for afterwards."""

    def made():
        layer = randomised(layers.MultiHeadSelfAttention(2), 6)
        function = tf.function(lambda x: layer(x, mask=MASK))
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(layer(x, mask=MASK) ** 2)
        concrete = function.get_concrete_function(tf.TensorSpec(X.shape))
        return concrete, concrete.variables, tape.gradient(y, x).numpy()

    concrete, _variables, wanted = made()  # a graph does not keep its variables
    entries()
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(concrete(x) ** 2)
    np.testing.assert_allclose(tape.gradient(y, x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "XLA"])
def test_loops_branches_and_functions_have_their_own_gradient(compiled):
    factor = tf.constant(3.0)

    def inner(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tripled(x, tf.identity(factor)), lambda: -x)

    def loop(x):
        again = tf.function(inner)
        return tf.while_loop(
            lambda i, x: i < 2, lambda i, x: (i + 1, again(x)), (0, x), maximum_iterations=2
        )[1]

    before = entries()
    graph = gradient_of(loop, jit_compile=compiled)
    np.testing.assert_allclose(graph(tf.constant([1.0, 2.0])), [9.0, 9.0])
    entries()
    np.testing.assert_allclose(graph(tf.constant([[1.0, 2.0]])), [[9.0, 9.0]])  # another trace
    del graph
    assert entries() == before


def test_second_derivatives_are_those_of_the_gradient():
    @tf.function
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tripled(x, x)  # its gradient is x, and that of x is 1
            first = tape.gradient(y, x)
        return outer.gradient(first, x)

    np.testing.assert_allclose(second(tf.constant(5.0)), 1.0)


@pytest.mark.slow
def test_a_saved_model_keeps_its_gradients_when_its_maker_is_gone(tmp_path):
    """In this process, where names of the two could meet."""

    module = tf.Module()
    module.call = tf.function(lambda x: tripled(x * 2.0), input_signature=[tf.TensorSpec([None])])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, tmp_path, options=options)
    loaded = tf.saved_model.load(tmp_path)
    del module
    entries()
    x = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.call(x)
    np.testing.assert_allclose(tape.gradient(y, x), [6.0])


def test_threads_that_trace_at_once_do_not_mix_their_gradients():
    found = {}

    def trace(number):
        factor = tf.constant(float(number))
        found[number] = gradient_of(lambda x: tripled(x, tf.identity(factor)))(tf.constant([1.0])).numpy()

    before = entries()
    threads = [threading.Thread(target=trace, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: value.tolist() for number, value in found.items()} == {n: [n] for n in range(1, 7)}
    assert entries() == before


def test_custom_gradients_of_others_are_kept_in_the_graph_too():
    """The sum over replicas that Keras' optimizers ask for registers one in every training."""

    def trace():
        @tf.function
        def summed(x):
            found = tf.distribute.get_replica_context().all_reduce("SUM", x)
            keep_in_graph()
            keep_in_graph()  # no second time
            return found

        np.testing.assert_allclose(summed(tf.constant([2.0])), [2.0])
        return summed

    before = entries()
    trace()
    assert entries() == before
    np.testing.assert_allclose(gradient_of(trace())(tf.constant([2.0])), [1.0])
    keep_in_graph()  # outside of a graph there is nothing to keep


def test_a_gradient_that_a_user_registered_outlives_the_first_graph():
    """`gradient_override_map` names one gradient for many graphs."""

    def trace():
        @tf.function
        def gradient(x):
            with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
                y = tf.identity_n([x])[0]
            keep_in_graph()
            return tf.gradients(y, x)[0]

        return gradient(tf.constant(1.0)).numpy()

    name = "SevenTimesForATest"
    tf.RegisterGradient(name)(lambda operation, *upstream: [each * 7.0 for each in upstream])
    found = [trace(), entries(), trace()]
    assert [found[0], found[2]] == [7.0, 7.0]


def test_eagerly_the_gradient_is_the_same():
    x = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tripled(x) + rematerialised(keras.ops.square)(x)
    np.testing.assert_allclose(tape.gradient(y, x), [5.0])
