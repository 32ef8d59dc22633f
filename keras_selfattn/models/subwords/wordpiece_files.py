"""Read BERT's tokenizer from a model folder: `tokenizer.json`, or `vocab.txt` with its config."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.tokenizer_files import (
    CONFIG,
    TEMPLATES,
    TOKENIZER,
    in_order,
    json_if_any,
    json_in,
    model_of,
    part_of,
    special_names,
    template,
    text_in,
)
from keras_selfattn.models.subwords.wordpiece_settings import IN_BRACKETS, WordPieceSettings

VOCABULARY, MODEL = "vocab.txt", "config.json"

# Our names of settings, and those of the files.
_MODEL = {
    "unknown": "unk_token",
    "continuing_prefix": "continuing_subword_prefix",
    "max_input_chars_per_word": "max_input_chars_per_word",
}
_NORMALIZER = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
_SPECIAL = {"unknown": "unk", "cls": "cls", "sep": "sep", "pad": "pad", "mask": "mask"}
# Special tokens where the files do not name them.
_OF_BERT = {ours: f"[{theirs.upper()}]" for ours, theirs in _SPECIAL.items()}
_OF_MPNET = {"unknown": "[UNK]", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
# Flags of an added token that would change where it is found. `lstrip` takes white space before it, which is
# no part of a word anyway.
_FLAGS = ("single_word", "rstrip")


def read_wordpiece(folder: Path, max_tokens: int) -> tuple[WordPieceSettings, list[str]]:
    """Return the settings of the tokenizer in a folder, and its vocabulary in the order of the ids.

    `tokenizer.json` is read if there is one (the format of the `tokenizers` package), otherwise `vocab.txt`
    (of the `transformers` package). The names of the special tokens, and with `vocab.txt` the normalisation,
    are those in `tokenizer_config.json`, and where it is missing or silent BERT's, or the names MPNet's if
    the tokenizer or the model is MPNet's. The length and the padding
    in `tokenizer.json` are not used.

    Args:
        folder: a model's.
        max_tokens: longer texts are cut at the end; [CLS] and [SEP] count.

    Raises:
        ConfigError: for a missing or broken file, and for a tokenizer other than BERT's; it names the file,
            what was found and what is supported.
    """
    if (folder / TOKENIZER).is_file():
        path, reader = folder / TOKENIZER, _from_tokenizer
    elif (folder / VOCABULARY).is_file():
        path, reader = folder / VOCABULARY, _from_vocabulary
    else:
        raise ConfigError(f"{folder} holds no tokenizer: neither {TOKENIZER} nor {VOCABULARY}.")
    config = json_if_any(folder / CONFIG)
    kind = config.get("tokenizer_class") or json_if_any(folder / MODEL).get("model_type")
    try:
        return reader(path, _with_special(config, kind), max_tokens)
    except ConfigError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}, or {CONFIG} beside it, has not the usual form: {error!r}.") from error


def _from_tokenizer(
    path: Path, config: Mapping[str, Any], max_tokens: int
) -> tuple[WordPieceSettings, list[str]]:
    found = json_in(path)
    normalizer = part_of(path, found, "normalizer", "BertNormalizer")
    part_of(path, found, "pre_tokenizer", "BertPreTokenizer")
    model = model_of(path, found, "WordPiece")
    processor = part_of(path, found, "post_processor", *TEMPLATES)
    if (found.get("truncation") or {}).get("direction", "Right") != "Right":
        raise ConfigError(f"{path}: `truncation` is at the left; only the right is supported.")
    vocabulary = in_order(path, model["vocab"])
    listed = found.get("added_tokens") or []
    added = _added_tokens(path, listed)
    ids = {**model["vocab"], **added}
    names = _special_names(config, ids) | template(path, processor, ids)
    names |= {ours: model[theirs] for ours, theirs in _MODEL.items() if theirs in model}
    normal = {name: normalizer[name] for name in _NORMALIZER if name in normalizer}
    settings = WordPieceSettings(
        max_tokens, added_tokens=added, normalized_tokens=_normalized(listed), **normal, **names
    )
    return settings, vocabulary


def _from_vocabulary(
    path: Path, config: Mapping[str, Any], max_tokens: int
) -> tuple[WordPieceSettings, list[str]]:
    place = path.with_name(CONFIG)
    if config.get("do_basic_tokenize", True) is not True or config.get("never_split"):
        raise ConfigError(f"{place}: `do_basic_tokenize` false and `never_split` are not supported.")
    vocabulary = [line.rstrip("\r") for line in text_in(path).removesuffix("\n").split("\n")]
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    names = _special_names(config, ids)
    listed = [{**token, "id": int(key)} for key, token in config.get("added_tokens_decoder", {}).items()]
    added = {token: ids[token] for token in names.values() if token in ids}
    added |= _added_tokens(place, listed)
    settings = WordPieceSettings(
        max_tokens,
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        added_tokens=added,
        normalized_tokens=_normalized(listed),
        **names,
    )
    return settings, vocabulary


def _added_tokens(path: Path, listed: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    for token in listed:
        flags = [name for name in _FLAGS if token.get(name)]
        if token.get("normalized") and not re.fullmatch(IN_BRACKETS, token["content"]):
            flags.append("normalized")
        if flags:
            raise ConfigError(f"{path}: the added token {token['content']!r} is `{flags[0]}`: not supported.")
    return {token["content"]: token["id"] for token in listed if token["content"]}


def _normalized(listed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the added tokens that are found in the normalised text."""
    return tuple(token["content"] for token in listed if token["content"] and token.get("normalized"))


def _with_special(config: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return the tokenizer's config with the names of all special tokens.

    Args:
        config: `tokenizer_config.json`.
        kind: the class of the tokenizer, or else the family of the model.
    """
    names = _OF_MPNET if str(kind).lower().startswith("mpnet") else _OF_BERT
    return {
        **config,
        **{
            f"{_SPECIAL[ours]}_token": config.get(f"{_SPECIAL[ours]}_token") or name
            for ours, name in names.items()
        },
    }


def _special_names(config: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the names of the special tokens; of the mask None if there is none."""
    return special_names({ours: config[f"{theirs}_token"] for ours, theirs in _SPECIAL.items()}, ids)
