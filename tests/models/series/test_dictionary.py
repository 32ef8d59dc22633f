"""Wins of kernels in a dictionary: equal kernels share one."""

import numpy as np

from keras_selfattn.models.series.dictionary import wins


def test_equal_kernels_share_a_win_and_nearly_equal_ones_nearly():
    found = np.zeros((1, 1, 8), "float32")
    found[0, 0, :3] = 1.0, 1.0, 0.995
    largest = np.asarray(wins(found, np.ones((1, 1, 1), "float32")))[0, :8]
    np.testing.assert_allclose(largest, [1, 1, (0.5 * 0.995) ** 0.5, 0, 0, 0, 0, 0], atol=1e-4)
