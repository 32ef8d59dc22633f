"""Which characters are one cluster to a reader, such as a letter and its accents, as `tokenizers` has them.

The classes are in `joined_characters.txt`, because those of Python and of the `tokenizers` package are from
different versions of Unicode. This file is also a program that asks `tokenizers` about every code point and
writes them (`character_file.py` has the format):

    cd keras_selfattn/models/subwords && python -P joined_characters.py > joined_characters.txt

Only clusters of less than six bytes are normalised as a whole. The pictures and the consonants that others
join to longer ones are here because what is left of these would look like a short one; flags and the letters
of Hangul are not, because no map of characters replaces them.
"""

import functools
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from keras_selfattn.models.subwords.character_file import CODE_POINTS, Item, in_pages, lines, read, scalars

# Flags of a code point: it joins the one before it; it joins the one after it; it joins none. Pictures join
# through ZERO WIDTH JOINER, and marks that have a place of their own are not between them; consonants join
# through a linker, beside which conjoining marks may be.
AFTER, BEFORE, ALONE, PICTURE, SPACING, CONSONANT, LINKER, CONJOINING = (1 << place for place in range(8))
JOINER = 0x200D

_FILE = "joined_characters.txt"
_ACUTE, _VIRAMA = "\u0301", "\u094d"
_NAMES = {
    "after": AFTER,
    "before": BEFORE,
    "alone": ALONE,
    "picture": PICTURE,
    "spacing": SPACING,
    "consonant": CONSONANT,
    "linker": LINKER,
    "conjoining": CONJOINING,
}


@functools.cache
def joined_pages() -> tuple[np.ndarray, np.ndarray]:
    """Return the table of the flags of all code points, in the two levels of `in_pages`.

    Example:

        >>> pages, blocks = joined_pages()
        >>> bool(blocks[pages[0x301 // 128], 0x301 % 128] & AFTER)
        True
    """
    classes, _ = read(Path(__file__).with_name(_FILE))
    found = np.zeros(CODE_POINTS, np.int32)
    for name, flag in _NAMES.items():
        found[list(classes[name])] |= flag
    return in_pages(found)


def compiled(mapping: Mapping[str, str]) -> bytes:
    """Return a map of characters in the form of SentencePiece's: a double array, and the texts it leads to.

    Each inner node of the trie has a block of 256 units for the next bytes, and one for the values of those
    that are ends. It is larger than SentencePiece's own, and read in the same way.

    Args:
        mapping: texts that are replaced, none of them empty, by what replaces them.

    Reference: Aoe 1989, "An Efficient Digital Search Algorithm by Using a Double-Array Structure"; the format
    is that of Darts-clone, by Yata.
    """
    values = {key.encode(): value.encode() for key, value in mapping.items()}
    prefixes = {key[:end]: None for key in values for end in range(len(key))}
    blocks = {prefix: 2 * number + 1 for number, prefix in enumerate(prefixes)}
    units, low, texts = {0: blocks[b""] << 18}, {b"": 0}, bytearray()
    for longer in sorted({*prefixes, *values} - {b""}):  # after its own beginnings
        block = blocks[longer[:-1]]
        after = blocks.get(longer, block + 1)
        low[longer] = low[longer[:-1]] ^ longer[-1]
        units[block << 8 | low[longer]] = (block ^ after) << 18 | (longer in values) << 8 | longer[-1]
        if longer in values:
            units[after << 8 | low[longer]] = 2**31 | len(texts)
            texts += values[longer] + b"\0"
    array = [units.get(place, 0) for place in range(2 * len(blocks) + 1 << 8)]
    return struct.pack(f"<I{len(array)}I", 4 * len(array), *array) + bytes(texts)


def _measured() -> Iterator[tuple[str, list[Item]]]:
    """Yield each class of `tokenizers`, with every code point and None.

    A cluster is replaced as a whole by what its beginning is mapped to.
    """
    from tokenizers import normalizers

    one = normalizers.Precompiled(compiled({"a": "b"})).normalize_str
    after = [chr(c) for c in scalars() if c and one(f"a{chr(c)}") == "b"]
    yield "after", _items(after)
    # Of four bytes and an accent, a cluster would have six.
    few = [chr(c) for c in scalars() if 0 < c < 0x10000]
    mapped = normalizers.Precompiled(compiled(dict.fromkeys(few, "b"))).normalize_str
    before = [each for each in few if mapped(f"{each}a") == "b"]
    yield "before", _items(before)
    yield "alone", _items(each for each in few if mapped(each + _ACUTE) != "b")

    without = {each: "b" for each in few if each != _ACUTE}
    but_accent = normalizers.Precompiled(compiled(without)).normalize_str

    def joined(text: str) -> bool:
        """Return True if the accent after a text stays, because the last letter is of a longer cluster."""
        return but_accent(text + _ACUTE).endswith(_ACUTE)

    joiner = chr(JOINER)
    yield "picture", _items(chr(c) for c in scalars() if c and joined(f"{chr(c)}{joiner}\u2139"))
    yield "spacing", _items(each for each in after if not joined(f"\u2139{each}{joiner}\u2139"))
    yield "consonant", _items(each for each in few if joined(f"{each}{_VIRAMA}\u0915"))
    # What joins the one after it would seem to link.
    linkers = sorted(each for each in {*few} - {*before} if joined(f"\u0915{each}\u0915"))
    yield "linker", _items(linkers)
    others = sorted({*few} - {*before, *linkers})
    yield "conjoining", _items(each for each in others if joined(f"\u0915{_VIRAMA}{each}\u0915"))


def _items(letters: Iterable[str]) -> list[Item]:
    return [(ord(each), None) for each in letters]


if __name__ == "__main__":
    print(*lines(_measured()), sep="\n")
