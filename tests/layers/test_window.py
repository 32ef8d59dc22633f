"""Local attention: a window equals a banded mask, and its cost falls with it."""

import keras
import numpy as np
import pytest
from backend import array, examples, gradients, tensorflow_only
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import HEAD_DIM, HEADS, WIDTH, built, close, expected, inputs, randomised

from keras_selfattn import layers
from keras_selfattn.layers.window import Chunks, keys_of_chunk

KINDS = {
    "dot product": layers.MultiHeadSelfAttention,
    "grouped": lambda *a, **s: layers.MultiHeadSelfAttention(*a, num_kv_heads=1, **s),
    "rotary": lambda *a, **s: layers.MultiHeadSelfAttention(*a, position=layers.RotaryPositions(), **s),
    "alibi": lambda *a, **s: layers.MultiHeadSelfAttention(*a, position=layers.LinearBias(), **s),
    "t5": lambda *a, **s: layers.MultiHeadSelfAttention(*a, position=layers.BucketedBias(), **s),
    "shaw": lambda *a, **s: layers.MultiHeadSelfAttention(*a, position=layers.RelativePositions(5), **s),
    "additive": layers.AdditiveSelfAttention,
    "multiplicative": layers.MultiplicativeSelfAttention,
}


def band(length, left, right):
    distance = np.arange(length)[None] - np.arange(length)[:, None]
    return (distance >= -left) & (distance <= right)


def pair_of(kind, left, right):
    """The layer with a window, and the same without one."""
    near, far = (KINDS[kind](HEADS, HEAD_DIM, **s) for s in ({"window": (left, right)}, {}))
    for layer in (near, far):
        layer.build((None, None, WIDTH))
    randomised(near)
    far.set_weights(near.get_weights())
    return near, far


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("left", "right"), [(2, 2), (0, 37), (40, 3), (0, 0)])
def test_a_window_equals_a_banded_mask(kind, left, right):
    near, far = pair_of(kind, left, right)
    x, mask = inputs(length=211), np.arange(211) < np.array([[211], [150]])
    wanted = array(far(x, mask=mask, attention_mask=band(211, left, right)))
    np.testing.assert_allclose(array(near(x, mask=mask)), wanted, rtol=1e-4, atol=5e-5)


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(
    length=st.integers(0, 300),
    left=st.integers(0, 70),
    right=st.integers(0, 70),
    seed=st.integers(0, 1000),
    rank=st.integers(1, 4),
)
def test_a_window_joins_every_kind_of_mask(length, left, right, seed, rank):
    near, far = pair_of("dot product", left, right)
    random, x = np.random.default_rng(seed), inputs(length=length, seed=seed)
    call = {"mask": random.random((2, length)) < 0.8}
    if rank == 1:
        call["valid_lens"] = random.integers(0, length + 1, (2, length))
    else:
        call["attention_mask"] = random.random((2, HEADS, length, length)[4 - rank :][-rank:]) < 0.7
        if rank == 4:
            call["attention_mask"] = random.random((2, int(random.choice([1, HEADS])), length, length)) < 0.7
        if rank == 3:
            call["attention_mask"] = random.random((2, length, length)) < 0.7
    banded = band(length, left, right) & call.get("attention_mask", True)
    wanted = array(far(x, **{**call, "attention_mask": banded}))
    np.testing.assert_allclose(array(near(x, **call)), wanted, rtol=1e-4, atol=5e-5)


@pytest.mark.slow
@tensorflow_only
@pytest.mark.parametrize("length", [0, 1, 7, 30, 51, 52, 300])
def test_gradients_compiled_by_xla_for_unknown_lengths_equal_eager_ones(length):
    import tensorflow as tf

    layer, x = built(window=(17, 3), position=layers.BucketedBias()), inputs(length=length)

    @tf.function(input_signature=[tf.TensorSpec([None, None, WIDTH])], jit_compile=True)
    def compiled(x):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(x) ** 2)
        found = tape.gradient(total, [v.value for v in layer.trainable_variables])
        return [tf.convert_to_tensor(gradient) for gradient in found]

    for found, wanted in zip(compiled(x), gradients(layer, x)[:-1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * (np.abs(wanted).max() + 1))


@pytest.mark.slow
@tensorflow_only
@pytest.mark.parametrize("window", [2**31 - 1, (2**31 - 1, 0), (0, 10_000)])
def test_a_huge_window_is_full_attention_where_the_length_is_unknown(window):
    import tensorflow as tf

    layer, x = built(window=window), inputs()
    traced = tf.function(lambda x: layer(x), input_signature=[tf.TensorSpec([None, None, WIDTH])])
    close(traced(x).numpy(), array(layer(x)))


def test_a_causal_window_looks_back_only():
    layer, x = built(window=3, causal=True), inputs(length=150)
    short = x[:, :20]
    wanted = expected(layer, short, lambda b, h, t, s: t - 3 <= s <= t)[0]
    close(layer(short), wanted)
    np.testing.assert_allclose(array(layer(x))[:, :20], wanted, rtol=1e-4, atol=2e-5)


def test_a_window_wider_than_the_sequence_is_full_attention():
    near, far = built(window=1000), built()
    close(near(inputs()), array(far(inputs())))


def test_returned_weights_are_those_of_the_band():
    layer, x = built(window=(1, 2)), inputs(length=97)
    outputs, weights = layer(x, return_weights=True)
    weights = array(weights)
    assert (weights[:, :, ~band(97, 1, 2)] == 0).all()
    assert (weights[:, :, band(97, 1, 2)] > 0).all()
    close(layer(x), array(outputs))


def test_gradients_equal_those_of_the_banded_mask():
    near, far = pair_of("t5", 4, 2)
    x, mask = inputs(length=120), np.arange(120) < np.array([[120], [70]])
    found = gradients(near, x, mask=mask)
    wanted = gradients(far, x, mask=mask, attention_mask=band(120, 4, 2))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


def test_dropout_acts_inside_the_window_too():
    layer, x = built(window=2, dropout=0.5, seed=1), inputs(length=100)
    assert not np.allclose(array(layer(x, training=True)), array(layer(x)))
    everything_dropped = built(window=2, dropout=1.0)
    bias = everything_dropped.get_weights()[3]
    found = array(everything_dropped(x, training=True))
    np.testing.assert_allclose(found, np.broadcast_to(bias, found.shape), rtol=1e-5)


@pytest.mark.parametrize(
    ("left", "right", "keys"), [(0, 0, 16), (5, 3, 48), (20, 3, 60), (33, 0, 66), (0, 40, 80)]
)
def test_a_chunk_has_the_keys_that_its_window_reaches_and_no_others(left, right, keys):
    assert keys_of_chunk(left, right) == keys
    assert Chunks(1000, left, right).num_keys == keys


@pytest.mark.slow
@tensorflow_only
def test_no_tensor_grows_with_the_square_of_the_length():
    """The largest tensor of the traced graph, by length: twice as long, twice as large."""
    import tensorflow as tf

    layer = built(window=8, position=layers.RelativePositions(4))

    def largest(length):
        graph = tf.function(lambda x: layer(x)).get_concrete_function(tf.TensorSpec([1, length, WIDTH])).graph
        shapes = [tensor.shape for operation in graph.get_operations() for tensor in operation.outputs]
        return max(shape.num_elements() or 0 for shape in shapes)

    assert largest(1024) > 8 * WIDTH
    assert largest(4096) == 2 * largest(2048)
    dense = built()
    pairs = (
        tf.function(lambda x: dense(x, return_weights=True))
        .get_concrete_function(tf.TensorSpec([1, 512, WIDTH]))
        .graph
    )
    assert any(
        512 * 512 * HEADS == tensor.shape.num_elements()
        for op in pairs.get_operations()
        for tensor in op.outputs
    )


@pytest.mark.slow
def test_a_window_of_long_input_works_where_all_pairs_would_not_fit():
    """60,000 positions: all pairs would take 14 GB a head."""
    layer = layers.MultiHeadSelfAttention(1, window=4)
    x = inputs(batch=1, length=60_000, width=2)
    found = array(layer(x))
    again = array(layer(x[:, 30_000:30_100]))
    np.testing.assert_allclose(found[:, 30_004:30_096], again[:, 4:-4], rtol=1e-4, atol=1e-5)
    assert keras.ops.shape(found) == (1, 60_000, 2)
