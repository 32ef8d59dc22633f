"""The position encoding of grids against the formula in a loop, and its contract."""

import inspect

import keras
import numpy as np
import pytest
import reference
from backend import array, compiled, gradients, tensorflow_only

from keras_selfattn.layers import SinusoidalPositionEncoding2D


def table(height, width, features, **settings):
    zeros = np.zeros((1, height, width, features), "float32")
    return array(SinusoidalPositionEncoding2D(**settings)(zeros))[0]


def loops(height, width, features, base=10000.0):
    first = (features + 1) // 2
    found = np.zeros((height, width, features))
    for row in range(height):
        for column in range(width):
            for d in range(features):
                place, d_of, wide = (row, d, first) if d < first else (column, d - first, features - first)
                found[row, column, d] = reference.sinusoid(place, d_of, wide, base)
    return found


@pytest.mark.parametrize("features", [1, 2, 3, 5, 8, 22])
def test_every_cell_is_the_formula_of_its_row_and_its_column(features):
    np.testing.assert_allclose(table(13, 7, features), loops(13, 7, features), atol=1e-6)


def test_the_base_is_the_ratio_of_wavelengths():
    np.testing.assert_allclose(table(3, 11, 6, base=100.0), loops(3, 11, 6, base=100.0), atol=1e-6)


def test_cells_far_out_are_exact_too():
    found = table(2, 5003, 4)[1, -1]
    np.testing.assert_allclose(found, loops(2, 5003, 4)[1, -1], atol=1e-6)


@pytest.mark.parametrize("policy", ["float16", "mixed_float16", "mixed_bfloat16"])
def test_narrow_policies_round_once_at_the_end(policy):
    layer = SinusoidalPositionEncoding2D(dtype=policy)
    found = layer(np.zeros((1, 300, 2, 6)))
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    exact = keras.ops.cast(keras.ops.convert_to_tensor(table(300, 2, 6)), layer.compute_dtype)
    np.testing.assert_array_equal(array(found)[0], array(exact))


def test_adds_to_the_input_and_works_without_knowing_height_or_width():
    symbolic = keras.Input((None, None, 6))
    model = keras.Model(symbolic, SinusoidalPositionEncoding2D()(symbolic))
    assert model.output_shape == (None, None, None, 6)
    for height, width in ((1, 1), (5, 3), (2, 61)):
        x = np.full((2, height, width, 6), 10.0, "float32")
        wanted = np.broadcast_to(table(height, width, 6), x.shape)
        np.testing.assert_allclose(array(model(x)) - x, wanted, atol=2e-6)


@pytest.mark.parametrize("shape", [(0, 3, 5, 6), (2, 0, 5, 6), (2, 3, 0, 6)])
def test_a_grid_without_cells_stays_one(shape):
    assert tuple(SinusoidalPositionEncoding2D()(np.zeros(shape, "float32")).shape) == shape


def test_compiled_as_a_whole_equals_eager():
    layer, x = SinusoidalPositionEncoding2D(), np.ones((2, 3, 5, 7), "float32")
    wanted = array(layer(x))
    np.testing.assert_allclose(compiled(layer, x), wanted, atol=1e-5)


def test_the_gradient_passes_through_as_it_is():
    layer, x = SinusoidalPositionEncoding2D(), np.ones((2, 3, 5, 7), "float32")
    layer.build(x.shape)
    (found,) = gradients(layer, x, keras.ops.sum)
    np.testing.assert_array_equal(found, np.ones((2, 3, 5, 7)))


def test_dropout_acts_in_training_only_and_follows_its_seed():
    x = np.ones((40, 5, 10, 10), "float32")
    first, second = (SinusoidalPositionEncoding2D(dropout=0.25, seed=3) for _ in range(2))
    trained = array(first(x, training=True))
    np.testing.assert_array_equal(trained, array(second(x, training=True)))
    plain, kept = array(first(x)), trained != 0
    assert abs(kept.mean() - 0.75) < 5 * (0.75 * 0.25 / kept.size) ** 0.5
    np.testing.assert_allclose(trained[kept], plain[kept] / 0.75, rtol=1e-5)


def test_by_default_training_drops_nothing():
    zeros, layer = np.zeros((1, 3, 5, 8), "float32"), SinusoidalPositionEncoding2D()
    np.testing.assert_array_equal(array(layer(zeros, training=True)), array(layer(zeros)))


def test_a_config_and_a_file_bring_it_back(tmp_path):
    layer = SinusoidalPositionEncoding2D(0.25, base=50.0, seed=3)
    again = SinusoidalPositionEncoding2D.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    own = set(inspect.signature(SinusoidalPositionEncoding2D).parameters) - {"kwargs"}
    assert own <= set(layer.get_config())
    symbolic = keras.Input((None, 3, 5))
    model = keras.Model(symbolic, layer(symbolic))
    model.save(tmp_path / "model.keras")
    x = np.ones((2, 7, 3, 5), "float32")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(x)), array(model(x)))


@tensorflow_only
def test_a_graph_of_unknown_sizes_equals_eager():
    import tensorflow as tf

    layer = SinusoidalPositionEncoding2D()
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, None, None, 5])])
    for shape in ((0, 2, 3, 5), (2, 1, 7, 5), (1, 11, 3, 5)):
        x = np.ones(shape, "float32")
        np.testing.assert_allclose(traced(x).numpy(), array(layer(x)), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SinusoidalPositionEncoding2D(base=1.0), "`base` must be .* Received 1.0"),
        (lambda: SinusoidalPositionEncoding2D(dropout=2), "Received 2"),
        (lambda: SinusoidalPositionEncoding2D(seed=-1), "Received -1"),
        (
            lambda: SinusoidalPositionEncoding2D()(np.zeros((2, 3, 4), "float32")),
            r"\[batch, height, width, features\].* Received shape \(2, 3, 4\)",
        ),
    ],
)
def test_bad_arguments_are_named_with_what_was_received(make, said):
    with pytest.raises(ValueError, match=said):
        make()
