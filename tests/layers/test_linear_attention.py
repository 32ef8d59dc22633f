"""Linear attention against its quadratic form in NumPy, and its cost."""

import keras
import numpy as np
import pytest
from backend import array, examples, gradients, tensorflow_only
from formulas import linear_in_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, close, inputs, randomised

from keras_selfattn.layers import LinearSelfAttention
from keras_selfattn.layers.linear_attention import feature_map


def built(**settings):
    return randomised(LinearSelfAttention(HEADS, HEAD_DIM, **settings))


@pytest.mark.parametrize("causal", [False, True])
def test_equals_its_quadratic_form_in_loops(causal):
    layer, x = built(causal=causal), inputs()
    lens = np.array([4, 7])
    outputs, weights = layer(x, valid_lens=lens, return_weights=True)
    wanted = linear_in_numpy(layer, x, lambda b, h, t, s: s < lens[b] and (s <= t or not causal))
    close(outputs, np.where(np.arange(LENGTH)[:, None] < lens[:, None, None], wanted[0], 0))
    real = (np.arange(LENGTH) < lens[:, None])[:, None, :, None]  # weights of a padding query mean nothing
    close(np.where(real, array(weights), 0), np.where(real, wanted[1], 0))


@settings(max_examples=examples(15), deadline=None)
@given(length=st.integers(0, 600), seed=st.integers(0, 1000), causal=st.booleans())
def test_any_length_equals_the_weights_it_never_forms(length, seed, causal):
    layer, x = built(causal=causal), inputs(length=length, seed=seed)
    mask = np.random.default_rng(seed).random((BATCH, length)) < 0.8
    outputs, weights = layer(x, mask=mask, return_weights=True)
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    value = (np.where(mask[..., None], x, 0) @ kernel + bias)[..., -HEADS * HEAD_DIM :]
    value = value.reshape(BATCH, length, HEADS, HEAD_DIM)
    context = np.einsum("bhts,bshd->bthd", array(weights), value).reshape(BATCH, length, HEADS * HEAD_DIM)
    wanted = np.where(mask[..., None], context @ output_kernel + output_bias, 0)
    np.testing.assert_allclose(array(outputs), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_features_of_very_negative_projections_keep_the_weights_whole(causal):
    """exp(x) of -200 is 0 in float32; without a floor the keys would count as absent."""
    layer, x = LinearSelfAttention(1, causal=causal), inputs(width=3)
    layer.build((None, None, 3))
    kernel, bias, *others = layer.get_weights()
    layer.set_weights([kernel, bias - np.repeat([200, 200, 0], 3), *others])
    outputs, weights = layer(x, return_weights=True)
    np.testing.assert_allclose(array(weights).sum(-1), 1, rtol=1e-5)
    assert np.isfinite(array(outputs)).all()
    assert (array(outputs) != 0).all()


def test_the_feature_map_is_exact_below_zero():
    x = np.array([-12.0, -8, -3, -1e-4, 0, 1e-4, 3, 100], "float32")
    wanted = np.where(x > 0, x.astype("float64") + 1, np.exp(np.minimum(x, 0).astype("float64")))
    np.testing.assert_allclose(array(feature_map(keras.ops.convert_to_tensor(x))), wanted, rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [None, 1, HEADS])
def test_a_mask_of_keys_hides_them_from_every_query(heads, causal):
    layer, x = built(causal=causal), inputs()
    keys = np.random.default_rng(3).random((BATCH, heads or 1, 1, LENGTH)) < 0.6
    mask = keys[:, 0] if heads is None else keys
    outputs, weights = layer(x, attention_mask=mask, return_weights=True)
    every = np.broadcast_to(keys, (BATCH, HEADS, 1, LENGTH))
    wanted = linear_in_numpy(layer, x, lambda b, h, t, s: every[b, h, 0, s] and (s <= t or not causal))
    close(outputs, wanted[0])
    close(weights, wanted[1])


def test_under_causal_no_future_leaks():
    layer, x = built(causal=True), inputs(length=300)
    changed = x.copy()
    changed[:, 140:] = 50.0
    np.testing.assert_array_equal(array(layer(x))[:, :140], array(layer(changed))[:, :140])


def test_permuting_a_sequence_permutes_the_output():
    layer, x = built(), inputs()
    order = np.random.default_rng(1).permutation(LENGTH)
    close(layer(x[:, order]), array(layer(x))[:, order])


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_finite_for_small_and_large_inputs(size, causal):
    found = gradients(
        built(causal=causal), inputs() * np.float32(size), mask=np.array([[True] * 7, [False] * 7])
    )
    assert all(np.isfinite(gradient).all() for gradient in found)


@tensorflow_only
@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_grows_with_the_square_of_the_length(causal):
    import tensorflow as tf

    layer = built(causal=causal)

    def largest(length):
        graph = tf.function(lambda x: layer(x)).get_concrete_function(tf.TensorSpec([1, length, WIDTH])).graph
        shapes = [tensor.shape for operation in graph.get_operations() for tensor in operation.outputs]
        return max(shape.num_elements() or 0 for shape in shapes)

    assert largest(8192) == 2 * largest(4096)


@pytest.mark.parametrize(
    "call",
    [
        {"attention_mask": np.ones((LENGTH, LENGTH), bool)},
        {"valid_lens": np.ones((BATCH, LENGTH), int)},
    ],
)
def test_masks_of_pairs_are_refused_with_the_reason(call):
    with pytest.raises(ValueError, match="never forms the pairs"):
        built()(inputs(), **call)
