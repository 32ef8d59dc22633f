"""Folders of pretrained encoders as `transformers` and `sentence-transformers` save and read them.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import itertools
import json

import pytest
from pretrained_folders import PIECES

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.wordpiece import WordPiece

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

VOCABULARY = [*PIECES, "Good", "É", "e", "é", "東", "京", "東京", "x", "##x", "<", "##<", ">", "##>", "y"]
TEXTS = ["good new Film <x> a", "New É é 東京", "[MASK] good[SEP]film <y>", "the <b> <z>new", "xxxxxxxxxxxx"]
UNSET = object()
ROWS = 64


def tokenizer_file(added=(), special=PIECES[:5], normal=(), **model):
    """Returns `tokenizer.json` of the package, with other settings than the defaults of any class."""
    ids = {piece: number for number, piece in enumerate(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]", **model))
    made.normalizer = tokenizers.normalizers.BertNormalizer(**dict(normal))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(list(special))
    made.add_tokens(list(added))
    return json.loads(made.to_str())


def token(content="new", **flags):
    return {
        "content": content,
        **dict.fromkeys(("lstrip", "rstrip", "single_word", "special"), False),
        "normalized": True,
        **flags,
    }


def write(folder, tokenizer, config, family="bert", **files):
    """Writes the tokenizer of a folder; without `tokenizer.json` if it is None."""
    folder.mkdir()
    files["config.json"] = {"model_type": family, "vocab_size": ROWS}
    files["tokenizer_config.json"] = config
    if tokenizer is None:
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY), encoding="utf-8")
    else:
        files["tokenizer.json"] = tokenizer
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def check_ids(folder, note):
    """Compare our ids with those of AutoTokenizer; both refuse a folder, or none does."""
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    except TypeError:
        with pytest.raises(ConfigError):
            WordPiece.from_folder(folder, 100)
        return
    ours = WordPiece.from_folder(folder, 100)
    assert [row.tolist() for row in ours.rows(TEXTS)[0]] == theirs(TEXTS)["input_ids"], note


CLASSES = [None, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"]
CLASSES += ["PreTrainedTokenizerFast", "TokenizersBackend"]
OTHER = {"lowercase": False, "strip_accents": True, "handle_chinese_chars": False, "clean_text": False}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *(("bert", name) for name in CLASSES),
        *itertools.product(
            ["distilbert", "electra", "modernbert", "mpnet"], [None, "PreTrainedTokenizerFast"]
        ),
        ("modernbert", "BertTokenizer"),
    ],
)
def test_the_flags_of_either_file_win_as_in_transformers(tmp_path, family, name):
    flags = ([UNSET, True, False, None], [UNSET, True, None], [UNSET, False])
    for number, (case, accents, ideographs) in enumerate(itertools.product(*flags)):
        config = {"do_lower_case": case, "strip_accents": accents, "tokenize_chinese_chars": ideographs}
        config = {key: value for key, value in config.items() if value is not UNSET}
        config |= {} if name is None else {"tokenizer_class": name}
        for other in ({}, OTHER):
            folder = tmp_path / f"{number}-{len(other)}"
            check_ids(write(folder, tokenizer_file(normal=other), config, family), (config, other))


DECODER = {str(place): token(each, normalized=False, special=True) for place, each in enumerate(PIECES[:5])}
NEXT = len(VOCABULARY)
TYPED = {"__type": "AddedToken", **token("<x>", normalized=False, special=True, lstrip=True)}
CONFIGS = {
    "nothing": {},
    "all in the decoder": {"added_tokens_decoder": DECODER},
    "one more in the decoder": {"added_tokens_decoder": {**DECODER, str(NEXT): token()}},
    "other flags": {"added_tokens_decoder": {**DECODER, str(NEXT): token(lstrip=True, normalized=False)}},
    "a piece": {"added_tokens_decoder": {**DECODER, "6": token("good")}},
    "two": {"added_tokens_decoder": {**DECODER, str(NEXT + 1): token("<x>"), str(NEXT): token()}},
    "without flags": {"added_tokens_decoder": {"0": {"content": "[PAD]"}, str(NEXT): {"content": "new"}}},
    "additional": {"additional_special_tokens": ["<x>"]},
    "extra": {"extra_special_tokens": ["<x>"]},
    "extra by name": {"extra_special_tokens": {"image_token": "<x>"}},
    "extra before additional": {"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<y>"]},
    "no extra, additional": {"extra_special_tokens": [], "additional_special_tokens": ["<x>"]},
    "any name": {"foo_token": "<x>"},
    "beginning": {"bos_token": "<x>"},
    "typed": {"additional_special_tokens": [TYPED]},
    "another mask": {"mask_token": "<x>"},
    "a typed mask": {"mask_token": TYPED},
    "no mask": {"mask_token": None},
    "another unknown one": {"unk_token": "film"},
    "other ends": {"cls_token": "film", "sep_token": "bad"},
    "several": {"bos_token": "<b>", "foo_token": "<x>", "additional_special_tokens": ["<z>", "<y>"]},
}
NEW = tokenizers.AddedToken("new")


@pytest.mark.parametrize("name", [None, "BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("case", CONFIGS)
def test_added_tokens_of_the_config_are_those_of_transformers(tmp_path, name, case):
    config = {**CONFIGS[case], **({} if name is None else {"tokenizer_class": name})}
    files = {
        "plain": tokenizer_file(),
        "added": tokenizer_file([NEW]),
        "none": tokenizer_file(special=()),
        "long": tokenizer_file(max_input_chars_per_word=5),
    }
    if name != "PreTrainedTokenizerFast":
        files["vocabulary"] = None
    for kind, file in files.items():
        if kind == "added" and "<x>" in str(config.get("added_tokens_decoder")):
            continue
        check_ids(write(tmp_path / kind, file, config), (config, kind))


MAPPED = {"mask_token": token("good", lstrip=True, normalized=False), "unk_token": "[PAD]"}
FILES = {
    "added": ({}, {"added_tokens.json": {"new": NEXT}}),
    "added, special": ({"bos_token": "<b>"}, {"added_tokens.json": {"new": NEXT, "<b>": NEXT + 1}}),
    "added, but a decoder": ({"added_tokens_decoder": DECODER}, {"added_tokens.json": {"new": NEXT}}),
    "additional": ({}, {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}}),
    "additional, and the config's": (
        {"additional_special_tokens": ["<y>"]},
        {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}},
    ),
    "extra": ({}, {"special_tokens_map.json": {"extra_special_tokens": ["<x>"]}}),
    "extra, and the config's": (
        {"extra_special_tokens": ["<y>"]},
        {"special_tokens_map.json": {"extra_special_tokens": ["<x>"]}},
    ),
    "map, but a decoder": (
        {"added_tokens_decoder": DECODER},
        {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}},
    ),
    "other special ones": ({}, {"special_tokens_map.json": MAPPED}),
    "any name": ({}, {"special_tokens_map.json": {"foo_token": "<x>", "bos_token": "<b>"}}),
}


@pytest.mark.parametrize("name", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("case", FILES)
def test_added_tokens_of_older_files_are_those_of_transformers(tmp_path, name, case):
    config, files = FILES[case]
    check_ids(write(tmp_path / "m", tokenizer_file(), {**config, "tokenizer_class": name}, **files), case)


def test_tokens_added_to_a_tokenizer_of_transformers_are_read(tmp_path):
    made = transformers.BertTokenizer({piece: number for number, piece in enumerate(VOCABULARY)})
    made.add_tokens(["New York", "東京", "ood"])
    made.add_special_tokens({"additional_special_tokens": ["<X>"]})
    made.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": ROWS}))
    texts = [*TEXTS, "new york NEW\nYORK", "東京に 東 京", "food", "<x> <X>"]
    ours = WordPiece.from_folder(tmp_path / "m", 100)
    assert [row.tolist() for row in ours.rows(texts)[0]] == made(texts)["input_ids"]
