"""Labels that mark spans of tokens, such as B-PER I-PER: one rule for files, models and figures.

Marks are O (outside), B (begin), I (inside), E or L (end, last), S or U (single, unit), as in BIO (IOB1,
IOB2), IOBES and BILOU. The kind of the span follows "-" or "_", or there is none: B, I and O alone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
# The kind of spans whose marks stand alone, as in seqeval.
NO_KIND = "_"
# BILOU's marks are those of IOBES under other letters.
_MARKS = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
_SEPARATORS = ("-", "_", "")
_LOOKS_LIKE = {mark: re.compile(f"{mark}[-_].|.+[-_]{mark}$", re.IGNORECASE | re.DOTALL) for mark in "BI"}


class Mark(NamedTuple):
    """The mark of a label, "O", "B", "I", "E" or "S", and the kind of its span, "" outside."""

    mark: str
    kind: str


@dataclass(frozen=True)
class SpanScheme:
    """The way in which a set of labels marks spans.

    Args:
        separator: between mark and kind: "-", "_", or "" for marks without a kind.
    """

    separator: str = "-"

    def read(self, label: str) -> Mark | None:
        """Return the mark and the kind of a label; None if it is no mark of the scheme.

        Example:

            >>> SpanScheme().read("U-PER"), SpanScheme("_").read("U-PER")
            (Mark(mark='S', kind='PER'), None)
        """
        if label == OUTSIDE:
            return Mark(OUTSIDE, "")
        mark, rest = _MARKS.get(label[:1]), label[1:]
        if mark is None or not rest.startswith(self.separator):
            return None
        if not self.separator:
            return None if rest else Mark(mark, NO_KIND)
        kind = rest[1:]
        return Mark(mark, kind) if kind else None

    @property
    def marks_in_words(self) -> str:
        """The marks with their separator, for messages."""
        return ", ".join(f"{mark}{self.separator}" for mark in _MARKS)


def scheme_of(labels: Iterable[str]) -> SpanScheme | None:
    """Return the scheme by which labels mark spans; None if they mark none.

    All labels are marks of one scheme. Beside them stands "O", or there are both B and I (or an end). Marks
    without a kind, which are single letters, need all of that.

    Example:

        >>> scheme_of(["O", "B-PER", "I-PER"]), scheme_of(["B_X", "L_X"]), scheme_of(["NOUN", "O"])
        (SpanScheme(separator='-'), SpanScheme(separator='_'), None)
    """
    names = set(labels)
    for scheme in map(SpanScheme, _SEPARATORS):
        marks = [scheme.read(name) for name in names]
        letters = {each.mark for each in marks if each is not None}
        if None in marks or letters <= {OUTSIDE}:
            continue
        outside, whole = OUTSIDE in letters, "B" in letters and bool(letters & {"I", "E"})
        if (outside and whole) if not scheme.separator else (outside or whole):
            return scheme
    return None


def why_no_scheme(labels: Iterable[str]) -> str:
    """Return why labels of which some look like span marks mark no spans; "" if none look so, or they do.

    Example:

        >>> why_no_scheme(["O", "B-PER", "I-PER", "Name"])
        "the label 'Name' is neither O nor begins with one of the marks B-, I-, E-, L-, S-, U-"
        >>> why_no_scheme(["NOUN", "VERB"])
        ''
    """
    names = sorted(set(labels))
    if scheme_of(names) is not None:
        return ""
    if len(names) > 1 and "B" in names and all(name in {OUTSIDE, *_MARKS} for name in names):
        return f"the marks {', '.join(names)} have no kind, and such labels must be O, B and I (or E or L)"
    begins, continues = (any(_LOOKS_LIKE[mark].match(name) for name in names) for mark in "BI")
    outside = any(name.upper() == OUTSIDE for name in names)
    if begins + continues + outside < 2:
        return ""
    scheme = max(map(SpanScheme, _SEPARATORS[:2]), key=lambda each: sum(map(bool, map(each.read, names))))
    wrong = next((name for name in names if scheme.read(name) is None), None)
    if wrong is None:
        return ""
    return f"the label {wrong!r} is neither O nor begins with one of the marks {scheme.marks_in_words}"
