"""Exact and overlapping matches of spans, and their confusion: by hand, and against all possible pairs."""

import itertools
import random

import numpy as np
import pytest

from keras_selfattn.metrics.positions import span_report
from keras_selfattn.metrics.span_matches import Span, matched
from keras_selfattn.rows.text_tokens import token_places


def row(*spans, length=12):
    """Labels of a row with spans written as "PER 0 2"."""
    labels = ["O"] * length
    for kind, start, stop in (span.split() for span in spans):
        inside = range(int(start) + 1, int(stop))
        labels[int(start)] = f"B-{kind}"
        for place in inside:
            labels[place] = f"I-{kind}"
    return labels


# Scenarios III, II, VI, V, IV and I of SemEval-2013 task 9 in nervaluate's README: the span there, the
# predicted one, and what `Strict` and `Type` count.
CASES = [
    ("BRAND 0 2", None, "missed", "missed"),
    (None, "BRAND 0 1", "spurious", "spurious"),
    ("DRUG 1 2", "BRAND 0 2", "incorrect", "incorrect"),
    ("BRAND 1 2", "BRAND 0 2", "incorrect", "correct"),
    ("DRUG 0 2", "BRAND 0 2", "incorrect", "incorrect"),
    ("DRUG 0 2", "DRUG 0 2", "correct", "correct"),
]


@pytest.mark.parametrize(("there", "predicted", "strict", "by_type"), CASES)
def test_matches_of_semeval(there, predicted, strict, by_type):
    found = span_report([row(*filter(None, [there]))], [row(*filter(None, [predicted]))])
    for figures, wanted in ((found.exact, strict), (found.overlapping, by_type)):
        right = wanted == "correct"
        assert (figures.precision, figures.recall, figures.f1) == (right, right, right)
    assert found.confusion[-1].sum() == (by_type == "spurious")
    assert found.confusion[:, -1].sum() == (by_type == "missed")


def test_figures_of_semeval():
    """All scenarios, the last one twice: README's table has 0.33 for `Strict` and 0.5 for `Type`."""
    true, found = ([row(*filter(None, [case[side]])) for case in [*CASES, CASES[-1]]] for side in range(2))
    report = span_report(true, found)
    assert (report.precision, report.recall, report.f1) == pytest.approx((1 / 3,) * 3)
    overlapping = report.overlapping
    assert (overlapping.precision, overlapping.recall, overlapping.f1) == (0.5, 0.5, 0.5)


def test_figures_by_hand():
    """There: A 0-2, A 4-6, B 8-9. Predicted: A 1-3 (overlaps), B 4-6 (another label), A 10-11 (not there)."""
    found = span_report([row("A 0 2", "A 4 6", "B 8 9")], [row("A 1 3", "B 4 6", "A 10 11")])
    assert (found.exact.precision, found.exact.recall) == (0, 0)
    assert found.overlapping.precision == pytest.approx(1 / 3)
    assert found.overlapping.recall == pytest.approx(1 / 3)
    assert [(kind.label, kind.precision, kind.recall, kind.rows) for kind in found.overlapping.kinds] == [
        ("A", 0.5, 0.5, 2),
        ("B", 0.0, 0.0, 1),
    ]
    assert found.overlapping.macro == pytest.approx((0.25, 0.25, 0.25))
    assert found.confusion.tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert found.confused().rows == [("A", "B", 1), ("B", "(missed)", 1), ("(spurious)", "A", 1)]


def test_a_span_is_matched_once():
    """Two halves of a span are one match and a span that is not there; so is one over two."""
    halves = span_report([row("A 0 4")], [row("A 0 2", "A 2 4")])
    assert (halves.overlapping.precision, halves.overlapping.recall) == (0.5, 1)
    over = span_report([row("A 0 2", "A 2 4")], [row("A 0 4")])
    assert (over.overlapping.precision, over.overlapping.recall) == (1, 0.5)


def some_spans(draw):
    edges = sorted(draw.sample(range(14), draw.choice([0, 2, 4, 6, 8])))
    return [Span(draw.choice("AB"), *pair) for pair in zip(edges[::2], edges[1::2], strict=True)]


def overlap(one, other):
    return len(set(range(one.start, one.stop)) & set(range(other.start, other.stop))) > 0


def most_pairs(wanted, given, fits):
    """The most pairs of any choice, one by one: the oracle of the matching."""
    if not wanted:
        return 0
    first, rest = wanted[0], wanted[1:]
    best = most_pairs(rest, given, fits)
    for place, other in enumerate(given):
        if fits(first, other):
            best = max(best, 1 + most_pairs(rest, given[:place] + given[place + 1 :], fits))
    return best


def test_as_many_spans_are_matched_as_can_be():
    draw = random.Random(3)
    for _ in range(300):
        wanted, given = some_spans(draw), some_spans(draw)
        pairs = matched(wanted, given)
        both = [pair for pair in pairs if None not in pair]
        assert sorted(one for one, _ in pairs if one) == sorted(wanted)
        assert sorted(other for _, other in pairs if other) == sorted(given)
        assert all(overlap(*pair) for pair in both)
        of_kind = sum(one.kind == other.kind for one, other in both)
        assert of_kind == most_pairs(
            wanted, given, lambda one, other: one.kind == other.kind and overlap(one, other)
        )
        assert {pair[0] for pair in both if pair[0] == pair[1]} == set(wanted) & set(given)


def test_tokens_and_characters_have_the_same_matches():
    """Spans of whole tokens, counted in characters, are paired as they are by tokens."""
    text = "Ada's 猫です, 😀 e\u0301t\u00e9 to-day. Bob said no"
    places, draw = token_places(text), random.Random(4)
    assert len(places) > 14
    for _ in range(100):
        sides = (some_spans(draw), some_spans(draw))
        in_characters = [
            [Span(kind, places[start][0], places[stop - 1][1]) for kind, start, stop in side]
            for side in sides
        ]
        back = dict(zip(itertools.chain(*in_characters), itertools.chain(*sides), strict=True))
        by_characters = [tuple(back.get(span) for span in pair) for pair in matched(*in_characters)]
        assert by_characters == matched(*sides)


def test_no_spans_have_no_figures():
    found = span_report([["O"]], [["O"]])
    assert (found.f1, found.overlapping.f1, found.exact.macro) == (0, 0, (0, 0, 0))
    np.testing.assert_array_equal(found.confusion, [[0]])
