"""What every layer promises, tested the same way for all of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import layers

LENGTH, WIDTH = 7, 6

MAKE = {
    "attention": lambda **s: layers.MultiHeadSelfAttention(2, dropout=0.1, seed=1, **s),
    "causal attention": lambda **s: layers.MultiHeadSelfAttention(2, 7, causal=True, use_bias=False, **s),
    "sinusoids": lambda **s: layers.SinusoidalPositionEncoding(dropout=0.1, base=50.0, seed=1, **s),
    "learned positions": lambda **s: layers.LearnedPositionEncoding(11, dropout=0.1, seed=1, **s),
    "block": lambda **s: layers.EncoderBlock(3, 13, dropout=0.1, activation="relu", seed=1, **s),
    "encoder": lambda **s: layers.Encoder(2, 3, dropout=0.1, seed=1, **s),
    "average": lambda **s: layers.AveragePooling(**s),
}
every_layer = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


def inputs(batch=5, length=LENGTH):
    return np.random.default_rng(0).normal(size=(batch, length, WIDTH)).astype("float32")


def masked_model(layer):
    """Ids to the layer's output, as Keras propagates the mask of an embedding."""
    ids = keras.Input((None,), dtype="int32")
    return keras.Model(ids, layer(keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids)))


@every_layer
def test_a_config_round_trip_keeps_every_argument(make):
    layer = make()
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    for other in (layer, again):
        other.build((None, None, WIDTH))
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(np.asarray(again(inputs())), np.asarray(layer(inputs())))


@every_layer
def test_a_saved_model_answers_the_same(make, tmp_path):
    model, ids = masked_model(make()), np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.asarray(again(ids)), np.asarray(model(ids)))


@every_layer
def test_symbolic_and_eager_shapes_agree(make):
    layer = make()
    symbolic = layer(keras.Input((None, WIDTH)))
    assert symbolic.shape == layer.compute_output_shape((None, None, WIDTH))
    assert tuple(layer(inputs()).shape) == layer.compute_output_shape((5, LENGTH, WIDTH))


@every_layer
@pytest.mark.parametrize("length", [0, 1, 11])
def test_graphs_of_unknown_batch_and_length_equal_eager(make, length):
    layer = make()
    layer.build((None, None, WIDTH))
    traced = tf.function(lambda x: layer(x), input_signature=[tf.TensorSpec([None, None, WIDTH])])
    x = inputs(length=length)
    np.testing.assert_allclose(traced(x).numpy(), np.asarray(layer(x)), rtol=1e-5, atol=1e-6)


@every_layer
def test_compiled_by_xla_equals_eager(make):
    layer = make()
    layer.build((None, None, WIDTH))
    compiled = tf.function(lambda x: layer(x), jit_compile=True)
    np.testing.assert_allclose(compiled(inputs()).numpy(), np.asarray(layer(inputs())), rtol=1e-4, atol=1e-5)


@every_layer
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_outputs_are_finite_in_the_policys_dtype(make, policy):
    layer = make(dtype=policy)
    found = layer(inputs())
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    assert np.isfinite(np.asarray(keras.ops.cast(found, "float32"))).all()


@every_layer
def test_gradients_are_finite_with_rows_of_padding_only(make):
    model = masked_model(make())
    ids = np.array([[1, 2, 3, 0], [0, 0, 0, 0]])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(ids, training=True) ** 2)
    gradients = tape.gradient(total, model.trainable_variables)
    assert all(np.isfinite(tf.convert_to_tensor(gradient).numpy()).all() for gradient in gradients)
    # The embedding table learns: the layer passes gradients on.
    assert np.abs(tf.convert_to_tensor(gradients[0]).numpy()).sum() > 0


@every_layer
def test_training_runs_in_fit(make):
    ids = keras.Input((None,), dtype="int32")
    x = make()(keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids))
    if len(x.shape) == 3:
        x = layers.AveragePooling()(x)
    model = keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    random = np.random.default_rng(0)
    history = model.fit(random.integers(0, 9, (32, 7)), random.integers(0, 2, 32), verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_returned_weights_have_a_symbolic_shape_and_work_in_a_functional_model():
    symbolic = keras.Input((None, WIDTH))
    lens = keras.Input((), dtype="int32")
    layer = layers.MultiHeadSelfAttention(2)
    outputs, weights = layer(symbolic, valid_lens=lens, return_weights=True)
    assert outputs.shape == (None, None, WIDTH)
    assert weights.shape == (None, 2, None, None)
    found = keras.Model([symbolic, lens], [outputs, weights])([inputs(), np.array([1, 1, 1, 1, 1])])
    np.testing.assert_array_equal(np.asarray(found[1])[0, :, :, 1:], 0)


def test_the_quickstart_of_a_keras_user_trains():
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 16, mask_zero=True)(inputs)
    x = layers.SinusoidalPositionEncoding(dropout=0.1)(x)
    x = layers.MultiHeadSelfAttention(num_heads=8, dropout=0.1)(x)
    x = layers.AveragePooling()(x)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(x))
    keras.utils.set_random_seed(0)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    ids = np.random.default_rng(0).integers(1, 20, (256, 6))
    history = model.fit(ids, ids[:, 0] % 4 * 0 + (ids > 10).any(1), epochs=8, verbose=0).history
    assert history["accuracy"][-1] > 0.9
