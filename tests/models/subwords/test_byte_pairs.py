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

from keras_selfattn.errors import ConfigError
from keras_selfattn.export import written_graph
from keras_selfattn.models.subwords.byte_level_words import ByteLevelSplit
from keras_selfattn.models.subwords.byte_pair_files import LLAMA_3_WORDS
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import BytePairs, byte_letters

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
KINDS = ["roberta", "prefixed", "modernbert", "whole words", "llama"]


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
    if kind == "llama":
        split = pre_tokenizers.Split(tokenizers.Regex(LLAMA_3_WORDS), "isolated")
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([split, letters])
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


def ours_of(oracle, found):
    """Ids of the package, with one after all of them for padding, which only ends rows here."""
    ids = oracle.get_vocab()
    padding = ids["[PAD]" if "[CLS]" in ids else "<pad>"]
    return [len(ids) if each == padding else each for each in found]


def cut(oracle, text, max_tokens):
    """The ids of a text, as a cut at the end leaves them, with our own id of padding in a text."""
    ids = ours_of(oracle, oracle.encode(text).ids)
    return ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]]


def assert_equal(texts, oracle, tokenizer, max_tokens=10_000):
    """Texts, or bytes, have the same ids in both."""
    found = tokenizer(tf.constant(texts, tf.string)).to_list()
    for text, ids in zip(texts, found, strict=True):
        known = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        assert ids == cut(oracle, known, max_tokens), text


def assert_same(one, other):
    """Tokenizers have the same ids for every text: settings and vocabulary are all there is to them."""
    assert one.settings == other.settings
    assert one.vocabulary == other.vocabulary


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


ONE_STRING_EACH = [tf.TensorSpec([None], tf.string)]


@functools.cache
def traced_split(prefixed):
    """A graph, which many calls run faster."""
    split = ByteLevelSplit(BytePairSettings(10**6, add_prefix_space=prefixed))

    def strings_and_rows(texts):
        found = split(texts)
        return found.strings(), found.rows

    return tf.function(strings_and_rows, input_signature=ONE_STRING_EACH)


def words(texts, prefixed=False):
    strings, rows = (each.numpy().tolist() for each in traced_split(prefixed)(tf.constant(texts)))
    return [[word.decode() for word in strings[a + 1 : b]] for a, b in itertools.pairwise(rows)]


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


@pytest.mark.parametrize(
    "max_tokens",
    [pytest.param(most, marks=[] if most in (2, 20) else pytest.mark.slow) for most in (2, 3, 4, 20, 100)],
)
def test_a_longer_text_is_cut_as_the_package_cuts_it(base, max_tokens):
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    oracle.enable_truncation(max_tokens)
    tokenizer = read_once(base, "roberta", max_tokens)
    texts = [*SENTENCES, "", "good " * 100, "unbelievably" * 5]
    rows, cut = tokenizer.rows(texts)
    found = [ids.tolist() for ids in rows]
    assert found == [each.ids for each in oracle.encode_batch(texts)]
    assert max(map(len, found)) == max_tokens
    oracle.no_truncation()
    assert cut == sum(len(each.ids) > max_tokens for each in oracle.encode_batch(texts))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prefixed", "modernbert", "llama"])
@pytest.mark.parametrize("width", [4096, 4096 * 8])
def test_reading_only_the_beginning_of_a_long_text_changes_no_id(traced, kind, width):
    """A cut in the middle of each: a word, a character, a token, white space, a contraction, a mark."""
    middles = [
        "good",
        "東京",
        "<mask>",
        "[MASK]",
        " \n <mask>",
        "   [MASK]",
        "🙂",
        "x're",
        "e\u0301\u0323",
        "  x",
        "!\n\r\n12345",
    ]
    for head in ("good " * width, "x" * width, " " * width, "good".ljust(width), "x" * (width - 900)):
        for middle in middles:
            for shift in range(9):  # each text alone, because a batch is read as far as any of it needs
                text = head[: width - shift] + middle * 2 + " film" * 20
                assert_equal([text], learned(kind), traced(kind, 8), 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "good film. " * 90_000,
        "a" * 10**6,
        "ab" * 500_000,
        " " * 10**6 + "good",
        " " * 10**6 + "<mask> good",
        "東京" * 160_000,
        "!?" * 101 + " film" * 200_000,
        "a" + "\u0301" * 500_000,
    ],
    ids=["text", "word", "pairs", "blanks", "blanks of a mask", "ideographs", "words", "marks"],
)
def test_a_megabyte_has_the_ids_of_its_beginning(traced, text):
    assert_equal([text], learned(), traced("roberta", 64), 64)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3_000, 40_000])
def test_a_long_word_has_the_ids_of_the_package(traced, size):
    random = np.random.default_rng(0)
    word = "".join(random.choice(list("abcdefgoodlmnrst"), size))
    assert_equal([word, "good"], learned(), traced("roberta", 50_000), 50_000)


@pytest.mark.parametrize("kind", ["roberta", "prefixed"])
def test_pieces_of_words_are_those_of_the_package(kind, ours):
    texts = ["good", "it's", "", " ", "\u3000\n", " film", "<mask>", "東京", "x  y"]
    # Between others a word has a blank before it, so the package is asked with one for both.
    alone = functools.partial(learned("prefixed").encode, is_pretokenized=True, add_special_tokens=False)
    known = [alone([text]).ids if text.strip() else [] for text in texts]
    found = ours(kind).word_pieces(tf.constant(texts))
    assert found.dtype == tf.int32
    assert found.to_list() == known
    sentence = ["good", "film", "it's", "x"]
    in_text = learned(kind).encode(" ".join(["", *sentence]), add_special_tokens=False).ids
    assert ours(kind).word_pieces(tf.constant(sentence)).flat_values.numpy().tolist() == in_text
    assert ours(kind).word_pieces(tf.constant([], tf.string)).to_list() == []


@pytest.mark.slow
def test_two_ids_change_places(ours):
    """ModernBERT's padding is an added token far behind the pieces."""
    tokenizer = ours("modernbert")
    padding = tokenizer.id_of("[PAD]")
    swapped = tokenizer.swapped(0, padding)
    texts = [*SENTENCES, "good [PAD] <s>", "<s>film  [UNK][MASK]"]
    ids = {0: padding, padding: 0}
    for row, other in zip(tokenizer.rows(texts)[0], swapped.rows(texts)[0], strict=True):
        assert other.tolist() == [ids.get(each, each) for each in row.tolist()]
    assert swapped.padded(tf.constant(["", "good film"])).numpy()[0, -1] == 0


def test_names_are_the_texts_of_the_pieces(ours):
    names = ours("modernbert").names
    vocabulary = ours("modernbert").vocabulary
    assert names[vocabulary.index("Ġgood")] == " good"
    assert names[vocabulary.index("â")] == "\\xe2"
    assert names[vocabulary.index("[MASK]")] == "[MASK]"
    assert names[vocabulary.index("    ")] == "    "


class Module(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tables = tokenizer.tables
        self.ids = tf.function(tokenizer.padded, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prefixed", "modernbert"])
def test_a_saved_model_answers_the_same_with_operations_of_old_tensorflow(tmp_path, ours, kind):
    tokenizer = ours(kind, 16)
    module = Module(tokenizer)
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.ids})
    written_graph.finish(tmp_path, {})  # refuses what TensorFlow 2.16 lacks
    texts = [*SENTENCES, "", "a\u302e\u1b44", " " * 5000 + "good", b"\xffgood <mask>[SEP]"]
    found = tf.saved_model.load(str(tmp_path)).ids(tf.constant(texts))
    np.testing.assert_array_equal(found, tokenizer.padded(tf.constant(texts)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["modernbert", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "modernbert")],
)
def test_settings_and_vocabulary_are_all_there_is_to_save(ours, kind):
    saved = json.loads(json.dumps([ours(kind).settings.to_dict(), ours(kind).vocabulary]))
    again = BytePairs(BytePairSettings.from_dict(saved[0]), saved[1])
    assert_same(again, ours(kind))
    for one, other in zip(again.rows(SENTENCES)[0], ours(kind).rows(SENTENCES)[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ([*ROBERTA[1:], *byte_letters()], (), "lacks `cls`, '<s>'"),
        ([*ROBERTA, *byte_letters(), "a"], (), "different. Received 'a' as number"),
        ([*ROBERTA, *byte_letters()[1:]], (), "must be a piece.* lacks 1 of them, first 'Ā' for the byte 0"),
        ([*ROBERTA, *byte_letters()], ("a b",), "Received 'a b'; the vocabulary lacks 'ab'"),
        ([*ROBERTA, *byte_letters(), "ab"], ("a b", "a b"), "Received 'a b'; the vocabulary has it once"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(vocabulary, merges, message):
    with pytest.raises(ConfigError, match=message):
        BytePairs(BytePairSettings(8, merges), vocabulary)


def test_bytes_that_no_text_has_may_be_missing():
    vocabulary = [
        *ROBERTA,
        *(letter for byte, letter in enumerate(byte_letters()) if byte not in (0xC0, 0xFF)),
    ]
    assert BytePairs(BytePairSettings(8), vocabulary).rows(["a"])[0][0].size == 3


def written(folder, kind="roberta", config=None, **changed):
    found = json.loads(learned(kind).to_str())
    found["model"] |= changed.pop("model", {})
    (folder / "tokenizer.json").write_text(json.dumps(found | changed), encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LETTERS = {**BYTE_LEVEL, "use_regex": False}
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA_3_WORDS}, "behavior": "Isolated", "invert": False}
ENDS = {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}},
        {"post_processor": {"type": "Sequence", "processors": [BYTE_LEVEL, ENDS]}},
        {"normalizer": {"type": "Sequence", "normalizers": []}},
        {"decoder": None, "padding": None, "config": {"mask_token": {"content": "<mask>"}}},
        {"model": {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True, "dropout": 0.0}},
        {"model": {"continuing_subword_prefix": "", "end_of_word_suffix": ""}},
    ],
)
def test_other_ways_to_write_a_tokenizer_are_read(tmp_path, ours, changed):
    assert_same(BytePairs.from_folder(written(tmp_path, **changed), 10_000), ours())


def test_a_model_without_a_type_is_known_by_its_merges(tmp_path, ours):
    """As older files of the format are written."""
    file = written(tmp_path) / "tokenizer.json"
    found = json.loads(file.read_text("utf-8"))
    del found["model"]["type"]
    file.write_text(json.dumps(found), encoding="utf-8")
    assert_same(BytePairs.from_folder(tmp_path, 10_000), ours())


def test_merges_are_texts_or_pairs(tmp_path, ours):
    merges = [" ".join(merge) for merge in trained()[1]]
    assert_same(BytePairs.from_folder(written(tmp_path, model={"merges": merges}), 10_000), ours())


@pytest.mark.parametrize(
    ("config", "prefixed"),
    [
        (None, False),
        pytest.param({}, False, marks=pytest.mark.slow),
        pytest.param({"add_prefix_space": True}, True, marks=pytest.mark.slow),
    ],
)
def test_a_folder_with_a_vocabulary_and_merges_is_read(tmp_path, config, prefixed):
    learned().model.save(str(tmp_path))
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = BytePairs.from_folder(tmp_path, 10_000)
    oracle = tokenizers.Tokenizer.from_str(learned("prefixed" if prefixed else "roberta").to_str())
    # Without a file that says it, no token takes white space: so in transformers 5.
    oracle.add_special_tokens([tokenizers.AddedToken("<mask>", normalized=False)])
    assert_equal(TEXTS, oracle, tokenizer)


FLAGGED = {"id": 0, "content": "<s>", "special": True, "lstrip": False, "rstrip": False, "normalized": False}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"normalizer": {"type": "NFKC"}}, "`normalizer` is 'NFKC'; supported: 'NFC', 'Sequence'"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}},
            "`normalizer` is 'Lowercase'; supported: 'NFC'",
        ),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "`pre_tokenizer` is 'Metaspace'; supported: 'ByteLevel'"),
        ({"pre_tokenizer": None}, "`pre_tokenizer` is None"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, BYTE_LEVEL]}},
            "`pre_tokenizer` is a sequence of 'Digits', 'ByteLevel'; supported: one part",
        ),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{**SPLIT, "invert": True}, LETTERS]}},
            "splits words by a rule of its own: not supported. The rules of GPT-2 .* and of Llama 3 are",
        ),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, BYTE_LEVEL]}},
            "splits words by a rule of its own",
        ),
        ({"pre_tokenizer": {**BYTE_LEVEL, "use_regex": False}}, "`use_regex` of `pre_tokenizer` is False"),
        ({"model": {"type": "Unigram"}}, "`model` is 'Unigram'; supported: 'BPE'"),
        ({"model": {"dropout": 0.1}}, "`dropout` of the model is 0.1: not supported"),
        ({"model": {"continuing_subword_prefix": "##"}}, "`continuing_subword_prefix` .* is '##'"),
        ({"model": {"end_of_word_suffix": "</w>"}}, "`end_of_word_suffix` of the model is '</w>'"),
        ({"model": {"ignore_merges": 1}}, "`whole_words` must be True or False. Received 1"),
        ({"model": {"merges": [["a", "東"]]}}, "Received 'a 東'; the vocabulary lacks '東'"),
        ({"model": {"merges": [["a"]]}}, "with a blank between. Received 'a'"),
        ({"post_processor": None}, "`post_processor` is None; supported: 'TemplateProcessing'"),
        ({"post_processor": BYTE_LEVEL}, "`post_processor` is 'ByteLevel'"),
        ({"post_processor": {**ENDS, "sep": ["</s>", 7]}}, r"gives '</s>' the ids \[7\]"),
        ({"added_tokens": [{**FLAGGED, "single_word": True}]}, "'<s>' is `single_word`: not supported"),
        ({"added_tokens": [{**FLAGGED, "id": 5}]}, r"token '<s>' has the id 5, but 0 in the vocabulary"),
        ({"truncation": {"direction": "Left", "max_length": 8}}, "`truncation` is at the left"),
        (
            {"normalizer": {"type": "NFC"}, "added_tokens": [{**FLAGGED, "content": "e\u0301", "id": 700}]},
            "the added token .* is not in Unicode's form C",
        ),
        ({"model": {"vocab": 5}}, "has not the usual form: TypeError"),
    ],
)
def test_what_a_tokenizer_file_has_and_we_lack_is_named(tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message) as caught:
        BytePairs.from_folder(written(tmp_path, **changed), 8)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "neither tokenizer.json nor vocab.json and merges.txt"),
        ({"vocab.json": "{}"}, "neither tokenizer.json nor vocab.json and merges.txt"),
        ({"tokenizer.json": "{"}, "tokenizer.json is not JSON"),
        ({"vocab.json": "[]", "merges.txt": ""}, "vocab.json holds no JSON object"),
        ({"vocab.json": '{"<s>": 0, "a": 2}', "merges.txt": ""}, "must be 0 to 1, each once"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "\udcff"}, "merges.txt cannot be read as UTF-8"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a\n"}, "blank between. Received 'a' as number 0"),
        (
            {"vocab.json": '{"a": 0}', "merges.txt": "", "added_tokens.json": '{"b": 7}'},
            "added_tokens.json: the added token 'b' has the id 7, but 1 is the next one",
        ),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=message):
        BytePairs.from_folder(tmp_path, 8)
