"""Spans of tokens that labels such as B-PER and I-PER mark, and the figures of predicted spans.

The definitions are those of conlleval, which are also seqeval's default. Only the tests use seqeval itself:
it takes two seconds to import and has had no release since 2020.

Reference: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 Shared Task", section 2.4.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from keras_selfattn.metrics.report import ClassReport, precision_recall_f1
from keras_selfattn.models.tokens.span_labels import OUTSIDE


class Span(NamedTuple):
    """Tokens `start` to `stop`, exclusive, of one kind."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class SpanReport:
    """Figures of predicted spans: a span is right if its kind, beginning and end are.

    Args:
        precision: share of the predicted spans that are right.
        recall: share of the spans that were predicted.
        f1: harmonic mean of both.
        kinds: figures of each kind, in order.
    """

    precision: float
    recall: float
    f1: float
    kinds: tuple[ClassReport, ...]


def spans(labels: Sequence[str]) -> list[Span]:
    """Return the spans that the labels of a row mark.

    A span ends before O, B, S and another kind, and after E and S; an I that follows no span begins one.

    Example:

        >>> spans(["B-PER", "I-PER", "O", "I-LOC"])
        [Span(kind='PER', start=0, stop=2), Span(kind='LOC', start=3, stop=4)]
    """
    found, start = [], 0
    mark_before, kind_before = OUTSIDE, ""
    for place, label in enumerate([*labels, OUTSIDE]):
        mark, _, kind = label.partition("-")
        outside = mark == OUTSIDE
        begins = not outside and (mark_before in "OES" or mark in "BS" or kind != kind_before)
        if mark_before != OUTSIDE and (outside or begins):
            found.append(Span(kind_before, start, place))
        if begins:
            start = place
        mark_before, kind_before = mark, kind
    return found


def span_report(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanReport:
    """Return the figures of the spans that predicted labels mark, against those of the true labels.

    Args:
        true: the labels of each row.
        predicted: the same number of labels.

    Example:

        >>> found = span_report([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
        >>> found.precision, found.recall, found.f1
        (0.5, 0.5, 0.5)
    """
    there, answered, right = Counter[str](), Counter[str](), Counter[str]()
    for labels, guesses in zip(true, predicted, strict=True):
        wanted, given = spans(labels), spans(guesses)
        there.update(span.kind for span in wanted)
        answered.update(span.kind for span in given)
        right.update(span.kind for span in set(wanted) & set(given))
    kinds = tuple(
        ClassReport(kind, *precision_recall_f1(right[kind], answered[kind], there[kind]), there[kind])
        for kind in sorted(there | answered)
    )
    return SpanReport(*precision_recall_f1(right.total(), answered.total(), there.total()), kinds)
