"""Worked examples, number by number."""

import numpy as np
import pytest
from backend import array

from keras_selfattn.layers import (
    BucketedBias,
    LinearSelfAttention,
    MultiHeadSelfAttention,
    SinusoidalPositionEncoding,
)
from keras_selfattn.layers.positions.relative import alibi_slopes


def test_worked_example_with_matrices_by_hand():
    """Inputs and matrices from a lecture: q1 = (3, 3, 2), unscaled scores 16, 20, 41, 37."""
    x = np.array([[[1, 0, 1], [1, 2, 0], [3, 1, 1], [2, 1, 2]]], "float32")
    key = np.array([[1, 0, 1], [1, 1, 1], [2, 1, 0]], "float32")
    query = np.array([[3, 2, 0], [1, 1, 2], [2, 1, 0]], "float32")
    np.testing.assert_array_equal(query @ x[0, 0], [3, 3, 2])
    np.testing.assert_array_equal(x[0] @ key.T, [[2, 2, 2], [1, 3, 4], [4, 5, 7], [4, 5, 5]])
    layer = MultiHeadSelfAttention(1, scale=1.0, use_bias=False)
    layer.build((None, None, 3))
    eye = np.eye(3, dtype="float32")
    layer.set_weights([np.concatenate([query.T, key.T, eye], axis=1), eye])
    outputs, weights = layer(x, return_weights=True)
    scores = np.exp(np.array([16, 20, 41, 37.0]) - 41)
    np.testing.assert_allclose(array(weights)[0, 0, 0], scores / scores.sum(), rtol=1e-6)
    np.testing.assert_allclose(array(outputs)[0, 0], scores @ x[0] / scores.sum(), rtol=1e-6)


def test_batch_2_length_4_width_100_and_5_heads_of_ones_keep_their_shape_and_ignore_what_lies_behind():
    layer, x = MultiHeadSelfAttention(5), np.ones((2, 4, 100), "float32")
    outputs = array(layer(x, valid_lens=np.array([3, 2])))
    assert outputs.shape == (2, 4, 100)
    changed = x.copy()
    changed[0, 3:] = 1e6
    changed[1, 2:] = np.nan
    np.testing.assert_array_equal(array(layer(changed, valid_lens=np.array([3, 2]))), outputs)
    assert (outputs[0, 3:] == 0).all()
    assert (outputs[1, 2:] == 0).all()
    np.testing.assert_allclose(outputs[0, :3], np.broadcast_to(outputs[1, 0], (3, 100)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("position", "column", "value"),
    [
        (0, 0, 0.0),
        (0, 1, 1.0),
        (1, 0, 0.8414709848),  # sin 1
        (1, 1, 0.5403023059),  # cos 1
        (3, 0, 0.1411200081),  # sin 3
        (59, 6, -0.8757902465),  # sin(59 / 10000 ** (6 / 32))
        (59, 31, 0.9999449611),  # cos(59 / 10000 ** (30 / 32))
    ],
)
def test_cells_of_the_sinusoid_of_width_32(position, column, value):
    table = array(SinusoidalPositionEncoding()(np.zeros((1, 60, 32), "float32")))[0]
    assert abs(table[position, column] - value) < 1e-6


def test_alibi_slopes_of_eight_and_of_six_heads():
    """Press et al., section 3: 1/2 ... 1/256 for 8 heads; for 6 those of 4 and every second of 8."""
    np.testing.assert_allclose(alibi_slopes(8), [2.0**-h for h in range(1, 9)])
    np.testing.assert_allclose(alibi_slopes(6), [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3])


def test_t5_buckets_of_the_paper():
    """A direction has 8 exact buckets, then ones from 8, 11.3, 16, 22.6, 32, 45.3, 64 and 90.5 on."""
    strategy = BucketedBias()
    assert [
        strategy.bucket(-d, causal=False) for d in (0, 1, 7, 8, 12, 16, 23, 32, 46, 64, 91, 128, 999)
    ] == [*(0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15)]
    assert strategy.bucket(1, causal=False) == 17
    assert strategy.bucket(5, causal=True) == 0
    assert strategy.bucket(-15, causal=True) == 15


def test_linear_attention_of_two_tokens_by_hand():
    """phi(0) = 1, phi(1) = 2, phi(-1) = 1/e: query 1 meets keys 0 and -1 with 2 and 2/e."""
    layer = LinearSelfAttention(1, use_bias=False)
    layer.build((None, None, 1))
    layer.set_weights([np.array([[1.0, -1.0, 1.0]]), np.array([[1.0]])])
    outputs, weights = layer(np.array([[[0.0], [1.0]]], "float32"), return_weights=True)
    wanted = np.array([1, np.exp(-1)]) / (1 + np.exp(-1))
    np.testing.assert_allclose(array(weights)[0, 0], [wanted, wanted], rtol=1e-6)
    np.testing.assert_allclose(array(outputs)[0, :, 0], [wanted[1], wanted[1]], rtol=1e-6)
