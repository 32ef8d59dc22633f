"""Layers of frames: standardising, differences, patches and windows against NumPy."""

import keras
import numpy as np

from keras_selfattn.models.series.frame_layers import (
    FramePositions,
    Frames,
    last_values,
    patches,
    window_counts,
)

NAN = float("nan")


def test_frames_are_standardised_by_what_is_known():
    layer = Frames()
    layer.learn([np.array([[1.0, 5.0], [3.0, NAN]], "float32"), np.array([[2.0, 5.0]], "float32")])
    np.testing.assert_allclose(layer.mean, [2.0, 5.0])
    np.testing.assert_allclose(layer.deviation, [np.sqrt(2 / 3), 1.0], rtol=1e-6)
    rows = np.array([[[2.0, 6.0], [NAN, 5.0], [NAN, NAN]]], "float32")
    np.testing.assert_allclose(layer(rows)[0], [[0, 1], [0, 0], [0, 0]], atol=1e-6)
    assert np.asarray(layer.compute_mask(rows)).tolist() == [[True, True, False]]


def test_relative_frames_are_those_less_the_last_known_value():
    layer = Frames(relative=True)
    layer.build((None, None, 2))
    rows = np.array([[[1.0, 9.0], [4.0, NAN], [NAN, NAN]]], "float32")
    np.testing.assert_allclose(last_values(rows), [[4.0, 9.0]])
    np.testing.assert_allclose(layer(rows)[0], [[-3, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(layer(rows + 1000)[0], layer(rows)[0], atol=1e-4)


def test_patches_multiply_as_a_convolution_does():
    random = np.random.default_rng(0)
    x, kernel = random.normal(size=(2, 11, 3)).astype("f"), random.normal(size=(5, 3, 7)).astype("f")
    for dilation in (1, 2, 3):
        wanted = keras.ops.conv(x, kernel, padding="same", dilation_rate=dilation)
        found = keras.ops.matmul(patches(x, 5, dilation), kernel.reshape(15, 7))
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_windows_count_their_real_frames_and_average_them_alone():
    real = np.array([[1, 1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0]], bool)
    assert np.asarray(window_counts(real, 3)).tolist() == [[3, 1, 0], [1, 0, 0]]
    assert np.asarray(window_counts(real, 1)).tolist() == real.astype(int).tolist()
    layer = FramePositions(4, kernel_size=3, stride=3)
    x = np.random.default_rng(0).normal(size=(2, 7, 2)).astype("f")
    found = np.asarray(layer(x, mask=real))
    changed = np.where(real[:, :, None], x, 99.0).astype("f")
    np.testing.assert_array_equal(layer(changed, mask=real), found, err_msg="masked frames count for nothing")
    assert (found[1, 1:] == 0).all()
    np.testing.assert_allclose(layer(x[1:, :1], mask=real[1:, :1])[0, 0], found[1, 0], atol=1e-6)
