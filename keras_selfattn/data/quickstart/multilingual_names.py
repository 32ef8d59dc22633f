"""Names of languages, places, scripts and currencies in fifty languages.

The names come from the Unicode Common Locale Data Repository (CLDR), which is part of the Babel package, so
every machine has real labelled text without a download.

Reference: Unicode Technical Standard 35, "Locale Data Markup Language", part 2 (names), part 4 (time zones).
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from babel import Locale, localedata

from keras_selfattn.errors import DataError

# Fifty widely written languages in eighteen scripts. Most share a script with many others, as in practice.
_CODES = """
    en es pt fr de it nl sv da nb fi et lv lt pl cs sk sl hr hu ro sq tr az id vi sw ca eu ga is cy
    ru uk be bg sr kk el he ar fa hi mr bn ta th ko ja zh
"""
LANGUAGES = tuple(_CODES.split())


class Name(NamedTuple):
    """A name, the named thing ("territory:DE"), and the language of the name."""

    text: str
    thing: str
    language: str


def load_names(languages: Sequence[str] = LANGUAGES) -> list[Name]:
    """Return the CLDR names that belong to exactly one of `languages`, in a fixed order.

    Args:
        languages: at least two CLDR language codes, such as "en" or "tr".

    Raises:
        DataError: for fewer than two languages, or one that CLDR does not name.

    Example:

        >>> names = load_names(["hu", "tr"])
        >>> [name.text for name in names if name.thing == "territory:KR"]
        ['Dél-Korea', 'Güney Kore']
    """
    names = all_names(languages)
    owners = Counter(name.text for name in names)
    return [name for name in names if owners[name.text] == 1]


def all_names(languages: Sequence[str] = LANGUAGES) -> list[Name]:
    """Return the CLDR names of `languages`, in a fixed order; a shared name appears once for each of them.

    Args:
        languages: as in `load_names`.

    Raises:
        DataError: as for `load_names`.
    """
    found: dict[tuple[str, str], Name] = {}
    for code in _checked(languages):
        for thing, text in _names_of(Locale.parse(code)):
            if any(character.isalpha() for character in text):
                found.setdefault((text, code), Name(text, thing, code))
    return list(found.values())


def split_by_thing(names: Sequence[Name], held_out: float, seed: int) -> tuple[list[Name], list[Name]]:
    """Split so that all names of one thing are in one part: no translation of a test name is in training.

    Args:
        names: the names to split.
        held_out: share of the things in the second part, in (0, 1).
        seed: of the random split.

    Returns:
        The kept and the held-out names, each in the given order.
    """
    kept: list[Name] = []
    held: list[Name] = []
    for name in names:
        digest = hashlib.blake2b(f"{seed}/{name.thing}".encode(), digest_size=8).digest()
        side = held if int.from_bytes(digest) < held_out * 2**64 else kept
        side.append(name)
    return kept, held


def _checked(languages: Sequence[str]) -> list[str]:
    codes = list(dict.fromkeys(languages))
    if len(codes) < 2:
        raise DataError(f"A classifier needs at least two languages. Received {list(languages)}.")
    unknown = [code for code in codes if not localedata.exists(code) or "_" in code]
    if unknown:
        raise DataError(
            f"CLDR has no language {unknown[0]!r}. Known here, for example: {' '.join(LANGUAGES)}."
        )
    return codes


def _names_of(locale: Locale) -> Iterator[tuple[str, str]]:
    tables = {
        "language": locale.languages,
        "territory": locale.territories,
        "script": locale.scripts,
        "currency": locale.currencies,
    }
    for kind, table in tables.items():
        for key, text in table.items():
            yield f"{kind}:{key}", text.strip()
    for key, zone in locale.time_zones.items():
        if "city" in zone:
            yield f"city:{key}", zone["city"].strip()
    for key, zone in locale.meta_zones.items():
        for text in (zone.get("long") or {}).values():
            yield f"zone:{key}", text.strip()


def english_name(language: str) -> str:
    """Return the English name of a language code: "Hungarian" for "hu"."""
    return Locale.parse(language).get_display_name("en") or language
