"""Normalisation of few and many tokens, beside Keras' own."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array

from keras_selfattn.layers.norm import make_norm

if BACKEND != "tensorflow":
    pytest.skip("graphs are TensorFlow's", allow_module_level=True)


WIDTH = 16


@pytest.mark.parametrize("policy", ["float32", "float64", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("many", [False, True])
def test_normalisation_of_few_and_many_tokens_is_keras(policy, many):
    ours, theirs = (
        make_norm("layer", policy, "norm"),
        keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy),
    )
    x = keras.ops.cast(3 + 2 * np.random.default_rng(0).normal(size=(7, WIDTH)), ours.compute_dtype)
    for norm in (ours, theirs):
        norm.build((None, WIDTH))
        norm.set_weights([np.linspace(0.5, 2, WIDTH), np.linspace(-1, 1, WIDTH)])
    found, wanted = ours(x, many=many), theirs(x)
    assert found.dtype == wanted.dtype
    tolerance = {"float32": 2e-6, "float64": 1e-12}.get(policy, 0.01)
    np.testing.assert_allclose(array(found), array(wanted), rtol=tolerance, atol=tolerance)
