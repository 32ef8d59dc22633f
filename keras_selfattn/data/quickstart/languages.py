"""The built-in first data set: names, sentences and mixed texts in fifty languages.

Names alone are not enough to learn sentences: few of them hold "the", "is" or "of". So the data set also has
messages of Django and texts composed of frequent words (the stopwordsiso package) and phrases (CLDR). All
three come with packages, so nothing is downloaded.

Django is installed only for its translation catalogues (BSD licence) and never imported. They hold several
hundred messages in each of some hundred languages, checked by speakers of them.
"""

import datetime
import functools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from babel import Locale
from babel.dates import format_date, format_timedelta
from babel.lists import format_list
from babel.messages import Catalog
from babel.messages.mofile import read_mo
from babel.units import format_unit

from keras_selfattn.data.labelled import LabelledRows, split_rows
from keras_selfattn.data.quickstart.multilingual_names import (
    LANGUAGES,
    Name,
    all_names,
    load_names,
    split_by_thing,
)
from keras_selfattn.extras import require
from keras_selfattn.rows.targets import ONE_LABEL
from keras_selfattn.rows.texts import TEXTS

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
    require("quickstart", "load_messages", "django")
    package = find_spec("django")
    folder = _FOLDERS.get(language, language)
    for root in (package and package.submodule_search_locations) or ():
        for path in sorted(Path(root).rglob(f"locale/{folder}/LC_MESSAGES/*.mo")):
            with path.open("rb") as file:
                yield read_mo(file)


def _forms(text: Any) -> list[str]:
    """Singular and plural of a message, or its only form."""
    return [text] if isinstance(text, str) else list(text)


HELD_OUT = 0.1  # share of the named things for the figures; a tenth of the rest is for validation
_MESSAGES, _COMPOSED = 400, 250  # texts of each language; of the messages, the longest
_WORDS = 0.7  # share of frequent words among the pieces of a composed text; the rest are names and phrases
_REPEATED = 3  # occurrences from which on a word of the messages is a frequent word
_PIECES = (3, 14)  # of a composed text
_STOP_WORDS = {"nb": "no"}  # languages with other codes in stopwordsiso than in CLDR
# Scripts written without blanks, and ends of sentences other than a full stop.
_WITHOUT_BLANKS = frozenset({"ja", "th", "zh"})
_KINDS: dict[str, Any] = {"kind": TEXTS, "target_kind": ONE_LABEL}
_ENDS = {"ja": "。", "zh": "。", "th": "", "hi": "।", "bn": "।"}


class LanguageRows(NamedTuple):
    """Texts labelled with their languages.

    Args:
        train: names, messages and composed texts.
        validation: a tenth of each, not in `train`.
        held_out: names of things that `train` and `validation` do not name in any language.
    """

    train: LabelledRows
    validation: LabelledRows
    held_out: list[Name]


def language_rows(languages: Sequence[str] = LANGUAGES, seed: int = 0) -> LanguageRows:
    """Return texts labelled with their language, one of `languages`.

    No text of training and validation is a held-out name.

    Args:
        languages: at least two CLDR language codes.
        seed: of the splits and of the composed texts.

    Raises:
        DataError: as for `load_names`.
    """
    unique = load_names(languages)
    kept, held_out = split_by_thing(unique, HELD_OUT, seed)
    names, validation = (names_table(part) for part in split_by_thing(kept, HELD_OUT, seed + 1))
    hidden = {name.text.casefold() for name in unique}  # messages and phrases that are a name are not needed
    # Names that several languages share are useless alone, but useful beside the words of one of them.
    phrases: defaultdict[str, list[str]] = defaultdict(list)
    for name in split_by_thing(all_names(languages), HELD_OUT, seed)[0]:
        phrases[name.language].append(name.text)
    texts = _texts(languages, phrases, hidden, seed)
    more, more_validation = split_rows(texts, HELD_OUT, seed)
    return LanguageRows(_joined(names, more), _joined(validation, more_validation), held_out)


def names_table(names: Sequence[Name]) -> LabelledRows:
    """Return names as texts labelled with their languages."""
    texts = [name.text for name in names]
    return LabelledRows(texts, [name.language for name in names], "the CLDR names in Babel", **_KINDS)


def _texts(
    languages: Sequence[str], phrases: dict[str, list[str]], hidden: Collection[str], seed: int
) -> LabelledRows:
    """Return messages and composed texts of all languages."""
    inputs: list[str] = []
    targets: list[str] = []
    for language in dict.fromkeys(languages):
        messages = [text for text in load_messages(language) if text.casefold() not in hidden]
        draw = random.Random(f"{seed}/{language}")
        pieces = phrases[language] + [text for text in _phrases(language) if text.casefold() not in hidden]
        words = _frequent_words(language, messages)
        composed = [_composed(language, words, pieces, draw) for _ in range(_COMPOSED)]
        found = messages[:_MESSAGES] + [text for text in composed if text.casefold() not in hidden]
        inputs += found
        targets += [language] * len(found)
    return LabelledRows(inputs, targets, "messages of Django, and words and phrases put together", **_KINDS)


def _composed(language: str, words: Sequence[str], phrases: Sequence[str], draw: random.Random) -> str:
    """Return a text of words and phrases in any order, written as a sentence or a part of one."""
    pieces = []
    for _ in range(draw.randint(*_PIECES)):
        if words and draw.random() < _WORDS:
            pieces.append(draw.choice(words))
        elif draw.random() < 0.2:
            listed = draw.sample(phrases, min(3, len(phrases)))
            pieces.append(format_list(listed, "standard", locale=language))
        else:
            phrase = draw.choice(phrases)
            pieces.append(phrase.lower() if draw.random() < 0.5 else phrase)
    text = ("" if language in _WITHOUT_BLANKS else " ").join(pieces)
    if draw.random() < 0.7:
        text = text[:1].upper() + text[1:]
    return text + draw.choice([_ENDS.get(language, "."), _ENDS.get(language, "."), "?", ""])


def _frequent_words(language: str, messages: Sequence[str]) -> list[str]:
    """Return stop words, if the language has a list, and the words that messages repeat."""
    import stopwordsiso  # here: nothing else of this package needs it

    counts = Counter(word for text in messages for word in text.lower().split() if word.isalpha())
    repeated = {word for word, count in counts.items() if count >= _REPEATED}
    return sorted(repeated.union(stopwordsiso.stopwords(_STOP_WORDS.get(language, language))))


@functools.cache
def _phrases(language: str) -> list[str]:
    """Return dates, spans of time and measures in the form of the language, in a fixed order."""
    locale = Locale.parse(language)
    days = (datetime.date(2001, 1, 1) + datetime.timedelta(days=37 * step) for step in range(40))
    found = [format_date(day, "full", locale=locale) for day in days]
    for seconds in (1, 60, 3600, 86400, 7 * 86400, 31 * 86400, 366 * 86400):
        for count in (-5, -2, -1, 1, 2, 5):
            span = datetime.timedelta(seconds=count * seconds)
            found.append(format_timedelta(span, add_direction=True, locale=locale))
    for unit in map(str, locale.unit_display_names):
        found += [format_unit(count, unit, "long", locale=locale) for count in (1, 2, 5)]
    return list(dict.fromkeys(text for text in found if any(character.isalpha() for character in text)))


def _joined(first: LabelledRows, second: LabelledRows) -> LabelledRows:
    return LabelledRows(
        [*first.inputs, *second.inputs],
        [*first.targets, *second.targets],
        f"{first.source}; {second.source}",
        **_KINDS,
    )
