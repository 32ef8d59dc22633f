"""A classifier of images as sequences of patches.

Axes: B (batch), H (height), W (width), C (channels), R and Q (rows and columns of patches), T (patches), D
(features).
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.classifier import Classifier, class_head
from keras_selfattn.models.config import ImageConfig
from keras_selfattn.models.core.encoder_core import encoder, pooled
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.images.patches import PatchEmbedding, PixelScaling, RandomShift, mean_and_deviation
from keras_selfattn.rows.images import IMAGES, size_named

Tensor = Any

# More patches than this cost more than they gain, up to the largest patch.
_PATCHES = 64
_LARGEST_PATCH = 16
# Images in all passes of a training together.
_IMAGES_IN_ALL = 60_000
_MANY = 1000
# The largest shift of an image in training, as a share of its side: 2 pixels of 28, and sometimes 1 of 8.
_SHIFT = 1 / 12


@keras.saving.register_keras_serializable(package="keras_selfattn")
class ImageClassifier(Classifier):
    """Self-attention classifier that takes images in `fit`, `predict` and `evaluate`.

    An image is `[height, width]` or `[height, width, channels]` with 1 or 3 channels; images come in a list
    or as one array. The first `fit` learns size, mean and deviation of the pixels and the label names from
    its images (or call `adapt`); they are saved in the `.keras` file. Training images have one size; later
    images of another size are resized to it. Pixels must keep their training range: a model of bytes, 0 to
    255, misreads 0 to 1. If labels of the first `fit` are lists, not all of one, rows can have several
    labels, or none. `compile()` without arguments sets Adam, cross-entropy and accuracy.

    Args:
        config: the model's settings; an `ImageConfig` or the dict of one.
        image_shape: height, width and channels; left out before training.
        byte_pixels: True if the training images were uint8; left out before training.
        labels: label names in the order of the classes; left out before training.
        multi_label: True if a row can have several labels; by default the labels of the first `fit` decide.

    Call arguments:
        inputs: numbers `[batch, height, width, channels]` of the training size.
        training: dropout and random changes act only if True.

    Returns:
        Probabilities, float32 `[batch, classes]`: they sum to 1 unless a row can have several labels.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a classifier.

    Example:

        >>> model = ImageClassifier(ImageConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> black, white = np.zeros((8, 8), "uint8"), np.full((8, 8), 255, "uint8")
        >>> _ = model.fit([black, white] * 8, ["night", "snow"] * 8, epochs=1, verbose=0)
        >>> model.labels, model.predict([white], verbose=0).shape
        (['night', 'snow'], (1, 2))

    Reference: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1; Xiao et al. 2021, "Early
    Convolutions Help Transformers See Better" (the convolution before the patches); Beyer et al. 2022,
    "Better plain ViT baselines for ImageNet-1k" (fixed positions, average pooling).
    """

    config_type = ImageConfig
    row_kind = IMAGES
    learns = "size, mean and deviation of the pixels, and the label names,"
    returns = "a probability for each label"

    def advised_training(self, rows: int) -> dict[str, Any]:
        # The number of steps counts: many passes over few images, few over many.
        epochs = int(np.clip(_IMAGES_IN_ALL // max(1, rows), 10, 200))
        return {
            "epochs": epochs,
            "batch_size": 64 if rows >= _MANY else 16,
            # The few validation rows of a small set are noisy at any single epoch.
            "patience": epochs // 2,
            "learning_rate": 2e-3,
            "weight_decay": 0.05,
            "label_smoothing": 0.1,
        }

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"augment": not self.config.augment},
            {"dropout": 0.3},
            {"num_layers": 4},
            {"learning_rate": 1e-3},
            {"width": 192},
            {"patch_size": 4},
        ]

    def __init__(
        self,
        config: ImageConfig | dict[str, Any] | None = None,
        *,
        image_shape: Sequence[int] | None = None,
        byte_pixels: bool = False,
        labels: Sequence[str] | None = None,
        multi_label: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, multi_label=multi_label, **kwargs)
        self.image_shape: tuple[int, ...] | None = None
        self.byte_pixels = byte_pixels
        if (image_shape is None) != (labels is None):
            raise ConfigError("`image_shape` and `labels` go together. Received one without the other.")
        if image_shape is not None and labels is not None:
            self.image_shape = tuple(image_shape)
            self._assemble(class_head(labels, multi_label=multi_label))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.core(inputs, training=training)

    def get_config(self) -> dict[str, Any]:
        shape = None if self.image_shape is None else list(self.image_shape)
        return {**super().get_config(), "image_shape": shape, "byte_pixels": self.byte_pixels}

    def _learn_front_end(self, rows: Rows) -> None:
        first = rows.inputs[0].shape
        for row, image in enumerate(rows.inputs):
            if image.shape != first:
                raise DataError(
                    f"Image {row} (counted from 0) is {size_named(image.shape)}, the first is "
                    f"{size_named(first)}. Give training images of one size."
                )
        self.image_shape = first
        self.byte_pixels = all(image.dtype == np.uint8 for image in rows.inputs)
        self._scale = mean_and_deviation(rows.inputs)

    def _features(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        height, width, channels = self.image_shape or (0, 0, 0)
        for row, image in enumerate(inputs):
            if image.shape[-1] != channels:
                raise DataError(
                    f"Image {row} (counted from 0) is {size_named(image.shape)}. The model was trained on "
                    f"images of {size_named((height, width, channels))}."
                )
        found = [
            image if image.shape == self.image_shape else np.asarray(resized(image, height, width))
            for image in inputs
        ]
        if len({image.dtype for image in found}) > 1:
            found = [image.astype(np.float32, copy=False) for image in found]
        return found

    def _build_core(self, head: Head) -> keras.Model:
        config, policy = self.config, self.dtype_policy
        height, width, _ = shape = self.image_shape or (0, 0, 0)
        patch = config.patch_size or patch_size_for(height, width)
        images = keras.Input(shape, dtype="float32", name="images")
        scaling = PixelScaling(dtype="float32", name="pixels")
        x = scaling(images)  # [B, H, W, C]
        if hasattr(self, "_scale"):
            scaling.set_weights(self._scale)
        if config.augment:
            x = RandomShift(_SHIFT, dtype="float32", name="augmentation")(x)
        x = PatchEmbedding(config.width, patch, dtype=policy, name="patches")(x)  # [B, R, Q, D]
        positions = layers.SinusoidalPositionEncoding2D(config.dropout, dtype=policy, name="positions")
        x = keras.layers.Reshape((-1, config.width), dtype=policy, name="sequence")(positions(x))  # [B, T, D]
        x = pooled(encoder(config, policy)(x), config.dropout, policy)  # [B, D]
        return keras.Model(images, head.outputs(x), name="core")


def resized(images: Tensor, height: int, width: int) -> Tensor:
    """Return images `[..., H, W, C]` as float32 of another height and width, bilinear and antialiased."""
    return tf.image.resize(images, [height, width], antialias=True)


def patch_size_for(height: int, width: int) -> int:
    """Return the default side of a patch, in pixels.

    It is the smallest of 2, 4, 8 and 16 that gives 64 patches or fewer, and 16 if none does: 2 for
    images of 8 x 8, 4 for 28 x 28 and 32 x 32, 8 for 64 x 64, 16 from 128 x 128 on.

    Example:

        >>> [patch_size_for(side, side) for side in (1, 8, 28, 32, 64, 128, 224)]
        [2, 2, 4, 4, 8, 16, 16]
    """
    patch = 2
    while patch < _LARGEST_PATCH and -(-height // patch) * -(-width // patch) > _PATCHES:
        patch *= 2
    return patch
