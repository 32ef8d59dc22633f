"""Preprocess images, as numbers or as files, for an image model, inside the graph.

Axes: B (batch), H (height), W (width), C (channels), P (patches).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models import ImageClassifier
from keras_selfattn.models.images.classifier import resized
from keras_selfattn.rows.images import as_images

from .image_files import orientation_of, stored_pixels, turned
from .model_signatures import Graphs, Signature
from .raw_front import RawFront, front_of
from .trial_requests import Request, in_batches

Tensor = Any

# Most numbers in the invented images together: 32 images of 128 x 128, or fewer larger ones.
_MOST = 2**19
# Side of the example that the card shows.
_EXAMPLE = 8


@front_of(ImageClassifier)
class ImageFront(RawFront):
    """Resize images of any height and width to the size that a model was trained on.

    Attributes:
        file_specs: the input that holds files instead.
    """

    number_input = "image"  # the core's is "images"

    def __init__(self, model: ImageClassifier) -> None:
        super().__init__(model)
        self._height, self._width, self._channels = model.image_shape or (0, 0, 0)
        self._patch = model.core.get_layer("patches").patch_size
        self._scale = [np.asarray(weight) for weight in model.core.get_layer("pixels").get_weights()]
        self.specs = {
            "image": tf.TensorSpec([None, None, None, self._channels], tf.float32, name="image"),
        }
        self.file_specs = {"encoded": tf.TensorSpec([None], tf.string, name="encoded")}
        self.tracked: list[Any] = []
        # The pixels of a file are bytes; a model of other numbers would misread them.
        self.reads_files = model.byte_pixels

    def __call__(self, *raw: Tensor) -> Tensor:
        sized = self._sized(raw[0], self._height, self._width)
        return tf.ensure_shape(sized, [None, self._height, self._width, self._channels])

    def from_files(self, *raw: Tensor) -> Tensor:
        """Return the shown images in PNG, JPEG, GIF or BMP files, string `[B]`, as float32 `[B, H, W, C]`."""
        shape = [self._height, self._width, self._channels]
        return tf.map_fn(self._decoded, raw[0], fn_output_signature=tf.TensorSpec(shape, tf.float32))

    def places(self, *raw: Tensor) -> dict[str, Tensor]:
        """Return top, left, bottom and right of each patch, float32 `[B, P, 4]`, from 0 to 1."""
        sides = [np.arange(0, size, self._patch) for size in (self._height, self._width)]
        first = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)  # [P, 2]
        size = np.array([self._height, self._width])
        edges = np.concatenate([first, np.minimum(first + self._patch, size)], axis=1) / np.tile(size, 2)
        rows: Any = [tf.shape(raw[0])[0], 1, 1]
        return {"patches": tf.tile(tf.constant(edges[None], tf.float32), rows)}

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `explain`, with the place of each patch, and `encoded` for a model of bytes."""
        explain = Signature(graphs.explain(together=True, places=self.places), requests)
        if not self.reads_files:
            return {"explain": explain}
        files = self.file_requests()
        if real:
            files[0] = self.file_request(requests[0])
        encoded = graphs.on_files(self.file_specs, self.from_files)
        return {"explain": explain, "encoded": Signature(encoded, files)}

    def named(self, rows: Any) -> Mapping[str, Any]:
        """Return images in any container as inputs by name."""
        size = self._height, self._width
        images = [self._sized(image.astype(np.float32, copy=False), *size) for image in as_images(rows)]
        return {"image": np.stack([np.asarray(image) for image in images])}

    def asked(self, row: Any) -> Request:
        """Return the request for an image."""
        return dict(self.named([np.asarray(row)]))

    def file_request(self, request: Request) -> Request:
        """Return the request for the images of another request, as files."""
        pixels = request["image"].round().clip(0, 255).astype(np.uint8)
        return {"encoded": np.array([tf.io.encode_png(image).numpy() for image in pixels], dtype=object)}

    def requests(self) -> list[Request]:
        height, width = self._height, self._width
        count = max(2, min(32, _MOST // (height * width * self._channels)))
        made = [in_batches({"image": self._made_up(count, height, width)})]
        example = self._made_up(1, min(height, _EXAMPLE), min(width, _EXAMPLE))
        return [{"image": example}, *made[0], {"image": self._made_up(2, height + 3, max(1, width - 1))}]

    def file_requests(self) -> list[Request]:
        """Return requests to try a signature that takes files."""
        sizes = [(self._height, self._width), (self._height + 3, self._width + 1)] * 3
        images = [self._made_up(1, *size)[0].clip(0, 255).astype(np.uint8) for size in sizes]
        encode: Sequence[Any] = [tf.io.encode_png, tf.io.encode_jpeg] * 3
        files = [encoder(image).numpy() for encoder, image in zip(encode, images, strict=True)]
        return in_batches({"encoded": np.array(files, dtype=object)})

    def _decoded(self, file: Tensor) -> Tensor:
        orientation = orientation_of(file)
        trained = [self._height, self._width]
        # Resized as it is stored, and then turned: a photograph has a thousand times as many pixels before.
        height, width = tf.unstack(tf.where(orientation >= 5, trained[::-1], trained))
        image = self._sized(tf.cast(stored_pixels(file, self._channels), tf.float32), height, width)
        return tf.ensure_shape(turned(image, orientation), [*trained, self._channels])

    def _sized(self, images: Tensor, height: Any, width: Any) -> Tensor:
        """Return images `[..., H, W, C]` resized; images of this size are not changed."""
        same = tf.reduce_all(tf.shape(images)[-3:-1] == [height, width])
        return tf.cond(same, lambda: images, lambda: resized(images, height, width))

    def _made_up(self, count: int, height: int, width: int) -> np.ndarray:
        """Return noise with the mean and the deviation of the training images."""
        mean, deviation = self._scale
        noise = np.random.default_rng(0).normal(size=(count, height, width, self._channels))
        return (noise * deviation + mean).astype(np.float32)
