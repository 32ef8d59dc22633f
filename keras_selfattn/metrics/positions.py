"""Figures of labels for each position: of the labels, and of the spans that they mark, such as B-PER I-PER.

The definitions of spans are those of conlleval, which are also seqeval's default; BILOU's L and U count as
E and S. Only the tests use seqeval itself: it takes two seconds to import and has had no release since 2020.

Reference: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 Shared Task", section 2.4.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.classes import ClassificationReport, classification_report
from keras_selfattn.metrics.head_metrics import Decisions, HeadMetrics, Line, RowOfSpans, head_metrics
from keras_selfattn.metrics.report import ClassReport, Columns, Report, class_columns
from keras_selfattn.metrics.span_matches import (
    MISSED,
    SPURIOUS,
    Span,
    SpanFigures,
    confusion_of,
    matched,
    span_figures,
)
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.rows.span_schemes import OUTSIDE, Mark, SpanScheme, scheme_of, why_no_scheme


@dataclass(frozen=True)
class SpanReport:
    """Figures of predicted spans, by two rules, and what they were taken for.

    Args:
        exact: a span is right if its kind, beginning and end are.
        overlapping: a span is right if it has the kind of one that it overlaps; see `span_matches`.
        confusion: counts by kind and predicted kind of spans that overlap, int `[kinds + 1, kinds + 1]`; the
            last column is of missed spans, the last row of predicted ones that are not there.
    """

    exact: SpanFigures
    overlapping: SpanFigures
    confusion: np.ndarray

    @property
    def precision(self) -> float:
        """The share of the predicted spans that are exactly right."""
        return self.exact.precision

    @property
    def recall(self) -> float:
        """The share of the spans that were predicted exactly."""
        return self.exact.recall

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return self.exact.f1

    @property
    def kinds(self) -> tuple[ClassReport, ...]:
        """The exact figures of each kind, in order."""
        return self.exact.kinds

    def means(self) -> Columns:
        """Return precision, recall and F1 by both rules, of all spans together and as means of the kinds."""
        rules = {"exact": self.exact, "overlapping": self.overlapping}
        rows = []
        for name, found in rules.items():
            rows.append([name, "all spans", found.precision, found.recall, found.f1])
            rows.append([name, "mean of labels", *found.macro])
        return Columns(["match", "of", "precision", "recall", "f1"], rows)

    def confused(self) -> Columns:
        """Return the spans by label and prediction, the most frequent first; right ones are left out."""
        names = [kind.label for kind in self.kinds]
        labels, predicted = [*names, SPURIOUS], [*names, MISSED]
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        places = np.argwhere(wrong).tolist()
        cells = [(labels[row], predicted[column], int(wrong[row, column])) for row, column in places]
        return Columns(["label", "predicted", "spans"], sorted(cells, key=lambda cell: -cell[-1]))


def spans(labels: Sequence[str], scheme: SpanScheme | None = None) -> list[Span]:
    """Return the spans that the labels of a row mark.

    A span ends before O, B, S and another kind, and after E and S; an I that follows no span begins one. A
    label that is no mark of the scheme is inside a span of its own kind, which no right answer has.

    Args:
        labels: the labels.
        scheme: of the labels; by default marks with "-".

    Example:

        >>> spans(["B-PER", "I-PER", "O", "I-LOC"])
        [Span(kind='PER', start=0, stop=2), Span(kind='LOC', start=3, stop=4)]
    """
    found, start = [], 0
    mark_before, kind_before = OUTSIDE, ""
    reading = scheme or SpanScheme()
    for place, label in enumerate([*labels, OUTSIDE]):
        mark, kind = reading.read(label) or Mark("I", label)
        outside = mark == OUTSIDE
        begins = not outside and (mark_before in "OES" or mark in "BS" or kind != kind_before)
        if mark_before != OUTSIDE and (outside or begins):
            found.append(Span(kind_before, start, place))
        if begins:
            start = place
        mark_before, kind_before = mark, kind
    return found


def span_report(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: SpanScheme | None = None
) -> SpanReport:
    """Return the figures of the spans that predicted labels mark, against those of the true labels.

    Args:
        true: the labels of each row.
        predicted: the same number of labels.
        scheme: of the labels; by default marks with "-".

    Example:

        >>> found = span_report([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
        >>> found.precision, found.recall, found.f1, found.overlapping.f1
        (0.5, 0.5, 0.5, 1.0)
    """
    pairs: list[tuple[Span | None, Span | None]] = []
    for labels, guesses in zip(true, predicted, strict=True):
        pairs += matched(spans(labels, scheme), spans(guesses, scheme))
    kinds = sorted({span.kind for pair in pairs for span in pair if span is not None})
    confusion = confusion_of(pairs, kinds)
    there, answered = confusion[:-1].sum(axis=1).tolist(), confusion[:, :-1].sum(axis=0).tolist()
    exact = Counter(one.kind for one, other in pairs if one is not None and one == other)
    return SpanReport(
        exact=span_figures([exact[kind] for kind in kinds], answered, there, kinds),
        overlapping=span_figures(np.diagonal(confusion)[:-1].tolist(), answered, there, kinds),
        confusion=confusion,
    )


@dataclass(frozen=True)
class LabellingReport(Report):
    """Figures of predictions of a label for each position of a row.

    Args:
        positions: figures of the labels, with the same weight for each position.
        spans: figures of the spans that the labels mark; None without spans.
        count: number of rows.
        no_spans: the reason why there are none although some labels look like their marks; else "".
    """

    positions: ClassificationReport
    spans: SpanReport | None
    count: int
    no_spans: str = ""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        if self.spans is None:
            return self.positions.summary()
        spans, overlap = self.spans, self.spans.overlapping
        exact = {"f1": spans.f1, "precision": spans.precision, "recall": spans.recall}
        others = {"macro_f1": spans.exact.macro[-1], "overlap_f1": overlap.f1}
        others |= {"overlap_precision": overlap.precision, "overlap_recall": overlap.recall}
        return {f"span_{name}": value for name, value in (exact | others).items()} | self.positions.summary()

    def tables(self) -> dict[str, Columns]:
        if self.spans is None:
            return self.positions.tables()
        spans = {
            "spans": class_columns(self.spans.kinds),
            "spans_overlapping": class_columns(self.spans.overlapping.kinds),
            "spans_confused": self.spans.confused(),
        }
        return {**self.positions.tables(), **spans}


def labelling_report(
    labels: Sequence[str],
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    confidence: np.ndarray,
) -> LabellingReport:
    """Return the figures of predicted labels.

    Args:
        labels: every label the model knows, in its order.
        true: the labels of each row.
        predicted: the same number of labels.
        confidence: the probability of each prediction, float `[positions of all rows]`.

    Raises:
        DataError: for rows without a single position.

    Example:

        >>> true, found = [["DET"], ["NOUN", "NOUN"]], [["DET"], ["NOUN", "DET"]]
        >>> labelling_report(["DET", "NOUN"], true, found, np.array([0.9, 0.8, 0.7])).positions.accuracy
        0.6666666666666666
    """
    flat_true, flat_found = list(chain.from_iterable(true)), list(chain.from_iterable(predicted))
    if not flat_true:
        raise DataError(f"All {len(true)} rows are empty, so that nothing can be measured on them.")
    scheme = scheme_of(labels)
    return LabellingReport(
        positions=classification_report(labels, flat_true, flat_found, confidence),
        spans=None if scheme is None else span_report(true, predicted, scheme),
        count=len(true),
        no_spans=why_no_scheme(labels),
    )


@head_metrics.register(PositionHead)
class LabellingMetrics(HeadMetrics[PositionHead]):
    """Of a label for each position of each row."""

    columns = ("position", "token", "text", "label", "predicted")

    def report(
        self,
        targets: Sequence[Sequence[str]],
        outputs: Sequence[np.ndarray],
        baselines: Mapping[str, np.ndarray],
    ) -> Report:
        chosen = self.head.chosen(outputs)
        return labelling_report(
            self.head.labels, targets, self._named(chosen), _probabilities(outputs, chosen)
        )

    def mistakes(self, rows: LabelledRows, outputs: Sequence[np.ndarray]) -> list[Line]:
        found = []
        for row, (answer, chosen) in enumerate(zip(outputs, self.head.chosen(outputs), strict=True)):
            tokens, targets = rows.inputs[row], rows.targets[row]
            for position, place in enumerate(chosen.tolist()):
                if self.head.labels[place] != targets[position]:
                    judged = (targets[position], self.head.labels[place], float(answer[position, place]))
                    found.append(
                        (rows.place(row), row, position, tokens[position], " ".join(tokens), *judged)
                    )
        return found

    def rows_of_spans(self, rows: LabelledRows, outputs: Sequence[np.ndarray]) -> list[RowOfSpans]:
        scheme, found = scheme_of(self.head.labels), []
        if scheme is None:
            return []
        named = self._named(self.head.chosen(outputs))
        for row, (labels, guesses) in enumerate(zip(rows.targets, named, strict=True)):
            there, given = spans(labels, scheme), spans(guesses, scheme)
            if wrong := sum(one != other for one, other in matched(there, given)):
                found.append(RowOfSpans(row, there, given, wrong))
        return sorted(found, key=lambda each: -each.wrong)

    def decisions(self, targets: Sequence[Sequence[str]], outputs: Sequence[np.ndarray]) -> Decisions:
        chosen = self.head.chosen(outputs)
        right = [
            found == label
            for row, labels in zip(self._named(chosen), targets, strict=True)
            for found, label in zip(row, labels, strict=True)
        ]
        return Decisions(np.array(right, bool), _probabilities(outputs, chosen))

    def _named(self, chosen: Sequence[np.ndarray]) -> list[list[str]]:
        return [[self.head.labels[place] for place in row.tolist()] for row in chosen]


def _probabilities(outputs: Sequence[np.ndarray], chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Return the probability of each chosen label, float `[positions of all rows]`."""
    pairs = zip(outputs, chosen, strict=True)
    return np.concatenate([row[np.arange(len(row)), places] for row, places in pairs])
