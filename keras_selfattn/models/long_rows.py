"""Rows longer than a model reads at once: which are cut, which are read in parts, in windows or spans.

Rows | read | limit | by
---|---|---|---
texts, learned words | cut at the end | `max_tokens` | `text/tokenizer.py`, `split`
pairs of texts | cut at the end of the longer text first | `max_tokens` | `subwords/ragged_rows.py`
texts, learned or pretrained pieces | cut before the last special token | `max_tokens` | `cut_pieces`
tokens, a pretrained model's pieces | in parts of whole tokens | `max_tokens` | `pretrained/row_parts.py`
texts, to learn without labels | in windows of characters | `WINDOW` | `windows`
their pieces | in spans of nearly equal length | `training_span` | `text/masked_pieces.py`
texts, explained | the first tokens | `EXPLAINED_TOKENS` | `text/explanation.py`
but pairs, in a step of training | a random span in each epoch | `training_span` | `batches/length_sorted.py`

All others, such as tokens of learned words, series and images, are read whole. Special tokens count.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.user_warnings import warn_user

SPECIAL = 2
"""Tokens around the pieces of a text, or of a part of a row: [CLS] and [SEP], or others in their place."""
EXPLAINED_TOKENS = 512
"""Longest text of an explanation: the weights of all pairs take 4 layers heads T^2 bytes a row, 8 MB here for
two layers of four heads."""
# Some 200 words: the cost of a row is bounded, and no token of a long text is unused.
WINDOW = 1024


def pieces_within(max_tokens: int) -> int:
    """Return how many pieces of a text fit between its special tokens.

    Example:

        >>> pieces_within(128)
        126
    """
    return max_tokens - SPECIAL


def cut_pieces(rows: list[np.ndarray], max_tokens: int) -> tuple[list[np.ndarray], int]:
    """Return rows of ids, int32 `[T]`, cut to `max_tokens`; the last one stays. And the number of rows cut.

    Example:

        >>> rows, cut = cut_pieces([np.array([2, 7, 8, 9, 3]), np.array([2, 7, 3])], 4)
        >>> [row.tolist() for row in rows], cut
        ([[2, 7, 8, 3], [2, 7, 3]], 1)
    """
    long = [len(row) > max_tokens for row in rows]
    found = [
        np.append(row[: max_tokens - 1], row[-1]) if over else row
        for row, over in zip(rows, long, strict=True)
    ]
    return found, sum(long)


def check_around(max_tokens: int, first: str, last: str) -> None:
    """Raise ConfigError if a text has no room for its special tokens."""
    if max_tokens < SPECIAL:
        raise ConfigError(
            f"`max_tokens` must be at least {SPECIAL}, for {first} and {last}. Received {max_tokens}."
        )


def warn_of_cut(cut: int, rows: int, max_tokens: int, *, pairs: bool = False) -> None:
    """Warn of texts, or pairs of texts, that are longer than a model reads."""
    if cut:
        what, where = ("pairs", "the end of their longer text") if pairs else ("texts", "the end")
        warn_user(
            f"{cut} of {rows} {what} are longer than max_tokens={max_tokens} tokens and are cut at {where}."
        )


def warn_of_parts(long: int, rows: int, max_tokens: int) -> None:
    """Warn of rows that a model reads in several parts."""
    if long:
        warn_user(
            f"{long} of {rows} rows are longer than max_tokens={max_tokens} pieces and are read in parts."
        )


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
