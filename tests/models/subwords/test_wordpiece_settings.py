"""Settings of WordPiece: one out of range is named."""

import pytest

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_tokens": 1}, "`max_tokens` must be at least 2"),
        ({"max_tokens": "8"}, "`max_tokens` must be a positive integer"),
        ({"max_input_chars_per_word": 0}, "`max_input_chars_per_word` must be a positive"),
        ({"lowercase": None}, "`lowercase` must be True or False. Received None"),
        ({"strip_accents": "no"}, "`strip_accents` must be True, False or None. Received 'no'"),
        ({"sep": None}, "`sep` must be a text. Received None"),
        ({"added_tokens": {"": 1}}, "`added_tokens` must not be empty"),
        ({"added_tokens": {"a\u2028": 1}}, "must not hold U.2028"),
        ({"added_tokens": {"a": -1}}, "ids from 0 on. Received -1 for 'a'"),
        ({"normalized_tokens": ("<a>",)}, "`normalized_tokens` must be of `added_tokens`. Received '<a>'"),
    ],
)
def test_a_setting_out_of_range_is_named(changed, message):
    with pytest.raises(ConfigError, match=message):
        WordPieceSettings(**{"max_tokens": 8, **changed})
