"""Read BERT's tokenizer from a model folder: `tokenizer.json`, or `vocab.txt`, and the files beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.described_tokenizer import described, warn_of_difference
from keras_selfattn.models.subwords.tokenizer_class import BERT, FILE, MPNET, TokenizerClass
from keras_selfattn.models.subwords.tokenizer_files import (
    CONFIG,
    TEMPLATES,
    TOKENIZER,
    in_order,
    json_if_any,
    model_of,
    part_of,
    special_names,
    template,
    text_in,
    told_by_file,
)
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings

VOCABULARY = "vocab.txt"

# Our names of settings, and those of the files.
_MODEL = {
    "unknown": "unk_token",
    "continuing_prefix": "continuing_subword_prefix",
    "max_input_chars_per_word": "max_input_chars_per_word",
}
_NORMALIZER = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
# Flags of an added token that would change where it is found. `lstrip` takes white space before it, which is
# no part of a word anyway.
_FLAGS = ("single_word", "rstrip")
# Settings whose difference between two files is named, and the fields of `tokenizer_config.json` for them.
_COMPARED = {
    "lowercase": "do_lower_case",
    "strips_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
    "clean_text": "",
    "continuing_prefix": "",
    "max_input_chars_per_word": "",
    "unknown": "unk_token",
    "cls": "cls_token",
    "sep": "sep_token",
    "added_tokens": "",
    "normalized_tokens": "",
}


def read_wordpiece(
    folder: Path, max_tokens: int, usual: TokenizerClass = FILE
) -> tuple[WordPieceSettings, list[str]]:
    """Return the settings of the tokenizer in a folder, and its vocabulary in the order of the ids.

    The vocabulary is that of `tokenizer.json` if there is one (the format of the `tokenizers` package),
    otherwise `vocab.txt` (of the `transformers` package). The class that `tokenizer_config.json` or the
    model's family names decides about all else, as in transformers: BERT's and MPNet's take the
    normalisation and the special tokens of `tokenizer_config.json` and their own defaults, and others
    `tokenizer.json` as it is. The length and the padding in `tokenizer.json` are not used.

    Args:
        folder: a model's.
        max_tokens: longer texts are cut at the end; [CLS] and [SEP] count.
        usual: the class of the model's family, which opens the tokenizer where the folder names none.

    Raises:
        ConfigError: for a missing or broken file, and for a tokenizer other than BERT's; it names the file,
            what was found and what is supported.
    """
    found = described(folder, "WordPiece", _vocabulary, _default_names(folder, usual), usual)
    with told_by_file(folder, found.path):
        settings, vocabulary = _read(found.path, found.parts, found.names, max_tokens)
        warn_of_difference(
            found, settings, lambda file: _read(found.path, file, found.names, max_tokens)[0], _COMPARED
        )
    return settings, vocabulary


def _read(
    path: Path, found: Mapping[str, Any], special: Mapping[str, Any], max_tokens: int
) -> tuple[WordPieceSettings, list[str]]:
    """Return the settings and the vocabulary of a tokenizer in the form of `tokenizer.json`."""
    normal = _normalizer(path, found)
    part_of(path, found, "pre_tokenizer", "BertPreTokenizer")
    model = model_of(path, found, "WordPiece")
    processor = part_of(path, found, "post_processor", *TEMPLATES)
    if (found.get("truncation") or {}).get("direction", "Right") != "Right":
        raise ConfigError(f"{path}: `truncation` is at the left; only the right is supported.")
    vocabulary = in_order(path, model["vocab"])
    listed = [token for token in found.get("added_tokens") or [] if token["content"]]
    added = _added_tokens(path, listed)
    ids = {**model["vocab"], **added}
    names = special_names(special, ids) | template(path, processor, ids)
    names |= {ours: model[theirs] for ours, theirs in _MODEL.items() if theirs in model}
    late = tuple(token["content"] for token in listed if token.get("normalized"))
    settings = WordPieceSettings(max_tokens, added_tokens=added, normalized_tokens=late, **normal, **names)
    return settings, vocabulary


def _normalizer(path: Path, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of BERT's normaliser; others that fold the case may stand before or after it."""
    part = part_of(path, found, "normalizer", "BertNormalizer", "Sequence")
    parts = part["normalizers"] if part["type"] == "Sequence" else [part]
    kinds = [each["type"] for each in parts]
    if kinds.count("BertNormalizer") != 1 or set(kinds) - {"BertNormalizer", "Lowercase"}:
        raise ConfigError(
            f"{path}: `normalizer` is a sequence of {', '.join(map(repr, kinds)) or 'nothing'}; supported: "
            "one 'BertNormalizer', and 'Lowercase' beside it."
        )
    parts = [part_of(path, {"normalizer": each}, "normalizer", each["type"]) for each in parts]
    bert = next(each for each in parts if each["type"] == "BertNormalizer")
    normal = {name: bert[name] for name in _NORMALIZER if name in bert}
    if "Lowercase" in kinds:
        accents = normal.get("strip_accents")
        normal |= {
            "strip_accents": normal.get("lowercase", True) if accents is None else accents,
            "lowercase": True,
        }
    return normal


def _vocabulary(folder: Path) -> dict[str, Any]:
    """Return the model of a folder without `tokenizer.json`."""
    path = folder / VOCABULARY
    if not path.is_file():
        raise ConfigError(f"{folder} holds no tokenizer: neither {TOKENIZER} nor {VOCABULARY}.")
    config = json_if_any(folder / CONFIG)
    if config.get("do_basic_tokenize", True) is not True or config.get("never_split"):
        raise ConfigError(
            f"{folder / CONFIG}: `do_basic_tokenize` false and `never_split` are not supported."
        )
    lines = [line.rstrip("\r") for line in text_in(path).removesuffix("\n").split("\n")]
    ids = {piece: number for number, piece in enumerate(lines)}
    if len(ids) < len(lines):
        twice = next(piece for number, piece in enumerate(lines) if ids[piece] != number)
        raise ConfigError(
            f"{path}: the pieces must all be different. Received {twice!r} as number {lines.index(twice)}, "
            f"and as number {ids[twice]}."
        )
    return {"path": path, "vocab": ids}


def _added_tokens(path: Path, listed: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    for token in listed:
        flags = [name for name in _FLAGS if token.get(name)]
        if flags:
            raise ConfigError(f"{path}: the added token {token['content']!r} is `{flags[0]}`: not supported.")
    return {token["content"]: token["id"] for token in listed}


def _default_names(folder: Path, usual: TokenizerClass) -> Mapping[str, str]:
    """Return the special tokens of the class that the folder names, MPNet's or BERT's; or of the usual."""
    named = json_if_any(folder / CONFIG).get("tokenizer_class")
    if not named and usual.model == "WordPiece":
        return usual.tokens
    return (MPNET if str(named).lower().startswith("mpnet") else BERT).tokens
