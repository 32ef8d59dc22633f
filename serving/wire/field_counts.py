"""Count the fields of a serialized message without parsing it.

Reference: protobuf.dev/programming-guides/encoding.
"""

_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}  # wire types I64 and I32, in bytes


def repeated_fields(data: bytes, most: int) -> dict[int, int]:
    """Return how often each length-delimited field comes, by its number.

    Args:
        data: a message. Counting ends where the bytes are no message.
        most: counting ends when a field has come more often.

    Example:
        >>> repeated_fields(bytes.fromhex("2a00 2a00 0a0161"), 10)
        {5: 2, 1: 1}
    """
    counts: dict[int, int] = {}
    place, size = 0, len(data)
    while place < size:
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, place = _varint(data, place)
            place += length
            counts[tag >> 3] = count = counts.get(tag >> 3, 0) + 1
            if count > most:
                break
        elif kind == 0:
            _, place = _varint(data, place)
        elif kind in _FIXED:
            place += _FIXED[kind]
        else:
            break
    return counts


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place after it; the end of the data if it is cut off or too long."""
    value = 0
    for shift, byte in enumerate(data[place : place + 10]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, place + shift + 1
    return 0, len(data)
