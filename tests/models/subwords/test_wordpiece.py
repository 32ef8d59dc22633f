"""WordPiece: the ids of the `tokenizers` package, computed in the graph."""

import functools
import itertools
import json
import warnings
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pretrained_folders import usual_class
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from keras_selfattn.errors import ConfigError
from keras_selfattn.export import written_graph
from keras_selfattn.models.subwords.bert_words import BertWords
from keras_selfattn.models.subwords.wordpiece import WordPiece
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SENTENCES = [
    "The film was good, and its actors were unbelievably good.",
    "Der Straßenbahnfahrer fährt über die Brücke; ÖPNV nach Köln!",
    "Élan vital, naïve façade, coöperation, ångström İstanbul",
    "Это очень хороший фильм, ещё лучше книги. Її",
    "东京 是 日本 的 首都 映画が好きです パーティー",
    "안녕하세요 영화가 정말 좋아요",
    "फ़िल्म बहुत अच्छी थी। হ্যাঁ কো",
    "فيلم جميلٌ جدًّا، שָׁלוֹם עולם",
    "ภาพยนตร์เรื่องนี้ดีมาก",
    "γειά σου Κόσμε ὈΔΥΣΣΕΎΣ ᾳ",
    "tiếng Việt rất hay 🙂🎬👩‍🚀 3.5€ x² ½",
]
NORMAL = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
CASES = [
    (True, True, True, True),
    (True, False, False, True),
    (False, True, True, False),
    (False, False, False, False),
]


def normalizer(values):
    return normalizers.BertNormalizer(**dict(zip(NORMAL, values, strict=True)))


def learned(normal=(True, True, None, True), prefix="##"):
    """A tokenizer of the package, with a small vocabulary that it learned."""
    return learned_once(normal, prefix)


@functools.cache
def learned_once(normal, prefix):
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix))
    made.normalizer, made.pre_tokenizer = normalizer(normal), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=SPECIAL, continuing_subword_prefix=prefix, show_progress=False
    )
    made.train_from_iterator(SENTENCES * 3, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def pieces(oracle):
    ids = oracle.get_vocab(with_added_tokens=False)
    return sorted(ids, key=ids.get)


@functools.cache
def ours(normal=(True, True, None, True), prefix="##", max_tokens=10_000):
    """Our tokenizer with the vocabulary of the package's."""
    oracle = learned(normal, prefix)
    found = WordPieceSettings(
        max_tokens,
        **dict(zip(NORMAL, normal, strict=True)),
        continuing_prefix=prefix,
        added_tokens={token: number for number, token in enumerate(SPECIAL)},
    )
    return WordPiece(found, pieces(oracle))


@functools.cache
def traced(normal=(True, True, None, True), max_tokens=10_000):
    """Our tokenizer as a graph, which many calls run faster."""
    return tf.function(ours(normal, "##", max_tokens), input_signature=[tf.TensorSpec([None], tf.string)])


def ours_of(oracle, found):
    """Ids of the package, with one after all of them for padding, which only ends rows here."""
    ids = oracle.get_vocab()
    padding = ids["<pad>" if "<s>" in ids else "[PAD]"]
    return [len(ids) if each == padding else each for each in found]


def cut(oracle, text, max_tokens):
    """The ids of a text, as a cut at the end leaves them, with our own id of padding in a text."""
    ids = ours_of(oracle, oracle.encode(text).ids)
    return ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]]


def assert_equal(texts, oracle=None, tokenizer=None, max_tokens=10_000):
    """Texts, or bytes, have the same ids in both."""
    tokenizer, oracle = tokenizer or ours(), oracle or learned()
    found = tokenizer(tf.constant(texts, tf.string)).to_list()
    for text, ids in zip(texts, found, strict=True):
        known = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        assert ids == cut(oracle, known, max_tokens), text


@pytest.mark.parametrize(
    "text",
    [
        *SENTENCES,
        "",
        " \t\n\u3000 ",
        "\x00\x01\x7f",
        "good\u00adfilm good\u200bfilm \ufeffgood",
        "good\u2028film\u2029good\x85film\x0b\x0cgood",
        "a" * 100,
        "a" * 101,
        "good" * 25 + " " + "good" * 26,
        "é" * 100,
        "e\u0301" * 100 + " 한" * 34 + " " + "한" * 34,
        "goodqgood",
        "##ood good##s",
        "東\u0301京 \u0301",
        "𝒢𝓸𝓸𝓭 𐐀𐐨 \U000e0001 \U0010ffff",
        "don't-stop_it (x+y=z)",
    ],
)
@pytest.mark.parametrize("normal", [(True, True, None, True), (False, False, None, False)])
def test_a_text_has_the_ids_of_the_package(text, normal):
    assert_equal([text, "good"], learned(normal), ours(normal))


WORDS = [word for sentence in SENTENCES for word in sentence.split()]
WORDS += [
    "don't-stop_it",
    "",
    " ",
    "\x00",
    "good film",
    "a[MASK]b",
    "[PAD]",
    "e\u0301",
    "\u0301",
    "goodqgood",
    "a" * 101,
]


@pytest.mark.parametrize("normal", [(True, True, None, True), (False, False, None, False)])
def test_single_words_have_the_ids_of_pretokenized_rows_of_the_package(normal):
    found = ours(normal).word_pieces(tf.constant(WORDS)).to_list()
    encoded = learned(normal).encode(WORDS, is_pretokenized=True, add_special_tokens=False)
    wanted = [[] for _ in WORDS]
    for number, word in zip(ours_of(learned(normal), encoded.ids), encoded.word_ids, strict=True):
        wanted[word].append(number)
    assert found == wanted
    assert [] in wanted
    assert max(map(len, wanted)) > 3


def test_of_a_long_word_the_first_pieces_are_kept():
    words = tf.constant(["good-good-good", "good"])
    whole, short = (ours(max_tokens=most).word_pieces(words).to_list() for most in (10_000, 5))
    assert [row[:3] for row in whole] == short
    assert len(whole[0]) > 3


def test_the_ids_of_a_sentence_are_what_reading_the_vocabulary_says():
    vocabulary = [*SPECIAL, "un", "##aff", "##able", "##a", "!", "it"]
    tokenizer = WordPiece(WordPieceSettings(16), vocabulary)
    assert [row.tolist() for row in tokenizer.rows(["Unaffable! it", "unaffablest", ""])[0]] == [
        [2, 5, 6, 7, 9, 10, 3],
        [2, 1, 3],
        [2, 3],
    ]
    assert tokenizer.padded(tf.constant(["it", "it it"])).numpy().tolist() == [[2, 10, 3, 0], [2, 10, 10, 3]]
    assert tokenizer(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.rows([]) == ([], 0)


@pytest.mark.parametrize(
    "text",
    [
        "good[SEP]film [MASK]s",
        "[sep] [ SEP] [SE\x00P] [[SEP]] [SEP",
        "[UNK][PAD][CLS]",
        "e\u0301[SEP]\u0301 東[MASK]京",
        "good [MASK]\u2028film",
        "\u2028[SEP]\u2028[SEP\u2028]",
    ],
)
@pytest.mark.parametrize("normal", [(True, True, None, True), (False, False, True, False)])
def test_special_tokens_in_a_text_are_found_as_they_are(text, normal):
    assert_equal([text], learned(normal), ours(normal))


@pytest.mark.parametrize(
    "text", ["foobarfoo", "fooobar FOO", "aaa aaaa", "x y x  y", "é e\u0301", "1.5$foo|", "z" * 250]
)
def test_of_added_tokens_the_first_and_longest_is_taken(text):
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    added = ["foo", "foobar", "obar", "aa", "x y", "é", "$f", "oo|", "z" * 120]
    oracle.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in added])
    ids = {token: oracle.token_to_id(token) for token in [*SPECIAL, *added]}
    tokenizer = WordPiece(WordPieceSettings(100, added_tokens=ids), pieces(learned()))
    assert_equal([text], oracle, tokenizer)
    assert tokenizer.size == oracle.get_vocab_size()


LATE = [
    "New",
    "New York",
    "élan",
    "東京",
    "京",
    "x.y",
    "..",
    "ood",
    "Foo[SEP]",
    "ÉÉ",
    "한",
    "[X]",
    "<y>",
    "goo",
]
BETWEEN_LATE = [
    "new",
    "york",
    " ",
    "\n",
    "good",
    "goof",
    "<x>",
    "oof",
    "É",
    "e\u0301",
    "東",
    "東 京",
    ".",
    " .. ",
]
BETWEEN_LATE += ["[SEP]", "\u2028", "\u302e\u1b44", "\x00", "NEW YORK", "new\tyork", "[x]", "x", "y", "good"]


@pytest.mark.parametrize(
    "normal",
    [(True, True, None, True), *(pytest.param(case, marks=pytest.mark.slow) for case in CASES[1:])],
)
def test_tokens_added_to_a_tokenizer_are_found_in_normalised_texts(normal):
    """Such are those of `add_tokens` in transformers: anywhere in the text, the longest first."""
    oracle = tokenizers.Tokenizer.from_str(learned(normal).to_str())
    oracle.add_tokens([tokenizers.AddedToken(token, normalized=True) for token in LATE])
    oracle.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in ("oof", "<x>")])
    added = {token: oracle.token_to_id(token) for token in [*SPECIAL, *LATE, "oof", "<x>"]}
    chosen = dict(zip(NORMAL, normal, strict=True))
    found = WordPieceSettings(1000, added_tokens=added, normalized_tokens=tuple(LATE), **chosen)
    random = np.random.default_rng(0)
    parts = np.array([*LATE, *BETWEEN_LATE], object)
    texts = ["".join(random.choice(parts, size)) for size in random.integers(1, 10, 400)]
    assert_equal(
        [*SENTENCES, *texts, "renewed", "new\u2028york"], oracle, WordPiece(found, pieces(learned(normal)))
    )


@pytest.mark.parametrize("token", ["\x00", "NEW"])
def test_added_tokens_that_normalisation_makes_one_or_nothing_are_refused(token):
    found = WordPieceSettings(8, added_tokens={"new": 5, token: 6}, normalized_tokens=("new", token))
    with pytest.raises(ConfigError, match="must not be blank, and no other token's"):
        WordPiece(found, SPECIAL)


OF_MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]


@functools.cache
def mpnet(normal=(True, True, None, True)):
    """A tokenizer of the package as MPNet's: of its special tokens <unk> is found after normalisation."""
    theirs = learned(normal).get_vocab(with_added_tokens=False)
    words = [piece for piece in sorted(theirs, key=theirs.get) if piece not in SPECIAL]
    vocabulary = {piece: number for number, piece in enumerate([*OF_MPNET, *words, "##<", "##>"])}
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizer(normal), pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    for token in OF_MPNET:
        flags = {"lstrip": token == "<mask>", "normalized": token == "<unk>"}
        made.add_special_tokens([tokenizers.AddedToken(token, **flags)])
    return made


@functools.cache
def read_mpnet(folder, normal=(True, True, None, True)):
    """Ours from the package's file, and its graph."""
    # The class that takes the file as it is, and the names that such a file lacks.
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "mask_token": "<mask>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = WordPiece.from_folder(written(folder, mpnet(normal)), 1000)
    return tokenizer, tf.function(tokenizer, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.parametrize("normal", [(True, True, None, True), (False, False, False, False)])
def test_mpnets_tokenizer_has_the_ids_of_the_package(tmp_path, normal):
    tokenizer, _ = read_mpnet(tmp_path, normal)
    texts = [
        *SENTENCES,
        *("", "good <mask> film", "good\t<mask><mask> film", "\x0b \x85<mask>\u2028 good", "<s></s> <pad>"),
        *(
            "<unk>",
            "<UNK> x<Unk>s",
            "<u\x00nk> <ún\u0301k>",
            "< unk> <unk >",
            "<unk><unk>film<<unk>> <un<unk>k>",
        ),
        *("<unk", "unk>", "<unk<s>>", "[unk] [UNK]", "good<unk>films", "film <unk>", "<Ｕnk> <UNK\u0130>"),
    ]
    assert_equal(texts, mpnet(normal), tokenizer)
    assert tokenizer.settings.normalized_tokens == ("<unk>",)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("<>unkUNKs/ []mask\x00\u0301é."), max_size=30), min_size=1, max_size=5)
)
def test_a_text_of_parts_of_mpnets_special_tokens_has_the_ids_of_the_package(tmp_path_factory, texts):
    _, traced_ids = read_mpnet(tmp_path_factory.getbasetemp())
    assert_equal([f"{text}<unk>{text}" for text in texts], mpnet(), traced_ids)


def test_two_ids_change_places(tmp_path):
    tokenizer, _ = read_mpnet(tmp_path)
    swapped = tokenizer.swapped(0, 1)
    texts = [*SENTENCES, "good <pad> <s>", "<s>film <unk><mask>"]
    ids = {0: 1, 1: 0}
    for row, other in zip(tokenizer.rows(texts)[0], swapped.rows(texts)[0], strict=True):
        assert other.tolist() == [ids.get(each, each) for each in row.tolist()]
    assert swapped.names == ["<pad>", "<s>", *tokenizer.names[2:]]
    assert tokenizer.names[tokenizer.written_padding :] == ["<pad>"]
    assert swapped.padded(tf.constant(["", "good"])).numpy()[0].tolist() == [1, 2, 0]


@pytest.mark.parametrize("named", ["tokenizer", "model"])
def test_mpnets_special_tokens_are_those_of_its_vocabulary(tmp_path, named):
    """BERT's are in its vocabulary, too, where they mean nothing."""
    vocabulary = [*OF_MPNET[:4], "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    files = {
        "tokenizer": ("tokenizer_config.json", '{"tokenizer_class": "MPNetTokenizerFast"}'),
        "model": ("config.json", '{"model_type": "mpnet"}'),
    }
    (tmp_path / files[named][0]).write_text(files[named][1])
    tokenizer = WordPiece.from_folder(tmp_path, 8, usual_class(tmp_path))
    assert tokenizer.rows(["good zebra <mask>"])[0][0].tolist() == [0, 9, 5, 10, 2]
    assert tokenizer.id_of(tokenizer.settings.pad) == 1


@pytest.mark.parametrize("max_tokens", [2, 3, 4, 7, 20, 100])
def test_a_longer_text_is_cut_as_the_package_cuts_it(max_tokens):
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    oracle.enable_truncation(max_tokens)
    tokenizer = ours(max_tokens=max_tokens)
    texts = [*SENTENCES, "", "good " * 100, "unbelievably" * 5]
    rows, cut = tokenizer.rows(texts)
    found = [ids.tolist() for ids in rows]
    assert found == [each.ids for each in oracle.encode_batch(texts)]
    assert max(map(len, found)) == max_tokens
    oracle.no_truncation()
    assert cut == sum(len(each.ids) > max_tokens for each in oracle.encode_batch(texts))


@pytest.mark.slow
@pytest.mark.parametrize("width", [4096, 4096 * 8])
def test_reading_only_the_beginning_of_a_long_text_changes_no_id(width):
    """A cut in the middle of each: a word, a character, an added token, a row of marks."""
    almost = [("good " * count).ljust(width) for count in range(4, 8)]  # of the six words that are kept
    for head in (" " * width, "x" * width, "\x00" * width, *almost):
        for middle in ("good", "東京", "[MASK]", "a\U0001d165\u1b44\u302e", "🙂"):
            for shift in range(7):  # each text alone, because a batch is read as far as any of it needs
                text = head[: width - shift] + middle * 2 + " film" * 20
                assert_equal([text], tokenizer=traced(max_tokens=8), max_tokens=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "good film. " * 90_000,
        "a" * 10**6,
        " " * 10**6 + "good",
        "東" * 333_333,
        "q" * 101 + " film" * 200_000,
    ],
    ids=["text", "word", "blanks", "ideographs", "words"],
)
def test_a_megabyte_has_the_ids_of_its_beginning(text):
    tokenizer = ours(max_tokens=64)
    assert_equal([text], tokenizer=tokenizer, max_tokens=64)


@pytest.mark.parametrize("prefix", ["", "@@", "Ġ"])
def test_the_prefix_of_continuing_pieces_is_the_vocabularys(prefix):
    assert_equal(SENTENCES, learned(prefix=prefix), ours(prefix=prefix))


@pytest.mark.parametrize("most", [1, 4, 250])
def test_the_longest_word_is_a_setting(most):
    model = models.WordPiece(learned().get_vocab(), unk_token="[UNK]", max_input_chars_per_word=most)
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    oracle.model = model
    found = WordPieceSettings(1000, max_input_chars_per_word=most)
    texts = ["good film", "g go goo good goods", "a" * 250, "a" * 251]
    assert_equal(texts, oracle, WordPiece(found, pieces(learned())))


def words(split, texts):
    found = split(tf.constant(texts), 10**9)
    strings, rows = found.strings().numpy().tolist(), found.rows.numpy()
    return [[word.decode() for word in strings[a:b]] for a, b in itertools.pairwise(rows)]


def known_words(normal, texts):
    by, split = normalizer(normal), pre_tokenizers.BertPreTokenizer()
    return [[word for word, _ in split.pre_tokenize_str(by.normalize_str(text))] for text in texts]


def joined(texts):
    """Fewer texts with the same words, which a separate word divides."""
    return [" | ".join(texts[start : start + 64]) for start in range(0, len(texts), 64)]


def assert_code_points(codes, normal):
    """Each alone, between letters, and after a mark of a high class and before one of a low class."""
    split = BertWords(WordPieceSettings(10**6, **dict(zip(NORMAL, normal, strict=True))))
    for start in range(0, len(codes), 65_536):
        marked = [f"{c} A{c}b É\u302e{c}\u1b44" for c in map(chr, codes[start : start + 65_536])]
        texts = joined(marked)
        assert words(split, texts) == known_words(normal, texts)


EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("normal", [(True, True, None, True), (False, False, False, False)])
def test_code_points_are_normalised_and_split_as_in_the_package(normal):
    assert_code_points([*range(0x600), *EVERY[0x600::211]], normal)


@pytest.mark.slow
@pytest.mark.parametrize("normal", CASES)
def test_every_code_point_is_normalised_and_split_as_in_the_package(normal):
    assert_code_points(EVERY, normal)


MARKS = [0x1B44, 0x1BF2, 0xA953, 0x11446, 0x1E94A, 0x1D165, 0x1D172, 0x302E, 0x302F, 0x1D16D, 0x8D4, 0x1E000]
BETWEEN = [0x301, 0x323, 0x34F, 0x94D, 0x902, 0x200B, 0xE4, 0x1D15E, 0x61, 0x20, 0x2028, 0x6771]


def test_marks_are_put_in_order_between_those_that_separate_them():
    rows = itertools.product(MARKS, BETWEEN, MARKS, MARKS)
    texts = ["a" + "".join(map(chr, row)) for row in rows]
    normal = (True, True, None, True)
    split = BertWords(WordPieceSettings(10**6))
    assert words(split, joined(texts)) == known_words(normal, joined(texts))


PARTS = st.sampled_from(
    [
        *SPECIAL,
        *map(chr, MARKS + BETWEEN),
        " ",
        "good",
        "film",
        "##s",
        "İ",
        "ß",
        "한국",
        "東京",
        "ガ",
        "\x00",
        "é",
    ]
)
TEXTS = st.lists(st.one_of(PARTS, st.text(max_size=6)), max_size=12).map("".join)
BYTES = st.lists(
    st.one_of(st.binary(max_size=4), PARTS.map(str.encode), TEXTS.map(lambda text: text.encode()[:-1])),
    max_size=8,
).map(b"".join)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), cleaned=st.booleans())
def test_mixed_scripts_have_the_ids_of_the_package(texts, cleaned):
    normal = (True, True, None, True) if cleaned else (False, False, True, False)
    assert_equal(texts, learned(normal), traced(normal))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(texts=st.lists(BYTES, min_size=1, max_size=6), cleaned=st.booleans())
@example(texts=[b"\xed\xa0\x80[SEP]\xf4\x90\x80\x80\xf0\x9f\x99 \xe2[SEP]\xff"], cleaned=False)
def test_bytes_that_are_no_utf8_are_replaced_as_in_python(texts, cleaned):
    normal = (True, True, None, True) if cleaned else (False, False, True, False)
    assert_equal(texts, learned(normal), traced(normal))


def test_broken_bytes_become_as_many_characters_as_in_python():
    random = np.random.default_rng(0)
    pool = np.array(
        [0x41, 0x80, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, 0x90], "uint8"
    )
    texts = [b"a" + random.choice(pool, 6).tobytes() for _ in range(20_000)]
    split = BertWords(WordPieceSettings(100, clean_text=False, strip_accents=False, lowercase=False))
    known = [text.decode("utf-8", "replace") for text in texts]
    assert words(split, texts) == known_words((False, True, False, False), known)


class Module(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tables = tokenizer.tables
        self.ids = tf.function(tokenizer.padded, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.slow
def test_a_saved_model_answers_the_same_with_operations_of_old_tensorflow(tmp_path):
    module = Module(ours(max_tokens=16))
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.ids})
    written_graph.finish(tmp_path, {})  # refuses what TensorFlow 2.16 lacks
    texts = [*SENTENCES, "", "a\u302e\u1b44", " " * 5000 + "good", b"\xffgood [SEP]"]
    found = tf.saved_model.load(str(tmp_path)).ids(tf.constant(texts))
    np.testing.assert_array_equal(found, ours(max_tokens=16).padded(tf.constant(texts)))
    assert_equal(texts, tokenizer=ours(max_tokens=16), max_tokens=16)


def test_settings_and_vocabulary_are_all_there_is_to_save():
    saved = json.loads(json.dumps([ours().settings.to_dict(), ours().vocabulary]))
    again = WordPiece(WordPieceSettings.from_dict(saved[0]), saved[1])
    assert again.settings == ours().settings
    for one, other in zip(again.rows(SENTENCES)[0], ours().rows(SENTENCES)[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (SPECIAL[:3] + SPECIAL[4:], "4 pieces lacks `sep`, '.SEP.'"),
        ([*SPECIAL, "a", "a"], "different. Received 'a' as number 5"),
        ([*SPECIAL, ""], "must not be empty.*Received '' as number 5"),
        ([*SPECIAL, "\ud800"], "has no UTF-8 form"),
        ([*SPECIAL, "a", "b", "more"], "'more' has the id 5, but 7"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(vocabulary, message):
    with pytest.raises(ConfigError, match=message):
        WordPiece(WordPieceSettings(8, added_tokens={"more": 5} if "more" in vocabulary else {}), vocabulary)


def written(folder, oracle, **changed):
    found = json.loads(oracle.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(found | changed), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "normal", [(True, True, None, True), (True, False, True, False), (True, True, False, True)]
)
def test_a_folder_with_a_tokenizer_file_is_read(tmp_path, normal):
    oracle = tokenizers.Tokenizer.from_str(learned(normal).to_str())
    oracle.enable_truncation(5)
    oracle.enable_padding(length=9)
    tokenizer = WordPiece.from_folder(written(tmp_path, oracle), 32)
    assert_equal(SENTENCES, learned(normal), tokenizer, 32)
    assert tokenizer.id_of("[MASK]") == 4
    assert tokenizer.settings.mask == "[MASK]"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("accents", [True, False, None])
def test_case_can_be_folded_beside_the_normaliser(tmp_path, accents, first):
    folding = [normalizers.Lowercase(), normalizer((True, True, accents, False))]
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    oracle.normalizer = normalizers.Sequence(folding if first else folding[::-1])
    tokenizer = WordPiece.from_folder(written(tmp_path, oracle), 1000)
    texts = [*SENTENCES, *joined([f"A{chr(code)}b" for code in EVERY[::211]])]
    assert_equal(texts, oracle, tokenizer)


def test_the_older_post_processor_is_read(tmp_path):
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    oracle.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    assert_equal(SENTENCES, oracle, WordPiece.from_folder(written(tmp_path, oracle), 1000))


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        (None, {}),
        ({}, {}),
        ({"do_lower_case": False}, {"lowercase": False}),
        ({"do_lower_case": False, "strip_accents": True}, {"lowercase": False, "strip_accents": True}),
        (
            {"strip_accents": False, "tokenize_chinese_chars": False},
            {"strip_accents": False, "handle_chinese_chars": False},
        ),
        ({"cls_token": "[CLS]", "sep_token": {"content": "[SEP]", "lstrip": False}}, {}),
        ({"added_tokens_decoder": {"1": {"content": "[UNK]", "lstrip": False, "normalized": False}}}, {}),
    ],
)
def test_a_folder_with_a_vocabulary_is_read(tmp_path, config, changed):
    (tmp_path / "vocab.txt").write_text("\n".join(pieces(learned())) + "\n", encoding="utf-8")
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    oracle = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), **changed)
    texts = [*SENTENCES, "good [MASK] [SEP]film"]
    assert_equal(texts, oracle, WordPiece.from_folder(tmp_path, 1000))


def test_a_vocabulary_without_a_mask_can_be_used(tmp_path):
    (tmp_path / "vocab.txt").write_text("\r\n".join([*SPECIAL[:4], "good"]), encoding="utf-8")
    tokenizer = WordPiece.from_folder(tmp_path, 8)
    assert (tokenizer.settings.mask, tokenizer.rows(["good"])[0][0].tolist()) == (None, [2, 4, 3])


FLAGGED = {"id": 0, "content": "[PAD]", "special": True, "lstrip": False, "rstrip": False}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "`normalizer` is 'Lowercase'; supported: 'BertNormalizer'"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]}},
            "`normalizer` is a sequence of 'NFD', 'Lowercase'; supported: one 'BertNormalizer'",
        ),
        ({"normalizer": {"type": "BertNormalizer", "x": 1}}, "`x` of `normalizer` is not a known field of"),
        ({"added_tokens": [{**FLAGGED, "x": 1}]}, "the added token '.PAD.' has the field 'x'"),
        ({"normalizer": None}, "`normalizer` is None"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "`pre_tokenizer` is 'Whitespace'"),
        ({"model": {"type": "BPE"}}, "`model` is 'BPE'; supported: 'WordPiece'"),
        ({"post_processor": None}, "`post_processor` is None; supported: 'TemplateProcessing', 'Bert"),
        ({"post_processor": {"type": "ByteLevel"}}, "`post_processor` is 'ByteLevel'"),
        (
            {"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]}},
            "template is",
        ),
        (
            {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 9], "cls": ["[CLS]", 2]}},
            r"ids \[9\]",
        ),
        ({"added_tokens": [{**FLAGGED, "single_word": True}]}, "is `single_word`"),
        ({"added_tokens": [{**FLAGGED, "rstrip": True}]}, "is `rstrip`"),
        ({"added_tokens": [{**FLAGGED, "id": 77}]}, "'.PAD.' has the id 77, but 0"),
        ({"truncation": {"direction": "Left", "max_length": 8}}, "`truncation` is at the left"),
        ({"model": {"type": "WordPiece", "vocab": {"a": 0, "b": 2}}}, "must be 0 to 1, each once"),
        (
            {"model": {"type": "WordPiece", "vocab": {"[CLS]": 0, "[SEP]": 1}}, "added_tokens": []},
            "gives '.CLS.'",
        ),
        ({"model": {"type": "WordPiece"}}, "has not the usual form: KeyError"),
    ],
)
def test_what_a_tokenizer_file_has_and_we_lack_is_named(tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message) as caught:
        WordPiece.from_folder(written(tmp_path, learned(), **changed), 8)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "neither tokenizer.json nor vocab.txt"),
        ({"tokenizer.json": "{"}, "tokenizer.json is not JSON"),
        ({"tokenizer.json": "[]"}, "tokenizer.json holds no JSON object"),
        ({"tokenizer.json": "\udcff"}, "tokenizer.json cannot be read as UTF-8"),
        ({"vocab.txt": "[PAD]\n[UNK]\n[CLS]\ngood"}, "lacks `sep`, '.SEP.'"),
        ({"vocab.txt": "good\ngood"}, "different. Received 'good' as number 0"),
        ({"vocab.txt": "good", "tokenizer_config.json": "{"}, "tokenizer_config.json is not JSON"),
        ({"vocab.txt": "good", "tokenizer_config.json": '{"never_split": ["a"]}'}, "`never_split` are not"),
        (
            {"vocab.txt": "good", "tokenizer_config.json": '{"do_lower_case": 1}'},
            "`do_lower_case` must be true",
        ),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=message):
        WordPiece.from_folder(tmp_path, 8)


CASED = (True, False, True, False)
BOTH = "Élan 東京 GOOD"


@pytest.mark.parametrize(
    ("config", "model", "normal", "warned"),
    [
        # What AutoTokenizer of transformers 5.24 makes of it: the class's defaults, or the flags, win.
        (
            {},
            {"model_type": "bert"},
            (True, True, None, True),
            "do_lower_case is True, in tokenizer.json False",
        ),
        ({}, {"model_type": "distilbert"}, (True, True, None, True), "do_lower_case is True"),
        ({}, {"model_type": "electra"}, (True, True, None, True), "do_lower_case is True"),
        ({"tokenizer_class": "BertTokenizerFast"}, {}, (True, True, None, True), "BertTokenizer makes"),
        (
            {"tokenizer_class": "ElectraTokenizer", "do_lower_case": False},
            {},
            (True, True, None, False),
            "strip_accents is False, in tokenizer.json True; tokenize_chinese_chars is True, in",
        ),
        (
            {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
            {"model_type": "bert"},
            CASED,
            None,
        ),
        # The file wins.
        ({}, {}, CASED, None),
        ({}, {"model_type": "modernbert"}, CASED, None),
        ({"tokenizer_class": "BertTokenizer"}, {"model_type": "modernbert"}, CASED, None),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "bert"}, CASED, None),
        ({}, {"model_type": "bert", "tokenizer_class": "PreTrainedTokenizerFast"}, CASED, None),
        (
            {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True},
            {"model_type": "bert"},
            CASED,
            "do_lower_case is True in tokenizer_config.json, in tokenizer.json False. tokenizer.json is",
        ),
    ],
)
def test_the_class_decides_which_file_normalises(tmp_path, config, model, normal, warned):
    folder = written(tmp_path, learned(CASED))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps(model))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = WordPiece.from_folder(folder, 1000, usual_class(folder))
    oracle = tokenizers.Tokenizer.from_str(learned(CASED).to_str())
    oracle.normalizer = normalizer(normal)
    assert_equal([*SENTENCES, BOTH], oracle, tokenizer)
    messages = [str(each.message) for each in caught]
    assert len(messages) == (warned is not None)
    assert warned is None or (warned in messages[0] and "\n" not in messages[0])


@pytest.mark.parametrize(
    ("config", "model", "message"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, {}, "tokenizer_class is 'BertJapaneseTokenizer', in"),
        ({}, {"tokenizer_class": "XYZ"}, "tokenizer_class is 'XYZ'.* Known classes are BartTokenizer, Bert"),
        ({"tokenizer_class": ["a"]}, {}, r"tokenizer_class is \['a'\]"),
        ({"tokenizer_class": "RobertaTokenizer"}, {}, "whose vocabulary is BPE, and .* is WordPiece"),
        ({"do_lower_case": None}, {"model_type": "bert"}, "`do_lower_case` must be true or false"),
        ({"strip_accents": 0}, {"model_type": "bert"}, "`strip_accents` must be true or false. Received 0"),
        ({"added_tokens_decoder": {"9": {"content": "good"}}}, {}, "'good' has the id 9, but"),
    ],
)
def test_a_class_or_a_flag_that_cannot_be_read_is_named(tmp_path, config, model, message):
    folder = written(tmp_path, learned())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps(model))
    with pytest.raises(ConfigError, match=message):
        WordPiece.from_folder(folder, 8, usual_class(folder))


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config.json": {"added_tokens_decoder": {"600": {"content": "New", "normalized": True}}}},
        {"tokenizer_config.json": {"added_tokens_decoder": {"600": {"content": "New", "normalized": False}}}},
        {"tokenizer_config.json": {"additional_special_tokens": ["New"]}},
        {"tokenizer_config.json": {"extra_special_tokens": ["New"]}},
        {"tokenizer_config.json": {"extra_special_tokens": {"a_token": "New"}}},
        {"tokenizer_config.json": {"bos_token": {"__type": "AddedToken", "content": "New"}}},
        {"tokenizer_config.json": {"any_token": "New"}},
        {"special_tokens_map.json": {"additional_special_tokens": [{"content": "New", "lstrip": True}]}},
        {"added_tokens.json": {"New": 600}},
    ],
)
@pytest.mark.parametrize("by_class", [False, True], ids=["file", "class"])
def test_tokens_that_another_file_adds_are_read(tmp_path, files, by_class):
    """Their id is the next one. Those of `add_tokens` are found in normalised texts, special ones are not."""
    folder = written(tmp_path, learned())
    size = learned().get_vocab_size()
    text = json.dumps(files).replace("600", str(size))
    for name, content in json.loads(text).items():
        (folder / name).write_text(json.dumps(content))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"} if by_class else {}))
    oracle = tokenizers.Tokenizer.from_str(learned().to_str())
    late = "added_tokens.json" in files or '"normalized": true' in text
    oracle.add_tokens([tokenizers.AddedToken("New", normalized=late)])
    assert oracle.token_to_id("New") == size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tokenizer.json lacks the token
        tokenizer = WordPiece.from_folder(folder, 1000, usual_class(folder))
    assert_equal(["good New film", "new", "renewNewed"], oracle, tokenizer)


@pytest.mark.slow
def test_the_vocabulary_of_a_published_model_gives_the_ids_of_the_package(tmp_path):
    package = pytest.importorskip("all_minilm_l6_v2")
    with zipfile.ZipFile(package.get_model_zip_path()) as files:
        files.extract("tokenizer.json", tmp_path)
    oracle = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    oracle.no_padding()
    oracle.no_truncation()
    texts = [*SENTENCES, *joined([chr(code) for code in EVERY[::17]])]
    assert_equal(texts, oracle, WordPiece.from_folder(tmp_path, 1000))
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_bytes("\n".join(pieces(oracle)).encode())
    assert_equal(texts, oracle, WordPiece.from_folder(tmp_path, 1000))
