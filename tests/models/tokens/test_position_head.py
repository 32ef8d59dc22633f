"""Labels of tokens as a row that the scheme can write, and models without a scheme."""

import numpy as np

from keras_selfattn.models.tokens.position_head import PositionHead


def test_rows_that_keep_no_rule_are_labelled_one_by_one():
    """B behind O is none of IOB1, and I behind O none of IOB2."""
    assert PositionHead.from_targets([["O", "I-A", "O", "B-A"]]).state["spans"] is False


def test_ends_that_some_rows_leave_out_are_not_asked_for():
    """S marks single tokens in one row, B in the other: what B begins need not reach an end."""
    assert PositionHead.from_targets([["B-A", "E-A", "S-A", "O"]]).state["spans"] == "IOBES"
    assert PositionHead.from_targets([["B-A", "E-A", "S-A", "O"], ["B-A", "O"]]).state["spans"] == "IOB2"
    assert PositionHead.from_targets([["B-A", "E-A"]]).state["spans"] == "IOB2", "a row may have one token"


def test_a_model_that_was_saved_before_there_were_rules_answers_as_before():
    """It has `spans` True: I and E continue a span, and nothing has to end."""
    labels, outputs = ["B-A", "E-A", "I-A", "O"], [np.array([[0.6, 0.1, 0.1, 0.2], [0.1, 0.2, 0.2, 0.5]])]
    found = PositionHead(labels, True).chosen([each.astype("float32") for each in outputs])
    assert [labels[place] for place in found[0]] == ["B-A", "O"]
    found = PositionHead(labels, "IOBES").chosen([each.astype("float32") for each in outputs])
    assert [labels[place] for place in found[0]] == ["B-A", "E-A"]


def test_labels_are_chosen_one_by_one_if_all_may_follow_each_other():
    assert PositionHead.from_targets([["B-A", "I-A", "O"]]).decoder is not None
    assert PositionHead.from_targets([["I-A", "I-A", "O"], ["I-A", "O"]]).decoder is None
    assert PositionHead.from_targets([["NOUN", "O"]]).decoder is None
    found = PositionHead(["I-A", "O"]).chosen([np.array([[0.6, 0.4]])])
    assert [row.tolist() for row in found] == [[0]]
