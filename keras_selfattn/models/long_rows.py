"""Long texts in pieces of a bounded number of characters."""

from collections.abc import Iterator, Sequence

# Some 200 words: the cost of a row is bounded, and no token of a long text is unused.
WINDOW = 1024


def windows(texts: Sequence[str]) -> Iterator[str]:
    """Yield pieces of texts, not blank, of at most 1,024 characters, cut before a space if possible.

    Example:

        >>> [len(piece) for piece in windows(["good " * 300, " "])]
        [1024, 476]
    """
    for text in texts:
        start = 0
        while start < len(text):
            end = _cut(text, start)
            if not text[start:end].isspace():
                yield text[start:end]
            start = end


def _cut(text: str, start: int) -> int:
    end = start + WINDOW
    if end >= len(text):
        return len(text)
    return next((place for place in range(end, start, -1) if text[place].isspace()), end)
