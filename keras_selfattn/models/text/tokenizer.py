"""Raw text to token ids, as TensorFlow string ops: the same ones in training and in the exported graph.

Axes: B (texts), T (tokens).
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.vocabulary import (
    FIRST_ID,
    PADDING_ID,
    as_strings,
    chunks,
    lookup_table,
    lowercased,
    most_frequent,
)

Tensor = Any

# Separate tokens: punctuation and symbols, and each sign of the scripts without spaces (otherwise a whole
# sentence would be one word). RE2 syntax.
_SINGLE = (
    r"([^\p{L}\p{M}\p{N}_'\s]|\p{Han}|\p{Hiragana}|\p{Katakana}|\p{Thai}|\p{Lao}|\p{Khmer}|\p{Myanmar}"
    r"|\p{Tibetan})"
)
# RE2's \s knows ASCII only; these are the spaces of Unicode.
_SPACE = r"[\p{Z}\s]+"

# Texts and characters tokenised at once, to bound the memory of the intermediate ragged tensors.
_CHUNK, _CHARACTERS = 4096, 2**24


class Tokenizer:
    """Split texts into tokens and look up their ids.

    Args:
        config: sets the kind of tokens, the folding of case, and the cut.
        vocabulary: tokens in the order of their ids, which start at 2; 0 is padding, 1 the unknown token.

    Example:

        >>> tokenizer = Tokenizer(TextConfig(), ["good", "film"])
        >>> tokenizer(tf.constant(["Good film!"])).to_list()
        [[2, 3, 1]]
    """

    def __init__(self, config: TextConfig, vocabulary: Sequence[str]) -> None:
        self.config = config
        self.vocabulary = list(vocabulary)
        self.table = lookup_table(vocabulary)

    @property
    def size(self) -> int:
        """Number of ids, padding and unknown included."""
        return FIRST_ID + len(self.vocabulary)

    def __call__(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]` as int32 ragged `[B, T]`."""
        tokens = split(self.config, texts)
        return tokens.with_flat_values(self.table.lookup(tokens.flat_values))

    def padded(self, texts: Tensor) -> Tensor:
        """Return the ids of a string tensor `[B]`, int32 `[B, T]`, padded with 0 to the longest row."""
        return self(texts).to_tensor(PADDING_ID)

    def rows(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        found: list[np.ndarray] = []
        for chunk in chunks(texts, _CHUNK, _CHARACTERS):
            ids = self(as_strings(chunk))
            found += np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])
        return found


def split(config: TextConfig, texts: Tensor) -> Tensor:
    """Return the tokens of a string tensor `[B]` as string ragged `[B, T]`, T at most `max_tokens`.

    Bytes that are not UTF-8, and NUL where letters are lowered, become the replacement character U+FFFD.
    """
    texts = clipped(config, texts)
    if config.lowercase:
        texts = lowercased(texts)
    if config.tokens == "characters":
        return tf.strings.unicode_split(texts, "UTF-8")[:, : config.max_tokens]
    spaced = tf.strings.regex_replace(tf.strings.regex_replace(texts, _SPACE, " "), _SINGLE, r" \1 ")
    return tf.strings.split(spaced)[:, : config.max_tokens]


def clipped(config: TextConfig, texts: Tensor) -> Tensor:
    """Return texts `[B]` in valid UTF-8, cut at `max_tokens` characters if characters are the tokens.

    The cut is before any split, so a megabyte of text costs no more than so many characters.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    if config.tokens == "characters":
        texts = tf.strings.substr(texts, 0, config.max_tokens, unit="UTF8_CHAR")
    return texts


def learn_vocabulary(config: TextConfig, texts: Sequence[str]) -> tuple[list[str], int]:
    """Return the tokens of the vocabulary, most frequent first, and the number of texts over `max_tokens`."""
    counts: Counter[bytes] = Counter()
    cut = 0
    one_more = dataclasses.replace(config, max_tokens=config.max_tokens + 1)
    for chunk in chunks(texts, _CHUNK, _CHARACTERS):
        tokens = split(one_more, as_strings(chunk))
        cut += int((tokens.row_lengths().numpy() > config.max_tokens).sum())
        counts.update(tokens[:, : config.max_tokens].flat_values.numpy().tolist())
    return most_frequent(counts, config.min_count, config.vocabulary_size), cut
