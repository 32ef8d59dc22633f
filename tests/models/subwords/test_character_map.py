"""Characters and clusters become what `tokenizers`' Precompiled makes of them."""

import random
import struct

import pytest
import tensorflow as tf
from tokenizers import normalizers

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.character_file import scalars
from keras_selfattn.models.subwords.character_map import CharacterMap, read_compiled
from keras_selfattn.models.subwords.joined_characters import compiled

MAPPING = {
    "ﬁ": "fi",
    "\u00ad": "",
    "é": "e\u0301",
    "e\u0301": "é",
    "a\u0300\u0301": "A",
    "a": "ä",
    "\r": "",
    "\n": " ",
    "漢": "han",
    "\u2139": "i",
    "\u0915": "k",
    "\u0958": "q",
    "\U0001f642": ":)",
    "\u0600b": "B",
    "ab": "not read: two clusters",
    "long enough": "never read",
}
MARKS = (
    "\u094d\u094d\u093c\u0903\u200d\u0301\u0300\u0327\u0483\u05b0\u064b\u200d\ufe0f\U000e0100\u0600\r\n\u00ad"
)
BASES = "\u2139\u2139\u00a9\u0915\u0915\u0958\u2764aebxé漢ﬁ가\u1100\U0001f642 \U0010ffff\x00"


def replaced(mapping, texts):
    made = CharacterMap(mapping)
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    owners = codes.value_rowids()
    found, sources = tf.function(made.__call__)(codes.flat_values, owners)
    rows = tf.RaggedTensor.from_value_rowids(found, tf.gather(owners, sources), nrows=len(texts))
    return [text.decode() for text in tf.strings.unicode_encode(rows, "UTF-8").numpy()]


def test_texts_become_what_the_package_makes_of_them():
    draw = random.Random(0)
    texts = [
        "".join(draw.choice(BASES if draw.random() < 0.5 else MARKS) for _ in range(draw.randint(0, 7)))
        for _ in range(5_000)
    ]
    oracle = normalizers.Precompiled(compiled(MAPPING))
    # `normalize_str` is asked for the letters of the class alone: the package ends a text at a NUL.
    texts = [text.replace("\x00", "") for text in texts]
    assert replaced(MAPPING, texts) == [oracle.normalize_str(text) for text in texts]


@pytest.mark.slow
def test_every_code_point_joins_or_not_as_in_the_package():
    """A cluster is replaced as a whole, so what follows a mapped letter disappears if it joins it."""
    oracle = normalizers.Precompiled(compiled({"a": "b"}))
    texts = [f"a{chr(code)}" for code in scalars() if code]
    assert replaced({"a": "b"}, texts) == [oracle.normalize_str(text) for text in texts]
    few = {chr(code): "b" for code in range(0x300, 0x1000)}
    oracle = normalizers.Precompiled(compiled(few))
    texts = [f"{letter}{after}" for letter in few for after in ("a", "\u0301", "\u0903", "\n")]
    assert replaced(few, texts) == [oracle.normalize_str(text) for text in texts]


def test_no_cluster_goes_on_from_one_owner_to_the_next():
    made = CharacterMap({"e\u0301": "é"})
    codes = tf.constant([ord("e"), 0x301, ord("e"), 0x301])
    found, sources = made(codes, tf.constant([0, 1, 1, 1], tf.int64))
    assert found.numpy().tolist() == [ord("e"), 0x301, ord("é")]
    assert sources.numpy().tolist() == [0, 1, 2]


def test_the_compiled_map_is_read_up_to_the_texts_that_count():
    short = {text: to for text, to in MAPPING.items() if len(text.encode()) <= 5}
    assert read_compiled(compiled(MAPPING)) == short
    assert {"long enough", "a\u0300\u0301"} & short.keys() == {"a\u0300\u0301"}


@pytest.mark.parametrize("text", ["가\u0301", "\u1100\u0301", "\u1161"])
def test_letters_of_hangul_that_are_replaced_are_refused(text):
    with pytest.raises(ConfigError, match="begins with a letter of Hangul: not supported"):
        CharacterMap({text: "x"})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00",
        struct.pack("<I", 4000) + b"\x00" * 8,
        struct.pack("<I", 0),
        compiled(MAPPING)[:-2],
        compiled({"a": "b"})[:-2] + b"\xff\x00",
        compiled({"\udcff".encode("utf-8", "surrogateescape").decode("latin-1"): "b"})[:40],
    ],
    ids=["empty", "no size", "cut array", "no unit", "cut texts", "no UTF-8", "cut"],
)
def test_a_damaged_map_is_refused(content):
    with pytest.raises(ConfigError, match=r"the map of characters \(precompiled_charsmap\) is damaged: "):
        read_compiled(content)
