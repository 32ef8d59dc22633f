"""The orientation in an image file's Exif notes: how the stored pixels are turned to be shown."""

import re
import struct

_HEADERS = {b"II*\0": "<", b"II\0*": "<", b"MM\0*": ">", b"MM*\0": ">"}
_TAG = 0x0112
# Types of whole numbers with their formats: a camera writes SHORT (3), some programs LONG (4).
_FORMATS = {3: "H", 4: "I", 6: "B", 8: "H", 9: "I", 13: "I"}
_ENTRY = 12  # bytes


def exif_orientation(exif: bytes) -> int | None:
    """Return the orientation in Exif notes, from 1 (as stored) to 8; None if they are broken or have none.

    Only the tag's own entry matters: broken entries beside it do not. The exported graph reads the same way
    (`export/signatures/image_files.py`), and Pillow's own reading differs between its versions.

    Args:
        exif: the content of JPEG's APP1 segment, PNG's eXIf chunk or WebP's EXIF chunk, with or without the
            leading `Exif`, NUL, NUL.

    Example:

        >>> entry = bytes.fromhex("0112 0003 00000001 0006 0000")
        >>> exif_orientation(b"MM" + bytes.fromhex("002a 00000008 0001") + entry)
        6

    Reference: Exif 2.32, section 4.6.2 and figure 6; TIFF 6.0, section 2.
    """
    tiff = re.sub(rb"^(?:Exif\0\0){1,2}", b"", exif)
    order = _HEADERS.get(tiff[:4])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for place in range(start + 2, start + 2 + _ENTRY * count, _ENTRY):
            tag, kind, values, content = struct.unpack_from(order + "HHI4s", tiff, place)
            if tag == _TAG:
                return _value(order, kind, values, content)
    except struct.error:  # the notes end too early
        pass
    return None


def _value(order: str, kind: int, values: int, content: bytes) -> int | None:
    if kind not in _FORMATS or values != 1:
        return None
    (found,) = struct.unpack_from(order + _FORMATS[kind], content)
    return found if 1 <= found <= 8 else None
