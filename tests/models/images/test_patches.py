"""Patches of images: pixels are bounded, products are the kernel's, images are moved by whole pixels."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.models.images.patches import PatchEmbedding, PixelScaling, RandomShift

RANDOM = np.random.default_rng(0)


def test_pixels_that_are_no_numbers_or_far_off_are_bounded():
    layer = PixelScaling()
    layer.build((None, 1, 4, 1))
    layer.set_weights([np.array([2.0]), np.array([0.5])])
    given = np.array([np.nan, np.inf, 3e38, -3e38, 2.25], "float32").reshape(1, 1, 5, 1)
    np.testing.assert_array_equal(np.ravel(layer(given)), [0, 0, 100, -100, 0.5])


@pytest.mark.parametrize(("height", "width", "patch"), [(4, 6, 2), (5, 3, 2), (1, 1, 3), (7, 11, 4)])
def test_a_patch_is_a_product_of_its_pixels_with_the_kernel(height, width, patch):
    layer = PatchEmbedding(5, patch)
    x = RANDOM.normal(size=(2, height, width, 3)).astype("float32")
    found = np.asarray(layer(x))
    stem = np.asarray(keras.activations.gelu(layer._stem(x)))
    kernel = np.asarray(layer._patches.kernel)
    rows, columns = -(-height // patch), -(-width // patch)
    assert found.shape == (2, rows, columns, 5) == layer.compute_output_shape(x.shape)
    # Padding is split evenly, what is odd goes to the end.
    above, left = (rows * patch - height) // 2, (columns * patch - width) // 2
    padded = np.zeros((2, rows * patch, columns * patch, stem.shape[-1]))
    padded[:, above : above + height, left : left + width] = stem
    for row in range(rows):
        for column in range(columns):
            place = np.s_[:, row * patch : (row + 1) * patch, column * patch : (column + 1) * patch]
            wanted = np.tensordot(padded[place], kernel, axes=3) + np.asarray(layer._patches.bias)
            np.testing.assert_allclose(found[:, row, column], wanted, atol=1e-4)


def test_no_images_are_embedded_to_no_patches_in_a_graph():
    layer = PatchEmbedding(5, 2)
    layer.build((None, 4, 6, 3))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, 4, 6, 3])])
    assert traced(tf.zeros([0, 4, 6, 3])).shape == (0, 2, 3, 5)


def test_an_image_is_moved_by_whole_pixels_in_training_only():
    image = RANDOM.normal(size=(9, 12, 2)).astype("float32")
    x = np.stack([image] * 200)
    layer = RandomShift(1 / 4, seed=3)
    np.testing.assert_array_equal(layer(x), x)
    moves = {}
    for row in range(-2, 3):
        for column in range(-3, 4):
            rows, columns = (np.arange(9) + row).clip(0, 8), (np.arange(12) + column).clip(0, 11)
            moves[image[rows][:, columns].tobytes()] = row, column
    found = [moves[each.tobytes()] for each in np.asarray(layer(x, training=True))]
    assert {row for row, _ in found} == {-2, -1, 0, 1, 2}
    assert {column for _, column in found} == {-3, -2, -1, 0, 1, 2, 3}
    again = np.asarray(RandomShift.from_config(layer.get_config())(x, training=True))
    assert [moves[each.tobytes()] for each in again] == found, "the same seed moves the same"
