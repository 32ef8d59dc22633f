"""HTML and SVG in which every text and attribute is escaped: only `tag` makes markup."""

import html
import re
from collections.abc import Iterable
from typing import Any

# Elements without content and end tag.
_VOID = frozenset({"br", "col", "img", "link", "meta"})
# Control characters have no place in HTML, and halves of surrogate pairs none in UTF-8.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 600  # characters of a text in a cell


class Markup(str):
    """Text that is HTML already; any other text is escaped where it becomes part of one."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: its content: `Markup` stays, everything else is escaped; None is left out.
        attributes: by name. A trailing underscore is removed and others become hyphens: `class_`,
            `stroke_width`. None and False leave an attribute out; True is one without a value.

    Example:

        >>> tag("td", "<b>", class_="number")
        '<td class="number">&lt;b&gt;</td>'
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{escape(_plain(value))}"')
    parts.append(">")
    if name not in _VOID:
        parts += [join(children), f"</{name}>"]
    return Markup("".join(parts))


def join(children: Iterable[Any]) -> Markup:
    """Return children as one markup; texts are escaped, None is left out."""
    return Markup("".join(escape(_plain(child)) for child in children if child is not None))


def escape(text: str) -> Markup:
    """Return a text as markup; invalid characters become the replacement character.

    Example:

        >>> escape('"a" & b')
        '&quot;a&quot; &amp; b'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_INVALID.sub("\ufffd", text)))


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text of at most `longest` characters; a cut one ends with an ellipsis.

    Example:

        >>> shortened("a long text", 7)
        'a long…'
    """
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def isolated(text: str, longest: int = _LONGEST, class_: str | None = None) -> Markup:
    """Return a text of any script, shortened, that does not turn the direction of what is beside it."""
    return tag(
        "bdi", shortened(text, longest), class_=class_, title=text[:2000] if len(text) > longest else None
    )


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.5g}" if isinstance(value, float) else str(value)
