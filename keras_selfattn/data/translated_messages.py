"""Real sentences in many languages: the messages of Django, read from its translation catalogues.

Django is installed only for them and never imported. Its catalogues (BSD licence) hold several hundred
messages in each of some hundred languages, checked by speakers of them.
"""

import functools
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from babel.messages import Catalog
from babel.messages.mofile import read_mo

from keras_selfattn.errors import ConfigError

# Languages with other codes in Django than in CLDR.
_FOLDERS = {"zh": "zh_Hans", "no": "nb"}
# Catalogues translate from English, so the English messages are read from one of the fullest catalogues.
_ENGLISH = "en"
_TRANSLATED = "de"
# "%(name)s", "%d", "{name}", "<b>" and "&nbsp;" belong to no language; nor do quotation marks around them.
_FIELD = r"%\(\w+\)[\d.]*\w?|%[sd]|%\w\b|\{[^{}]*\}|<[^<>]*>|&\w+;"
_QUOTES = "[\"'“”„«»‘’]"
_MARKUP = re.compile(f"{_QUOTES}(?:{_FIELD}){_QUOTES}|{_FIELD}")


@functools.cache
def load_messages(language: str) -> tuple[str, ...]:
    """Return Django's messages in a language, longest first; none for an unknown language.

    Args:
        language: a CLDR code, such as "en".

    Example:

        >>> "Enter a number." in load_messages("en")
        True
    """
    english = language == _ENGLISH
    found: dict[str, None] = {}
    for catalogue in _catalogues(_TRANSLATED if english else language):
        for message in filter(lambda message: message.id, catalogue):  # the header has no id
            original = _forms(message.id)
            forms = original if english else [form for form in _forms(message.string) if form not in original]
            found |= dict.fromkeys(" ".join(_MARKUP.sub(" ", form).split()) for form in forms)
    texts = [text for text in found if sum(character.isalpha() for character in text) > 1]
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _catalogues(language: str) -> Iterator[Catalog]:
    package = find_spec("django")
    if package is None:
        raise ConfigError(
            "Django is not installed, whose messages the quickstart learns sentences from: pip install django"
        )
    folder = _FOLDERS.get(language, language)
    for root in package.submodule_search_locations or ():
        for path in sorted(Path(root).rglob(f"locale/{folder}/LC_MESSAGES/*.mo")):
            with path.open("rb") as file:
                yield read_mo(file)


def _forms(text: Any) -> list[str]:
    """Singular and plural of a message, or its only form."""
    return [text] if isinstance(text, str) else list(text)
