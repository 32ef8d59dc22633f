"""Settings of byte-pair tokenizers: one out of range is named."""

import functools

import pytest
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.canonical_composition import CanonicalComposition

ONE_STRING_EACH = [tf.TensorSpec([None], tf.string)]


@functools.cache
def traced_composition():
    """A graph, which many calls run faster."""
    return tf.function(CanonicalComposition(), input_signature=ONE_STRING_EACH)


def composed(texts):
    return [text.decode() for text in traced_composition()(tf.constant(texts)).numpy()]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_tokens": 1}, "`max_tokens` must be at least 2"),
        ({"max_tokens": "8"}, "`max_tokens` must be a positive integer"),
        ({"add_prefix_space": None}, "`add_prefix_space` must be True or False. Received None"),
        ({"composed": 1}, "`composed` must be True or False. Received 1"),
        ({"sep": None}, "`sep` must be a text. Received None"),
        ({"merges": ("a b", "a")}, "with a blank between. Received 'a' as number 1"),
        ({"merges": ("a b c",)}, "Received 'a b c' as number 0"),
        ({"added_tokens": {"": 1}}, "`added_tokens` must not be empty"),
        ({"added_tokens": {"a\U0010ffff": 1}}, r"must not hold U\+10FFFF"),
        ({"added_tokens": {"a": -1}}, "ids from 0 on. Received -1 for 'a'"),
        ({"lstrip_tokens": ("<a>",)}, "`lstrip_tokens` must be of `added_tokens`. Received '<a>'"),
        (
            {"added_tokens": {"<a>": 1, "a": 2}, "normalized_tokens": ("a",)},
            "must not be part of other tokens. Received 'a', part of '<a>'",
        ),
        ({"added_tokens": {"a": 1, "ab": 2}, "lstrip_tokens": ("a",)}, "must not begin another one.*'ab'"),
        ({"added_tokens": {"a": 1, " b": 2}, "rstrip_tokens": ("a",)}, "end with white space. Received ' b'"),
    ],
)
def test_a_setting_out_of_range_is_named(changed, message):
    with pytest.raises(ConfigError, match=message):
        BytePairSettings(**{"max_tokens": 8, **changed})
