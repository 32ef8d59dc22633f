"""Figures of labellers: of spans by hand and against seqeval, of tokens against scikit-learn."""

import random

import numpy as np
import pytest
from sklearn.metrics import f1_score

from keras_selfattn.errors import DataError
from keras_selfattn.metrics.positions import labelling_report
from keras_selfattn.metrics.spans import mark_spans, span_report, spans

LABELS = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("LOC", "PER", "x-y"))]


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ("B-A I-A O", [("A", 0, 2)]),
        ("I-A I-A O I-A", [("A", 0, 2), ("A", 3, 4)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("B-A I-B", [("A", 0, 1), ("B", 1, 2)]),
        ("S-A S-A", [("A", 0, 1), ("A", 1, 2)]),
        ("B-A I-A E-A E-A", [("A", 0, 3), ("A", 3, 4)]),
        ("S-A I-A", [("A", 0, 1), ("A", 1, 2)]),
        ("O O", []),
        ("", []),
        ("B-x-y I-x-y", [("x-y", 0, 2)]),
    ],
)
def test_labels_mark_spans_as_conlleval_reads_them(labels, wanted):
    assert spans(labels.split()) == wanted


def test_figures_by_hand():
    """Two spans of A, one of B; of three that are answered one is right, a second misses its end."""
    true = [["B-A", "I-A", "O", "B-A"], ["B-B"]]
    found = [["B-A", "O", "O", "B-A"], ["B-A"]]
    report = span_report(true, found)
    assert (report.precision, report.recall, report.f1) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert [(kind.label, kind.precision, kind.recall, kind.rows) for kind in report.kinds] == [
        ("A", pytest.approx(1 / 3), 0.5, 2),
        ("B", 0.0, 0.0, 1),
    ]
    assert span_report([["O"]], [["O"]]).f1 == 0


def test_figures_are_those_of_seqeval_on_random_labels():
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    draw = random.Random(0)
    for _ in range(60):
        lengths = [draw.randint(0, 9) for _ in range(draw.randint(1, 5))]
        true, found = ([draw.choices(LABELS, k=length) for length in lengths] for _ in range(2))
        found = [
            [label if draw.random() < 0.7 else guess for label, guess in zip(*pair, strict=True)]
            for pair in zip(true, found, strict=True)
        ]
        wanted = {(kind, start, end + 1) for kind, start, end in seqeval.get_entities(true[0])}
        assert set(spans(true[0])) == wanted
        report = span_report(true, found)
        if not report.kinds:
            continue
        every = seqeval.precision_recall_fscore_support(true, found, average=None, zero_division=0)
        ours = [(kind.precision, kind.recall, kind.f1, kind.rows) for kind in report.kinds]
        np.testing.assert_allclose(ours, np.transpose(every))
        micro = seqeval.precision_recall_fscore_support(true, found, average="micro", zero_division=0)
        np.testing.assert_allclose((report.precision, report.recall, report.f1), micro[:3])


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (LABELS, True),
        (["O", "B-A"], True),
        (["O"], False),
        (["NOUN", "O"], False),
        (["B-A", "I-A"], False),
        (["O", "B-"], False),
        (["O", "B"], False),
    ],
)
def test_spans_are_known_by_their_labels(labels, wanted):
    assert mark_spans(labels) is wanted


def test_the_report_has_figures_of_tokens_and_of_spans():
    labels, true = ["B-A", "I-A", "O"], [["B-A", "I-A", "O"], ["O"], []]
    outputs = [np.eye(3)[[0, 2, 2]] * 0.9 + 0.03, np.eye(3)[[2]] * 0.9 + 0.03, np.zeros((0, 3))]
    report = labelling_report(labels, true, outputs)
    assert report.rows == 3
    summary = report.summary()
    assert next(iter(summary)) == "span_f1"
    assert (summary["accuracy"], summary["span_f1"]) == (0.75, 0)
    wanted = f1_score([0, 1, 2, 2], [0, 2, 2, 2], average="macro")
    assert summary["macro_f1"] == pytest.approx(wanted)
    assert set(report.tables()) == {"classes", "confusion", "spans"}
    assert report.tables()["spans"].rows == [("A", 0.0, 0.0, 0.0, 1)]


def test_parts_of_speech_have_no_figures_of_spans():
    report = labelling_report(["ADJ", "NOUN"], [["ADJ", "NOUN"]], [np.eye(2)])
    assert "span_f1" not in report.summary()
    assert set(report.tables()) == {"classes", "confusion"}


def test_rows_without_a_token_cannot_be_measured():
    with pytest.raises(DataError, match="All 2 rows are empty"):
        labelling_report(["a", "b"], [[], []], [np.zeros((0, 2))] * 2)
