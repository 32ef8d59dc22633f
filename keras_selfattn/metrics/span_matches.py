"""Predicted spans beside those that are there: which meet exactly, by overlap, and with which label instead.

Places are tokens or characters: a span of whole tokens has the same matches by both, since two of them share
a character where they share a token, and have equal ends by one where they have by the other.

Reference: Segura-Bedmar et al. 2013, "SemEval-2013 Task 9", section 4.2: strict matching, and type matching
("some overlap between the tagged entity and the gold entity is required", and the same type). nervaluate has
both as `strict` and `ent_type`. Here a span is matched once at most, so that two halves of one are not two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_selfattn.metrics.report import ClassReport, precision_recall_f1

MISSED, SPURIOUS = "(missed)", "(spurious)"
"""The column of spans that were not predicted, and the row of predicted ones where there is none."""


class Span(NamedTuple):
    """Tokens `start` to `stop`, exclusive, of one kind."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class SpanFigures:
    """Figures of predicted spans by one rule of what is right.

    Args:
        precision: share of the predicted spans that are right.
        recall: share of the spans that were found.
        f1: harmonic mean of both.
        kinds: figures of each kind, in order.
    """

    precision: float
    recall: float
    f1: float
    kinds: tuple[ClassReport, ...]

    @property
    def macro(self) -> tuple[float, float, float]:
        """The means of precision, recall and F1 of the kinds; 0 without any."""
        figures = [(kind.precision, kind.recall, kind.f1) for kind in self.kinds]
        precision, recall, f1 = np.mean(figures or [(0.0, 0.0, 0.0)], axis=0).tolist()
        return precision, recall, f1


def span_figures(
    right: Sequence[int], answered: Sequence[int], there: Sequence[int], kinds: Sequence[str]
) -> SpanFigures:
    """Return figures from the counts of each kind: of right spans, of predicted ones and of those there."""
    counts = list(zip(right, answered, there, strict=True))
    reports = [
        ClassReport(kind, *precision_recall_f1(*count), count[-1])
        for kind, count in zip(kinds, counts, strict=True)
    ]
    return SpanFigures(*precision_recall_f1(sum(right), sum(answered), sum(there)), tuple(reports))


def matched(wanted: Iterable[Span], given: Iterable[Span]) -> list[tuple[Span | None, Span | None]]:
    """Return the spans of a row in pairs: of one that is there and a predicted one that overlaps it.

    As many as can be are of one kind; then others that overlap. None stands beside a span that is missed, and
    beside one that is predicted and not there. Spans of a side do not overlap each other.

    Example:

        >>> pairs = matched([Span("PER", 0, 2), Span("LOC", 4, 5)], [Span("PER", 1, 2), Span("ORG", 7, 8)])
        >>> [(one and one.kind, other and other.kind) for one, other in pairs]
        [('PER', 'PER'), ('LOC', None), (None, 'ORG')]
    """
    wanted, given = sorted(wanted, key=_place), sorted(given, key=_place)
    pairs: list[tuple[Span | None, Span | None]] = []
    for kind in sorted({span.kind for span in wanted}):
        own = ([span for span in side if span.kind == kind] for side in (wanted, given))
        pairs += _overlapping(*own)
    pairs += _overlapping(*_left(wanted, given, pairs))
    missed, spurious = _left(wanted, given, pairs)
    return [*pairs, *((span, None) for span in missed), *((None, span) for span in spurious)]


def _left(
    wanted: Sequence[Span], given: Sequence[Span], pairs: Sequence[tuple[Span | None, Span | None]]
) -> tuple[list[Span], list[Span]]:
    """Return the spans of both sides that are in no pair."""
    ones, others = {one for one, _ in pairs}, {other for _, other in pairs}
    return [span for span in wanted if span not in ones], [span for span in given if span not in others]


def _place(span: Span) -> int:
    return span.start


def _overlapping(wanted: Sequence[Span], given: Sequence[Span]) -> list[tuple[Span | None, Span | None]]:
    """Return as many pairs of spans that overlap as there can be, of two sides in the order of their places.

    The first two that overlap are a pair: a later span meets none that they could have met instead.
    """
    pairs, one, other = [], 0, 0
    while one < len(wanted) and other < len(given):
        if max(wanted[one].start, given[other].start) < min(wanted[one].stop, given[other].stop):
            pairs.append((wanted[one], given[other]))
            one, other = one + 1, other + 1
        elif wanted[one].stop <= given[other].start:
            one += 1
        else:
            other += 1
    return pairs


def confusion_of(pairs: Iterable[tuple[Span | None, Span | None]], kinds: Sequence[str]) -> np.ndarray:
    """Return the counts of pairs by kind and predicted kind, int `[kinds + 1, kinds + 1]`.

    The last column is of spans that are missed, the last row of predicted ones that are not there.
    """
    places = {kind: place for place, kind in enumerate(kinds)}
    counts = np.zeros((len(kinds) + 1, len(kinds) + 1), int)
    for one, other in pairs:
        row = len(kinds) if one is None else places[one.kind]
        column = len(kinds) if other is None else places[other.kind]
        counts[row, column] += 1
    return counts
