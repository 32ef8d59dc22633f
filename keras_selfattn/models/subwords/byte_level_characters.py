"""Unicode's letters, numbers and spaces, and its canonical forms, as tables for byte-level tokenizers.

They are in `byte_level_characters.txt`, because those of Python, of TensorFlow and of the `tokenizers`
package are from different versions of Unicode; even in that package the classes and the forms are. This file
is also a program that asks `tokenizers` about every code point and writes them (`character_file.py` has the
format):

    cd keras_selfattn/models/subwords && python -P byte_level_characters.py > byte_level_characters.txt

Axes: K (most characters that one becomes), C (pairs that become one character).
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_selfattn.models.subwords.character_file import CODE_POINTS, Item, lines, read, scalars, syllables

# Classes of characters in GPT-2's regular expression.
OTHER, LETTER, NUMBER, SPACE = 0, 1, 2, 3
CODE_BITS = 21
NONE = -1

_FILE = "byte_level_characters.txt"


class CanonicalForms(NamedTuple):
    """The data of Unicode's normalisation.

    Args:
        decomposed: int32 `[rows, K]`, the characters that one becomes; `NONE` after the last. Row 0 is for
            all that stay as they are.
        rows: int32 `[CODE_POINTS]`, the row of each code point in `decomposed`.
        ranks: int32 `[CODE_POINTS]`, the order of marks: 0 for a character that is no mark.
        pairs: int64 `[C]`, sorted: two characters that become one, `first << 21 | second`.
        composed: int32 `[C]`, what they become.
        inert: bool `[CODE_POINTS]`, True for characters that normalisation never changes, moves or joins with
            one before.

    Reference: The Unicode Standard, section 3.11; Unicode Standard Annex #15.
    """

    decomposed: np.ndarray
    rows: np.ndarray
    ranks: np.ndarray
    pairs: np.ndarray
    composed: np.ndarray
    inert: np.ndarray


@functools.cache
def character_classes() -> np.ndarray:
    """Return the class of each code point, int32 `[CODE_POINTS]`.

    Example:

        >>> classes = character_classes()
        >>> [int(classes[ord(character)]) for character in "a1 !"] == [LETTER, NUMBER, SPACE, OTHER]
        True
    """
    found = np.full(CODE_POINTS, OTHER, np.int32)
    classes, _ = read(Path(__file__).with_name(_FILE))
    for name, number in (("letter", LETTER), ("number", NUMBER), ("space", SPACE)):
        found[list(classes[name])] = number
    return found


@functools.cache
def canonical_forms() -> CanonicalForms:
    """Return the data of normalisation form C.

    Example:

        >>> forms = canonical_forms()
        >>> [chr(code) for code in forms.decomposed[forms.rows[ord("é")]] if code != NONE]
        ['e', '\u0301']
    """
    classes, mappings = read(Path(__file__).with_name(_FILE))
    decomposed = mappings["decomposed"]
    rows, ranks = np.zeros((2, CODE_POINTS), np.int32)
    rows[list(decomposed)] = np.arange(1, 1 + len(decomposed))
    for name, codes in classes.items():
        if name.startswith("mark"):
            ranks[list(codes)] = int(name.removeprefix("mark"))
    whole = {letters: code for code, letters in decomposed.items() if code not in classes["excluded"]}
    pairs = {}
    for letters, code in whole.items():
        first = letters[0] if len(letters) == 2 else whole[letters[:-1]]
        pairs[first << CODE_BITS | letters[-1]] = code
    inert = (rows == 0) & (ranks == 0)
    inert[list(whole.values())] = True
    inert[[letters[-1] for letters in whole]] = False
    longest = max(map(len, decomposed.values()))
    padded = [(*letters, *[NONE] * (longest - len(letters))) for letters in [(), *decomposed.values()]]
    keys = np.array(sorted(pairs), np.int64)
    values = np.array([pairs[key] for key in sorted(pairs)], np.int32)
    return CanonicalForms(np.array(padded, np.int32), rows, ranks, keys, values, inert)


def _measured() -> Iterator[tuple[str, list[Item]]]:
    """Yield each class and mapping of `tokenizers`; of a class, every code point with None."""
    from tokenizers import normalizers, pre_tokenizers

    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    joined = {
        name: {c for c in scalars() if len(split(f"{before}{chr(c)}")) == 1}
        for name, before in (("letter", "a"), ("number", "1"), ("other", "!"))
    }
    joined["space"] = set(scalars()) - set.union(*joined.values())
    for name in ("letter", "number", "space"):
        yield name, [(code, None) for code in sorted(joined[name])]
    whole, apart = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    found = {code: apart(chr(code)) for code in scalars()}
    found = {code: letters for code, letters in found.items() if letters != chr(code)}
    hangul = dict(syllables())
    mapping = {code: tuple(map(ord, letters)) for code, letters in found.items()}
    yield "decomposed", [(code, to) for code, to in mapping.items() if hangul.get(code) != to]
    yield "excluded", [(code, None) for code, letters in found.items() if whole(letters) != chr(code)]
    marks = _measured_marks(apart, found)
    _check(whole, found, {code for each in marks for code in each})
    for number, codes in enumerate(marks, start=1):
        yield f"mark{number}", [(code, None) for code in sorted(codes)]


def _measured_marks(apart: Callable[[str], str], decomposed: dict[int, str]) -> list[list[int]]:
    """Return the marks by their combining class, lowest first."""

    def swap(*codes: int) -> bool:
        text = "a" + "".join(map(chr, codes))
        return apart(text) != text

    def compare(one: int, other: int) -> int:
        return swap(one, other) - swap(other, one)

    low, high = 0x334, 0x345  # COMBINING TILDE OVERLAY, of class 1; COMBINING GREEK YPOGEGRAMMENI, of 240
    marks = [code for code in scalars() if code not in decomposed and (swap(code, low) or swap(high, code))]
    classes: list[list[int]] = []
    for code in sorted({*marks, low, high}, key=functools.cmp_to_key(compare)):
        if not classes or swap(code, classes[-1][0]):
            classes.append([])
        classes[-1].append(code)
    return classes


def _check(whole: Callable[[str], str], decomposed: dict[int, str], marks: set[int]) -> None:
    """Raise AssertionError if the pairs of characters that become one have not the usual properties."""
    kept = {code: letters for code, letters in decomposed.items() if whole(letters) == chr(code)}
    firsts = {whole(letters[:-1]) for letters in kept.values()}
    lasts = {letters[-1] for letters in kept.values()}
    assert all(len(first) == 1 for first in firsts)
    # So a character that joins one before never has one after it that joins it.
    assert not {last for last in lasts & firsts if ord(last) not in marks}


def main() -> None:
    """Write the tables to standard output."""
    from importlib.metadata import version

    print(
        "# Letters, numbers, spaces and canonical forms, as the tokenizers package, "
        f"{version('tokenizers')}, has them."
    )
    print("# Made by the command at the head of byte_level_characters.py.")
    print("\n".join(lines(_measured())))


if __name__ == "__main__":
    main()
