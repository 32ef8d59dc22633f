"""Dropout's random bits: exact in rate, right in variance, alike for alike numbers, unlike for all others."""

import zlib

import numpy as np
import pytest
from backend import BACKEND, array, tensorflow_only

from keras_selfattn.layers import dropout
from keras_selfattn.layers.dropout import Dropout

if BACKEND == "torch":
    pytest.skip("PyTorch draws from its own generator", allow_module_level=True)

KEEP_MASK = dropout._KEEP_MASKS[BACKEND]

ROWS, COLUMNS = 2_000, 997
# Of a normal distribution 1 in 15,000 lies further out; the seeds are fixed, so that none of these fails.
FAR = 4.0


def dropped(rate, seed=(3, 5), rows=None, columns=COLUMNS, first=0):
    rows = np.arange(ROWS, dtype="int32") if rows is None else rows
    return ~array(KEEP_MASK(np.array(seed, "int32"), rows, columns, rate, first))


def correlation(one, other, rate):
    """In deviations of what independent elements would show."""
    centred = (one - rate) * (other - rate)
    return centred.mean() / (rate * (1 - rate)) * np.sqrt(centred.size)


# Bits of JAX are compiled for each rate, and are those of TensorFlow.
RATES = [0.1, 0.61] if BACKEND == "jax" else [0.01, 0.1, 0.25, 1 / 3, 0.5, 0.61, 0.9, 0.99]


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


@pytest.fixture
def untraced():
    """Bits drawn without a graph: that of each rate would be traced for one drawing."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.slow
@tensorflow_only
@pytest.mark.usefixtures("untraced")
def test_every_byte_is_as_frequent():
    frequent = np.array(
        [dropped(level / 256, rows=np.arange(500, dtype="int32")).mean() for level in range(1, 256)]
    )
    expected = np.arange(1, 256) / 256
    assert np.abs((frequent - expected) / np.sqrt(expected * (1 - expected) / (500 * COLUMNS))).max() < FAR


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.8])
@pytest.mark.parametrize(("first", "columns"), [(0, 5), (3, 40), (32, 64), (95, 1), (7, 0)])
def test_a_part_is_drawn_like_the_whole(rate, first, columns):
    part = dropped(rate, rows=np.array([[5], [1999]], "int32"), columns=columns, first=first)
    np.testing.assert_array_equal(part[:, 0], dropped(rate)[[5, 1999], first : first + columns])


# Of both backends, each of which computed them by itself.
CHECKSUMS = {0.001: 0x28CA70DF, 0.1: 0xC6ECF663, 0.5: 0xB3B21673, 0.61: 0x76A31928, 0.9: 0x30EC98A2}


@pytest.mark.parametrize(("rate", "crc"), CHECKSUMS.items())
def test_every_backend_drops_the_same_elements(rate, crc):
    found = dropped(rate, (5, 2**31 - 1), np.array([[0, 7], [2**20, 2**31 - 1]], "int32"), 300, 3)
    assert zlib.crc32(np.packbits(found).tobytes()) == crc


@tensorflow_only
@pytest.mark.parametrize("jit", [False, True])
def test_a_compiled_layer_draws_what_an_eager_one_does(jit):
    import tensorflow as tf

    x = np.ones((3, 7, 45), "float32")
    eager, compiled = Dropout(0.3, seed=1), Dropout(0.3, seed=1)
    run = tf.function(lambda x: compiled(x, training=True), jit_compile=jit)
    for _ in range(2):
        np.testing.assert_allclose(run(x), eager(x, training=True), rtol=1e-6)
