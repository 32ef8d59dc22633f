"""Count the fields of a serialized message without parsing it.

Reference: protobuf.dev/programming-guides/encoding.
"""

_VARINT, _LENGTH_DELIMITED = 0, 2
# Wire types I64 and I32, and the begin and end of a group, in bytes after the tag.
_FIXED = {1: 8, 5: 4, 3: 0, 4: 0}
_MOST_VARINT = 10  # bytes


def field_count(data: bytes, most: int) -> int:
    """Return the number of fields of a message, those of its own messages not counted.

    Args:
        data: a message. Counting ends where the bytes are no message.
        most: counting ends when there are more.

    Example:
        >>> field_count(bytes.fromhex("2a00 2a00 0a0161"), 10)
        3
    """
    count, place = 0, 0
    while place < len(data) and count <= most:
        count += 1
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, place = _varint(data, place)
            place += length
        elif kind == _VARINT:
            _, place = _varint(data, place)
        elif kind in _FIXED:
            place += _FIXED[kind]
        else:
            break
    return count


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place after it; the end of the data if it is cut off or too long."""
    value = 0
    for shift, byte in enumerate(data[place : place + _MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, place + shift + 1
    return 0, len(data)
