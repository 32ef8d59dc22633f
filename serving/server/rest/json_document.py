"""The JSON of TensorFlow Serving's REST API: a request's body as a document.

RapidJSON reads a little more than Python does (`Inf`, bytes that are no UTF-8) and says other things of what
it cannot read. Here Python's parser does the work and RapidJSON's words are put to it.

Reference: ParseJson and FillSignature in tensorflow_serving/util/json_tensor.cc; rapidjson/error/en.h.
"""

import json
import math
import re
from typing import Any

from ...errors import InvalidArgumentError
from .json_values import Infinite, format_error, proper_text, too_big

DEFAULT_SIGNATURE = "serving_default"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = " \t\r\n"
# One that nobody closed goes on to the end: a search that began anew at each quote in it would not end.
_STRING = r'"(?:[^"\\]+|\\.)*+\\?(?:"|\Z)'
_STRING_OR_WORD = re.compile(_STRING + r"|-?Inf(?:inity)?|-NaN", re.DOTALL)
_STRING_OR_BRACKET = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_WORDS = {"Inf": "Infinity", "-Inf": "-Infinity", "-NaN": "NaN"}

_TEXTS = {
    "Expecting value": "Invalid value.",
    "Expecting property name": "Missing a name for object member.",
    "Expecting ':'": "Missing a colon after a name of object member.",
    "Unterminated string": "Missing a closing quotation mark in string.",
    "Invalid control character": "Invalid encoding in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX": "Incorrect hex digit after \\u escape in string.",
    "Extra data": "The document root must not be followed by other values.",
}
_NO_COMMA = {
    "{": "Missing a comma or '}' after an object member.",
    "[": "Missing a comma or ']' after an array element.",
}

# What Python makes of a value (before a comma), a list, an object and a text (two quotes): the object itself,
# its places in lists, and its part of an array.
_JSON_BYTES = {b",": 40, b"[": 64, b"{": 232, b'"': 57}
# A text takes 4 bytes for each character if one of them needs them, and its UTF-8 once more.
_WIDE_CHARACTERS = 5
_EXAMPLE_BYTES = 1500  # a message has an arena of its own
_CHUNK = 2**20

_CONSTANTS = {"NaN": math.nan, "Infinity": Infinite("inf"), "-Infinity": Infinite("-inf")}
_DECODER = json.JSONDecoder(parse_constant=_CONSTANTS.__getitem__)


def json_bytes(body: bytes, are_examples: bool = False) -> int:
    """Return about how much memory in bytes a body takes as a document and as arrays, before it is read.

    Args:
        body: JSON.
        are_examples: whether each object in it becomes a tf.Example.

    Example:
        >>> json_bytes(b'{"instances": [1, 2.5]}') < json_bytes(b'{"instances": [[1], [2.5]]}')
        True
    """
    found = len(body) * (2 if body.isascii() else _WIDE_CHARACTERS)
    for start in range(0, len(body), _CHUNK):
        part = body[start : start + _CHUNK]
        found += sum(size * part.count(character) for character, size in _JSON_BYTES.items())
        found += _EXAMPLE_BYTES * part.count(b"{") if are_examples else 0
    return found


def document(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body.

    Args:
        body: JSON in UTF-8, in which numbers may be NaN, Infinity and -Infinity. Bytes that are no UTF-8
            stand in its strings as surrogates, which `utf8` turns back.

    Raises:
        InvalidArgumentError: it is no JSON, no object, or nested too deeply to be read.

    Example:
        >>> document(b'{"instances": [1, 2.5]}')
        {'instances': [1, 2.5]}
    """
    if not body:
        raise InvalidArgumentError("JSON Parse error: The document is empty")
    text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogateescape")
    try:
        found = _decoded(text)
    except json.JSONDecodeError as error:
        raise _parse_error(error, text) from None
    except RecursionError:
        raise InvalidArgumentError("JSON Parse error: The document is nested too deeply.") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise too_big() from None
    if not isinstance(found, dict):
        raise format_error(found, "Is not object")
    return found


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        plain = _STRING_OR_WORD.sub(lambda match: _WORDS.get(match[0], match[0]), text)
        if plain == text:
            raise
        try:
            return _DECODER.decode(plain)
        except json.JSONDecodeError:
            pass
        raise  # the first one: its offset counts in what was sent


def signature_name(doc: dict[str, Any]) -> str:
    """The signature that a document asks for.

    Raises:
        InvalidArgumentError: its name is no text.

    Example:
        >>> signature_name({"instances": [1]})
        'serving_default'
    """
    name = doc.get("signature_name", "")
    if not isinstance(name, str):
        message = "not formatted correctly. 'signature_name' key must be a string value."
        raise format_error(doc, message)
    return proper_text(name) or DEFAULT_SIGNATURE


def _parse_error(error: json.JSONDecodeError, text: str) -> InvalidArgumentError:
    if not text.strip(_BLANKS):
        message, place = "The document is empty.", len(text)
    else:
        message, place = _rapidjson_message(error.msg, text, error.pos)
    offset = len(text[:place].encode("utf-8", "surrogateescape"))
    return InvalidArgumentError(f"JSON Parse error: {message} at offset: {offset}")


def _rapidjson_message(message: str, text: str, place: int) -> tuple[str, int]:
    """RapidJSON's words for an error of Python's parser, and the place it would name."""
    after_digit = text[place - 1 : place].isdigit()
    if after_digit and text.startswith(".", place):
        return "Miss fraction part in number.", place + 1
    if after_digit and text.startswith(("e", "E"), place):
        return "Miss exponent in number.", place + 1 + text.startswith(("+", "-"), place + 1)
    if message.startswith("Illegal trailing comma"):  # Python from 3.13 on
        place += 1 + len(text[place + 1 :]) - len(text[place + 1 :].lstrip(_BLANKS))
        message = "Expecting property name" if text.startswith("}", place) else "Expecting value"
    if message.startswith("Expecting ','"):
        return _NO_COMMA[_container(text[:place])], place
    if message.startswith("Expecting value"):
        word = text[place : place + 5]
        place += max(_alike(word, known) for known in ("null", "true", "false", "-"))
    if message.startswith("Unterminated string"):
        place = len(text)
    return next((ours for python, ours in _TEXTS.items() if message.startswith(python)), message), place


def _container(text: str) -> str:
    """The bracket in which a text ends."""
    open_brackets: list[str] = []
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            open_brackets.append(match[0])
        elif match[0] in "]}":
            open_brackets.pop()
    return open_brackets[-1]


def _alike(text: str, word: str) -> int:
    """Return the number of characters of a word that a text begins with."""
    return next(size for size in range(len(word), -1, -1) if text.startswith(word[:size]))
