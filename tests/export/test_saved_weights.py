"""Narrow weights in a file: scales, ranges and rows of zeros."""

import numpy as np


def rounded_to_int8(weight, axis):
    """One scale for each place along an axis, written with loops."""
    moved = np.moveaxis(np.asarray(weight, "float64"), axis, 0)
    found = np.empty_like(moved)
    for place, values in enumerate(moved):
        scale = np.abs(values).max() / 127
        found[place] = np.round(values / scale) * scale if scale else 0
    return np.moveaxis(found, 0, axis)


def test_the_scales_of_int8_are_those_of_the_closer_axis():
    from keras_selfattn.export.saved_weights import _Int8

    # Rows of very different sizes, as those of frequent and rare tokens in an embedding.
    weight = np.random.default_rng(0).normal(size=(64, 32)) * np.logspace(-3, 0, 64)[:, None]
    stored = _Int8(weight.astype("float32"), 0)
    assert stored.stored[1].shape == (64, 1)
    np.testing.assert_allclose(stored.read(), rounded_to_int8(weight, 0), atol=1e-6)
    assert _Int8(weight.T.astype("float32"), 0).stored[1].shape == (1, 64)


def test_weights_beyond_float16_are_cut_and_a_row_of_zeros_stays_zero():
    from keras_selfattn.export.saved_weights import _Float16, _Int8

    weight = np.zeros((32, 32), "float32")
    weight[0, 0], weight[1, 1] = 1e6, -1e6
    assert _Float16(weight, 0).read().numpy()[0, 0] == 65504
    np.testing.assert_array_equal(_Int8(weight, 0).read(), weight)
