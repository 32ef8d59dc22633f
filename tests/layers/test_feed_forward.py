"""The feed-forward network: its activation in half precision."""

import math

import keras
import numpy as np
import pytest
from backend import BACKEND, array

from keras_selfattn.layers.feed_forward import _gelu


@pytest.mark.skipif(BACKEND != "jax", reason="elsewhere it is Keras' own")
@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 8), ("float16", 11)])
def test_gelu_in_half_precision_is_rounded_once(dtype, bits):
    x = keras.ops.cast(np.linspace(-4, 4, 999), dtype)
    exact = array(x).astype("float64")
    exact = exact * np.array([1 + math.erf(each / 2**0.5) for each in exact]) / 2
    error = np.abs(array(_gelu(x)) - exact)
    assert (error <= np.abs(exact) * 2.0**-bits + 1e-6).all()
