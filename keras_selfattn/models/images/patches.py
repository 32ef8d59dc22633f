"""Turn pixels into patches: standardise, shift at random in training, embed.

Axes: B (batch), H (height), W (width), C (channels), R and Q (rows and columns of patches), D (features).
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.feed_forward import gelu
from keras_selfattn.layers.weights.projection import biased

Tensor = Any

# In deviations: pixels of pictures stay below it, and a float16 can hold sums of many such values.
_FARTHEST = 100.0


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PixelScaling(keras.layers.Layer):
    """Standardise pixels by the mean and deviation of the training images.

    A pixel that is not a finite number becomes the mean. Values are clipped at 100 deviations.

    Call arguments:
        inputs: numbers `[batch, height, width, channels]`.

    Returns:
        float `[batch, height, width, channels]`.

    Weights: mean and deviation of each channel, `[channels]`, not trainable.

    Example:

        >>> import numpy as np
        >>> layer = PixelScaling()
        >>> layer.build((None, 1, 2, 1))
        >>> layer.set_weights([np.array([8.0]), np.array([4.0])])
        >>> np.asarray(layer(np.array([[[[0.0], [16.0]]]]))).ravel().tolist()
        [-2.0, 2.0]
    """

    def build(self, input_shape: tuple) -> None:
        options: Any = {"shape": (input_shape[-1],), "trainable": False, "dtype": "float32"}
        self.mean = self.add_weight(name="mean", initializer="zeros", **options)
        self.deviation = self.add_weight(name="deviation", initializer="ones", **options)

    def call(self, inputs: Tensor) -> Tensor:
        pixels = ops.cast(inputs, "float32")
        scaled = ops.clip((pixels - self.mean) / self.deviation, -_FARTHEST, _FARTHEST)
        return ops.cast(ops.where(ops.isfinite(pixels), scaled, 0.0), self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RandomShift(keras.layers.Layer):
    """Shift each image by a few whole pixels, in training only. New pixels at an edge repeat the edge.

    Shifts are whole pixels: interpolation would blur the training images, but no others.

    Args:
        share: the largest shift as a share of each side. A shift is rounded, so a small share of a small side
            moves only some of the images.
        seed: int; None draws one.

    Call arguments:
        inputs: float `[batch, height, width, channels]`.
        training: the layer acts only if True.

    Returns:
        float `[batch, height, width, channels]`.

    Example:

        >>> import numpy as np
        >>> image = np.arange(6.0, dtype="float32").reshape(1, 2, 3, 1)
        >>> bool((np.asarray(RandomShift(0.5, seed=0)(image)) == image).all())
        True
    """

    def __init__(self, share: float, *, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.share, self.seed = share, seed
        self._draws = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training:
            return inputs
        batch, height, width, _ = ops.shape(inputs)
        rows, columns = self._pixels(batch, height), self._pixels(batch, width)
        zero, one = ops.zeros_like(rows), ops.ones_like(rows)
        # The source of each pixel: x' = a x + b y + c, y' = d x + e y + f, in this order, and 0, 0.
        transforms = ops.stack([one, zero, columns, zero, one, rows, zero, zero], axis=1)  # [B, 8]
        return ops.image.affine_transform(
            inputs, transforms, interpolation="nearest", fill_mode="nearest", data_format="channels_last"
        )

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "share": self.share, "seed": self.seed}

    def _pixels(self, batch: Tensor, side: Tensor) -> Tensor:
        """Return the shift of each image along one axis, in pixels, float32 `[B]`."""
        draws = keras.random.uniform((batch,), -1.0, 1.0, dtype="float32", seed=self._draws)
        return ops.round(draws * self.share * ops.cast(side, "float32"))


class Conv2D(keras.layers.Conv2D):
    """Keras' layer of channels that come last, which adds its bias with `biased`."""

    def call(self, inputs: Tensor) -> Tensor:
        outputs = biased(self.convolution_op(inputs, self.kernel), self.bias)
        return outputs if self.activation is None else self.activation(outputs)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PatchEmbedding(keras.layers.Layer):
    """Embed each square patch of an image with two convolutions.

    The first, 3 x 3, lets each pixel see its neighbours across the borders of patches. The second has the
    patch size as kernel size and stride. Partial patches are padded with zeros.

    Args:
        width: features D of a patch.
        patch_size: its side in pixels.

    Call arguments:
        inputs: float `[batch, height, width, channels]`.

    Returns:
        float `[batch, ceil(height / patch_size), ceil(width / patch_size), D]`.

    Example:

        >>> import numpy as np
        >>> PatchEmbedding(6, patch_size=4)(np.zeros((2, 8, 9, 3), "float32")).shape
        TensorShape([2, 2, 3, 6])

    Reference: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1; Xiao et al. 2021, "Early
    Convolutions Help Transformers See Better", section 4.
    """

    def __init__(self, width: int, patch_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, self.patch_size = width, patch_size
        options: Any = {"padding": "same", "data_format": "channels_last", "dtype": self.dtype_policy}
        self._stem = Conv2D(max(1, width // 2), 3, name="stem", **options)
        self._patches = Conv2D(width, patch_size, patch_size, name="patches", **options)

    def build(self, input_shape: tuple) -> None:
        self._stem.build(input_shape)
        self._patches.build(self._stem.compute_output_shape(input_shape))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        size: Any = ops.shape(inputs)
        batch, *shape = size
        # TensorFlow gives a convolution of no images its input's shape, so one image is added temporarily.
        lacking = max(1 - batch, 0) if isinstance(batch, int) else ops.subtract(1, ops.minimum(batch, 1))
        spare = ops.zeros((lacking, *shape), dtype=inputs.dtype)
        x = gelu(self._stem(ops.concatenate([inputs, spare])), training)  # [B or 1, H, W, D / 2]
        return self._patches(x)[:batch]  # [B, R, Q, D]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return self._patches.compute_output_shape(self._stem.compute_output_shape(input_shape))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width, "patch_size": self.patch_size}


def mean_and_deviation(images: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return mean and deviation of each channel, float64 `[C]`; a channel that never changes has 1."""
    count = sum(image.shape[0] * image.shape[1] for image in images)
    mean: Any = sum(image.sum((0, 1), dtype=np.float64) for image in images) / count
    variance: Any = sum(np.square(image - mean).sum((0, 1)) for image in images) / count
    deviation = np.sqrt(variance)
    return [mean, np.where(deviation > 1e-6 * np.abs(mean), deviation, 1.0)]
