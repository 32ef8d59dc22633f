"""Dropout's random bits: exact in rate, right in variance, alike for alike numbers, unlike for all others."""

import numpy as np
import pytest
from backend import BACKEND

from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.tensorflow import dropout_bits as bits

if BACKEND != "tensorflow":
    pytest.skip("other backends draw from their own generators", allow_module_level=True)

import tensorflow as tf

ROWS, COLUMNS = 2_000, 997
# Of a normal distribution 1 in 15,000 lies further out; the seeds are fixed, so that none of these fails.
FAR = 4.0


def dropped(rate, seed=(3, 5), rows=None, columns=COLUMNS, first=0):
    rows = tf.range(ROWS) if rows is None else rows
    return ~bits.keep_mask(tf.constant(seed), rows, columns, rate, first).numpy()


def correlation(one, other, rate):
    """In deviations of what independent elements would show."""
    centred = (one - rate) * (other - rate)
    return centred.mean() / (rate * (1 - rate)) * np.sqrt(centred.size)


RATES = [0.01, 0.1, 0.25, 1 / 3, 0.5, 0.61, 0.9, 0.99]


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_is_exact(rate):
    found = np.mean([dropped(rate, (7, step)).mean() for step in range(4)])
    assert abs(found - rate) < FAR * np.sqrt(rate * (1 - rate) / (4 * ROWS * COLUMNS))


@pytest.mark.parametrize("rate", RATES)
def test_sums_of_rows_and_columns_vary_as_those_of_independent_elements(rate):
    found = np.stack([dropped(rate, (11, step)) for step in range(4)])
    for axis, count, sums in ((1, ROWS, 4 * COLUMNS), (2, COLUMNS, 4 * ROWS)):
        ratio = found.sum(axis).var() / (count * rate * (1 - rate))
        assert abs(ratio - 1) < FAR * np.sqrt(2 / sums) + 0.015


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_neighbours_steps_and_seeds_are_uncorrelated(rate):
    one = dropped(rate)
    for other, kept in (
        (dropped(rate, (3, 6)), one),  # the next step
        (dropped(rate, (4, 5)), one),  # another layer
        (one[:, 1:], one[:, :-1]),
        (one[:, 4:], one[:, :-4]),
        (one[:, 32:], one[:, :-32]),
        (one[1:], one[:-1]),
        (one[8:], one[:-8]),  # the same head of the next token
    ):
        assert abs(correlation(other, kept, rate)) < FAR


def test_four_elements_of_two_rows_and_columns_are_independent():
    """The keys of rows and columns are combined by exclusive or, which alone would tie these four."""
    signs = 1 - 2.0 * dropped(0.5)
    product = signs[:-1, :-1] * signs[1:, :-1] * signs[:-1, 1:] * signs[1:, 1:]
    assert abs(product.mean()) * np.sqrt(product.size) < FAR


@pytest.mark.slow
def test_every_byte_is_as_frequent():
    frequent = np.array([dropped(level / 256, rows=tf.range(500)).mean() for level in range(1, 256)])
    expected = np.arange(1, 256) / 256
    assert np.abs((frequent - expected) / np.sqrt(expected * (1 - expected) / (500 * COLUMNS))).max() < FAR


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.8])
@pytest.mark.parametrize(("first", "columns"), [(0, 5), (3, 40), (32, 64), (95, 1), (7, 0)])
def test_a_part_is_drawn_like_the_whole(rate, first, columns):
    part = dropped(rate, rows=tf.constant([[5], [1999]]), columns=columns, first=first)
    np.testing.assert_array_equal(part[:, 0], dropped(rate)[[5, 1999], first : first + columns])


@pytest.mark.parametrize("jit", [False, True])
def test_a_compiled_layer_draws_what_an_eager_one_does(jit):
    x = np.ones((3, 7, 45), "float32")
    eager, compiled = Dropout(0.3, seed=1), Dropout(0.3, seed=1)
    run = tf.function(lambda x: compiled(x, training=True), jit_compile=jit)
    for _ in range(2):
        np.testing.assert_allclose(run(x), eager(x, training=True), rtol=1e-6)
