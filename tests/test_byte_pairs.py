"""Byte-level byte-pair encoding: the ids of the `tokenizers` package, computed in the graph."""

import functools
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from keras_selfattn.models.subwords.byte_level_words import ByteLevelSplit
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import BytePairs, byte_letters
from keras_selfattn.models.subwords.canonical_composition import CanonicalComposition
from keras_selfattn.models.subwords.merges import FIRST, Merges

ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SENTENCES = [
    "The film was good, and its actors were unbelievably good.",
    "I'm sure they've seen it; we'll say it isn't bad, don't you'd? 'Tis 'sold 're",
    "Der Straßenbahnfahrer fährt über die Brücke; ÖPNV nach Köln!",
    "Это очень хороший фильм, ещё лучше книги. Її",
    "东京 是 日本 的 首都 映画が好きです パーティー",
    "안녕하세요 영화가 정말 좋아요",
    "फ़िल्म बहुत अच्छी थी। হ্যাঁ কো",
    "فيلم جميلٌ جدًّا، שָׁלוֹם עולם",
    "ภาพยนตร์เรื่องนี้ดีมาก",
    "tiếng Việt rất hay 🙂🎬👩‍🚀 3.5€ x² ½ 1000 2nd",
    "def  f(x):\n\n    return  x+1\t# twice \r\n",
    "aaaaaaa aaaa aaaaaaaaaaaaaaaa !!!!!! ------------",
]
KINDS = ["roberta", "prefixed", "modernbert", "whole words"]
EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


@functools.cache
def trained():
    """Vocabulary and merges that the package learned."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=ROBERTA,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES * 3, trainer)
    model = json.loads(made.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


@functools.cache
def learned(kind="roberta"):
    """A tokenizer of the package, as that of RoBERTa or of ModernBERT."""
    vocabulary, merges = trained()
    made = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=kind == "whole words"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "prefixed")
    if kind == "modernbert":
        made.normalizer = normalizers.NFC()
        blanks = [" " * count for count in range(24, 1, -1)]
        for token in ["|||EMAIL|||", *blanks]:
            made.add_tokens([tokenizers.AddedToken(token, normalized=True)])
        for token in ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]:
            flags = {"normalized": False, "lstrip": token == "[MASK]"}
            made.add_special_tokens([tokenizers.AddedToken(token, **flags)])
        made.add_tokens([tokenizers.AddedToken(f"[unused{n}]", normalized=True) for n in range(12)])
        ends = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    else:
        for token in ROBERTA:
            flags = {"normalized": token != "<mask>", "lstrip": token == "<mask>"}
            made.add_special_tokens([tokenizers.AddedToken(token, **flags)])
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


OF_MODERNBERT = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}


@functools.cache
def folder_of(base, kind):
    """A folder with the tokenizer's file of the package."""
    folder = base / kind.replace(" ", "-")
    folder.mkdir()
    learned(kind).save(str(folder / "tokenizer.json"))
    if kind == "modernbert":
        (folder / "tokenizer_config.json").write_text(json.dumps(OF_MODERNBERT))
    return folder


@functools.cache
def read_once(base, kind, max_tokens):
    return BytePairs.from_folder(folder_of(base, kind), max_tokens)


@functools.cache
def traced_once(base, kind, max_tokens):
    """A graph, which many calls run faster."""
    return tf.function(read_once(base, kind, max_tokens), input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("byte-pairs")


@pytest.fixture
def ours(base):
    return lambda kind="roberta", max_tokens=10_000: read_once(base, kind, max_tokens)


@pytest.fixture(scope="module")
def traced(base):
    return lambda kind="roberta", max_tokens=10_000: traced_once(base, kind, max_tokens)


def cut(oracle, text, max_tokens):
    """The ids of a text, as a cut at the end leaves them."""
    ids = oracle.encode(text).ids
    return ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]]


def assert_equal(texts, oracle, tokenizer, max_tokens=10_000):
    """Texts, or bytes, have the same ids in both."""
    found = tokenizer(tf.constant(texts, tf.string)).to_list()
    for text, ids in zip(texts, found, strict=True):
        known = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        assert ids == cut(oracle, known, max_tokens), text


TEXTS = [
    *SENTENCES,
    *("", " ", "  ", "\n", " \t\n\u3000 ", "\x00\x01\x7f", "good\u00adfilm good\u200bfilm \ufeffgood"),
    *("film ", "film  ", " film", "  film", "\tfilm", "\n\n film \n", "film\u00a0film \u00a0film\u3000 x"),
    *("'s", " 's", "x's", "x 's", "''s", "it's's", "'sa're", "'lll", "x'", "x'l", "it'S", "\n's", "1'd2"),
    *("a<mask>", "a <mask> b", "a \n\u3000<mask>b", "<mask>'s", "'<mask>s", " <mask>  <mask> ", "<mas k>"),
    *("<s></s><pad>", "<s>  </s> x", "x<unk>x", "<unk", "<<s>>", "a'<s>s", "</s> <s>\n<mask>", "<s>\n x"),
    *(
        "\U0010ffff",
        "\U0010ffff<s>",
        "<s>\U0010ffff\U0010ffffx",
        "a\U0010ffffb 's\U0010ffff's",
        "é\U0010ffff",
    ),
    *(
        "[MASK]",
        "a  [MASK]",
        "a    b",
        "|||EMAIL|||x",
        "   [CLS]   x",
        "[unused3]\u0301",
        "x" + " " * 60 + "y",
    ),
    *(
        "e\u0301te\u0301",
        "\u0301e",
        "[SEP]\u0301e\u0301",
        "\u1112\u1161\u11ab\u11ab",
        "\u212b\u2126",
        "क\u093c",
    ),
    *("\u00bd²٣Ⅷ一", "ª°\u0345\u02c6", "x\u0301\u0323\u0301y", "\U000e0001\U0010fffd", "a1b2 3c"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_has_the_ids_of_the_package(kind, ours):
    assert_equal(TEXTS, learned(kind), ours(kind))


def test_ids_are_what_the_merges_say():
    """By hand: of l o w e r, "lo" is merged first, then "er"; "low" has a higher rank than "we"."""
    vocabulary = [*ROBERTA, *byte_letters(), "lo", "we", "er", "low"]
    settings = BytePairSettings(16, ("l o", "w e", "e r", "lo w"))
    tokenizer = BytePairs(settings, vocabulary)
    found = [[tokenizer.names[piece] for piece in row] for row in tokenizer.rows(["lower low", "ow\né"])[0]]
    assert found == [
        ["<s>", "lo", "we", "r", " ", "low", "</s>"],
        ["<s>", "o", "w", "\n", "\\xc3", "\\xa9", "</s>"],
    ]
    assert tokenizer.padded(tf.constant(["", "low"])).numpy().tolist() == [[0, 2, 1], [0, 264, 2]]
    assert tokenizer(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.rows([]) == ([], 0)


def merged(merges, word):
    """The pieces of a word by the definition: the pair of the lowest rank, the leftmost of several."""
    ranks = {(left, right): (rank, made) for rank, (left, right, made) in enumerate(merges)}
    word = list(word)
    while pairs := [
        (ranks[pair], place) for place, pair in enumerate(itertools.pairwise(word)) if pair in ranks
    ]:
        (_, made), place = min(pairs)
        word[place : place + 2] = [made]
    return word


def assert_merged(merges, longest, words):
    flat, splits = np.concatenate(words), np.cumsum([0, *map(len, words)])
    flat[splits[:-1]] += FIRST
    ids, splits = Merges(merges, longest)(tf.constant(flat, tf.int32), tf.constant(splits, tf.int64))
    found = [ids.numpy()[a:b].tolist() for a, b in itertools.pairwise(splits.numpy())]
    assert found == [merged(merges, word) for word in words]


@st.composite
def lists_of_merges(draw):
    """Merges in any order, also those of a piece before those that make it, and words, some of them long."""
    ids = {letter: number for number, letter in enumerate("abc")}
    merges = {}
    for _ in range(draw(st.integers(1, 12))):
        left, right = draw(st.sampled_from(sorted(ids))), draw(st.sampled_from(sorted(ids)))
        if len(left + right) <= 6:
            merges[left, right] = ids.setdefault(left + right, len(ids))
    made = [(ids[left], ids[right], number) for (left, right), number in merges.items()]
    words = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=6))
    return draw(st.permutations(made)), max(map(len, ids)), [word * draw(st.integers(1, 4)) for word in words]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(lists_of_merges())
def test_pairs_are_merged_in_the_order_of_their_ranks(drawn):
    assert_merged(*drawn)


@pytest.mark.parametrize(
    "merges",
    [
        [(0, 0, 2)],  # aa
        [(0, 0, 2), (2, 2, 3), (3, 3, 4)],  # aa, aaaa, aaaaaaaa
        [(0, 1, 2), (2, 0, 3), (1, 0, 4), (0, 4, 3)],  # "aba" in two ways, the second after its merges
        [(5, 0, 6), (0, 1, 5), (6, 1, 7)],  # "aba" before "ab"
    ],
)
def test_repeated_pairs_are_merged_from_the_left(merges):
    random = np.random.default_rng(0)
    words = [[0] * count for count in range(1, 70)] + [random.integers(0, 2, 90).tolist() for _ in range(30)]
    assert_merged(merges, 8, words)


def words(split, texts):
    found = split(tf.constant(texts))
    strings, rows = found.strings().numpy().tolist(), found.rows.numpy()
    return [[word.decode() for word in strings[a + 1 : b]] for a, b in itertools.pairwise(rows)]


def known_words(texts, prefixed=False):
    split = pre_tokenizers.ByteLevel(add_prefix_space=prefixed).pre_tokenize_str
    letters = {letter: byte for byte, letter in enumerate(byte_letters())}
    return [[bytes(letters[each] for each in word).decode() for word, _ in split(text)] for text in texts]


@pytest.mark.parametrize("prefixed", [False, True])
def test_code_points_are_split_as_in_the_package(prefixed):
    split = ByteLevelSplit(BytePairSettings(10**6, add_prefix_space=prefixed))
    codes = [*range(0x400), *EVERY[0x400::211]]
    texts = [f"{c}a{c}1{c}!{c} {c}'s'{c}  {c}\n{c}b" for c in map(chr, codes)]
    assert words(split, texts) == known_words(texts, prefixed)


@pytest.mark.slow
def test_every_code_point_is_split_as_in_the_package():
    split = ByteLevelSplit(BytePairSettings(10**6))
    for start in range(0, len(EVERY), 65_536):
        texts = [f"{c}a{c}1{c}!{c} {c}  {c}" for c in map(chr, EVERY[start : start + 65_536])]
        assert words(split, texts) == known_words(texts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("'stdrevlmSa1 \n\u3000!é\u0301.")), min_size=1, max_size=8))
def test_contractions_and_white_space_are_split_as_in_the_package(texts):
    split = ByteLevelSplit(BytePairSettings(10**6))
    assert words(split, texts) == known_words(texts)


def composed(texts):
    return [text.decode() for text in CanonicalComposition()(tf.constant(texts)).numpy()]


def assert_composed(codes):
    """Each alone, and after and before characters that it may join or change places with."""
    texts = [f"{c}a{c}\u0334b{c}\u0345e\u0345{c} \u1100{c}\u11a8{c}" for c in map(chr, codes)]
    known = [normalizers.NFC().normalize_str(text) for text in texts]
    assert composed(texts) == known
    assert known != texts


def test_code_points_are_composed_as_in_the_package():
    assert_composed([*range(0x600), *EVERY[0x600::211]])


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


PARTS = st.sampled_from(
    [
        *ROBERTA,
        *("[MASK]", "[CLS]", "[unused7]", "|||EMAIL|||", "  ", "   ", " ", "\n", "\u3000", "'s", "'re", "'"),
        *("film", "good", " the", "aaaaa", "é", "e\u0301", "한", "한", "東京", "🙂", "\x00", "\U0010ffff"),
    ]
)
MIXED = st.lists(st.one_of(PARTS, st.text(max_size=6)), max_size=12).map("".join)
BYTES = st.lists(
    st.one_of(st.binary(max_size=4), PARTS.map(str.encode), MIXED.map(lambda text: text.encode()[:-1])),
    max_size=8,
).map(b"".join)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(MIXED, min_size=1, max_size=6))
def test_mixed_scripts_have_the_ids_of_the_package(kind, traced, texts):
    assert_equal(texts, learned(kind), traced(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(BYTES, min_size=1, max_size=6))
@example(texts=[b"\xed\xa0\x80<s>\xf4\x90\x80\x80\xf0\x9f\x99 \xe2<mask>\xff", b"e\xcc\x81\xcc[MASK]"])
def test_bytes_that_are_no_utf8_are_replaced_as_in_python(kind, traced, texts):
    assert_equal(texts, learned(kind), traced(kind))
