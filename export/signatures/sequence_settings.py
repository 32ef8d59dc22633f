"""The settings of a search that a request may give for each of its rows: inputs, defaults and rules.

Axes: B (rows), P (symbols of a prefix).
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import MOST_PENALTY
from keras_selfattn.models.sequences.search import SearchSettings
from keras_selfattn.models.sequences.symbols import UNKNOWN, Symbols
from keras_selfattn.serving.wire.signature_names import BEAMS, LENGTH_PENALTY, MAX_NEW_TOKENS, PREFIX, TEXT

from .trial_requests import Request, strings

Tensor = Any

# Each input has a value a row, so that requests can be run together, or one for all of its rows. These mean
# the export's own; a penalty of 0 compares sums, so that its mark is another.
DEFAULTS = {
    MAX_NEW_TOKENS: np.array([0], np.int32),
    BEAMS: np.array([0], np.int32),
    LENGTH_PENALTY: np.array([-1], np.float32),
    PREFIX: strings([""]),
}
SPECS = {
    name: tf.TensorSpec([None], tf.string if name == PREFIX else value.dtype, name=name)
    for name, value in DEFAULTS.items()
}
# Trials write few symbols: an untrained model has no end.
_SHORT = 6


class GroupSettings(NamedTuple):
    """The settings of rows that are searched for together.

    bounds: int32 `[B]`, the most symbols of each answer.
    beams: int32 scalar.
    penalty: float32 scalar, the length penalty.
    prefix: int32 `[B, P]`, 0 is padding.
    """

    bounds: Tensor
    beams: Tensor
    penalty: Tensor
    prefix: Tensor


GROUP_SPECS = (
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([], tf.int32),
    tf.TensorSpec([], tf.float32),
    tf.TensorSpec([None, None], tf.int32),
)


class RowSettings(NamedTuple):
    """The settings of each row.

    bounds: int32 `[B]`.
    beams: int32 `[B]`.
    penalties: float32 `[B]`.
    prefix: int32 ragged `[B, P]`.
    """

    bounds: Tensor
    beams: Tensor
    penalties: Tensor
    prefix: Any

    @property
    def kinds(self) -> Tensor:
        """The number of each row's kind, int32 `[B]`: rows of one kind can be searched for together."""
        bits = tf.bitcast(self.penalties + 0.0, tf.int32)  # -0 is 0
        return tf.unique(tf.cast(bits, tf.int64) * 2**31 + tf.cast(self.beams, tf.int64))[1]

    def of(self, rows: Tensor, padding: int) -> GroupSettings:
        """Return the settings of some rows, of one kind, by their places, int32 `[b]`."""
        return GroupSettings(
            tf.gather(self.bounds, rows),
            self.beams[rows[0]],
            self.penalties[rows[0]],
            tf.gather(self.prefix, rows).to_tensor(padding),
        )


def row_settings(
    rows: Tensor,
    own: SearchSettings,
    symbols: Symbols,
    max_new_tokens: Tensor,
    beams: Tensor,
    length_penalty: Tensor,
    prefix: Tensor,
) -> RowSettings:
    """Return what the inputs of a request mean for each row; the graph fails for a value out of range.

    Args:
        rows: B.
        own: the export's settings, the defaults and the caps.
        symbols: of the model.
        max_new_tokens, beams: int32, `[B]` or `[1]`; 0 is the export's.
        length_penalty: float32, `[B]` or `[1]`; -1 is the export's.
        prefix: string, `[B]` or `[1]`; "" is none.
    """
    bounds = _count(MAX_NEW_TOKENS, _of_rows(MAX_NEW_TOKENS, max_new_tokens, rows), own.max_new_tokens)
    beams = _count(BEAMS, _of_rows(BEAMS, beams, rows), own.beams)
    penalties = _of_rows(LENGTH_PENALTY, length_penalty, rows)
    is_own = penalties == -1.0
    fits = is_own | ((penalties >= 0.0) & (penalties <= MOST_PENALTY))
    rule = f"from 0 to {MOST_PENALTY}, or -1 for the {own.length_penalty} of the export"
    penalties = _checked(LENGTH_PENALTY, penalties, fits, rule)
    penalties = tf.where(is_own, tf.constant(own.length_penalty, tf.float32), penalties)
    texts = _of_rows(PREFIX, prefix, rows)
    return RowSettings(bounds, beams, penalties, _begun(texts, symbols, bounds, own.max_new_tokens))


def _of_rows(name: str, values: Tensor, rows: Tensor) -> Tensor:
    """Return the values of an input, one for each row."""
    count = tf.size(values)
    rule = f"The input {name} must have a value for each row of {TEXT}, or one for all. Their numbers:"
    fits = tf.debugging.Assert((count == rows) | (count == 1), [rule, count, rows])
    with tf.control_dependencies([fits]):
        return tf.gather(values, tf.where(count == rows, tf.range(rows), tf.zeros([rows], tf.int32)))


def _count(name: str, values: Tensor, most: int) -> Tensor:
    """Return the counts of an input, with the export's own in place of 0."""
    rule = f"from 1 to the {most} of the export, or 0 for these"
    values = _checked(name, values, (values >= 0) & (values <= most), rule)
    return tf.where(values == 0, most, values)


def _begun(texts: Tensor, symbols: Symbols, bounds: Tensor, most: int) -> Any:
    """Return the ids of prefixes, int32 ragged `[B, P]`."""
    ids = symbols.symbols(texts, most + 1)
    unknown = tf.reduce_any((ids == UNKNOWN).to_tensor(False), axis=1)
    longer = tf.cast(ids.row_lengths(), tf.int32) > bounds
    known = _checked(PREFIX, texts, ~unknown, "of symbols that the model has learned: answers have no others")
    rule = f"of as many symbols as the answer may have, {MAX_NEW_TOKENS}, or fewer"
    with tf.control_dependencies([known, _checked(PREFIX, texts, ~longer, rule)]):
        return ids.with_values(tf.identity(ids.values))


def _checked(name: str, values: Tensor, fits: Tensor, rule: str) -> Tensor:
    """Return the values of an input, of which those that do not fit its rule fail the graph."""
    wrong, _ = tf.unique(tf.boolean_mask(values, ~fits))
    held = tf.debugging.Assert(tf.reduce_all(fits), [f"The input {name} must be {rule}. Received", wrong])
    with tf.control_dependencies([held]):
        return tf.identity(values)


def trial_requests(own: SearchSettings, symbols: Symbols, first: Request) -> list[Request]:
    """Return a row without settings, no row, and rows with different ones.

    Args:
        own: the export's settings.
        symbols: of the model.
        first: a request of one row.
    """
    few, (text,) = min(_SHORT, own.max_new_tokens), first[TEXT]
    # Of two kinds of rows alone: each is a graph of the live model, which takes seconds.
    penalty = 0.0 if own.length_penalty else 1.0
    begun = _known_prefix(symbols, few)
    rows = np.array([text, b"a", b"two words", b" ", text], object)
    mixed = {
        TEXT: rows,
        MAX_NEW_TOKENS: np.array([few, 1, few, few, few], np.int32),
        BEAMS: np.array([0, 1, own.beams, 0, 1], np.int32),
        LENGTH_PENALTY: np.array([-1, penalty, -1, -1, penalty], np.float32),
        PREFIX: strings(["", "", begun, begun, begun]),
    }
    nothing = {name: value[:0] for name, value in DEFAULTS.items()}
    return [{**first, **DEFAULTS}, {TEXT: rows[:0], **nothing}, mixed]


def _known_prefix(symbols: Symbols, most: int) -> str:
    """Return the text of the last symbol that was learned, if answers can begin with it; else ""."""
    (text,) = symbols.texts([[symbols.size - 1]])
    try:
        symbols.prefixes([text], most)  # a part of a character is read as another symbol
    except ConfigError:
        return ""
    return text
