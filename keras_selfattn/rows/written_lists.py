"""Lists that are written as texts, in cells of tables and in memory: JSON, and the forms of other writers."""

import json
import re
from typing import Any, NamedTuple

_ENDS = {"[": "]", "{": "}", "(": ")"}
_QUOTES = ("'", '"')
_JSON = "a JSON list"
_PYTHON = "a list as Python and NumPy print it (so does pandas' to_csv)"
_NUMBERS = re.compile(r"[-+.0-9e]+(?:[ \n]+[-+.0-9e]+)+")


class WrittenList(NamedTuple):
    """A text that holds a list.

    Args:
        form: in words.
        names: the items of a JSON list of texts and numbers; None for another form.
        is_certain: False for one number in brackets, which may be a name, too.
    """

    form: str
    names: list[Any] | None = None
    is_certain: bool = True


def written_list(text: str) -> WrittenList | None:
    """Return the list that a text holds; None if it is a name, such as "[OTHER]".

    A list has quotes or a comma between its brackets, or is JSON. It is read only if it is JSON: what others
    write cannot be told apart from names with commas or quotes in them.

    Example:

        >>> [each and each.names for each in map(written_list, ('["x", "y"]', "['x', 'y']", "[OTHER]"))]
        [['x', 'y'], None, None]
        >>> written_list("[a, b c]").form
        'a list without quotes, as DuckDB, Spark and PostgreSQL write it'
    """
    text = text.strip()
    if len(text) < 2 or _ENDS.get(text[0]) != text[-1]:
        return None
    return _from_json(text) or _from_others(text[0], text[1:-1].strip())


def _from_json(text: str) -> WrittenList | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        choices = "choices" in found
        return WrittenList("a JSON object, as Label Studio writes choices" if choices else "a JSON object")
    if any(isinstance(item, list | dict) for item in found):
        return WrittenList(f"{_JSON} of lists or objects")
    return WrittenList(_JSON, found, len(found) != 1 or isinstance(found[0], str))


def _from_others(bracket: str, inner: str) -> WrittenList | None:
    """Return the form of a list that is no JSON, from what is between its brackets."""
    opening = inner.removeprefix("np.str_(")
    is_quoted = opening[:1] in _QUOTES or (opening[:1] in ("b", "u") and opening[1:2] in _QUOTES)
    if bracket == "{" and is_quoted and ":" in inner:
        return WrittenList("an object as Python prints it")
    ends_quoted = len(opening) > 1 and inner.rstrip(", )")[-1:] in _QUOTES
    if is_quoted and ends_quoted and (bracket != "(" or "," in inner):
        return WrittenList(_PYTHON)
    if bracket == "[" and _NUMBERS.fullmatch(inner):
        return WrittenList("a list of numbers as NumPy prints it (so does the to_csv of datasets)")
    if bracket != "(" and "," in inner and not any(each in inner for each in "[]{}"):
        return WrittenList("a list without quotes, as DuckDB, Spark and PostgreSQL write it")
    return None
