"""Raw texts have the same tokens in Python, by which files are read, and in TensorFlow's ops."""

import functools
import random
import unicodedata

import pytest
import tensorflow as tf

from keras_selfattn.models.tokens.raw_texts import text_tokens
from keras_selfattn.rows.text_tokens import (
    CODE_POINTS,
    SINGLE,
    SPACE,
    character_kinds,
    split_text,
    token_places,
)

# Texts with their tokens, between bars.
SPLIT = [
    ("Ada's cat isn't \"here\".", "Ada|'|s|cat|isn|'|t|\"|here|\"|."),
    ("well-known 3.14 10km e-mail@x.org a_b", "well|-|known|3|.|14|10km|e|-|mail|@|x|.|org|a|_|b"),
    ("東京都です。カタカナ", "東|京|都|で|す|。|カ|タ|カ|ナ"),
    ("ภาษาไทย ລາວ ខ្មែរ မြန်မာ བོད", None),
    ("한국어 हिन्दी العربية עברית Ελληνικά Հայերեն", "한국어|हिन्दी|العربية|עברית|Ελληνικά|Հայերեն"),
    ("e\u0301te\u0301 क\u094dष", "e\u0301te\u0301|क\u094dष"),
    ("😀Ada👩\u200d🚒x👍🏽! ❤\ufe0fy", "😀|Ada|👩\u200d|🚒|x|👍🏽|!|❤\ufe0f|y"),
    ("a\u00a0b\u3000c\u2028d\u200be\r\nf\tg\x1fh\ufeffi", "a|b|c|d|e|f|g|h|i"),
    ("\u0301a !\u0301 \u200db", "\u0301a|!\u0301|\u200db"),
    ("\x00a\x07", "\x00a\x07"),
    ("𝒜𝒷 𐍈 𠀀𠀁", "𝒜𝒷|𐍈|𠀀|𠀁"),
    ("", ""),
    (" \n ", ""),
]


@functools.cache
def graph():
    return tf.function(text_tokens, input_signature=[tf.TensorSpec([None], tf.string)])


def in_graph(texts):
    """Tokens with their places, by TensorFlow, inside a graph as it is served."""
    found = graph()(tf.constant(texts))
    tokens, starts, ends = (each.to_list() for each in found)
    return [
        [(token.decode(), *place) for token, *place in zip(*row, strict=True)]
        for row in zip(tokens, starts, ends, strict=True)
    ]


def in_python(text):
    return [(token, *place) for token, place in zip(split_text(text), token_places(text), strict=True)]


@pytest.mark.parametrize(("text", "tokens"), SPLIT)
def test_words_are_split_at_blanks_and_marks_and_scripts_without_blanks_by_characters(text, tokens):
    expected = (
        [each for each in text if each != " "] if tokens is None else list(filter(None, tokens.split("|")))
    )
    assert split_text(text) == expected
    assert [text[start:end] for start, end in token_places(text)] == expected
    assert in_graph([text]) == [in_python(text)]


def test_python_and_tensorflow_agree_on_random_texts_of_many_scripts():
    draw = random.Random(0)
    edges = [0x9, 0x20, 0x21, 0x41, 0x301, 0x200B, 0x200D, 0xFE0F, 0x2764, 0x1F3FD]
    ranges = [
        range(0x20, 0x7F),
        range(0, 0x250),
        range(0x5D0, 0x780),
        range(0x900, 0x1100),
        range(0x3000, 0x3100),
    ]
    ranges += [
        edges,
        range(0x4E00, 0x4E20),
        range(0x1F300, 0x1F650),
        range(0xD800),
        range(0xE000, CODE_POINTS),
    ]
    texts = [
        "".join(chr(draw.choice(draw.choice(ranges))) for _ in range(draw.randrange(24))) for _ in range(3000)
    ]
    assert in_graph(texts) == [in_python(text) for text in texts]


def test_characters_of_all_planes_are_of_the_same_kind_in_python_and_tensorflow():
    # Between two letters: a part of one word, two words, or three tokens.
    codes = [code for code in range(0, CODE_POINTS, 97) if not 0xD800 <= code < 0xE000]
    texts = [f"a{chr(code)}b" for code in codes]
    assert in_graph(texts) == [in_python(text) for text in texts]


def test_punctuation_symbols_and_white_space_of_unicode_are_never_inside_a_word():
    kinds = character_kinds()
    letters = [chr(code) for code in range(CODE_POINTS) if unicodedata.category(chr(code))[0] in "LN"]
    marks = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code))[0] in "PS"]
    assert {kinds[ord(each)] for each in marks} == {SINGLE}
    spaces = {chr(code) for code in range(CODE_POINTS) if chr(code).isspace()}
    assert {kinds[ord(each)] for each in spaces} == {SPACE}
    # No letter or digit is white space, or a mark that would stick to an emoji before it.
    assert {kinds[ord(each)] for each in letters} == {0, SINGLE}


def test_bytes_that_are_no_utf_8_are_a_token():
    found = text_tokens(tf.constant([b"a\xffb"]))
    assert found.tokens.to_list() == [[b"a", b"\xef\xbf\xbd", b"b"]]
    assert found.ends.to_list() == [[1, 2, 3]]


def test_no_texts_have_no_tokens():
    assert text_tokens(tf.constant([], tf.string)).tokens.to_list() == []
