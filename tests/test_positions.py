"""Position encodings against the formula in high precision, and their contract."""

from functools import partial

import keras
import numpy as np
import pytest
import reference

from keras_selfattn.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_selfattn.layers.positions import sinusoids


def table(length, width, **settings):
    return np.asarray(SinusoidalPositionEncoding(**settings)(np.zeros((1, length, width), "float32")))[0]


@pytest.mark.parametrize("width", [1, 2, 7, 32])
def test_every_cell_is_the_papers_formula(width):
    wanted = [[reference.sinusoid(t, d, width) for d in range(width)] for t in range(61)]
    np.testing.assert_allclose(table(61, width), wanted, atol=1e-6)


def test_the_base_is_the_ratio_of_wavelengths():
    wanted = [[reference.sinusoid(t, d, 6, base=100.0) for d in range(6)] for t in range(11)]
    np.testing.assert_allclose(table(11, 6, base=100.0), wanted, atol=1e-6)


def test_exact_to_a_millionth_up_to_position_one_million():
    positions = np.concatenate([[0, 255, 256, 65_535, 65_536, 999_999, 1_000_000], np.arange(0, 10**6, 9973)])
    width = 24
    frequencies = np.longdouble(10000) ** -(np.arange(0, width, 2).astype(np.longdouble) / width)
    angles = positions[:, None].astype(np.longdouble) * frequencies
    wanted = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), width)
    found = np.asarray(sinusoids(keras.ops.convert_to_tensor(positions, dtype="int32"), width, 10000.0))
    assert np.abs(found - wanted).max() < 1e-6


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_narrow_policies_round_once_at_the_end(policy):
    layer = SinusoidalPositionEncoding(dtype=policy)
    found = layer(np.zeros((1, 4096, 8)))
    exact = keras.ops.cast(keras.ops.convert_to_tensor(table(4096, 8)), layer.compute_dtype)
    np.testing.assert_array_equal(
        np.asarray(keras.ops.cast(found[0], "float32")), np.asarray(keras.ops.cast(exact, "float32"))
    )


def test_adds_to_the_input_and_works_without_knowing_the_length():
    symbolic = keras.Input((None, 6))
    model = keras.Model(symbolic, SinusoidalPositionEncoding()(symbolic))
    for length in (0, 1, 5, 300):
        x = np.full((2, length, 6), 10.0, "float32")
        found = np.asarray(model(x))
        np.testing.assert_allclose(found - x, np.broadcast_to(table(length, 6), x.shape), atol=2e-6)


@pytest.mark.parametrize("layer", [SinusoidalPositionEncoding(), LearnedPositionEncoding(9)])
def test_the_mask_is_kept(layer):
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(np.array([[1, 2, 0]]))
    encoded = layer(embedded)
    np.testing.assert_array_equal(np.asarray(encoded._keras_mask), [[True, True, False]])


@pytest.mark.parametrize("make", [SinusoidalPositionEncoding, lambda **s: LearnedPositionEncoding(50, **s)])
def test_dropout_acts_in_training_only_and_follows_its_seed(make):
    x = np.ones((40, 50, 10), "float32")
    first, second = make(dropout=0.25, seed=3), make(dropout=0.25, seed=3)
    kept = np.asarray(first(x, training=True)) != 0
    np.testing.assert_array_equal(kept, np.asarray(second(x, training=True)) != 0)
    assert abs(kept.mean() - 0.75) < 5 * (0.75 * 0.25 / kept.size) ** 0.5
    plain = np.asarray(first(x))
    trained = np.asarray(make(dropout=0.25, seed=3)(x, training=True))
    np.testing.assert_allclose(trained[kept], plain[kept] / 0.75, rtol=1e-5)
    np.testing.assert_array_equal(plain, np.asarray(first(x, training=False)))


def test_a_learned_encoding_adds_its_rows():
    layer = LearnedPositionEncoding(7)
    x = np.ones((2, 5, 3), "float32")
    found = np.asarray(layer(x))
    np.testing.assert_allclose(found[1] - 1, layer.get_weights()[0][:5], atol=1e-6)


def test_past_max_length_a_learned_encoding_says_both_numbers():
    with pytest.raises(ValueError, match="Received length 8, max_length=7"):
        LearnedPositionEncoding(7)(np.ones((1, 8, 3), "float32"))


def test_past_max_length_inside_a_graph_of_unknown_length_is_an_error_too():
    import tensorflow as tf

    symbolic = keras.Input((None, 3))
    model = keras.Model(symbolic, LearnedPositionEncoding(7)(symbolic))
    traced = tf.function(lambda x: model(x), input_signature=[tf.TensorSpec([None, None, 3])])
    assert traced(tf.zeros([1, 7, 3])).shape == (1, 7, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="8"):
        traced(tf.zeros([1, 8, 3]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(SinusoidalPositionEncoding, base=1.0), "`base` must be greater than 1. Received 1.0"),
        (partial(SinusoidalPositionEncoding, dropout=2), "Received 2"),
        (partial(LearnedPositionEncoding, 0), "`max_length` must be a positive integer. Received 0"),
        (lambda: SinusoidalPositionEncoding()(np.zeros((2, 3), "float32")), "\\[batch, length, features\\]"),
    ],
)
def test_bad_arguments_are_named_with_their_value(make, said):
    with pytest.raises(ValueError, match=said):
        make()
