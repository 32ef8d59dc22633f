"""Protobuf's variable-length integers.

Reference: protobuf.dev/programming-guides/encoding.
"""

_SHORT = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """A number from 0 as protobuf writes it: seven bits in each byte, the lowest first.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    if value < 0x80:
        return _SHORT[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
