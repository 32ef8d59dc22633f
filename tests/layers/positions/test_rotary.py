"""Rotary positions against loops in NumPy, and far out."""

import keras
import numpy as np
import pytest
import reference
from backend import array
from samples import built, close, expected, inputs

from keras_selfattn import layers


@pytest.mark.parametrize("base", [10000.0, 7.0])
def test_rotary_positions_turn_pairs_of_features_and_leave_an_odd_last(base):
    layer, x = built(position=layers.RotaryPositions(base)), inputs()
    outputs, weights = layer(x, return_weights=True)
    wanted = expected(layer, x, turn=lambda name, vector, t: reference.rotated(vector, t, base))
    close(outputs, wanted[0])
    close(weights, wanted[1])


def test_rotary_positions_are_exact_far_out():
    """Turned at position one million and back, a vector is itself; in plain float32 it is off by 0.06."""
    strategy, random = layers.RotaryPositions(), np.random.default_rng(0)
    x = keras.ops.convert_to_tensor(random.normal(size=(1, 1, 1, 8)).astype("float32"))
    far = keras.ops.convert_to_tensor(np.array([1_000_000], "int32"))
    turned = array(strategy.rotate(x, far))[0, 0, 0]
    np.testing.assert_allclose(turned, reference.rotated(array(x)[0, 0, 0], 1_000_000), atol=5e-6)
