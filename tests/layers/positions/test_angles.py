"""Angles of positions in high precision, up to the largest position."""

import math
from fractions import Fraction

import keras
import numpy as np
import pytest
from backend import array

from keras_selfattn.layers.positions.angles import sinusoids


def test_exact_to_a_millionth_up_to_position_one_million():
    positions = np.concatenate([[0, 255, 256, 65_535, 65_536, 999_999, 1_000_000], np.arange(0, 10**6, 9973)])
    width = 24
    frequencies = np.longdouble(10000) ** -(np.arange(0, width, 2).astype(np.longdouble) / width)
    angles = positions[:, None].astype(np.longdouble) * frequencies
    wanted = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), width)
    found = array(sinusoids(keras.ops.convert_to_tensor(positions, dtype="int32"), width, 10000.0))
    assert np.abs(found - wanted).max() < 1e-6


@pytest.mark.parametrize("sign", [1, -1])
def test_the_angle_of_any_int32_position_is_exact(sign):
    """Even at 2**31 - 1, against exact rational turns."""
    positions = [0, 1, 2**16, 2**24 + 1, 999_999_937, 2**31 - 1]
    frequency = 10000.0 ** (-2 / 24)
    wanted = [math.sin(float(Fraction(frequency) * p % Fraction(2 * math.pi))) for p in positions]
    tensor = keras.ops.convert_to_tensor([sign * p for p in positions], dtype="int32")
    found = array(sinusoids(tensor, 24, 10000.0))[:, 2]
    # Fraction(2 * pi) is itself off by 2e-16 of a turn's length: 1e-8 here after 2**31 radians.
    np.testing.assert_allclose(found, sign * np.array(wanted), atol=1e-6)
