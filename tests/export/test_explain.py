"""`explain` of any Keras model: the weights of every attention layer, wherever it stands."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from film_model import load

from keras_selfattn import layers
from keras_selfattn.export import export_saved_model

RANDOM = np.random.default_rng(0)


@pytest.mark.process
def test_layers_with_other_heads_are_explained_apart(tmp_path, unchecked):
    values = keras.Input((None, 6), name="values")
    x = layers.MultiHeadSelfAttention(2, seed=0)(values)
    x = layers.EncoderBlock(3, seed=0)(x)
    model = keras.Model(values, keras.layers.Dense(1)(layers.AveragePooling()(x)))
    signatures, _alive = load(export_saved_model(model, tmp_path))
    answer = signatures["explain"](values=tf.zeros([1, 4, 6]))
    assert {name: tuple(w.shape) for name, w in answer.items()} == {
        "weights_0": (1, 2, 4, 4),
        "weights_1": (1, 3, 4, 4),
    }


@pytest.mark.process
def test_layers_of_other_lengths_are_explained_apart(tmp_path, unchecked):
    values = keras.Input((None, 8), name="values")
    x = keras.layers.MaxPooling1D(2)(layers.MultiHeadSelfAttention(2, seed=0)(values))
    x = layers.AveragePooling()(layers.MultiHeadSelfAttention(2, seed=1)(x))
    signatures, _alive = load(export_saved_model(keras.Model(values, keras.layers.Dense(1)(x)), tmp_path))
    answer = signatures["explain"](values=tf.zeros([1, 6, 8]))
    assert {name: tuple(w.shape) for name, w in answer.items()} == {
        "weights_0": (1, 2, 6, 6),
        "weights_1": (1, 2, 3, 3),
    }


def test_weights_that_a_model_asks_for_itself_stay_its_own(tmp_path, unchecked):
    values = keras.Input((None, 8), name="values")
    attention = layers.MultiHeadSelfAttention(2, seed=0)
    x, weights = attention(values, return_weights=True)
    outputs = {"y": layers.AveragePooling()(x), "w": weights}
    path = export_saved_model(keras.Model(values, outputs), tmp_path)
    signatures, _alive = load(path)
    array = RANDOM.normal(size=(2, 3, 8)).astype("float32")
    found = signatures["explain"](values=tf.constant(array))["weights"]
    answer = signatures["serving_default"](values=tf.constant(array))
    np.testing.assert_allclose(found[:, 0], answer["w"], atol=1e-6)


@pytest.mark.process
def test_an_attention_layer_in_two_places_is_collected_where_it_runs(tmp_path, unchecked):
    shared = layers.MultiHeadSelfAttention(2, seed=0)
    parts = []
    for _ in range(2):
        inner = keras.Input((None, 8))
        parts.append(keras.Model(inner, shared(inner)))
    values = keras.Input((None, 8), name="values")
    model = keras.Model(values, layers.AveragePooling()(parts[1](parts[0](values))))
    signatures, _alive = load(export_saved_model(model, tmp_path))
    assert signatures["explain"](values=tf.zeros([1, 3, 8]))["weights"].shape == (1, 2, 2, 3, 3)
    assert "call" not in vars(shared)
