"""Packing of tokens, of no positions too."""

import pytest
import tensorflow as tf
from backend import BACKEND, array

from keras_selfattn.layers.tensorflow import packing

if BACKEND != "tensorflow":
    pytest.skip("tokens are packed on TensorFlow only", allow_module_level=True)


@pytest.mark.parametrize("gaps", [False, True])
def test_of_no_positions_no_sample_has_a_token(gaps):
    tokens = packing.PackedTokens(tf.zeros([3, 0, 2]), tf.ones([3, 0], tf.bool), gaps=gaps, from_zero=gaps)
    assert (int(tokens.samples), array(tokens.spans).tolist()) == (0, [0, 0, 0])
