"""The most likely row of labels that mark spans, of those in which each label may follow the one before.

Axes: B (batch), T (positions), P (labels before), C (labels and, last, the state before the first position).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.rows.span_schemes import OUTSIDE, Mark, SpanScheme, scheme_of

Tensor = Any

# Which label may follow which; the strictest first.
#   IOBES (and BILOU): I and E continue a span of their kind, and what B begins goes on until E.
#   IOB2 (BIO): I and E continue a span of their kind.
#   IOB1: B begins a span of the kind that stands directly before it, and I begins any other.
PathRule = Literal["IOBES", "IOB2", "IOB1"]
PATH_RULES: tuple[PathRule, ...] = get_args(PathRule)

_NOTHING = Mark(OUTSIDE, "")
# Score of invalid labels, instead of infinity, whose differences are NaN.
_NEVER = -1e9
_LEAST = 1e-30


def may_follow(
    before: str | None, label: str | None, scheme: SpanScheme | None = None, rule: PathRule = "IOB2"
) -> bool:
    """Return True if a label may follow another in a row.

    Args:
        before: the label before, None at the beginning of the row.
        label: the label, None at the end of the row.
        scheme: of the labels; by default marks with "-".
        rule: of the rows.

    Example:

        >>> may_follow("B-PER", "I-PER"), may_follow("O", "I-PER"), may_follow("O", "I-PER", rule="IOB1")
        (True, False, True)
    """
    reading = scheme or SpanScheme()
    first, second = (_NOTHING if name is None else reading.read(name) or _NOTHING for name in (before, label))
    return _may_follow(first, second, rule)


def _may_follow(before: Mark, after: Mark, rule: PathRule) -> bool:
    is_open = before.mark in ("B", "I")
    same = is_open and before.kind == after.kind
    if rule == "IOB1":
        return same or after.mark != "B"
    if after.mark in ("I", "E"):
        return same
    return rule == "IOB2" or not is_open


def all_may_follow(
    rows: Iterable[Sequence[str]], scheme: SpanScheme | None = None, rule: PathRule = "IOB2"
) -> bool:
    """Return True if each label of the rows is valid in its place."""
    return _keeps(rule, _pairs(rows), scheme)


def _pairs(rows: Iterable[Sequence[str]]) -> set[tuple[str | None, str | None]]:
    return {pair for row in rows for pair in zip([None, *row], [*row, None], strict=True)}


def _keeps(rule: PathRule, pairs: set[tuple[str | None, str | None]], scheme: SpanScheme | None) -> bool:
    return all(may_follow(before, label, scheme, rule) for before, label in pairs)


def rule_of(scheme: SpanScheme, rows: Sequence[Sequence[str]]) -> PathRule | None:
    """Return the strictest rule that all rows keep; None if there is none, or it allows everything.

    Labels alone do not tell IOB1 from IOB2: in rows of IOB1, I begins spans, too.

    Args:
        scheme: of the labels.
        rows: labels of the rows to learn from.

    Example:

        >>> rule_of(SpanScheme(), [["B-A", "I-A", "O"]]), rule_of(SpanScheme(), [["I-A", "B-A", "O"]])
        ('IOB2', 'IOB1')
    """
    pairs = _pairs(rows)
    marks = {found.mark for _, name in pairs if name is not None and (found := scheme.read(name))}
    # Without O and S a row of one position has no valid label, and without B nothing is invalid in IOB1.
    applies = {
        "IOBES": bool(marks & {"E", "S"}) and bool(marks & {OUTSIDE, "S"}),
        "IOB2": True,
        "IOB1": "B" in marks and not marks & {"E", "S"},
    }
    return next((rule for rule in PATH_RULES if applies[rule] and _keeps(rule, pairs, scheme)), None)


class SpanDecoder:
    """Select the labels of the valid row with the highest product of probabilities.

    Args:
        labels: label names in the order of the classes, which mark spans.
        rule: of the rows to select from.

    Raises:
        ConfigError: for labels that mark no spans, or an unknown rule.

    Example:

        >>> decoder = SpanDecoder(["B-A", "I-A", "O"])
        >>> probabilities = tf.constant([[[0.1, 0.5, 0.4], [0.0, 0.9, 0.1]]])
        >>> decoder(probabilities, tf.constant([[True, True]])).numpy().tolist()
        [[0, 1]]

    Reference: Forney 1973, "The Viterbi Algorithm".
    """

    def __init__(self, labels: Sequence[str], rule: PathRule = "IOB2") -> None:
        scheme = scheme_of(labels)
        if scheme is None:
            raise ConfigError(
                f"`spans` is for labels that mark spans, such as B-PER. Received {labels!r:.80}."
            )
        if rule not in PATH_RULES:
            raise ConfigError(f"`spans` must be a bool or one of {', '.join(PATH_RULES)}. Received {rule!r}.")
        self.rule: PathRule = rule
        marks = [scheme.read(label) or _NOTHING for label in labels]
        befores = [*marks, _NOTHING]
        allowed = [[_may_follow(before, mark, rule) for mark in marks] + [False] for before in befores]
        ends = [_may_follow(before, _NOTHING, rule) for before in befores]
        self._costs = np.where(allowed, 0.0, _NEVER).astype(np.float32)  # [P, C]
        self._end_costs = np.where(ends, 0.0, _NEVER).astype(np.float32)  # [P]

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
        last = tf.argmax(scores[-1] + self._end_costs, axis=-1, output_type=tf.int32)  # [B]
        found = tf.scan(
            lambda state, ways: tf.gather(ways, state, batch_dims=1), from_where, last, reverse=True
        )  # [T + 1, B]: at each position the state before it
        return tf.where(mask, tf.transpose(found[1:]), 0)
