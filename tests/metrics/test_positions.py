"""Figures of labellers: of spans by hand and against seqeval, of tokens against scikit-learn."""

import itertools
import json
import random
import re

import numpy as np
import pytest
from sklearn.metrics import f1_score

from keras_selfattn.cli.shared.report_tables import print_report
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.positions import labelling_report, span_report, spans
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.models.tokens.span_labels import all_may_follow
from keras_selfattn.report.results import answers_section
from keras_selfattn.rows.span_schemes import SpanScheme, scheme_of, why_no_scheme

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


BILOU = [{"E": "L", "S": "U"}.get(label[0], label[0]) + label[1:] for label in LABELS]


def random_rows(draw, labels):
    """Return true and answered labels of some rows, 7 of 10 alike."""
    lengths = [draw.randint(0, 9) for _ in range(draw.randint(1, 5))]
    true = [draw.choices(labels, k=length) for length in lengths]
    return true, [
        [label if draw.random() < 0.7 else draw.choice(labels) for label in labels_of_row]
        for labels_of_row in true
    ]


def test_figures_of_bilou_are_those_of_seqeval_on_iobes_and_in_its_strict_mode():
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    bilou = pytest.importorskip("seqeval.scheme").BILOU
    draw = random.Random(1)
    other = dict(zip(BILOU, LABELS, strict=True))
    for _ in range(30):
        true, found = random_rows(draw, BILOU)
        iobes = [[[other[label] for label in row] for row in rows] for rows in (true, found)]
        assert [spans(row) for row in true] == [spans(row) for row in iobes[0]]
        wanted = seqeval.precision_recall_fscore_support(*iobes, average="micro", zero_division=0)
        report = span_report(true, found)
        np.testing.assert_allclose((report.precision, report.recall, report.f1), wanted[:3])
    whole = [*valid_rows(["B-A", "I-A", "L-A", "U-B", "O"], 4, "BILOU")]
    true, found = whole, draw.sample(whole, len(whole))
    wanted = seqeval.f1_score(list(map(list, true)), list(map(list, found)), mode="strict", scheme=bilou)
    assert span_report(true, found).f1 == pytest.approx(wanted)


def test_figures_of_iob1_are_those_of_seqeval_in_its_strict_mode():
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    iob1 = pytest.importorskip("seqeval.scheme").IOB1
    true = list(map(list, valid_rows(["B-A", "I-A", "I-B", "O"], 4, "IOB1")))
    found = random.Random(2).sample(true, len(true))
    wanted = seqeval.f1_score(true, found, mode="strict", scheme=iob1)
    assert span_report(true, found).f1 == pytest.approx(wanted)


def test_figures_with_an_underscore_and_without_a_kind():
    """The former are seqeval's with "-"; the latter its own, which calls the kind "_" as well."""
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    draw = random.Random(3)
    names = ["O", *(f"{mark}_{kind}" for mark in "BI" for kind in ("a-b", "c"))]
    for _ in range(20):
        true, found = random_rows(draw, names)
        dashed = [[[label.replace("_", "-") for label in row] for row in rows] for rows in (true, found)]
        wanted = seqeval.precision_recall_fscore_support(*dashed, average="micro", zero_division=0)
        report = span_report(true, found, SpanScheme("_"))
        np.testing.assert_allclose((report.precision, report.recall, report.f1), wanted[:3])
        bare = draw.choices("BIO", k=7)
        wanted = [(kind, start, last + 1) for kind, start, last in seqeval.get_entities(bare)]
        assert spans(bare, SpanScheme("")) == wanted


@pytest.mark.parametrize(
    ("names", "true", "found"),
    [
        ("B-A I-A", "B-A I-A B-A I-A", "B-A I-A B-A B-A"),
        ("B-A I-A L-A U-A O", "B-A L-A O U-A", "B-A L-A O O"),
        ("B_A I_A O", "B_A I_A O B_A", "B_A I_A O O"),
        ("B I O", "B I O B", "B I O O"),
        ("B I L U O", "B L O U", "B L U O"),
    ],
)
def test_the_report_counts_the_spans_of_each_scheme(names, true, found):
    """By hand: of two true spans the first is answered, the second is not or in two halves, or shifted."""
    report = labelling_report(names.split(), [true.split()], [found.split()], np.ones(4))
    assert report.spans is not None
    assert report.spans.recall == 0.5
    answered = {"B-A I-A B-A B-A": 3, "B L U O": 2}.get(found, 1)
    assert report.spans.precision == 1 / answered


def test_the_reason_without_spans_is_a_line_of_the_terminal_and_a_sentence_of_the_page(capsys):
    def said(*labels):
        report = labelling_report(labels, [labels], [labels], np.ones(len(labels)))
        print_report(report, "test")
        printed = " ".join(capsys.readouterr().out.split())
        sentences = [block for block in answers_section(report, "test").blocks if isinstance(block, str)]
        return printed.count("No figures of spans"), "'[X]' is neither" in printed, sentences

    printed, named, sentences = said("O", "B-A", "[X]")
    assert (printed, named) == (1, True)
    assert any(each.startswith("There are no figures of spans: the label '[X]'") for each in sentences)
    for labels in (("NOUN", "VERB"), ("O", "B-A")):
        printed, _, sentences = said(*labels)
        assert printed == 0
        assert not any("spans:" in each for each in sentences)


def test_an_unknown_label_counts_as_a_span_that_was_missed():
    report = span_report([["B-A", "X"]], [["B-A", "O"]])
    assert (report.precision, report.recall) == (1, 0.5)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("O B-PER I-PER Name", "'Name' is neither O nor begins with one of the marks B-, I-, E-, L-, S-, U-"),
        ("O B-PER I_PER", "'I_PER' is neither O nor begins .* marks B-, "),
        ("O B_PER I_PER X", "'X' is neither O nor begins .* marks B_, "),
        ("O M-PER B-PER", "'M-PER' is neither"),
        ("o b-per i-per", "'b-per' is neither"),
        ("O PER-B PER-I", "'PER-B' is neither"),
        ("B I", "the marks B, I have no kind, and such labels must be O, B and I"),
        ("B O", "the marks B, O have no kind"),
    ],
)
def test_labels_that_look_like_spans_and_mark_none_have_a_reason(labels, said):
    names = labels.split()
    assert scheme_of(names) is None
    assert re.search(said, why_no_scheme(names))
    report = labelling_report(names, [names], [names], np.ones(len(names)))
    assert report.spans is None
    assert report.no_spans == why_no_scheme(names)


def valid_rows(labels, length, scheme):
    """Yield the rows that a scheme writes: those that are the same when the spans in them are written again.

    seqeval reads the spans; only the letters differ from those it knows.
    """
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    for row in itertools.product(labels, repeat=length):
        read = [label.replace("_", "-").replace("L-", "E-").replace("U-", "S-") for label in row]
        written, end_before = ["O"] * length, ("", -1)
        for kind, start, last in seqeval.get_entities(read):
            size = last - start + 1
            marks = "I" * size if scheme == "IOB1" else "B" + "I" * (size - 1)
            if scheme == "IOB1" and end_before == (kind, start):
                marks = "B" + marks[1:]
            if scheme in ("IOBES", "BILOU"):
                end, single = ("E", "S") if scheme == "IOBES" else ("L", "U")
                marks = single if size == 1 else marks[:-1] + end
            written[start : last + 1] = [f"{mark}-{kind}" for mark in marks]
            end_before = kind, last + 1
        if written == [label.replace("_", "-") for label in row]:
            yield row


@pytest.mark.parametrize(
    ("scheme", "names"),
    [
        ("IOB2", "B-A I-A B-B I-B O"),
        ("IOB2", "B-A I-A B-B I-B"),
        ("IOB2", "B_A I_A B_B I_B O"),
        ("IOB1", "B-A I-A I-B O"),
        ("IOB1", "B-A I-A I-B"),
        ("IOBES", "B-A I-A E-A S-A O"),
        ("BILOU", "B-A I-A L-A U-A O"),
        ("BILOU", "B_A I_A L_A U_A O"),
        ("BILOU", "B-A L-A U-A U-B"),
    ],
)
def test_a_model_answers_with_the_likeliest_row_that_the_scheme_of_its_training_can_write(scheme, names):
    labels = names.split()
    valid = {length: list(valid_rows(labels, length, scheme)) for length in range(5)}
    assert 0 < len(valid[4]) < len(labels) ** 4, "else this would show nothing"
    head = PositionHead.from_targets([row for length in (1, 2, 4) for row in valid[length]])
    assert sorted(head.labels) == sorted(labels)
    random = np.random.default_rng(0)
    outputs = [
        random.dirichlet(np.ones(len(labels)), size=length).astype("float32") for length in (4, 0, 1, 3, 2, 4)
    ]
    for saved in (head, PositionHead(**json.loads(json.dumps(head.state)))):
        for probabilities, found in zip(outputs, saved.chosen(outputs), strict=True):
            logs = np.log(probabilities)
            scores = {
                row: sum(logs[place, saved.labels.index(name)] for place, name in enumerate(row))
                for row in valid[len(probabilities)]
            }
            assert tuple(saved.labels[place] for place in found) == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize(("labels", "spans"), [(["NOUN", "VERB"], True), (["B-A", "O"], "BIO")])
def test_spans_of_labels_that_mark_none_and_unknown_rules_are_refused(labels, spans):
    with pytest.raises(ConfigError, match="`spans`"):
        PositionHead(labels, spans)


@pytest.mark.parametrize("names", ["B-A I-A O", "B-A I-A B-B I-B O", "B-A I-A E-A S-A O", "I-A E-B O S-B"])
def test_the_labels_chosen_are_the_likeliest_row_of_those_that_make_sense(names):
    """Against all rows there are, of 0 to 4 positions, padded together."""
    labels = names.split()
    random = np.random.default_rng(0)
    outputs = [
        random.dirichlet(np.ones(len(labels)), size=length).astype("float32") for length in (4, 0, 1, 3, 2)
    ]
    for probabilities, found in zip(outputs, PositionHead(labels, spans=True).chosen(outputs), strict=True):
        best, wanted = -np.inf, None
        for row in itertools.product(range(len(labels)), repeat=len(probabilities)):
            written = [labels[place] for place in row]
            score = np.log(probabilities[np.arange(len(row)), list(row)]).sum()
            if all_may_follow([written]) and score > best:
                best, wanted = score, row
        assert tuple(found) == wanted


def test_the_report_has_figures_of_tokens_and_of_spans():
    labels, true = ["B-A", "I-A", "O"], [["B-A", "I-A", "O"], ["O"], []]
    report = labelling_report(labels, true, [["B-A", "O", "O"], ["O"], []], np.full(4, 0.9))
    assert report.rows == 3
    summary = report.summary()
    assert next(iter(summary)) == "span_f1"
    assert (summary["accuracy"], summary["span_f1"]) == (0.75, 0)
    wanted = f1_score([0, 1, 2, 2], [0, 2, 2, 2], average="macro")
    assert summary["macro_f1"] == pytest.approx(wanted)
    assert set(report.tables()) == {"classes", "confusion", "spans", "spans_overlapping", "spans_confused"}
    assert report.tables()["spans"].rows == [("A", 0.0, 0.0, 0.0, 1)]


def test_parts_of_speech_have_no_figures_of_spans():
    report = labelling_report(["ADJ", "NOUN"], [["ADJ", "NOUN"]], [["ADJ", "NOUN"]], np.ones(2))
    assert "span_f1" not in report.summary()
    assert set(report.tables()) == {"classes", "confusion"}


def test_rows_without_a_token_cannot_be_measured():
    with pytest.raises(DataError, match="All 2 rows are empty"):
        labelling_report(["a", "b"], [[], []], [[], []], np.zeros(0))
