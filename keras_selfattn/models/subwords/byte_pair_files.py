"""Read a byte-pair tokenizer from a model folder: `tokenizer.json`, or `vocab.json` and `merges.txt`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.byte_pair_settings import GPT_2, LLAMA_3, BytePairSettings
from keras_selfattn.models.subwords.described_tokenizer import described, warn_of_difference
from keras_selfattn.models.subwords.tokenizer_class import FILE, ROBERTA, TokenizerClass
from keras_selfattn.models.subwords.tokenizer_files import (
    TEMPLATES,
    TOKENIZER,
    in_order,
    json_in,
    model_of,
    part_of,
    special_names,
    template,
    text_in,
    told_by_file,
)

VOCABULARY, MERGES = "vocab.json", "merges.txt"

# Settings of the model that would change the pieces. The token for what is unknown and its settings would
# not, because each byte is a piece.
_UNSUPPORTED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
_HEAD = "#version"
# The regular expression of the words of Llama 3, after which bytes are letters.
LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# Settings whose difference between two files is named, and the fields of `tokenizer_config.json` for them.
_COMPARED = {
    "add_prefix_space": "add_prefix_space",
    "composed": "",
    "words": "",
    "whole_words": "",
    "cls": "cls_token",
    "sep": "sep_token",
    "added_tokens": "",
    "normalized_tokens": "",
    "lstrip_tokens": "",
    "rstrip_tokens": "",
}


def read_byte_pairs(
    folder: Path, max_tokens: int, usual: TokenizerClass = FILE
) -> tuple[BytePairSettings, list[str]]:
    """Return the settings of the tokenizer in a folder, and its vocabulary in the order of the ids.

    `tokenizer.json` is read if there is one (the format of the `tokenizers` package), otherwise `vocab.json`
    and `merges.txt` (of the `transformers` package). As in transformers, RoBERTa's class takes
    `add_prefix_space` and the special tokens from `tokenizer_config.json` and its own defaults, and others
    take `tokenizer.json` as it is. The length and the padding in `tokenizer.json` are not used.

    Args:
        folder: a model's.
        max_tokens: longer texts are cut at the end; the tokens around a text count.
        usual: the class of the model's family, which opens the tokenizer where the folder names none.

    Raises:
        ConfigError: for a missing or broken file, and for a tokenizer of another kind; it names the file,
            what was found and what is supported.
    """
    found = described(folder, "BPE", _vocabulary, ROBERTA.tokens, usual)
    with told_by_file(folder, found.path):
        settings, vocabulary = _read(found.path, found.parts, found.names, max_tokens)
        warn_of_difference(
            found, settings, lambda file: _read(found.path, file, found.names, max_tokens)[0], _COMPARED
        )
    return settings, vocabulary


def _read(
    path: Path, found: Mapping[str, Any], special: Mapping[str, Any], max_tokens: int
) -> tuple[BytePairSettings, list[str]]:
    """Return the settings and the vocabulary of a tokenizer in the form of `tokenizer.json`."""
    model = model_of(path, found, "BPE")
    for name in _UNSUPPORTED:
        if model.get(name):
            raise ConfigError(f"{path}: `{name}` of the model is {model[name]!r}: not supported.")
    if (found.get("truncation") or {}).get("direction", "Right") != "Right":
        raise ConfigError(f"{path}: `truncation` is at the left; only the right is supported.")
    listed = [token for token in found.get("added_tokens") or [] if token["content"]]
    ids = {**model["vocab"], **{token["content"]: token["id"] for token in listed}}
    processor = _single(path, found, "post_processor", "processors", TEMPLATES, ignored=("ByteLevel",))
    settings = BytePairSettings(
        max_tokens,
        merges=tuple(merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]),
        **_words(path, found),
        composed=_composed(path, found),
        whole_words=model.get("ignore_merges", False),
        **added_settings(path, listed),
        **_special(special, ids) | template(path, processor, ids),
    )
    return settings, in_order(path, ids)


def _special(tokens: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the names of the special tokens; None for an unknown one that the vocabulary lacks."""
    names = special_names(tokens, ids)
    return names if names["unknown"] in ids else {**names, "unknown": None}


def _vocabulary(folder: Path) -> dict[str, Any]:
    """Return the model of a folder without `tokenizer.json`."""
    path, merges = folder / VOCABULARY, folder / MERGES
    if not (path.is_file() and merges.is_file()):
        raise ConfigError(
            f"{folder} holds no tokenizer of byte pairs: neither {TOKENIZER} nor {VOCABULARY} and {MERGES}."
        )
    lines = text_in(merges).split("\n")
    kept = [line.rstrip("\r") for line in lines if line.strip() and not line.startswith(_HEAD)]
    return {"path": path, "vocab": json_in(path), "merges": kept}


def _words(path: Path, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the splitter, which must be GPT-2's or Llama 3's."""
    part = part_of(path, found, "pre_tokenizer", "ByteLevel", "Sequence")
    parts = part["pretokenizers"] if part["type"] == "Sequence" else [part]
    if [each["type"] for each in parts] == ["Split", "ByteLevel"]:
        split, letters = parts
        rule = split.get("pattern", {}).get("Regex"), split.get("behavior"), split.get("invert", False)
        flags = letters.get("add_prefix_space", True), letters.get("use_regex", True)
        if rule != (LLAMA_3_WORDS, "Isolated", False) or flags != (False, False):
            raise ConfigError(
                f"{path}: `pre_tokenizer` splits words by a rule of its own: not supported. The rules of "
                "GPT-2 (`ByteLevel`) and of Llama 3 are."
            )
        return {"add_prefix_space": False, "words": LLAMA_3}
    splitter = _single(path, found, "pre_tokenizer", "pretokenizers", ("ByteLevel",))
    if splitter.get("use_regex", True) is not True:
        raise ConfigError(
            f"{path}: `use_regex` of `pre_tokenizer` is {splitter['use_regex']!r}: not supported."
        )
    return {"add_prefix_space": splitter.get("add_prefix_space", True), "words": GPT_2}


def _composed(path: Path, found: Mapping[str, Any]) -> bool:
    """Return True if texts are normalised to Unicode's form C."""
    normalizer = found.get("normalizer")
    if normalizer is None or normalizer == {"type": "Sequence", "normalizers": []}:
        return False
    return _single(path, found, "normalizer", "normalizers", ("NFC",))["type"] == "NFC"


def _single(
    path: Path,
    found: Mapping[str, Any],
    name: str,
    inner: str,
    supported: Sequence[str],
    ignored: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a part of the tokenizer of a supported kind, alone or in a sequence.

    Args:
        path: the file.
        found: its content.
        name: of the part.
        inner: name of the parts of a sequence.
        supported: kinds of the part.
        ignored: kinds that a sequence may have beside it.
    """
    part = part_of(path, found, name, *supported, "Sequence")
    if part["type"] != "Sequence":
        return part
    parts = [each for each in part[inner] if each["type"] not in ignored]
    if len(parts) != 1:
        kinds = ", ".join(repr(each["type"]) for each in part[inner])
        raise ConfigError(f"{path}: `{name}` is a sequence of {kinds or 'nothing'}; supported: one part.")
    return part_of(path, {name: parts[0]}, name, *supported)


def added_settings(path: Path, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of the added tokens."""
    for token in listed:
        if token.get("single_word"):
            raise ConfigError(
                f"{path}: the added token {token['content']!r} is `single_word`: not supported."
            )
    flagged = {
        flag: tuple(token["content"] for token in listed if token.get(flag))
        for flag in ("normalized", "lstrip", "rstrip")
    }
    return {
        "added_tokens": {token["content"]: token["id"] for token in listed},
        **{f"{flag}_tokens": tokens for flag, tokens in flagged.items()},
    }
