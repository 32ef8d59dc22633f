"""Labels of spans: what may continue one."""

from keras_selfattn.models.tokens.span_labels import all_may_follow, may_follow


def test_what_continues_a_span_may_stand_behind_the_same_kind_only():
    assert may_follow("B-A", "I-A")
    assert may_follow("I-A", "E-A")
    assert not may_follow("B-A", "I-B")
    assert not may_follow("E-A", "I-A")
    assert not may_follow(None, "I-A")
    assert not all_may_follow([["O", "B-A"], ["I-A"]])
