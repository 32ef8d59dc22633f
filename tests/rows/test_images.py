"""Images as rows are not copied."""

import numpy as np

from keras_selfattn.rows.images import as_images

IMAGES = np.random.default_rng(0).integers(0, 256, (48, 7, 6), "uint8")


def test_images_of_one_array_are_not_copied():
    assert all(np.shares_memory(image, IMAGES) for image in as_images(IMAGES))
    floats = IMAGES.astype("float32")
    assert all(np.shares_memory(image, floats) for image in as_images(floats))
