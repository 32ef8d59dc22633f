"""Schemes of spans are known by their labels."""

import pytest

from keras_selfattn.rows.span_schemes import scheme_of, why_no_scheme

LABELS = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("LOC", "PER", "x-y"))]


BILOU = [{"E": "L", "S": "U"}.get(label[0], label[0]) + label[1:] for label in LABELS]


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (LABELS, "-"),
        (BILOU, "-"),
        (["O", "B-A"], "-"),
        (["O", "I-A"], "-"),
        (["O", "U-A"], "-"),
        (["B-A", "I-A"], "-"),
        (["B-A", "L-A", "U-B"], "-"),
        (["O", "B_A", "I_A"], "_"),
        (["B_A-b", "I_A-b"], "_"),
        (["O", "B-a_b", "I-a_b"], "-"),
        (["O", "B", "I"], ""),
        (["O", "B", "I", "L", "U"], ""),
        (["O", "B", "E", "S"], ""),
        (["O"], None),
        ([], None),
        (["NOUN", "O"], None),
        (["O", "B-"], None),
        (["O", "B-A", "I_A"], None),
        (["O", "B-A", "I"], None),
        (["O", "b-A", "i-A"], None),
        (["B-1", "B-2"], None),
        (["I-A", "I-B"], None),
        (["E-mail", "S-Bahn"], None),
        (["O", "B"], None),
        (["B", "I"], None),
        (["O", "I", "E"], None),
    ],
)
def test_spans_are_known_by_their_labels(labels, separator):
    found = scheme_of(labels)
    assert (None if found is None else found.separator) == separator


@pytest.mark.parametrize(
    "labels",
    [
        "NOUN VERB X",
        "NN NN-HL , . -LRB- WP$",
        "B-1 B-2",
        "A B AB O",
        "S-Bahn E-mail O",
        "O B-A I-A",
        "O",
        "nsubj obl:tmod",
        "_ Case=Nom",
    ],
)
def test_labels_that_do_not_look_like_spans_have_none(labels):
    assert why_no_scheme(labels.split()) == ""
