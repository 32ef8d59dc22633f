"""Random kernels of several dilations."""

import numpy as np

from keras_selfattn.models.series.dictionary import draw_groups
from keras_selfattn.models.series.random_kernels import dilations_within, draw


def test_kernels_of_several_dilations_are_centred_and_reach_within_the_longest_row():
    for features in (1, 4):
        drawn = draw(200, features, 100, np.random.default_rng(0))
        assert len(drawn) > 4
        assert sum(len(bank.biases) for bank in drawn.values()) == 200
        for dilation, bank in drawn.items():
            assert 8 * dilation < 100
            np.testing.assert_allclose(bank.kernels.reshape(9, features, -1).sum(axis=0), 0, atol=1e-5)
        assert 70 < sum(int(bank.anywhere.sum()) for bank in drawn.values()) < 130
        groups = draw_groups(5, features, np.random.default_rng(0)).reshape(9, features, 5, 8)
        np.testing.assert_allclose(groups.sum(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(np.abs(groups).sum(axis=0).max(axis=0), 1, atol=1e-5)
    assert dilations_within(1).tolist() == dilations_within(9).tolist() == [1]
    assert dilations_within(33).tolist() == [1, 2, 3, 4]
