"""Probabilities of heads: training goes on at a temperature of one."""

import keras
import numpy as np

from keras_selfattn.models.heads.probabilities import Probabilities


def test_training_goes_on_at_a_temperature_of_one():
    layer = Probabilities("softmax")
    logits = np.array([[2.0, 0.0]], "float32")
    layer(logits)
    layer.temperature.assign(4.0)
    np.testing.assert_allclose(layer(logits), keras.activations.softmax(logits / 4), rtol=1e-6)
    np.testing.assert_allclose(layer(logits, training=True), keras.activations.softmax(logits), rtol=1e-6)
