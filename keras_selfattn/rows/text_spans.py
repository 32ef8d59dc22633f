"""A span of characters that a labeller finds in a raw text, one class for models and clients."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A part of a raw text, with a label.

    Attributes:
        text: the characters `start` to `end` of the raw text.
        label: the label, such as "PER".
        start: the number of its first character (Unicode code point) in the raw text, from 0 on.
        end: the number of the character behind its last.
        score: the least of its tokens' scores: the probability of the label of its least certain token.

    Example:

        >>> raw = "Ada wrote"
        >>> found = Span("Ada", "PER", 0, 3, 0.98)
        >>> raw[found.start : found.end] == found.text
        True
    """

    text: str
    label: str
    start: int
    end: int
    score: float
