"""Read image files inside the graph: their pixels, and the orientation in which they are shown.

Stock operations decode the pixels but leave them as the camera stored them, and take the numbers of a BMP's
colours for brightness.

Axes: H (height), W (width), C (channels), E (entries of a directory).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any

_JPEG, _PNG, _RIFF, _WEBP = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF", b"WEBP"
_EXIF, _EXIF_OF_PNG, _EXIF_OF_WEBP = b"Exif\0\0", b"eXIf", b"EXIF"
# Segments or chunks that are looked through: one takes some 30 microseconds, and a request can hold millions.
_MOST_PARTS = 20_000
# Bytes of Exif notes: a part has 64 KiB at most, and each further one copies those before it.
_MOST_EXIF = 2**18
# Bytes from a JPEG's marker to the next one; 0 for a segment, which has its length in it.
_ADVANCE = np.zeros(256, np.int32)
_ADVANCE[[0x00, 0x01, 0xC8, *range(0xD0, 0xDA)]] = 2
_ADVANCE[0xFF] = 1  # fills
_START_OF_SCAN = 0xDA
_ADVANCE[_START_OF_SCAN] = 2**30  # to the end: what follows are pixels
_TIFF = (b"II*\0", b"II\0*", b"MM\0*", b"MM*\0")
_TAG = 0x0112
_ENTRY = 12  # bytes
# Bytes of a BMP that say how its pixels are stored, and the order of colours that TensorFlow reads.
_BMP_HEAD, _BMP_MASKS = 66, bytes.fromhex("0000ff00 00ff0000 ff000000")


def stored_pixels(file: Tensor, channels: int) -> Tensor:
    """Return the pixels in a file as they are stored, uint8 `[H, W, C]`; of an animation its first picture.

    Args:
        file: string `[]`, the content of a PNG, JPEG, GIF or BMP file.
        channels: C, 1 or 3. Stock operations read GIF and BMP files for 3 only.
    """
    image = tf.io.decode_image(file, channels=channels, expand_animations=False)
    image = tf.ensure_shape(image, [None, None, channels])
    if channels != 3:
        return image
    filled = tf.cond(_starts(file, b"GIF"), lambda: _filled_gif(file, image), lambda: image)
    return tf.cond(_starts(file, b"BM"), lambda: _bmp_colours(file, filled), lambda: filled)


def turned(image: Tensor, orientation: Tensor) -> Tensor:
    """Return stored pixels `[H, W, C]` as they are shown, `[W, H, C]` for an orientation from 5 on.

    Args:
        image: the pixels.
        orientation: int64 `[]`, from 1 (as stored) to 8.

    Reference: Exif 2.32, section 4.6.4, A (Orientation).
    """

    def moved() -> Tensor:
        order: Any = tf.where(orientation >= 5, [1, 0, 2], [0, 1, 2])
        upright = tf.transpose(image, order)
        from_below = tf.reduce_any(orientation == [3, 4, 7, 8])
        from_right = tf.reduce_any(orientation == [2, 3, 6, 7])
        return tf.reverse(upright, tf.boolean_mask([0, 1], tf.stack([from_below, from_right])))

    return tf.cond(orientation == 1, lambda: image, moved)


def orientation_of(file: Tensor) -> Tensor:
    """Return the orientation in a file's Exif notes, int64 `[]`, from 1 (as stored) to 8.

    It is 1 if the notes are broken, or there are none. Training reads the same:
    `keras_selfattn/data/formats/exif_orientation.py`.

    Args:
        file: string `[]`, the content of an image file.

    Reference: ISO/IEC 10918-1, annex B.1.1; PNG 3, section 11.3.4.5; RFC 9649, section 2.7.1.5; Exif 2.32,
        section 4.6.2 and figure 6; TIFF 6.0, section 2.
    """
    head = tf.strings.substr(tf.strings.join([file, bytes(12)]), 0, 12)
    is_jpeg, is_png = _starts(head, _JPEG), _starts(head, _PNG)
    is_webp = _starts(head, _RIFF) & (tf.strings.substr(head, 8, 4) == _WEBP)
    name = tf.where(is_jpeg, _EXIF, tf.where(is_png, _EXIF_OF_PNG, _EXIF_OF_WEBP))
    # Most files have no notes, which this search finds in microseconds.
    names = tf.where(is_jpeg | is_png | is_webp, tf.size(tf.strings.split(file, name)) - 1, 0)

    def noted() -> Tensor:
        is_only = names == 1
        jpeg, chunks = lambda: _jpeg_exif(file, is_only), lambda: _chunk_exif(file, name, is_png, is_only)
        return _orientation_in(tf.cond(is_jpeg, jpeg, chunks))

    return tf.cond(names > 0, noted, lambda: tf.constant(1, tf.int64))


def _jpeg_exif(file: Tensor, is_only: Tensor) -> Tensor:
    """Return the content of a JPEG's Exif segments: it may go on from one to the next."""
    size = tf.strings.length(file)

    def step(place: Tensor, exif: Tensor) -> tuple[Tensor, Tensor]:
        head = tf.strings.substr(file, place, 10)
        marker = tf.cast(tf.io.decode_raw(tf.strings.substr(head, 0, 4), tf.uint8), tf.int32)
        length = 256 * marker[2] + marker[3]
        advance = tf.gather(_ADVANCE, marker[1])
        advance = tf.where(advance == 0, 2 + tf.maximum(length, 2), advance)
        advance = tf.where(marker[0] == 0xFF, advance, 1)  # a stray byte
        is_exif = _starts(head, b"\xff\xe1") & (tf.strings.substr(head, 4, 6) == _EXIF)
        begin = tf.minimum(place + 10, size)
        content = tf.strings.substr(file, begin, tf.maximum(length - 8, 0))
        after = tf.where(is_exif & is_only, size, place + advance)
        return after, tf.where(is_exif, tf.strings.join([exif, content]), exif)

    return _walked(step, tf.constant(2), size - 4)


def _chunk_exif(file: Tensor, name: Tensor, is_png: Tensor, is_only: Tensor) -> Tensor:
    """Return the content of the last Exif chunk of a PNG or WebP file."""
    size = tf.cast(tf.strings.length(file), tf.int64)

    def step(place: Tensor, exif: Tensor) -> tuple[Tensor, Tensor]:
        head = tf.strings.substr(file, place, 8)
        numbers = _numbers(head)
        # PNG: length, name, content, check. RIFF: name, length, content, a byte to an even number.
        of_png, of_riff = (
            _number(numbers, 0, 4, tf.constant(False)),
            _number(numbers, 4, 8, tf.constant(True)),
        )
        length = tf.where(is_png, of_png, of_riff)
        kind = tf.strings.substr(head, tf.where(is_png, 4, 0), 4)
        content = tf.strings.substr(file, place + 8, tf.minimum(length, size))
        after = place + 8 + length + tf.where(is_png, tf.constant(4, tf.int64), tf.math.floormod(length, 2))
        is_last = (kind == b"IEND") | (is_only & (kind == name))
        return tf.where(is_last, size, after), tf.where(kind == name, content, exif)

    start = tf.where(is_png, tf.constant(8, tf.int64), tf.constant(12, tf.int64))
    return _walked(step, start, size - 8)


def _walked(step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], start: Tensor, last: Tensor) -> Tensor:
    """Return what steps through the parts of a file have found, from `start` to the last place of a part."""
    place, exif = tf.while_loop(
        lambda place, exif: (place <= last) & (tf.strings.length(exif) <= _MOST_EXIF),
        step,
        (start, tf.constant(b"")),
        maximum_iterations=_MOST_PARTS,
        parallel_iterations=1,
    )
    said = (
        f"An image file may have {_MOST_PARTS:,} segments or chunks, and {_MOST_EXIF >> 10} KiB of Exif "
        "notes. Save it anew, without its notes."
    )
    with tf.control_dependencies([tf.debugging.Assert(place > last, [said])]):
        return tf.identity(exif)


def _orientation_in(exif: Tensor) -> Tensor:
    tiff = tf.strings.regex_replace(exif, r"^Exif\x00\x00", "", replace_global=False)
    is_tiff = tf.reduce_any(tf.strings.substr(tiff, 0, 4) == tf.constant(_TIFF))
    is_whole = tf.strings.length(tiff) >= 8
    return tf.cond(is_tiff & is_whole, lambda: _orientation_in_tiff(tiff), lambda: tf.constant(1, tf.int64))


def _orientation_in_tiff(tiff: Tensor) -> Tensor:
    content = _numbers(tiff)
    is_little = _starts(tiff, b"I")
    directory = tf.concat([content[_number(content, 4, 8, is_little) :], [0, 0]], 0)
    whole = (tf.size(directory, tf.int64) - 4) // _ENTRY
    count = tf.maximum(tf.minimum(_number(directory, 0, 2, is_little), whole), 0)
    entries = tf.reshape(directory[2 : 2 + _ENTRY * count], [-1, _ENTRY])  # [E, 12]
    entry = tf.boolean_mask(entries, _number(entries, 0, 2, is_little) == _TAG)[:1]  # [0 or 1, 12]
    kind, values = _number(entry, 2, 4, is_little), _number(entry, 4, 8, is_little)
    byte, short, long = (_number(entry, 8, 8 + size, is_little) for size in (1, 2, 4))
    # Cameras write SHORT (3), some programs LONG (4); positive numbers of signed types are the same.
    value = tf.where(_is_in(kind, 3, 8), short, tf.where(_is_in(kind, 4, 9, 13), long, 1))
    value = tf.where(kind == 6, byte, value)
    is_known = (values == 1) & (value >= 1) & (value <= 8)
    return tf.reduce_max(tf.concat([[1], tf.where(is_known, value, 1)], 0))


def _filled_gif(file: Tensor, image: Tensor) -> Tensor:
    """Return the first picture of a GIF, which must be as large as what is shown."""
    numbers = _numbers(tf.strings.substr(file, 0, 10))
    width, height = (_number(numbers, *each, tf.constant(True)) for each in ((6, 8), (8, 10)))
    is_filled = tf.reduce_all(tf.shape(image, tf.int64)[:2] == tf.stack([height, width]))
    said = "The first picture of a GIF file must fill it. Save it as PNG."
    with tf.control_dependencies([tf.debugging.Assert(is_filled, [said])]):
        return tf.identity(image)


def _bmp_colours(file: Tensor, image: Tensor) -> Tensor:
    """Return the pixels of a BMP, by its palette if it has one of up to 256 colours."""
    head = tf.strings.substr(tf.strings.join([file, bytes(_BMP_HEAD)]), 0, _BMP_HEAD)
    numbers, little = _numbers(head), tf.constant(True)
    size, bits, packing = (_number(numbers, *each, little) for each in ((14, 18), (28, 30), (30, 34)))
    is_plain = (packing == 0) | ((packing == 3) & (tf.strings.substr(head, 54, 12) == _BMP_MASKS))
    said = "A BMP file must have uncompressed pixels in the order blue, green, red. Save it as PNG."

    def coloured() -> Tensor:
        begin = tf.minimum(14 + size, tf.cast(tf.strings.length(file), tf.int64))
        palette = tf.strings.join([tf.strings.substr(file, begin, 1024), bytes(1024)])
        colours = tf.reshape(tf.io.decode_raw(palette, tf.uint8)[:1024], [256, 4])
        blue, green, red, _ = tf.unstack(colours, axis=1)
        return tf.gather(tf.stack([red, green, blue], axis=1), tf.cast(image[..., 0], tf.int32))

    with tf.control_dependencies([tf.debugging.Assert(is_plain, [said])]):
        return tf.ensure_shape(tf.cond(bits == 8, coloured, lambda: tf.identity(image)), [None, None, 3])


def _starts(content: Tensor, begin: bytes) -> Tensor:
    return tf.strings.substr(content, 0, len(begin)) == begin


def _numbers(content: Tensor) -> Tensor:
    return tf.cast(tf.io.decode_raw(content, tf.uint8), tf.int64)


def _number(content: Tensor, begin: int, end: int, is_little: Tensor) -> Tensor:
    """Return the bytes from `begin` to `end` of each row as an unsigned number."""
    powers = [256**power for power in range(end - begin)]
    # Not `[::-1]` of a tensor, which TensorFlow's optimizer takes for a broken shape.
    weights = tf.where(is_little, tf.constant(powers, tf.int64), tf.constant(powers[::-1], tf.int64))
    return tf.reduce_sum(content[..., begin:end] * weights, -1)


def _is_in(value: Tensor, *known: int) -> Tensor:
    return tf.reduce_any(value[..., None] == tf.constant(known, value.dtype), -1)
