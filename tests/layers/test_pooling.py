"""Pooling against means, maxima and formulas by hand."""

import keras
import numpy as np
import pytest
from backend import array
from formulas import attention_pooling_in_numpy

from keras_selfattn.layers import AttentionPooling, AveragePooling, FirstTokenPooling, MaxPooling

BATCH, LENGTH, WIDTH = 3, 5, 14
EVERY = [AveragePooling, MaxPooling, FirstTokenPooling, lambda **s: AttentionPooling(2, **s)]


def inputs(seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


MASK = np.array([[False, True, False, True, False], [True] * 5, [True, True, False, False, False]])


def test_the_average_is_of_real_tokens_only():
    x = inputs()
    wanted = [(x[0, 1] + x[0, 3]) / 2, x[1].mean(0), x[2, :2].mean(0)]
    np.testing.assert_allclose(array(AveragePooling()(x, mask=MASK)), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(array(AveragePooling()(x)), x.mean(1), rtol=1e-5, atol=1e-6)


def test_the_maximum_is_of_real_tokens_only():
    x = inputs() - 10  # all negative, so that a zero of padding would win
    wanted = [np.maximum(x[0, 1], x[0, 3]), x[1].max(0), x[2, :2].max(0)]
    np.testing.assert_array_equal(array(MaxPooling()(x, mask=MASK)), wanted)
    np.testing.assert_array_equal(array(MaxPooling()(x)), x.max(1))


def test_the_first_token_is_the_first_real_one():
    x = inputs()
    np.testing.assert_array_equal(array(FirstTokenPooling()(x, mask=MASK)), [x[0, 1], x[1, 0], x[2, 0]])
    np.testing.assert_array_equal(array(FirstTokenPooling()(x)), x[:, 0])


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("noise", [np.nan, np.inf])
def test_padding_alone_is_zero_whatever_it_holds(make, noise):
    x = np.full((2, 3, 4), noise, "float32")
    found = array(make()(x, valid_lens=np.array([0, 0])))
    np.testing.assert_array_equal(found, np.zeros_like(found))
    assert (array(make()(np.zeros((2, 0, 4), "float32"))) == 0).all()


def test_half_precision_sums_in_single():
    x = np.full((1, 4000, 1), 60.0)
    assert float(AveragePooling(dtype="float16")(x)[0, 0]) == 60.0


@pytest.mark.parametrize("make", EVERY)
def test_lengths_of_rank_two_are_refused(make):
    with pytest.raises(ValueError, match=r"must have shape \[batch\]\. Received \(3, 5\)"):
        make()(inputs(), valid_lens=np.ones((3, 5), int))


def randomised(**settings):
    layer = AttentionPooling(3, 7, **settings)
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) for w in layer.weights])
    return layer


def test_attention_pooling_is_the_papers_formula():
    layer, x = randomised(), inputs()
    pooled, weights = layer(x, mask=MASK, return_weights=True)
    wanted = attention_pooling_in_numpy(x, *layer.get_weights(), MASK)
    np.testing.assert_allclose(array(pooled), wanted[0].reshape(BATCH, -1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(weights), wanted[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(array(layer(x)), array(layer(x, mask=np.ones_like(MASK))), rtol=1e-5)


def test_the_penalty_is_the_squared_distance_of_the_hops_overlap_from_one():
    layer, x = randomised(penalty=0.3), inputs()
    weights = array(layer(x, mask=MASK, return_weights=True)[1])
    assert layer.losses == []
    layer(x, mask=MASK, training=True)
    overlap = [((a @ a.T - np.eye(3)) ** 2).sum() for a in weights]
    np.testing.assert_allclose(array(layer.losses[0]), 0.3 * np.mean(overlap), rtol=1e-5)


def test_hops_and_hidden_layer_start_differently_by_seed():
    first, second = AttentionPooling(WIDTH, seed=1), AttentionPooling(WIDTH, seed=1)
    for layer in (first, second):
        layer.build((None, None, WIDTH))
    assert not np.allclose(*first.get_weights())
    np.testing.assert_array_equal(first.get_weights()[0], second.get_weights()[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hops": 0}, "`hops` must be a positive integer. Received 0"),
        ({"hidden_dim": 1.5}, "`hidden_dim` must be a positive integer. Received 1.5"),
        ({"penalty": -1}, "`penalty` must be a finite number that is not negative. Received -1"),
    ],
)
def test_bad_arguments_are_named_with_their_value(settings, said):
    with pytest.raises(ValueError, match=said):
        AttentionPooling(**settings)


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
def test_symbolic_outputs_have_the_dtype_of_the_values(policy):
    layer = AttentionPooling(2, dtype=policy)
    for spec in layer(keras.Input((LENGTH, WIDTH)), return_weights=True):
        assert spec.dtype == layer.compute_dtype


def test_the_pooled_vector_has_no_mask():
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(np.array([[1, 2, 0]]))
    assert getattr(MaxPooling()(embedded), "_keras_mask", None) is None
