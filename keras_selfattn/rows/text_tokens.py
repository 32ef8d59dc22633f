"""The tokens of a raw text, by one rule: in Python here, in TensorFlow's ops in `models/tokens/raw_texts.py`.

Texts with spans are read by it, and raw texts are split by it to find spans in them. All else of a labeller
takes tokens: give it those of `split_text`, since commands split a row of tokens at blanks and tabs alone.

A token is one of:

- a single character: a punctuation mark, a symbol, or a character of a script without blanks between words
  (Han, Hiragana, Katakana, Bopomofo, Yi, Thai, Lao, Khmer, Myanmar, Tibetan, …), with the marks that change
  its look behind it (variation selectors, joiners, combining marks for symbols);
- a word: all characters between those and white space: letters, digits, their marks, controls.

White space is no part of a token. The classes are written here, as ranges, because those of Python, RE2 and
TensorFlow are from different versions of Unicode, and Python and a graph must give equal tokens.
"""

import functools
import re
from collections.abc import Iterator

import numpy as np

CODE_POINTS = 0x110000
# Kinds of characters: part of a word; white space; a token by itself; a mark of what is before it.
WORD, SPACE, SINGLE, MARK = range(4)

# All that is white space for Python; U+200B, which separates words of Thai and Khmer; U+FEFF, a byte order
# mark.
_SPACES = "9-D 1C-20 85 A0 1680 2000-200B 2028-2029 202F 205F 3000 FEFF"
_MARKS = "300-36F 200C-200D 20D0-20F0 FE00-FE0F 1F3FB-1F3FF E0020-E007F E0100-E01EF"
# The blocks of scripts that put no blanks between words, by their first character.
_WITHOUT_BLANKS = """
    E00-E7F E80-EFF F00-FFF 1000-109F 1780-17FF 1950-197F 1980-19DF 19E0-19FF 1A20-1AAF 1B00-1B7F
    2E80-2FDF 3005-3007 3021-3029 3031-3035 3038-303C 3040-309F 30A0-30FF 3100-312F 31A0-31BF 31F0-31FF
    3400-4DBF 4E00-9FFF A000-A4CF A980-A9DF A9E0-A9FF AA60-AA7F AA80-AADF F900-FAFF FF66-FF9F 1AFF0-1B16F
    20000-3FFFD
"""
# Punctuation and symbols: the categories P and S of Unicode 14, and what is unassigned between two of them.
_PUNCTUATION = """
    21-2F 3A-40 5B-60 7B-7E A1-A9 AB-AC AE-B1 B4 B6-B8 BB BF D7 F7 2C2-2C5 2D2-2DF 2E5-2EB 2ED 2EF-2FF
    375 37E 384-385 387 3F6 482 55A-55F 589-58F 5BE 5C0 5C3 5C6 5F3-5F4 606-60F 61B 61D-61F 66A-66D 6D4
    6DE 6E9 6FD-6FE 700-70D 7F6-7F9 7FE-7FF 830-83E 85E 888 964-965 970 9F2-9F3 9FA-9FB 9FD A76 AF0-AF1
    B70 BF3-BFA C77 C7F C84 D4F D79 DF4 E3F E4F E5A-E5B F01-F17 F1A-F1F F34 F36 F38 F3A-F3D F85 FBE-FC5
    FC7-FDA 104A-104F 109E-109F 10FB 1360-1368 1390-1399 1400 166D-166E 169B-169C 16EB-16ED 1735-1736
    17D4-17D6 17D8-17DB 1800-180A 1940-1945 19DE-19FF 1A1E-1A1F 1AA0-1AA6 1AA8-1AAD 1B5A-1B6A 1B74-1B7E
    1BFC-1BFF 1C3B-1C3F 1C7E-1C7F 1CC0-1CC7 1CD3 1FBD 1FBF-1FC1 1FCD-1FCF 1FDD-1FDF 1FED-1FEF 1FFD-1FFE
    2010-2027 2030-205E 207A-207E 208A-208E 20A0-20C0 2100-2101 2103-2106 2108-2109 2114 2116-2118
    211E-2123 2125 2127 2129 212E 213A-213B 2140-2144 214A-214D 214F 218A-244A 249C-24E9 2500-2775
    2794-2BFF 2CE5-2CEA 2CF9-2CFC 2CFE-2CFF 2D70 2E00-2E2E 2E30-2FFB 3001-3004 3008-3020 3030 3036-3037
    303D-303F 309B-309C 30A0 30FB 3190-3191 3196-319F 31C0-31E3 3200-321E 322A-3247 3250 3260-327F
    328A-32B0 32C0-33FF 4DC0-4DFF A490-A4C6 A4FE-A4FF A60D-A60F A673 A67E A6F2-A716 A720-A721 A789-A78A
    A828-A82B A836-A839 A874-A877 A8CE-A8CF A8F8-A8FA A8FC A92E-A92F A95F A9C1-A9CD A9DE-A9DF AA5C-AA5F
    AA77-AA79 AADE-AADF AAF0-AAF1 AB5B AB6A-AB6B ABEB FB29 FBB2-FBC2 FD3E-FD4F FDCF FDFC-FDFF FE10-FE19
    FE30-FE6B FF01-FF0F FF1A-FF20 FF3B-FF40 FF5B-FF65 FFE0-FFEE FFFC-FFFD 10100-10102 10137-1013F
    10179-10189 1018C-101FC 1039F 103D0 1056F 10857 10877-10878 1091F 1093F 10A50-10A58 10A7F 10AC8
    10AF0-10AF6 10B39-10B3F 10B99-10B9C 10EAD 10F55-10F59 10F86-10F89 11047-1104D 110BB-110BC
    110BE-110C1 11140-11143 11174-11175 111C5-111C8 111CD 111DB 111DD-111DF 11238-1123D 112A9
    1144B-1144F 1145A-1145D 114C6 115C1-115D7 11641-11643 11660-1166C 116B9 1173C-1173F 1183B
    11944-11946 119E2 11A3F-11A46 11A9A-11A9C 11A9E-11AA2 11C41-11C45 11C70-11C71 11EF7-11EF8
    11FD5-11FFF 12470-12474 12FF1-12FF2 16A6E-16A6F 16AF5 16B37-16B3F 16B44-16B45 16E97-16E9A 16FE2
    1BC9C 1BC9F 1CF50-1D164 1D16A-1D16C 1D183-1D184 1D18C-1D1A9 1D1AE-1D241 1D245 1D300-1D356 1D6C1
    1D6DB 1D6FB 1D715 1D735 1D74F 1D76F 1D789 1D7A9 1D7C3 1D800-1D9FF 1DA37-1DA3A 1DA6D-1DA74
    1DA76-1DA83 1DA85-1DA8B 1E14F 1E2FF 1E95E-1E95F 1ECAC 1ECB0 1ED2E 1EEF0-1F0F5 1F10D-1FBCA
"""


def split_text(text: str) -> list[str]:
    """Return the tokens of a text, in order.

    Example:

        >>> split_text("Ada's cat: 猫です")
        ['Ada', "'", 's', 'cat', ':', '猫', 'で', 'す']
    """
    return _pattern_for(text).findall(text)


def token_places(text: str) -> list[tuple[int, int]]:
    """Return the first character (code point) of each token of a text, and the place behind its last.

    Example:

        >>> token_places("Ada's cat")
        [(0, 3), (3, 4), (4, 5), (6, 9)]
    """
    return [found.span() for found in _pattern_for(text).finditer(text)]


@functools.cache
def character_kinds() -> np.ndarray:
    """Return the kind of each code point, `WORD`, `SPACE`, `SINGLE` or `MARK`: uint8 `[CODE_POINTS]`."""
    kinds = np.full(CODE_POINTS, WORD, np.uint8)
    # A later class goes before an earlier one.
    for ranges, kind in ((_PUNCTUATION + _WITHOUT_BLANKS, SINGLE), (_MARKS, MARK), (_SPACES, SPACE)):
        for first, last in _ranges(ranges):
            kinds[first : last + 1] = kind
    return kinds


def _pattern_for(text: str) -> re.Pattern[str]:
    """Return the pattern of a token for the characters of a text: the fewer ranges it has, the faster."""
    if text.isascii():
        return _token_pattern(0x80)
    return _token_pattern(CODE_POINTS if max(text) > "\uffff" else 0x10000)


@functools.cache
def _token_pattern(limit: int) -> re.Pattern[str]:
    """Return the pattern of a token, for texts of characters below a limit."""
    single, mark, space = (_character_class(kind, limit) for kind in (SINGLE, MARK, SPACE))
    marks = f"[{mark}]*" if mark else ""
    return re.compile(f"[{single}]{marks}|[^{single}{space}]+")


def _character_class(kind: int, limit: int) -> str:
    """Return the characters of a kind, as they stand between the brackets of a regular expression."""
    is_kind = character_kinds()[:limit] == kind
    pairs = np.flatnonzero(np.diff(is_kind, prepend=False, append=False)).reshape(-1, 2).tolist()
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in pairs)


def _ranges(written: str) -> Iterator[tuple[int, int]]:
    for each in written.split():
        first, _, last = each.partition("-")
        yield int(first, 16), int(last or first, 16)
