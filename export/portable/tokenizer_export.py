"""The makers of the ids of texts and tokens, as files for programs in any language.

A model of texts gets a `tokenizer.json` in the format of the `tokenizers` package, which Rust, Python, Node
and, through DJL, Java read; a labeller of tokens whose words were learned from its rows gets
`token_features.json`. Examples beside them show if a reader makes the same ids.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.long_rows import pieces_within
from keras_selfattn.models.subwords.byte_pair_files import LLAMA_3_WORDS
from keras_selfattn.models.subwords.byte_pair_settings import GPT_2, BytePairSettings
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings
from keras_selfattn.models.text.tokenizer import Tokenizer
from keras_selfattn.models.tokens.token_features import AFFIXES, TokenFeatures
from keras_selfattn.models.vocabulary import FIRST_ID, PADDING_ID, UNKNOWN_ID
from keras_selfattn.rows.text_pairs import NAMES

TOKENIZER, FEATURES, EXAMPLES = "tokenizer.json", "token_features.json", "tokenizer_examples.json"

_PAD, _UNKNOWN = "[PAD]", "[UNK]"
# RE2's \s, and what TensorFlow splits at. Another engine's \s is more.
_BLANKS = "\t\n\v\f\r"
_SPACE = rf"[\p{{Z}}{_BLANKS}]+"
_SCRIPTS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
_SINGLE = "|".join([rf"[^\p{{L}}\p{{M}}\p{{N}}_'{_BLANKS}]", *(rf"\p{{{name}}}" for name in _SCRIPTS)])
_TEXTS = (
    "A good film!",
    "it's 3.14 o'clock",
    "",
    "Ünïcode, ÉTÉ",
    "日本語 text",
    "two\nlines",
    "unbelievably",
)


def text_files(tokenizer: Any) -> dict[str, Any]:
    """Return the files that make the ids of texts, by name, with examples of them."""
    texts = [*_TEXTS, *_with_padding(tokenizer)]
    examples = [{"text": text, "ids": _listed(tokenizer(tf.constant([text]))[0])} for text in texts]
    return {TOKENIZER: tokenizer_json(tokenizer), EXAMPLES: examples}


def pair_files(ids_of: Callable[..., Any], tokenizer: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return the files that make the ids and types of two texts, by name, with examples of them.

    Args:
        ids_of: from two texts a row, string `[B]` each, to the core's ids, ragged `[B, T, columns]`.
        tokenizer: of the model.
        columns: the names of the last axis.
    """
    pairs = [*itertools.pairwise(_TEXTS), ("a good film, a film", "A film is a film!")]
    found = [ids_of(tf.constant([first]), tf.constant([second]))[0] for first, second in pairs]
    examples = [
        {
            **dict(zip(NAMES, pair, strict=True)),
            **{name: _listed(ids[:, place]) for place, name in enumerate(columns)},
        }
        for pair, ids in zip(pairs, found, strict=True)
    ]
    return {TOKENIZER: tokenizer_json(tokenizer), EXAMPLES: examples}


def token_files(tokenizer: Any) -> dict[str, Any]:
    """Return the files that make the features of tokens, by name, with examples of them."""
    if isinstance(tokenizer, TokenFeatures):
        found = {FEATURES: _features_json(tokenizer)}
    else:
        found = {TOKENIZER: tokenizer_json(tokenizer.tokenizer, of_tokens=True)}
    texts = [*_TEXTS, *_with_padding(getattr(tokenizer, "tokenizer", None))]
    rows = [text.split() for text in texts if text.split()]
    examples = [{"tokens": row, "features": _listed(tokenizer(tf.constant(row)))} for row in rows]
    return {**found, EXAMPLES: examples}


def write_files(files: Mapping[str, Any], folder: Path) -> None:
    """Write JSON files by name into a folder."""
    for name, content in files.items():
        written = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (folder / name).write_text(written, encoding="utf-8")


def tokenizer_json(tokenizer: Any, *, of_tokens: bool = False) -> dict[str, Any]:
    """Return a tokenizer as the content of a `tokenizer.json`, with this model's ids.

    A padding token that a text itself has is an exception: the file gives it the id of padding, not
    `written_padding`, because readers look up by its name what they pad with.

    Args:
        tokenizer: of a model of texts, or the tokenizer of a pretrained model.
        of_tokens: True if it is to split single tokens that stand between others, without special tokens.
    """
    if isinstance(tokenizer, Tokenizer):
        return _of_words(tokenizer)
    settings = tokenizer.settings
    parts: Any = _of_wordpiece if isinstance(settings, WordPieceSettings) else _of_byte_pairs
    cls, sep = ((name, tokenizer.id_of(name)) for name in (settings.cls, settings.sep))
    if of_tokens:
        if isinstance(settings, BytePairSettings):
            settings = dataclasses.replace(settings, add_prefix_space=True)
        common = {**_common(pieces_within(settings.max_tokens), settings.pad), "padding": None}
        return {**common, **parts(settings, tokenizer.vocabulary)}
    common = _common(settings.max_tokens, settings.pad)
    return {
        **common,
        "post_processor": _template(cls, sep, settings),
        **parts(settings, tokenizer.vocabulary),
    }


def _with_padding(tokenizer: Any) -> list[str]:
    """Return a text that has the padding token itself; none for a tokenizer that learned its own words."""
    return [f"a {tokenizer.settings.pad} film"] if isinstance(tokenizer, SubwordTokenizer) else []


def _common(max_tokens: int, pad: str) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": max_tokens,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": PADDING_ID,
            "pad_type_id": 0,
            "pad_token": pad,
        },
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
    }


def _of_words(tokenizer: Tokenizer) -> dict[str, Any]:
    config = tokenizer.config
    if config.tokens == "characters":
        splits = [_split(r"[\s\S]", "Isolated")]
    else:
        splits = [_split(_SPACE, "Removed"), _split(_SINGLE, "Isolated")]
    vocabulary = {_PAD: PADDING_ID, _UNKNOWN: UNKNOWN_ID}
    vocabulary |= {token: place for place, token in enumerate(tokenizer.vocabulary, FIRST_ID)}
    return {
        **_common(config.max_tokens, _PAD),
        "normalizer": {"type": "Lowercase"} if config.lowercase else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": _UNKNOWN},
    }


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _of_wordpiece(settings: WordPieceSettings, vocabulary: Sequence[str]) -> dict[str, Any]:
    return {
        "added_tokens": [
            _added(token, number, normalized=token in settings.normalized_tokens)
            for token, number in settings.added_tokens.items()
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": settings.clean_text,
            "handle_chinese_chars": settings.handle_chinese_chars,
            "strip_accents": settings.strip_accents,
            "lowercase": settings.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": settings.continuing_prefix, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": settings.unknown,
            "continuing_subword_prefix": settings.continuing_prefix,
            "max_input_chars_per_word": settings.max_input_chars_per_word,
            "vocab": {piece: number for number, piece in enumerate(vocabulary)},
        },
    }


def _of_byte_pairs(settings: BytePairSettings, vocabulary: Sequence[str]) -> dict[str, Any]:
    whole = settings.words == GPT_2
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": settings.add_prefix_space,
        "trim_offsets": True,
        "use_regex": whole,
    }
    split = {"type": "Split", "pattern": {"Regex": LLAMA_3_WORDS}, "behavior": "Isolated", "invert": False}
    words = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    return {
        "added_tokens": [
            _added(
                token,
                number,
                normalized=token in settings.normalized_tokens,
                lstrip=token in settings.lstrip_tokens,
                rstrip=token in settings.rstrip_tokens,
            )
            for token, number in settings.added_tokens.items()
        ],
        "normalizer": {"type": "NFC"} if settings.composed else None,
        "pre_tokenizer": byte_level if whole else words,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": settings.whole_words,
            "vocab": {piece: number for number, piece in enumerate(vocabulary)},
            "merges": list(settings.merges),
        },
    }


def _added(token: str, number: int, *, normalized: bool, lstrip: bool = False, rstrip: bool = False) -> dict:
    flags = {"single_word": False, "lstrip": lstrip, "rstrip": rstrip, "normalized": normalized}
    return {"id": number, "content": token, **flags, "special": not normalized}


def _template(cls: tuple[str, int], sep: tuple[str, int], settings: Any) -> dict[str, Any]:
    def special(token: str, kind: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def text(name: str, kind: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    # Where it is not known what stands between two texts, one [SEP] does.
    between, second = (1, 0) if settings.separators is None else (settings.separators, settings.second_type)
    before = [special(cls[0]), text("A"), *[special(sep[0])] * between]
    return {
        "type": "TemplateProcessing",
        "single": [special(cls[0]), text("A"), special(sep[0])],
        "pair": [*before, text("B", second), special(sep[0], second)],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]} for token, number in (cls, sep)
        },
    }


def _features_json(features: TokenFeatures) -> dict[str, Any]:
    affixes = [f"{kind}{count}" for count in AFFIXES for kind in ("prefix", "suffix")]
    return {
        "features": ["word", *affixes, "shape", "whole"],
        "lowercase": True,
        "padding_id": PADDING_ID,
        "unknown_id": UNKNOWN_ID,
        "first_id": FIRST_ID,
        "hash": "FarmHash Fingerprint64",
        "hash_buckets": features.config.hash_buckets,
        "vocabulary": features.vocabulary,
    }


def _listed(ids: Any) -> list[Any]:
    return np.asarray(ids).tolist()
