"""Ids of tokens, and texts in the form of TensorFlow's string ops."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

Tensor = Any
Row = TypeVar("Row", bound=str | tuple[str, str])

PADDING_ID = 0
UNKNOWN_ID = 1
FIRST_ID = 2


def lookup_table(vocabulary: Sequence[str], first: int = FIRST_ID) -> tf.lookup.StaticHashTable:
    """Return the table from tokens to their ids, which start at `first`; the id of all others is 1."""
    ids = np.arange(first, first + len(vocabulary), dtype=np.int32)
    # Texts are looked up as UTF-8, the form of TensorFlow's ops.
    keys = tf.constant([token.encode() for token in vocabulary], dtype=tf.string)
    # Created outside any graph under construction, because the table outlives it.
    with tf.init_scope():
        return tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, ids), default_value=UNKNOWN_ID
        )


def most_frequent(counts: Counter[bytes], min_count: int, size: int | None) -> list[str]:
    """Return the tokens of the vocabulary, most frequent first.

    If no token occurs `min_count` times, as in very few rows, all of them are included.

    Example:

        >>> most_frequent(Counter({b"rare": 1, b"film": 2, b"good": 3}), min_count=2, size=10)
        ['good', 'film']
    """
    least = min_count if max(counts.values(), default=0) >= min_count else 1
    frequent = [token for token, count in counts.items() if count >= least]
    frequent.sort(key=lambda token: (-counts[token], token))
    return [token.decode() for token in frequent[:size]]


def as_strings(texts: Sequence[str]) -> Tensor:
    """Return texts as a string tensor; a lone surrogate, which has no UTF-8 form, becomes "?"."""
    return tf.constant([text.encode(errors="replace") for text in texts], dtype=tf.string)


def lowercased(texts: Tensor) -> Tensor:
    r"""Return UTF-8 texts of any shape in lower case. A NUL becomes U+FFFD: TensorFlow's op would end there.

    Example:

        >>> lowercased(tf.constant(["Ünder\0Way"])).numpy()[0].decode()
        'ünder�way'
    """
    return tf.strings.lower(tf.strings.regex_replace(texts, r"\x00", "\ufffd"), encoding="utf-8")


def chunks(texts: Sequence[Row], rows: int, characters: int) -> Iterator[Sequence[Row]]:
    """Yield slices of texts, or pairs of texts, with so many rows and characters at most, or with one row.

    Example:

        >>> [list(chunk) for chunk in chunks(["abc", "de", "f", "g"], 2, 4)]
        [['abc'], ['de', 'f'], ['g']]
    """
    start, held = 0, 0
    for place, text in enumerate(texts):
        length = characters_of(text)
        if place > start and (place - start == rows or held + length > characters):
            yield texts[start:place]
            start, held = place, 0
        held += length
    if start < len(texts):
        yield texts[start:]


def characters_of(row: str | tuple[str, str]) -> int:
    """Return the number of characters of a text, or of both texts of a pair."""
    return len(row) if isinstance(row, str) else sum(map(len, row))
