"""Labelled images from a folder with a subfolder for each class, or from an .npz file."""

import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.formats.class_folders import class_files, lie_in_folder
from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.formats.exif_orientation import exif_orientation
from keras_selfattn.data.formats.npz_files import read_arrays
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.shown_steps import shown
from keras_selfattn.errors import DataError
from keras_selfattn.extras import require
from keras_selfattn.rows.images import IMAGES
from keras_selfattn.rows.label_names import LabelReader, without_column
from keras_selfattn.rows.sound_files import SOUND_ENDINGS
from keras_selfattn.rows.targets import ONE_LABEL
from keras_selfattn.user_warnings import warn_user

_ENDINGS = frozenset({".png", ".jpg", ".jpeg"})
# File names that a message lists.
_NAMED = 3
# Pillow's name of the turn from the stored pixels to those that are shown, by orientation.
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def read_images(path: str | Path, image_size: int | None = None) -> LabelledRows:
    """Read images and their labels from a folder or an .npz file.

    A folder holds a subfolder for each class, named as the class, with .png, .jpg and .jpeg files. Names that
    begin with a dot are skipped; other files are counted in a warning. The images are uint8
    `[height, width]`, or `[height, width, 3]` if any of them is in colour, turned as their Exif orientation
    says; transparency is dropped. The signature `encoded` of an exported model reads the same pixels.

    An .npz file holds `x`, numbers `[rows, height, width]` or `[rows, height, width, channels]`, and `y`, an
    integer or a string for each row, or a column of them.

    Args:
        path: the folder or the file.
        image_size: new height and width of a folder's images; by default all must have one size.

    Raises:
        DataError: if `path` does not exist or holds no images, they have several sizes (with examples), a
            file cannot be read as an image (with its name), or arrays are missing or of another kind.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "digits.npz")
        ...     np.savez(file, x=np.zeros((2, 8, 8), "uint8"), y=np.array([3, 5]))
        ...     read_images(file).targets
        ['3', '5']
    """
    place = Path(path)
    if place.is_dir():
        return _from_folder(place, image_size)
    if not place.exists():
        raise DataError(f"There is no file or folder {place}. Current folder: {Path.cwd()}.")
    checked_ending(place, (".npz",))
    if image_size is not None:
        raise DataError(
            f"`image_size` is for folders. {place} is a file, whose images have one size already."
        )
    return _from_npz(place)


def _from_npz(file: Path) -> LabelledRows:
    instead = "Save `x` as one array of numbers and `y` as one of integers or strings."
    arrays = read_arrays(file, ("x", "y"), instead)
    x, y = arrays["x"], arrays["y"]
    if x.ndim not in (3, 4) or x.dtype.kind not in "buif":
        raise DataError(
            f"{file}: `x` must hold numbers [rows, height, width] or [rows, height, width, channels]. "
            f"Received {x.dtype} of shape {x.shape}."
        )
    y = without_column(y)
    if y.shape != x.shape[:1] or y.dtype.kind not in "iuUS":
        raise DataError(
            f"{file}: `y` must hold an integer or a string for each of the {len(x)} images. "
            f"Received {y.dtype} of shape {y.shape}."
        )
    read = LabelReader()
    names = [read(f"{file}: the label of image {row} (counted from 0)", each) for row, each in enumerate(y)]
    return LabelledRows(list(x), names, str(file), kind=IMAGES, target_kind=ONE_LABEL)


def _from_folder(folder: Path, image_size: int | None) -> LabelledRows:
    files, others = class_files(folder, _ENDINGS, "images")
    if not files:
        raise DataError(f"{folder} {_lack_of_images(folder, others)}")
    if others:
        warn_user(
            f"{folder}: {len(others)} files are not .png, .jpg or .jpeg files in a class's folder and are "
            f"skipped, such as {others[0].relative_to(folder)}."
        )
    images = _read_all(folder, files, image_size)
    _check_sizes(folder, files, images)
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1) for image in images]
    read = LabelReader()
    names = [read(f"The name of {str(file.parent)!a}", file.parent.name) for file in files]
    where = [str(file.relative_to(folder)) for file in files]
    return LabelledRows(images, names, str(folder), where, kind=IMAGES, target_kind=ONE_LABEL)


def _lack_of_images(folder: Path, others: Sequence[Path]) -> str:
    """Return what a folder without images in classes' folders holds instead, and what to do."""
    wanted = "Give a folder with a subfolder for each class, with .png, .jpg or .jpeg files in it."
    if lie_in_folder(others, folder, _ENDINGS):
        return f"holds its images in no subfolder, which would be their class. {wanted}"
    if any(file.suffix.lower() in SOUND_ENDINGS for file in others):
        return "holds files of sound. Give --task audio (in Python, use `read_audio`) to learn them."
    return f"holds no images. {wanted}"


def _read_all(folder: Path, files: list[Path], image_size: int | None) -> list[np.ndarray]:
    require("train", "read_images", "PIL")
    from PIL import Image

    images, broken, unread = [], [], []
    # Errors of Pillow's readers, which are parsers, one for each kind of file.
    errors = (OSError, SyntaxError, ValueError, TypeError, EOFError, struct.error, zlib.error)
    for file in shown(files, f"Reading {folder.name}"):
        try:
            image, is_read = _read(file, image_size)
            images.append(image)
            unread += [] if is_read else [file.relative_to(folder)]
        except (*errors, Image.DecompressionBombError) as error:
            broken.append(f"{file.relative_to(folder)} ({error})")
    if broken:
        raise DataError(
            f"{folder}: {len(broken)} of {len(files)} files cannot be read as images: "
            f"{', '.join(broken[:_NAMED])}{', …' if len(broken) > _NAMED else ''}. Repair or remove them."
        )
    if unread:
        warn_user(
            f"{folder}: {len(unread)} files say in XMP or in a text chunk alone how they are turned, such as "
            f"{unread[0]}. They are read as they are stored, as browsers and the exported model read them. "
            "Write the orientation into their Exif notes, or turn their pixels."
        )
    return images


def _read(file: Path, image_size: int | None) -> tuple[np.ndarray, bool]:
    """Return an image as it is shown, and False if another orientation than Exif's was not read.

    The image is uint8 `[height, width]`, or `[height, width, 3]` if its file has colours.
    """
    from PIL import Image

    with Image.open(file) as image:
        _check_pixels(image)
        if image.mode.startswith("I"):  # 16 bits; a byte keeps the upper eight
            upper = np.asarray(image).astype(np.int64) >> 8
            found: Any = Image.fromarray(upper.clip(0, 255).astype(np.uint8))
        else:
            image.info.pop("transparency", None)  # dropped; Pillow would warn of a palette's
            found = image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB")
        # Only now: a PNG's notes may come after its pixels.
        orientation = exif_orientation(image.info.get("exif", b""))
        is_read = orientation is not None or not _is_turned_elsewhere(image.info)
        if orientation in _TURNS:
            found = found.transpose(Image.Transpose[_TURNS[orientation]])
        if image_size is not None:
            found = found.resize((image_size, image_size), Image.Resampling.BILINEAR)
        return np.asarray(found), is_read


def _check_pixels(image: Any) -> None:
    """Raise ValueError for pixels that TensorFlow's decoders, in a served model, read otherwise."""
    kind, mode = image.format, image.mode
    if kind in ("JPEG", "MPO") and mode == "CMYK" and "adobe" not in image.info:
        raise ValueError(
            "a CMYK JPEG without Adobe's marker does not say if 0 is ink or none: save it as RGB"
        )
    if mode == "F" or (mode == "I" and kind != "PNG"):
        raise ValueError(f"a {kind} of 32 bits a pixel: save it as PNG of 8 or 16")
    if kind == "GIF" and ("transparency" in image.info or image.tile[0][1] != (0, 0, *image.size)):
        raise ValueError("a GIF whose first picture is transparent or does not fill it: save it as PNG")


def _is_turned_elsewhere(info: dict[Any, Any]) -> bool:
    """Return True if XMP, or the text chunk that programs wrote before PNG had Exif, has an orientation."""
    xmp = info.get("xmp") or info.get("XML:com.adobe.xmp") or b""
    xmp = xmp.encode(errors="replace") if isinstance(xmp, str) else xmp
    if re.search(rb"tiff:Orientation(?:=[\"']|>)[2-8]", xmp):
        return True
    try:
        notes = bytes.fromhex("".join(str(info.get("Raw profile type exif", "")).split("\n")[3:]))
    except ValueError:
        return False
    return exif_orientation(notes) in _TURNS


def _check_sizes(folder: Path, files: list[Path], images: list[np.ndarray]) -> None:
    first: dict[tuple[int, int], Path] = {}
    for file, image in zip(files, images, strict=True):
        first.setdefault(image.shape[:2], file)
    if len(first) > 1:
        shown = ", ".join(
            f"{height} x {width} ({file.relative_to(folder)})"
            for (height, width), file in list(first.items())[:_NAMED]
        )
        raise DataError(
            f"{folder}: the images, as they are shown, are of {len(first)} sizes, height x width: {shown}"
            f"{', …' if len(first) > _NAMED else ''}. Give --image-size to resize all of them."
        )
