"""Files of classes and mappings of Unicode code points, and tables of two levels for TensorFlow's gather.

A line of a file holds the name of a class or mapping and its code points in hexadecimal: `20-2f` is a range,
`41-5a>61` a range and what its first becomes, `130>69+307` one that becomes two, `300>` none.

Axes: P (pages of 128 code points), Q (distinct pages).
"""

import functools
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

CODE_POINTS, PAGE = 0x110000, 128

_HANGUL, _SYLLABLES = 0xAC00, 11172

Mapping = dict[int, tuple[int, ...]]
Item = tuple[int, tuple[int, ...] | None]


def in_pages(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two levels of a table of all code points.

    The number of code point `c` is `blocks[pages[c // 128], c % 128]`.

    Args:
        numbers: int32 `[CODE_POINTS]`.

    Returns:
        pages, int32 `[P]`, and blocks, int32 `[Q, 128]`.

    Example:

        >>> pages, blocks = in_pages(np.arange(CODE_POINTS, dtype=np.int32) // 1000)
        >>> int(blocks[pages[5000 // 128], 5000 % 128])
        5
    """
    blocks, pages = np.unique(numbers.reshape(-1, PAGE), axis=0, return_inverse=True)
    return pages.reshape(-1).astype(np.int32), blocks


@functools.cache
def read(path: Path) -> tuple[dict[str, frozenset[int]], dict[str, Mapping]]:
    """Return the classes and the mappings of a file."""
    classes: dict[str, set[int]] = {}
    mappings: dict[str, Mapping] = {"decomposed": dict(syllables())}
    for line in path.read_text("ascii").splitlines():
        name, *items = line.split()
        for item in items if name != "#" else ():
            codes, mapped, targets = item.partition(">")
            first, last = (int(code, 16) for code in (codes.split("-") * 2)[:2])
            if not mapped:
                classes.setdefault(name, set()).update(range(first, last + 1))
                continue
            target = [int(code, 16) for code in targets.split("+") if code]
            for code in range(first, last + 1):
                mappings.setdefault(name, {})[code] = tuple(each + code - first for each in target)
    return {name: frozenset(codes) for name, codes in classes.items()}, mappings


def syllables() -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the Hangul syllables and their letters (The Unicode Standard, section 3.12)."""
    for number in range(_SYLLABLES):
        rest, last = divmod(number, 28)
        letters = (0x1100 + rest // 21, 0x1161 + rest % 21, 0x11A7 + last)
        yield _HANGUL + number, letters if last else letters[:2]


def scalars() -> Iterator[int]:
    """Return the code points that a text can hold: all but surrogates."""
    return (code for code in range(CODE_POINTS) if not 0xD800 <= code < 0xE000)


def _ranges(items: list[Item]) -> Iterator[str]:
    """Yield the items of a line: each run of code points whose targets, too, are a run, as one."""
    runs: list[list[Item]] = []
    for code, to in items:
        last, before = runs[-1][-1] if runs else (-2, None)
        follows = to if to is None or before is None else tuple(each + 1 for each in before)
        if code != last + 1 or follows != to or to == ():
            runs.append([])
        runs[-1].append((code, to))
    for run in runs:
        (first, to), last = run[0], run[-1][0]
        codes = f"{first:x}" if first == last else f"{first:x}-{last:x}"
        yield codes if to is None else f"{codes}>{'+'.join(f'{code:x}' for code in to)}"


def lines(named: Iterable[tuple[str, list[Item]]]) -> Iterator[str]:
    """Yield the lines of a file.

    Args:
        named: each class and mapping; of a class, every code point with None.
    """
    for name, items in named:
        for line in textwrap.wrap(" ".join(_ranges(items)), 100, break_on_hyphens=False):
            yield f"{name} {line}"
