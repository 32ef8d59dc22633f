"""Unigram tokenizers of folders as `transformers` opens them.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import base64
import json

import pytest
import tensorflow as tf
from pretrained_folders import (
    CONTROL,
    RAW_UNIGRAM,
    UNIGRAM,
    XLM_ROBERTA,
    sentencepiece_model,
    unigram_file,
    write_unigram,
)

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.joined_characters import compiled
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
