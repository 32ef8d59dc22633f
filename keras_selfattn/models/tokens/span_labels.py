"""Labels that mark spans of tokens, and the most likely valid row of them.

Axes: B (batch), T (positions), P (labels before), C (labels and, last, the state before the first position).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any

OUTSIDE = "O"
# Outside, begin, inside, end, single: IOB, BIO and IOBES.
_MARK = re.compile(r"O|[BIES]-.+", re.DOTALL)
# Score of invalid labels, instead of infinity, whose differences are NaN.
_NEVER = -1e9
_LEAST = 1e-30


def mark_spans(labels: Iterable[str]) -> bool:
    """Return True if labels mark spans: all are "O" or begin with B-, I-, E- or S-, and at least one does.

    Example:

        >>> mark_spans(["O", "B-PER", "I-PER"]), mark_spans(["NOUN", "VERB"])
        (True, False)
    """
    names = set(labels)
    return names > {OUTSIDE} and all(_MARK.fullmatch(name) for name in names)


def may_follow(before: str | None, label: str) -> bool:
    """Return True if a label may follow another, None at the beginning of a row: I and E continue a span.

    Example:

        >>> may_follow("B-PER", "I-PER"), may_follow("O", "I-PER"), may_follow(None, "B-PER")
        (True, False, True)
    """
    mark, _, kind = label.partition("-")
    return mark not in "IE" or before in (f"B-{kind}", f"I-{kind}")


def all_may_follow(rows: Iterable[Sequence[str]]) -> bool:
    """Return True if each label is valid in its place; if spans begin with I, as in IOB, some are not."""
    pairs = {pair for row in rows for pair in zip([None, *row], row, strict=False)}
    return all(may_follow(before, label) for before, label in pairs)


class SpanDecoder:
    """Select the labels of the valid row with the highest product of probabilities.

    Args:
        labels: label names in the order of the classes; "O" is one of them.

    Example:

        >>> decoder = SpanDecoder(["B-A", "I-A", "O"])
        >>> probabilities = tf.constant([[[0.1, 0.5, 0.4], [0.0, 0.9, 0.1]]])
        >>> decoder(probabilities, tf.constant([[True, True]])).numpy().tolist()
        [[0, 1]]

    Reference: Forney 1973, "The Viterbi Algorithm".
    """

    def __init__(self, labels: Sequence[str]) -> None:
        befores = [*labels, None]
        allowed = [[may_follow(before, label) for label in labels] + [False] for before in befores]
        self._costs = np.where(allowed, 0.0, _NEVER).astype(np.float32)  # [P, C]

    def __call__(self, probabilities: Tensor, mask: Tensor) -> Tensor:
        """Return the index of the label at each position.

        Args:
            probabilities: float32 `[batch, length, labels]`.
            mask: bool `[batch, length]`; masked positions are skipped.

        Returns:
            int32 `[batch, length]`; 0 at masked positions.
        """
        logs = tf.math.log(tf.maximum(probabilities, _LEAST))
        # One more position, masked: the backward pass begins there, and it may be the only one.
        logs = tf.pad(logs, [[0, 0], [0, 1], [0, 1]], constant_values=_NEVER)
        real = tf.pad(mask, [[0, 0], [0, 1]])
        rows, states = tf.shape(mask)[0], len(self._costs)
        stay = tf.tile(tf.range(states)[None], tf.stack([rows, 1]))  # [B, C]
        start = tf.tile(tf.one_hot([states - 1], states, 0.0, _NEVER), tf.stack([rows, 1]))

        def forward(state: Any, position: Any) -> Any:
            ways = state[0][:, :, None] + self._costs  # [B, P, C]
            log, is_real = position[0], position[1][:, None]
            best = tf.reduce_max(ways, axis=1) + log
            from_where = tf.argmax(ways, axis=1, output_type=tf.int32)
            return tf.where(is_real, best, state[0]), tf.where(is_real, from_where, stay)

        by_time = (tf.transpose(logs, [1, 0, 2]), tf.transpose(real))
        scores, from_where = tf.scan(forward, by_time, initializer=(start, stay))  # [T + 1, B, C]
        last = tf.argmax(scores[-1], axis=-1, output_type=tf.int32)  # [B]
        found = tf.scan(
            lambda state, ways: tf.gather(ways, state, batch_dims=1), from_where, last, reverse=True
        )  # [T + 1, B]: at each position the state before it
        return tf.where(mask, tf.transpose(found[1:]), 0)
