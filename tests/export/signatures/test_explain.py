"""`explain` of any Keras model: the weights of every attention layer, wherever it stands."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from film_model import load

from keras_selfattn import layers, models
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


@pytest.mark.process
def test_where_pooling_attends_is_explained(tmp_path, unchecked):
    values = keras.Input((None, 6), name="values")
    x = layers.MultiHeadSelfAttention(2, seed=0)(keras.layers.Masking()(values))
    pooling = layers.AttentionPooling(3, seed=1)
    model = keras.Model(values, keras.layers.Dense(1)(pooling(x)))
    signatures, _alive = load(export_saved_model(model, tmp_path))
    array = RANDOM.normal(size=(2, 5, 6)).astype("float32")
    array[1, 3:] = 0
    found = signatures["explain"](values=tf.constant(array))
    inner = keras.Model(values, x)
    _, wanted = pooling(inner(array), mask=(array != 0).any(-1), return_weights=True)
    np.testing.assert_allclose(found["pooling"], wanted, atol=1e-6)
    assert found["pooling"].shape == (2, 3, 5)
    assert np.abs(found["pooling"][1, :, 3:]).max() == 0


def test_several_poolings_are_explained_apart(tmp_path, unchecked):
    values = keras.Input((None, 4), name="values")
    x = layers.MultiHeadSelfAttention(2, seed=0)(values)
    pooled = [layers.AttentionPooling(hops, seed=0)(x) for hops in (2, 3)]
    model = keras.Model(values, keras.layers.Dense(1)(keras.layers.Concatenate()(pooled)))
    signatures, _alive = load(export_saved_model(model, tmp_path))
    found = signatures["explain"](values=tf.zeros([1, 5, 4]))
    assert {name: tuple(w.shape) for name, w in found.items()} == {
        "weights": (1, 1, 2, 5, 5),
        "pooling_0": (1, 2, 5),
        "pooling_1": (1, 3, 5),
    }


@pytest.mark.slow
def test_layers_of_encoders_side_by_side_are_told_apart(tmp_path, unchecked):
    keras.utils.set_random_seed(0)
    config = models.TextConfig(width=8, num_layers=2, num_heads=2, ngram_buckets=64, members=2, wide=False)
    model = models.TextClassifier(config, vocabulary=["good", "film"], labels=["+", "-"])
    signatures, _alive = load(export_saved_model(model, tmp_path))
    found = signatures["explain"](text=tf.constant(["good film", "a", ""]))
    assert found["weights"].shape == (3, 4, 2, 2, 2)
    assert found["encoders"].numpy().tolist() == [[0, 0, 1, 1]] * 3
    ids = tf.constant([[2, 3]])
    # The weights of each encoder are found at its layers, in either order of the encoders.
    several = [model.core, model.core.get_layer("member_2")]
    wanted = [_first_weights(each, ids) for each in several]
    places = [found["weights"][:1, start : start + 2].numpy() for start in (0, 2)]
    apart = [[np.abs(place - one).max() for one in wanted] for place in places]
    assert sorted(np.argmin(apart, axis=1)) == [0, 1]
    assert np.min(apart, axis=1).max() < 1e-6


def _first_weights(encoder, ids):
    positions = keras.Model(encoder.inputs[0], encoder.get_layer("positions").output)
    _, weights = encoder.get_layer("encoder")(positions(ids), mask=ids > 0, return_weights=True)
    return np.stack(weights, axis=1)
