"""The effect of BERT's normalisation on each Unicode code point, as tables for TensorFlow's gather.

The character classes and mappings are in `bert_characters.txt`, because those of Python, of TensorFlow and of
the `tokenizers` package are from different versions of Unicode. This file is also a program that asks
`tokenizers` about every code point and writes them:

    cd keras_selfattn/models/subwords && python -P bert_characters.py > bert_characters.txt

Axes: P (pages of 128 code points), Q (distinct pages), E (distinct effects), K (most characters that one
becomes).
"""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.models.subwords.character_file import (
    CODE_POINTS,
    Item,
    Mapping,
    in_pages,
    lines,
    read,
    scalars,
    syllables,
)

CODE_BITS, KIND_BITS = 21, 2
# Kinds of characters: a letter of a word; a separator; a word of its own.
LETTER, SPACE, ISOLATED = 0, 1, 2
# No character: far enough below 0 that the sum with a code point stays there. A `BREAK` was a mark that
# separates the marks before it from those after it in the canonical order.
REMOVED, BREAK = -(2**29), -(2**30)
# Effects that have the same number in each table.
UNCHANGED, SEPARATOR = 0, 1

_FILE = "bert_characters.txt"
_MARKS = 6  # canonical combining classes among the marks that are kept


class CharacterTable(NamedTuple):
    """Table of the effects of normalisation, in two levels.

    The effect of code point `c` is `effects[blocks[pages[c // 128], c % 128]]`: numbers to add to `c`. Each
    sum is a character: its code point, its kind from bit 21 on, and from bit 23 on the rank of its combining
    class (0 for all characters but marks that are kept). A negative sum is no character.

    Args:
        pages: int32 `[P]`.
        blocks: int32 `[Q, 128]`.
        effects: int32 `[E, K]`.

    Example:

        >>> table = character_table(clean=True, ideographs=True, accents=True, lowercase=True)
        >>> effect = table.effects[table.blocks[table.pages[ord("É") // 128], ord("É") % 128]]
        >>> [chr(character) for character in ord("É") + effect if character >= 0]
        ['e']
    """

    pages: np.ndarray
    blocks: np.ndarray
    effects: np.ndarray


@functools.cache
def character_table(*, clean: bool, ideographs: bool, accents: bool, lowercase: bool) -> CharacterTable:
    """Return the table for settings of `BertNormalizer`, followed by `BertPreTokenizer`.

    Args:
        clean: remove control characters.
        ideographs: make each Chinese character a word.
        accents: decompose characters and remove their accents.
        lowercase: fold case.

    Reference: Devlin et al. 2019, "BERT"; its tokenization.py, `BasicTokenizer`.
    """
    classes, mappings = read(Path(__file__).with_name(_FILE))
    removed = classes["removed"] if clean else frozenset()
    apart = classes["ideograph"] if ideographs else frozenset()
    letters = _letters(mappings["decomposed"] if accents else {}, mappings["lower"] if lowercase else {})
    bits = _kinds(classes, clean=clean, marks=accents)
    numbers: dict[tuple[int, ...], int] = {(0,): UNCHANGED, (SPACE << CODE_BITS,): SEPARATOR}
    found = np.zeros(CODE_POINTS, np.int32)
    for codes, effect in ((apart, (ISOLATED << CODE_BITS,)), (removed, (REMOVED,))):
        found[list(codes)] = numbers.setdefault(effect, len(numbers))
    for code in (bits.keys() | letters.keys()) - removed:
        kinds = dict.fromkeys(letters.get(code, ()), ISOLATED << CODE_BITS) if code in apart else bits
        effect = tuple(letter - code + kinds.get(letter, 0) for letter in letters.get(code, (code,)))
        effect = effect or (BREAK if code in classes["breaking"] else REMOVED,)
        found[code] = numbers.setdefault(effect, len(numbers))
    pages, blocks = in_pages(found)
    longest = max(map(len, numbers))
    effects = [effect + (REMOVED,) * (longest - len(effect)) for effect in numbers]
    return CharacterTable(pages, blocks, np.array(effects, np.int32))


@functools.cache
def ideographs() -> tuple[np.ndarray, np.ndarray]:
    """Return pages `[P]` and blocks `[Q, 128]`, int32, in which Chinese characters are 1 and others 0."""
    found = np.zeros(CODE_POINTS, np.int32)
    found[list(read(Path(__file__).with_name(_FILE))[0]["ideograph"])] = 1
    return in_pages(found)


def _letters(decomposed: Mapping, lower: Mapping) -> Mapping:
    """Return the characters that each changed one becomes: those of its decomposition, in lower case."""
    return {
        code: tuple(last for first in decomposed.get(code, (code,)) for last in lower.get(first, (first,)))
        for code in decomposed.keys() | lower.keys()
    }


def _kinds(classes: dict[str, frozenset[int]], *, clean: bool, marks: bool) -> dict[int, int]:
    """Return the bits above the code point of each character that is not a letter of rank 0."""
    bits = dict.fromkeys(classes["punctuation"], ISOLATED << CODE_BITS)
    bits |= dict.fromkeys(classes["space"] | (classes["blank"] if clean else set()), SPACE << CODE_BITS)
    for rank in range(1, _MARKS + 1) if marks else ():
        bits |= dict.fromkeys(classes[f"mark{rank}"], rank << CODE_BITS + KIND_BITS)
    return bits


def _measured() -> Iterator[tuple[str, list[Item]]]:
    """Yield each class and mapping of `tokenizers`; of a class, every code point with None."""
    from tokenizers import normalizers, pre_tokenizers

    off = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)

    def changed(setting: str) -> dict[int, str]:
        by: Any = normalizers.BertNormalizer(**off | {setting: True})
        found = {code: by.normalize_str(chr(code)) for code in scalars()}
        return {code: text for code, text in found.items() if text != chr(code)}

    def members(codes: Iterable[int]) -> list[Item]:
        return [(code, None) for code in codes]

    cleaned, stripped = changed("clean_text"), changed("strip_accents")
    yield "removed", members(code for code, text in cleaned.items() if not text)
    yield "blank", members(code for code, text in cleaned.items() if text)
    yield "ideograph", members(changed("handle_chinese_chars"))
    split: Any = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    parts = {code: len(split(f"a{chr(code)}b")) for code in scalars()}
    yield "space", members(code for code, count in parts.items() if count == 2)
    yield "punctuation", members(code for code, count in parts.items() if count == 3)
    hangul = dict(syllables())
    for name, found in (("decomposed", stripped), ("lower", changed("lowercase"))):
        mapping = {code: tuple(map(ord, text)) for code, text in found.items()}
        yield name, [(code, to) for code, to in mapping.items() if hangul.get(code) != to]
    yield from _measured_marks(normalizers.BertNormalizer(**off | {"strip_accents": True}), stripped)


def _measured_marks(normalizer: Any, stripped: dict[int, str]) -> Iterator[tuple[str, list[Item]]]:
    """Yield the marks that are kept, by combining class, and those removed that separate the others."""

    def swap(*codes: int, removed: int | None = None) -> bool:
        kept = "".join(chr(code) for code in codes if code != removed)
        return normalizer.normalize_str("a" + "".join(map(chr, codes))) != f"a{kept}"

    def compare(one: int, other: int) -> int:
        return swap(one, other) - swap(other, one)

    low, high = 0x1B44, 0x1D16D  # BALINESE ADEG ADEG, of class 9; MUSICAL SYMBOL AUGMENTATION DOT, of 226
    marks = [code for code in scalars() if code not in stripped and (swap(code, low) or swap(high, code))]
    classes: list[list[int]] = []
    for code in sorted({*marks, low, high}, key=functools.cmp_to_key(compare)):
        if not classes or swap(code, classes[-1][0]):
            classes.append([])
        classes[-1].append(code)
    for number, codes in enumerate(classes, start=1):
        yield f"mark{number}", [(code, None) for code in sorted(codes)]
    lowest, highest = classes[0][0], classes[-1][0]
    none = [code for code, text in stripped.items() if not text]
    yield "breaking", [(code, None) for code in none if not swap(highest, code, lowest, removed=code)]


def main() -> None:
    """Write the table to standard output."""
    from importlib.metadata import version

    print(f"# Characters of BERT's tokenizer, as the tokenizers package, {version('tokenizers')}, has them.")
    print("# Made by the command at the head of bert_characters.py.")
    print("\n".join(lines(_measured())))


if __name__ == "__main__":
    main()
