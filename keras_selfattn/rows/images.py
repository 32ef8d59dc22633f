"""Rows that are images: uint8 or float32 `[H, W, C]` each.

Axes: H (height), W (width), C (channels).
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.kind import Pixels, RowKind, digest

# The most numbers of an example row, which people read.
_NUMBERS = 1000


class ImageRows(RowKind[np.ndarray]):
    """Images, `[H, W, C]` each once a model has read them; files of grey ones have no C."""

    name, subject, plural, unit = "image", "image", "Images", "pixels"

    def are_rows(self, x: Any) -> bool:
        """Return True if `x` is a list or an array, not a data set."""
        return isinstance(x, list | tuple) or hasattr(x, "__array__")

    def read(self, x: Any) -> list[np.ndarray]:
        return as_images(x)

    def key(self, row: np.ndarray) -> Hashable:
        return digest(row)

    def length(self, row: np.ndarray) -> int:
        return row.shape[0] * row.shape[1]

    def is_short(self, row: np.ndarray) -> bool:
        return 0 < row.size <= _NUMBERS

    def shown(self, row: np.ndarray) -> str:
        return f"image of shape {row.shape}"

    def picture(self, row: np.ndarray) -> Pixels:
        return Pixels(row)


IMAGES = ImageRows()


def as_images(x: Any) -> list[np.ndarray]:
    """Return images as arrays `[H, W, C]`, uint8 if they hold bytes and float32 otherwise.

    Args:
        x: images `[H, W]` or `[H, W, C]`, C 1 or 3, in a list or as one array. Images of one array are views
            of it unless their type changes.

    Raises:
        DataError: for an image of another shape, without a pixel, or with pixels that are not finite numbers;
            it names the row.
    """
    x = ordered_rows(x)
    if not isinstance(x, list | tuple):
        x = np.asarray(x)
        if x.dtype != object and x.ndim not in (3, 4) and x.shape != (0,):
            raise DataError(
                "Images come as [rows, height, width] or [rows, height, width, channels]. Received shape "
                f"{x.shape}; wrap a single image in a list: [image]."
            )
    return [_as_image(row, image) for row, image in enumerate(x)]


def size_named(shape: tuple[int, ...]) -> str:
    """Return an image's shape in words."""
    height, width, channels = shape
    return f"{height} x {width} with {channels} channel{'s' if channels > 1 else ''}"


def _as_image(row: int, image: Any) -> np.ndarray:
    try:
        found = np.asarray(image)
    except ValueError:  # lists of unequal length
        found = np.empty(0)
    if found.ndim == 2:
        found = found[..., None]
    if found.ndim != 3 or found.shape[-1] not in (1, 3) or not found.size:
        raise DataError(
            f"Image {row} (counted from 0) must be an array [height, width] or [height, width, channels], "
            f"with 1 or 3 channels. Received shape {np.shape(found)}."
        )
    if found.dtype.kind not in "buif":
        raise DataError(f"Image {row} (counted from 0) must hold numbers. Received dtype {found.dtype}.")
    if found.dtype == np.uint8:  # not booleans: as bytes they would promise that files of 0 to 255 are alike
        return found
    with np.errstate(over="ignore"):
        found = found.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise DataError(f"Image {row} (counted from 0) has pixels that are not finite numbers.")
    return found
