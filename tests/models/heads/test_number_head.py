"""The head of numbers: its loss counts in deviations of the targets."""

import numpy as np

from keras_selfattn.models.heads.number_head import NumbersHead, StandardisedSquaredError


def test_the_loss_counts_in_deviations_of_the_targets():
    head = NumbersHead.from_targets(NumbersHead.read([[1.0, 10.0], [3.0, 10.0]]))
    assert (head.mean, head.deviation) == ([2.0, 10.0], [1.0, 1.0])
    loss = StandardisedSquaredError([2.0, 4.0])
    np.testing.assert_allclose(loss(np.array([[3.0, -4.0]]), np.array([[5.0, 4.0]])), (1 + 4) / 2)
