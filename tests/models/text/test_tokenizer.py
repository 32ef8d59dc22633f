"""Words and characters of a text: what is one, what is kept, where a text is cut."""

import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.models.text.tokenizer import Tokenizer, learn_vocabulary, split

NOTHING_DROPPED = dict.fromkeys(("dropout", "word_dropout", "embedding_dropout", "head_dropout"), 0.0)


SMALL = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64, **NOTHING_DROPPED)


def words(config, text):
    return [token.decode() for token in split(config, tf.constant([text])).to_list()[0]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Good film, isn't it?!", ["good", "film", ",", "isn't", "it", "?", "!"]),
        ("ÉCOLE  straße\tİ", ["école", "straße", "i̇"]),
        ("東京 is 日本", ["東", "京", "is", "日", "本"]),
        ("a\u00a0b\u3000c", ["a", "b", "c"]),
        ("snake_case 3.5€", ["snake_case", "3", ".", "5", "€"]),
        ("", []),
        (" \n\t ", []),
        ("🙂🙂", ["🙂", "🙂"]),
    ],
)
def test_words_are_runs_of_letters_and_single_signs(text, wanted):
    assert words(models.TextConfig(), text) == wanted


def test_characters_are_code_points_and_case_is_kept_where_asked():
    config = models.TextConfig(tokens="characters", lowercase=False)
    assert words(config, "Añ東 x") == ["A", "ñ", "東", " ", "x"]


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_bytes_that_are_no_utf8_become_the_replacement_character(tokens):
    config = models.TextConfig(tokens=tokens)
    assert words(config, b"\xffa") == (["\ufffd", "a"])


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_no_text_ends_at_a_nul(tokens):
    assert words(models.TextConfig(tokens=tokens), "A\0B") == ["a", "\ufffd", "b"]
    assert words(models.TextConfig(tokens=tokens, lowercase=False), "A\0B") == ["A", "\0", "B"]


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_a_long_text_is_cut_at_max_tokens(tokens):
    config = models.TextConfig(tokens=tokens, max_tokens=7)
    assert len(words(config, "x y " * 250_000)) == 7


def test_the_vocabulary_is_by_frequency_with_rare_tokens_left_out():
    config = models.TextConfig(vocabulary_size=2, min_count=2)
    assert learn_vocabulary(config, ["b b c", "a c b", "a rare"])[0] == ["b", "a"]
    assert learn_vocabulary(config, ["only once"])[0] == ["once", "only"]


def test_ids_begin_at_two_and_unknown_is_one():
    tokenizer = Tokenizer(SMALL, ["good", "film"])
    assert tokenizer.padded(tf.constant(["film good what", "good"])).numpy().tolist() == [
        [3, 2, 1],
        [2, 0, 0],
    ]
    assert [row.tolist() for row in tokenizer.rows(["good", "", "film film"])] == [[2], [], [3, 3]]
