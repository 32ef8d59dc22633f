"""SentencePiece's unigram tokenizer: the ids of the `tokenizers` package, computed in the graph."""

import base64
import copy
import functools
import json
import random
import struct

import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from pretrained_folders import (
    CONTROL,
    RAW_UNIGRAM,
    UNIGRAM,
    sentencepiece_model,
    unigram_file,
    write_unigram,
)
from tokenizers import Regex, models, normalizers, pre_tokenizers, processors, trainers

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.joined_characters import compiled
from keras_selfattn.models.subwords.subword_tokenizer import _EAGER
from keras_selfattn.models.subwords.tokenizer_class import DEBERTA_V2, FILE, XLM_ROBERTA
from keras_selfattn.models.subwords.unigram import Unigram
from keras_selfattn.models.subwords.unigram_files import number_of_tokenizers
from keras_selfattn.models.subwords.unigram_settings import UnigramSettings

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SENTENCES = [
    "The film was good, and its actors were unbelievably good.",
    "Der Straßenbahnfahrer fährt über die Brücke; ÖPNV nach Köln!",
    "Это очень хороший фильм, ещё лучше книги. Її",
    "东京是日本的首都。映画が好きです パーティー",
    "안녕하세요 영화가 정말 좋아요",
    "फ़िल्म बहुत अच्छी थी। হ্যাঁ কো",
    "فيلم جميلٌ جدًّا، שָׁלוֹם עולם",
    "ภาพยนตร์เรื่องนี้ดีมาก",
    "tiếng Việt rất hay 🙂🎬👩‍🚀 3.5€ x² ½ 1000 2nd",
    "aaaaaaa aaaa aaaaaaaaaaaaaaaa !!!!!! ------------",
]
MAPPING = {"ﬁ": "fi", "²": "2", "½": "1⁄2", "\u00ad": "", "e\u0301": "é", "\u3000": " ", "\t": " ", "\n": " "}
MAPPING |= {"\r": " ", "！": "!", "Ａ": "A", "㌀": "アパート"}
BLANKS, WHITE = Regex(" {2,}"), Regex(r"\s{2,}|[\n\r\t]")
# The normalizer, WhitespaceSplit or not, and what gets a blank before it, of several families of tokenizers.
KINDS = {
    "xlm-roberta": (["map"], True, "always"),
    "e5": (["map", "blanks"], False, "always"),
    "converted": (["map", "strip right", "blanks to ▁"], False, "always"),
    "deberta": (["white", "NFC", "strip right"], False, "first"),
    "stripped": (["white", "NFC", "strip"], False, "first"),
    "plain": ([], False, "never"),
    "split": (["blanks to ▁"], True, "first"),
    "mapped": (["map"], True, "first"),
    "bytes": (["map"], False, "first"),
}
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Two are enough for who changes something else.
FEW = ("xlm-roberta", "deberta")
MOST = [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
ODD = [
    "",
    " ",
    "  ",
    "a  b",
    "\u3000good",
    "▁",
    "a▁b",
    "▁▁a",
    "<mask>",
    " <mask> good",
    "<s>a</s>",
    "good<pad>",
]
ODD += [
    "\U0010ffff",
    "\U0010ffff\U0010ffffgood",
    "e\u0301e\u0301",
    "ﬁlm ½",
    "a\r\nb",
    "\ufeffa",
    "a\u200db",
    "🙂",
]
ODD += ["\u00ada", " \u00ada", "\u00ad a", "\u00ad\u00adgood"]
ODD += [
    "<0x41>",
    "<0xF0><0x9F>🙂",
    "a🙂🙂b\u07ff\u0800\uffff",
    "\x00a",
    "<mask><mask>",
    "good\t\t",
    "\n\ngood",
    "㌀",
    "don't",
    "x" * 200,
]


@functools.cache
def trained():
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(SENTENCES * 3, trainer)
    return [(piece, score) for piece, score in json.loads(made.to_str())["model"]["vocab"]]


@functools.cache
def oracle_of(kind):
    """A tokenizer of the package."""
    steps, splits, prepends = KINDS[kind]
    pieces, unknown = list(trained()), SPECIAL.index("<unk>")
    if kind == "bytes":
        pieces += [(name, -20.0) for name in BYTES]
    made = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=kind == "bytes"))
    known = {
        "map": lambda: normalizers.Precompiled(compiled(MAPPING)),
        "blanks": lambda: normalizers.Replace(BLANKS, " "),
        "blanks to ▁": lambda: normalizers.Replace(BLANKS, "▁"),
        "white": lambda: normalizers.Replace(WHITE, " "),
        "NFC": normalizers.NFC,
        "strip": normalizers.Strip,
        "strip right": lambda: normalizers.Strip(left=False, right=True),
    }
    made.normalizer = normalizers.Sequence([known[step]() for step in steps])
    metaspace = pre_tokenizers.Metaspace(prepend_scheme=prepends)
    before = [pre_tokenizers.WhitespaceSplit()] if splits else []
    made.pre_tokenizer = pre_tokenizers.Sequence([*before, metaspace])
    for token in SPECIAL:
        made.add_special_tokens(
            [tokenizers.AddedToken(token, lstrip=token == "<mask>", normalized=False, special=True)]
        )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    return made


@functools.cache
def folder_of(base, kind):
    folder = base / kind
    folder.mkdir()
    oracle_of(kind).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


@functools.cache
def read_once(base, kind, max_tokens=10_000):
    return Unigram.from_folder(folder_of(base, kind), max_tokens)


@functools.cache
def traced_once(base, kind, max_tokens=10_000):
    """A graph, which many calls run faster."""
    return tf.function(read_once(base, kind, max_tokens), input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("unigram")


def ids_of(oracle, texts, padding):
    """The ids of the package; a padding token that a text has is a token, with an id of its own."""
    return [[padding if each == 1 else each for each in row.ids] for row in oracle.encode_batch(texts)]


def check(base, kind, texts):
    found = traced_once(base, kind)(tf.constant(texts, tf.string)).to_list()
    wanted = ids_of(oracle_of(kind), texts, read_once(base, kind).written_padding)
    for text, ours, theirs in zip(texts, found, wanted, strict=True):
        assert ours == theirs, text


@pytest.mark.parametrize("kind", MOST)
def test_texts_have_the_ids_of_tokenizers(base, kind):
    draw = random.Random(0)
    pool = [*ODD[3:20], "good", " ", "  ", "\n", "é", "东京", "ภาพ", "-", "----", "film", "<mask>", "\u0301"]
    mixed = ["".join(draw.choice(pool) for _ in range(draw.randint(1, 12))) for _ in range(300)]
    check(base, kind, [*SENTENCES, *ODD, *mixed])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=3))
@pytest.mark.parametrize("kind", ["xlm-roberta", "deberta"])
def test_any_texts_have_the_ids_of_tokenizers(base, kind, texts):
    # The package ends a text that is normalised at a NUL.
    check(base, kind, [text.replace("\x00", " ") for text in texts])


def test_bytes_that_are_no_text_are_the_replacement_character(base):
    found = traced_once(base, "xlm-roberta")(tf.constant([b"good\xff film", b"\xe2\x82"])).to_list()
    assert found == ids_of(oracle_of("xlm-roberta"), ["good\ufffd film", "\ufffd"], 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_pieces_of_long_texts_are_those_of_all_of_them(base, kind):
    """Only as much of a text is read as its pieces need, and no more of it changes them."""
    draw = random.Random(1)
    words = " ".join(SENTENCES).split()
    texts = [" ".join(draw.choice(words) for _ in range(4_000)) for _ in range(2)]
    texts += ["".join(draw.choice(words) for _ in range(4_000)), "-" * 9_000, "<mask>" * 3_000]
    # The blanks belong to the mask behind them, which is read later.
    texts += [f"{'good ' * 700}{' ' * 5_000}<mask> film", f"{'x' * 4_090}<mask>{'y' * 900}", " " * 20_000]
    for most in (6, 300):
        tokenizer = traced_once(base, kind, most)
        padding = read_once(base, kind, most).written_padding
        for text, found in zip(texts, tokenizer(tf.constant(texts)).to_list(), strict=True):
            whole = ids_of(oracle_of(kind), [text], padding)[0]
            wanted = whole if len(whole) <= most else [*whole[: most - 1], 2]
            assert found == wanted, (most, text[:20])


def test_a_text_alone_and_beside_others_has_the_same_ids(base):
    tokenizer = traced_once(base, "xlm-roberta")
    texts = [*SENTENCES, *ODD]
    together = tokenizer(tf.constant(texts)).to_list()
    assert together == [tokenizer(tf.constant([text])).to_list()[0] for text in texts]
    assert tokenizer(tf.zeros([0], tf.string)).to_list() == []


def test_rows_of_many_texts_are_those_of_few(base):
    """After some calls they run as a graph, made anew for another prompt and in a copy."""
    tokenizer = Unigram.from_folder(folder_of(base, "xlm-roberta"), 1_000)
    texts = [*SENTENCES, *ODD]
    for prompt in ("", "film "):
        tokenizer.prompt = prompt
        wanted = tokenizer(tf.constant(texts)).to_list()
        for count in (len(texts), *range(_EAGER + 1)):
            rows, cut = tokenizer.rows(texts[:count])
            assert ([row.tolist() for row in rows], cut) == (wanted[:count], 0)
    for each in (copy.copy(tokenizer), copy.deepcopy(tokenizer)):
        each.prompt = ""
        assert each.rows(["good"])[0][0].tolist() != tokenizer.rows(["good"])[0][0].tolist()


def test_whole_rows_of_many_texts_are_those_of_few(base):
    short = Unigram.from_folder(folder_of(base, "xlm-roberta"), 4)
    texts = [*SENTENCES, " ".join(SENTENCES * 5)]
    wanted = read_once(base, "xlm-roberta")(tf.constant(texts)).to_list()
    for _ in range(_EAGER + 1):
        assert short.rows(texts)[1] == len(texts)  # all are cut, which is another graph
        assert [row.tolist() for row in short.whole_rows(texts)] == wanted


def test_settings_survive_their_dict(base):
    tokenizer = read_once(base, "xlm-roberta")
    found = json.loads(json.dumps(tokenizer.settings.to_dict()))
    assert UnigramSettings.from_dict(found) == tokenizer.settings


def test_ids_that_change_places_keep_their_scores(base):
    tokenizer = read_once(base, "xlm-roberta")
    one, other = (tokenizer.id_of(piece) for piece in ("▁good", "<pad>"))
    swapped = tokenizer.swapped(one, other)
    assert swapped.settings.scores[other] == tokenizer.settings.scores[one] < 0
    places = {one: other, other: one}
    rows = tokenizer.rows(SENTENCES)[0]
    for before, after in zip(rows, swapped.rows(SENTENCES)[0], strict=True):
        assert [places.get(each, each) for each in before.tolist()] == after.tolist()
    with pytest.raises(ConfigError, match="cannot change places: not both are pieces"):
        tokenizer.swapped(0, len(tokenizer.vocabulary))


def test_names_are_texts(base):
    tokenizer = read_once(base, "xlm-roberta")
    names = [tokenizer.names[each] for each in tokenizer.rows(["good <mask>"])[0][0]]
    assert "".join(names) == "<s> good<mask></s>"


def test_a_model_of_sentencepiece_is_read_with_the_ids_of_xlm_roberta(tmp_path):
    content = sentencepiece_model(RAW_UNIGRAM, characters=compiled({"Ａ": "a"}), types=CONTROL)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    tokenizer = Unigram.from_folder(tmp_path, 16, XLM_ROBERTA)
    assert tokenizer.vocabulary == ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁a", "▁good", "s", "<mask>"]
    assert tokenizer.settings.scores[4:] == (-3.0, -4.5, -5.0, -3.5, 0.0)
    assert tokenizer(tf.constant(["Ａ good s <mask>"])).to_list() == [[0, 5, 6, 4, 7, 8, 2]]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (sentencepiece_model(RAW_UNIGRAM, kind=2, types=CONTROL), r"holds no unigram model \(model_type 2\)"),
        (sentencepiece_model([]), "holds no unigram model"),
        (sentencepiece_model(RAW_UNIGRAM)[:-3], "is no model of SentencePiece"),
        (b"\x0b\x00", "is no model of SentencePiece"),
    ],
    ids=["BPE", "nothing", "cut", "another file"],
)
def test_models_of_sentencepiece_of_other_kinds_are_refused(tmp_path, content, match):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    with pytest.raises(ConfigError, match=match):
        Unigram.from_folder(tmp_path, 16, XLM_ROBERTA)


def test_bytes_for_unknown_characters_are_refused_in_a_model_of_sentencepiece(tmp_path):
    (tmp_path / "spm.model").write_bytes(sentencepiece_model(RAW_UNIGRAM, types=CONTROL, byte_fallback=1))
    with pytest.raises(ConfigError, match=r"`byte_fallback` is true, .*: supported in tokenizer.json alone"):
        Unigram.from_folder(tmp_path, 16, DEBERTA_V2)


def test_further_control_and_user_pieces_are_tokens_of_their_own(tmp_path):
    pieces = [*RAW_UNIGRAM, ("go", 0.0), ("<c>", 0.0)]
    content = sentencepiece_model(pieces, types={**CONTROL, "go": 4, "<c>": 3})
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    tokenizer = Unigram.from_folder(tmp_path, 16, XLM_ROBERTA)
    assert tokenizer.vocabulary[8:] == ["go", "<c>", "<mask>"]
    rows = tokenizer(tf.constant(["a good<c>", "gos"])).to_list()
    assert [[tokenizer.names[each] for each in row] for row in rows] == [
        ["<s>", " a", "go", " ", "<unk>", "<c>", "</s>"],
        ["<s>", "go", " ", "s", "</s>"],
    ]


@pytest.mark.parametrize("name", ["TokenizersBackend", "PreTrainedTokenizerFast"])
def test_a_model_of_sentencepiece_needs_a_class_that_reads_it(tmp_path, name):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(RAW_UNIGRAM, types=CONTROL))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    with pytest.raises(ConfigError, match=f"'{name}', reads no model of SentencePiece. Name one that does"):
        Unigram.from_folder(tmp_path, 16, XLM_ROBERTA)


def test_the_class_of_xlm_roberta_makes_its_own_words(tmp_path):
    """As in transformers 5, whatever the pre-tokenizer of the file."""
    file = unigram_file(pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})
    folder = write_unigram(tmp_path / "m", tokenizer=file)
    with pytest.warns(UserWarning, match="splits_white is True, in tokenizer.json False"):
        tokenizer = Unigram.from_folder(folder, 16, XLM_ROBERTA)
    assert (tokenizer.settings.splits_white, tokenizer.settings.prepends) == (True, "always")
    of_file = Unigram.from_folder(folder, 16, FILE)
    assert (of_file.settings.splits_white, of_file.settings.prepends) == (False, "never")


BEFORE_2024 = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "str_rep": "▁"}


def test_an_older_file_says_otherwise_what_gets_a_blank(tmp_path):
    for flag, prepends in ((True, "always"), (False, "never")):
        file = unigram_file(pre_tokenizer={**BEFORE_2024, "add_prefix_space": flag})
        folder = write_unigram(tmp_path / prepends, tokenizer=file)
        assert Unigram.from_folder(folder, 16, FILE).settings.prepends == prepends


def written_numbers(draw):
    """Numbers as `json.dumps` and serde write float64 and float32, and in longer forms; 16,000."""
    for _ in range(2_000):
        yield repr(-draw.uniform(0, 25))
        yield repr(draw.uniform(0, 25))
        (single,) = struct.unpack("f", struct.pack("f", -draw.uniform(0, 25)))
        yield from (repr(single), f"{single:.9g}")
        yield repr(-draw.random() * 10 ** draw.uniform(-330, 308))
        yield f"-{draw.randint(0, 30)}.{draw.getrandbits(draw.randint(50, 200))}"
        yield f"-0.{'0' * draw.randint(0, 40)}{draw.getrandbits(draw.randint(40, 120))}"
        yield f"-{draw.randint(0, 9)}.{draw.getrandbits(70)}{draw.choice('eE')}-{draw.randint(0, 340)}"


def read_by_tokenizers(numbers):
    pieces = ",".join(f'["{place}",{number}]' for place, number in enumerate(numbers))
    made = tokenizers.Tokenizer.from_str(f'{{"model":{{"type":"Unigram","unk_id":0,"vocab":[{pieces}]}}}}')
    return [score for _, score in json.loads(made.to_str())["model"]["vocab"]]


def test_numbers_are_those_that_tokenizers_reads():
    draw = random.Random(4)
    numbers = ["0.0", "-0.0", "-1e-05", "-1E+2", "-18446744073709551615.0", "-18446744073709551616.5"]
    # More whole digits than 64 bits hold, and an exponent that no double has.
    numbers += ["-18446744073709551619.7", "-123456789012345678901234.5", "-1.5e-999", "-0.0e999", "-5e-324"]
    numbers += written_numbers(draw)
    numbers += [f"-{draw.getrandbits(64)}e{draw.choice('+-')}{draw.randint(0, 280)}" for _ in range(4_000)]
    read = read_by_tokenizers(numbers)
    for number, theirs in zip(numbers, read, strict=True):
        assert number_of_tokenizers(number) == theirs, number
    assert len(numbers) > 20_000
    # The rule is needed: Python reads one of seven otherwise.
    assert sum(float(number) != theirs for number, theirs in zip(numbers, read, strict=True)) > 2_000


def test_scores_are_rounded_where_tokenizers_reads_the_file(tmp_path):
    """Of equal sums the first is kept, so that the last bit of a score decides: see `findings/`."""
    vocabulary = [*UNIGRAM[:5], ("▁a", -8.500349149344583), ("b", -1.0), ("▁ab", -9.500349149344583)]
    folder = write_unigram(tmp_path / "m", tokenizer=unigram_file([*vocabulary, ("<mask>", 0.0)]))
    of_file = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert of_file.encode("ab").tokens == ["<s>", "▁a", "b", "</s>"]
    of_file.model = models.Unigram(vocabulary, unk_id=3)  # as transformers does for XLM-RoBERTa
    assert of_file.encode("ab").tokens == ["<s>", "▁ab", "</s>"]
    wanted = {"PreTrainedTokenizerFast": [0, 5, 6, 2], "XLMRobertaTokenizer": [0, 7, 2]}
    for name, ids in wanted.items():
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
        assert Unigram.from_folder(folder, 16).rows(["ab"])[0][0].tolist() == ids, name


VOCAB = [list(each) for each in UNIGRAM]


def replaced(pattern, content=" "):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "`normalizer` is 'Lowercase'; supported: 'Precompiled'"),
        ({"normalizer": {"type": "Nmt"}}, "`normalizer` is 'Nmt'"),
        ({"normalizer": replaced("a+")}, "replaces {'Regex': 'a\\+'} by ' ': not supported"),
        ({"normalizer": replaced(" {2,}", "_")}, "by '_': not supported"),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}}, "left end alone"),
        ({"pre_tokenizer": None}, r"the pre-tokenizer is \[\]; supported: Metaspace"),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, r"is \['WhitespaceSplit'\]; supported: Metaspace"),
        ({"pre_tokenizer": {**BEFORE_2024, "replacement": "_"}}, "must replace blanks by"),
        ({"pre_tokenizer": {"type": "Metaspace", "split": False}}, "split there"),
        ({"model": {"type": "Unigram", "unk_id": None, "vocab": VOCAB}}, "`unk_id` of the model must be the"),
        ({"model": {"type": "Unigram", "unk_id": 99, "vocab": VOCAB}}, "Received 99"),
        (
            {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["a", -1.0]]}},
            "has the piece 'a' twice",
        ),
        (
            {"model": {"type": "Unigram", "unk_id": 3, "vocab": VOCAB, "byte_fallback": True}},
            "must have all bytes as pieces. It lacks 256, such as <0x00>",
        ),
        ({"truncation": {"direction": "Left"}}, "`truncation` is at the left"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"x").decode()}},
            "precompiled_charsmap.* is damaged",
        ),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "is no base64"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": [1]}}, "must be a text in base64"),
    ],
)
def test_what_cannot_be_read_of_a_file_is_refused(tmp_path, parts, match):
    folder = write_unigram(tmp_path / "m", tokenizer=unigram_file(**parts))
    with pytest.raises(ConfigError, match=match) as caught:
        Unigram.from_folder(folder, 16, FILE)
    assert str(folder) in str(caught.value)


def with_added(base, kind, tokens):
    """The package's tokenizer and ours of its file, with more added tokens."""
    made = tokenizers.Tokenizer.from_str(oracle_of(kind).to_str())
    made.add_tokens(tokens)
    folder = base / f"{kind} with {len(tokens)}"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return made, Unigram.from_folder(folder, 1_000)


@pytest.mark.parametrize("kind", ["xlm-roberta", "converted", "deberta"])
def test_added_tokens_are_found_in_the_normalised_text(base, kind):
    tokens = [
        tokenizers.AddedToken("Film", normalized=True),
        tokenizers.AddedToken("ﬁne", normalized=True, rstrip=True),
        tokenizers.AddedToken("<x>", normalized=True, lstrip=True),
        tokenizers.AddedToken("new one", normalized=False),
    ]
    oracle, ours = with_added(base, kind, tokens)
    pool = [
        "Film",
        "fine",
        "ﬁne",
        "<x>",
        "<mask>",
        "new one",
        " ",
        "  ",
        "a",
        "good",
        "\U0010ffff",
        "\n",
        "Ａ",
    ]
    draw = random.Random(3)
    texts = ["".join(draw.choice(pool) for _ in range(draw.randint(1, 10))) for _ in range(400)]
    found = ours(tf.constant(texts)).to_list()
    for text, row, wanted in zip(texts, found, ids_of(oracle, texts, ours.written_padding), strict=True):
        assert row == wanted, text


def test_an_added_token_that_normalisation_removes_is_refused(base):
    with pytest.raises(
        ConfigError, match=r"added token '\\xad' is found in normalised texts, where it is ''"
    ):
        with_added(base, "xlm-roberta", [tokenizers.AddedToken("\u00ad", normalized=True)])


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"scores": (0.0,) * 99}, "`scores` must be of 1 to 17 pieces, .* Received 99"),
        ({"scores": ()}, "of 1 to 17 pieces, .* Received 0"),
        ({"scores": (float("nan"),)}, "`scores` must be logarithms of probabilities"),
        ({"steps": ("upper",)}, "`steps` must be one of"),
        ({"steps": ("map",)}, "'map' and `characters` need each other"),
        ({"prepends": "twice"}, "`prepends` must be one of"),
        ({"scores": (0.5,)}, "finite numbers of 0 at most"),
        ({"byte_fallback": True}, "the unknown piece must be an added token. Received '<unk>'"),
        ({"lstrip_tokens": ("<x>",)}, "`lstrip_tokens` must be of `added_tokens`"),
        (
            {"lstrip_tokens": ("<x>",), "added_tokens": {"<x>": 0, "<x><y>": 1}},
            "'<x>' takes the white space beside it. It must not begin another one",
        ),
    ],
)
def test_settings_out_of_range_are_refused(changed, match):
    with pytest.raises(ConfigError, match=match):
        Unigram(UnigramSettings(16, **changed), [piece for piece, _ in UNIGRAM])
