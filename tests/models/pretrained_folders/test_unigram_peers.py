"""Unigram tokenizers of folders as `transformers` opens them.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import base64
import json
from types import SimpleNamespace

import pytest
import tensorflow as tf
from pretrained_folders import (
    CONTROL,
    CONTROL_OF_DEBERTA,
    OF_DEBERTA,
    RAW_UNIGRAM,
    UNIGRAM,
    XLM_ROBERTA,
    sentencepiece_model,
    unigram_file,
    write_unigram,
)

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.joined_characters import compiled
from keras_selfattn.models.subwords.tokenizer_class import DEBERTA_V2
from keras_selfattn.models.subwords.tokenizer_class import XLM_ROBERTA as CLASS
from keras_selfattn.models.subwords.unigram import Unigram

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers")

MAP = compiled({"Ａ": "a", "e\u0301": "é", "\u00ad": "", "\n": " "})
TEXTS = [
    "a good films.",
    "",
    " ",
    "a  bad <mask> film",
    "  <mask>a",
    "xyz a",
    "<s>a</s>",
    "▁a▁ b",
    "a\r\nb",
    "Ａ\u00adly",
]
TEXTS += ["\U0010ffffa", "<unk>", "<pad> a", "the film [MASK] [UNK] [B] new"]
NAMED = {"tokenizer_class": "XLMRobertaTokenizer"}
OTHER_ENDS = [*UNIGRAM, ("[B]", 0.0), ("[E]", 0.0)]
UNKNOWN_FIRST = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("<pad>", 0.0), *UNIGRAM[4:]]
MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False}
CONFIGS = {
    "class": NAMED,
    "no class": {},
    "file": {"tokenizer_class": "PreTrainedTokenizerFast"},
    "without a blank before": {**NAMED, "add_prefix_space": False},
    "another mask": {**NAMED, "mask_token": "[MASK]"},
    "a normalized mask": {**NAMED, "mask_token": {"__type": "AddedToken", **MASK}},
    "another beginning": {**NAMED, "bos_token": "[B]", "cls_token": "[B]"},
    "other padding and unknown": {**NAMED, "pad_token": "[PAD]", "unk_token": "[UNK]"},
    "more tokens": {**NAMED, "additional_special_tokens": ["new"]},
    "no more tokens": {**NAMED, "additional_special_tokens": []},
    "a decoder": {**NAMED, "added_tokens_decoder": {"3": {**MASK, "content": "<unk>", "special": True}}},
}


def check(folder):
    """Compare our ids with those of AutoTokenizer; both refuse a folder, or none does."""
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    except ValueError:
        with pytest.raises(ConfigError):
            Unigram.from_folder(folder, 64, CLASS)
        return
    ours = Unigram.from_folder(folder, 64, CLASS)
    padding = ours.id_of(ours.settings.pad)
    wanted = theirs(TEXTS)["input_ids"]
    wanted = [[ours.written_padding if each == padding else each for each in row] for row in wanted]
    assert ours(tf.constant(TEXTS)).to_list() == wanted


def normalised():
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(MAP).decode()}


FILES = {
    "plain": lambda: unigram_file(),
    "map": lambda: unigram_file(normalizer=normalised()),
    "other words": lambda: unigram_file(
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
        normalizer={"type": "Sequence", "normalizers": [normalised(), {"type": "NFC"}]},
    ),
    "other ends": lambda: unigram_file(OTHER_ENDS),
    "unknown first": lambda: unigram_file(UNKNOWN_FIRST),
}


# A decoder with another id than the vocabulary's is refused.
BOTH = [
    (file, config) for file in FILES for config in CONFIGS if (file, config) != ("unknown first", "a decoder")
]


@pytest.mark.parametrize(("file", "config"), BOTH)
def test_files_of_tokenizers_have_the_ids_of_transformers(tmp_path, file, config):
    folder = write_unigram(tmp_path / "m", tokenizer=FILES[file](), config={**XLM_ROBERTA, "vocab_size": 64})
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIGS[config]))
    check(folder)


@pytest.mark.parametrize("config", ["class", "no class", "file"])
def test_scores_are_rounded_as_in_transformers(tmp_path, config):
    scores = {"▁a": -8.500349149344583, "s": -1.0, "▁as": -9.500349149344583}
    vocabulary = [*UNIGRAM[:4], *scores.items(), ("<mask>", 0.0)]
    folder = write_unigram(tmp_path / "m", tokenizer=unigram_file(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIGS[config]))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)("as")["input_ids"]
    ours = Unigram.from_folder(folder, 64, CLASS).rows(["as"])[0][0].tolist()
    assert ours == theirs == ([0, 4, 5, 2] if config == "file" else [0, 6, 2])


@pytest.mark.parametrize("config", CONFIGS)
def test_models_of_sentencepiece_have_the_ids_of_transformers(tmp_path, config):
    pytest.importorskip("sentencepiece")
    folder = write_unigram(tmp_path / "m", config={**XLM_ROBERTA, "vocab_size": 64})
    (folder / "tokenizer.json").unlink()
    pieces = [*RAW_UNIGRAM, ("go", 0.0), ("<c>", 0.0), ("od", -1.0)]
    content = sentencepiece_model(pieces, characters=MAP, types={**CONTROL, "go": 4, "<c>": 3, "od": 5})
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIGS[config]))
    check(folder)


def of_deberta(folder, **config):
    """Writes a folder with `spm.model` alone; returns the tokenizer that transformers 4 makes of it."""
    model_type = {**XLM_ROBERTA, "model_type": "deberta-v2", "vocab_size": 64, "pad_token_id": 0}
    write_unigram(folder, config=model_type)
    (folder / "tokenizer.json").unlink()
    types = {**CONTROL_OF_DEBERTA, "go": 4}
    content = sentencepiece_model([*OF_DEBERTA, ("go", 0.0)], characters=MAP, types=types, unknown=3)
    (folder / "spm.model").write_bytes(content)
    (folder / "tokenizer_config.json").write_text(json.dumps({"vocab_type": "spm", **config}))
    converter = pytest.importorskip("transformers.convert_slow_tokenizer").DebertaV2Converter
    flags = {"do_lower_case": False, "split_by_punct": False, "add_prefix_space": True, **config}
    ids = {piece: number for number, (piece, _) in enumerate(OF_DEBERTA)}
    given = SimpleNamespace(
        vocab_file=str(folder / "spm.model"), convert_tokens_to_ids=ids.__getitem__, **flags
    )
    made = converter(given).converted()
    made.add_special_tokens(["[UNK]", "[MASK]"])  # as the tokenizer does with all that it names
    return made


@pytest.mark.parametrize(
    "config",
    [{}, {"add_prefix_space": False}, {"additional_special_tokens": []}],
    ids=["plain", "without a blank before", "no more tokens"],
)
def test_the_model_of_deberta_keeps_its_map_of_characters(tmp_path, config):
    """transformers 5 drops the map, with which the model was trained; its own converter still keeps it."""
    pytest.importorskip("sentencepiece")
    made = of_deberta(tmp_path / "m", **config)
    ours = Unigram.from_folder(tmp_path / "m", 64, DEBERTA_V2)
    texts = [*TEXTS, "Ａ good", "e\u0301", "a  [MASK] good", "[CLS]a[SEP] s", " [PAD]a ", "a\ngo  od\u00ad"]
    # Padding that a text itself has is a token beside padding.
    wanted = [
        [ours.written_padding if each == 0 else each for each in row.ids] for row in made.encode_batch(texts)
    ]
    assert ours(tf.constant(texts)).to_list() == wanted
    both = [("a good", "Ａ"), ("", "s")]
    rows = ours.pairs(tf.constant([one for one, _ in both]), tf.constant([two for _, two in both])).to_list()
    found = made.encode_batch(both)
    assert rows == [list(map(list, zip(each.ids, each.type_ids, strict=True))) for each in found]


def test_a_file_of_deberta_is_taken_as_it_is(tmp_path):
    made = of_deberta(tmp_path / "m")
    made.save(str(tmp_path / "m" / "tokenizer.json"))
    ours = Unigram.from_folder(tmp_path / "m", 64, DEBERTA_V2)
    texts = ["Ａ good", "e\u0301  a", "a [MASK]"]
    assert ours(tf.constant(texts)).to_list() == [each.ids for each in made.encode_batch(texts)]


@pytest.mark.parametrize("flag", ["do_lower_case", "split_by_punct"])
def test_a_model_of_deberta_whose_flags_are_not_read_is_refused(tmp_path, flag):
    of_deberta(tmp_path / "m", **{flag: True})
    with pytest.raises(ConfigError, match=f"`{flag}` is true. With a model of SentencePiece alone"):
        Unigram.from_folder(tmp_path / "m", 64, DEBERTA_V2)
