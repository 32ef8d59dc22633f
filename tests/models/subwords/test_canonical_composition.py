"""Marks are composed with their letters as in the package."""

import functools

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from keras_selfattn.models.subwords.canonical_composition import CanonicalComposition

EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


ONE_STRING_EACH = [tf.TensorSpec([None], tf.string)]


@functools.cache
def traced_composition():
    """A graph, which many calls run faster."""
    return tf.function(CanonicalComposition(), input_signature=ONE_STRING_EACH)


def composed(texts):
    return [text.decode() for text in traced_composition()(tf.constant(texts)).numpy()]


def assert_composed(codes):
    """Each alone, and after and before characters that it may join or change places with."""
    texts = [f"{c}a{c}\u0334b{c}\u0345e\u0345{c} \u1100{c}\u11a8{c}" for c in map(chr, codes)]
    known = [normalizers.NFC().normalize_str(text) for text in texts]
    assert composed(texts) == known


@pytest.mark.slow
def test_code_points_are_composed_as_in_the_package():
    assert_composed([*range(0x600), *EVERY[0x600::211]])
    assert composed(["e\u0301"]) == ["\u00e9"]


@pytest.mark.slow
def test_every_code_point_is_composed_as_in_the_package():
    for start in range(0, len(EVERY), 65_536):
        assert_composed(EVERY[start : start + 65_536])


MARKS = st.sampled_from(
    "aeo\u0301\u0323\u0302\u0308\u0304\u0345\u0334\u0327\u1100\u1161\u11a8\u09c7\u09be각가 Åǭ"
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(MARKS), min_size=1, max_size=8))
@example(["", "\u0301", "a", "\u0301a\u0327\u0301", "\u1161"])
def test_rows_of_marks_are_composed_as_in_the_package(texts):
    assert composed(texts) == [normalizers.NFC().normalize_str(text) for text in texts]
