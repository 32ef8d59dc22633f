"""The tokenizer that `transformers` makes of a folder's files, in the form of `tokenizer.json`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.added_tokens import (
    SPECIAL_MAP,
    AddedTokens,
    Declared,
    all_tokens,
    declared_tokens,
    token_of,
)
from keras_selfattn.models.subwords.tokenizer_class import TokenizerClass, class_of
from keras_selfattn.models.subwords.tokenizer_files import (
    CONFIG,
    MODEL,
    TOKENIZER,
    first_map,
    ids_of,
    in_order,
    json_if_any,
    json_in,
    model_of,
    told_by_file,
)
from keras_selfattn.user_warnings import warn_user

_UNKNOWN_ID = 3  # of XLM-RoBERTa
_EXTRA = {"additional_special_tokens", "extra_special_tokens"}
_LONG = 80  # characters of a setting that a warning would not repeat
# Our names of special tokens, and their fields.
_NAMES = {"unknown": "unk", "cls": "cls", "sep": "sep", "pad": "pad", "mask": "mask"}


@dataclass(frozen=True)
class DescribedTokenizer:
    """A tokenizer in the form of `tokenizer.json`.

    Args:
        path: the file of its vocabulary, for messages.
        parts: "model", "normalizer", "pre_tokenizer", "post_processor", "added_tokens" and "truncation".
        names: of its special tokens, by our names of them; None for none.
        chosen: the class that made it.
        file: `tokenizer.json`, if the class does not take it as it is; empty if it does, or there is none.
        config: `tokenizer_config.json`.
    """

    path: Path
    parts: Mapping[str, Any]
    names: Mapping[str, str | None]
    chosen: TokenizerClass
    file: Mapping[str, Any]
    config: Mapping[str, Any]


def described(
    folder: Path,
    model: str,
    vocabulary: Callable[[Path], dict[str, Any]],
    defaults: Mapping[str, str],
    usual: TokenizerClass,
) -> DescribedTokenizer:
    """Return the tokenizer of a folder.

    Args:
        folder: a model's.
        model: kind of its vocabulary, "WordPiece", "BPE" or "Unigram".
        vocabulary: returns the model, with its "vocab", where there is no `tokenizer.json`; and "path".
        defaults: names of special tokens, by their fields, where neither a file nor the class has any.
        usual: the class of the model's family, where the folder names none.

    Raises:
        ConfigError: for files that cannot be read.
    """
    config, of_model = json_if_any(folder / CONFIG), json_if_any(folder / MODEL)
    path = folder / TOKENIZER
    if path.is_file():
        file = json_in(path)
        held = {**model_of(path, file, model), "charsmap": first_map(file)}
    else:
        file, held = {}, vocabulary(folder)
        path = held.pop("path")
    with told_by_file(folder, path):
        chosen = class_of(folder, config, of_model, usual, model, has_file=bool(file))
        tokens = declared_tokens(folder, config, file)
        if not file and chosen.first:
            held["vocab"] = _with_tokens(chosen, tokens, held["vocab"])
        ids = ids_of(path, held["vocab"])
        if model == "WordPiece":
            in_order(path, ids)
        added = AddedTokens(ids)
        if chosen.of_file:
            for token in file.get("added_tokens") or []:
                added.add(token, path)
        rows = of_model.get("vocab_size")
        # As in transformers, further special tokens that the files name, even none, are all there are.
        # transformers 4, as whose DeBERTa's is read, always adds those of the model.
        if chosen.of_version_4 or not _EXTRA & {*config, *json_if_any(folder / SPECIAL_MAP)}:
            own = [*map(_as_it_is, held.get("special", ()))]
            tokens = replace(tokens, extra=[*(tokens.extra if chosen.of_version_4 else ()), *own])
        names = all_tokens(tokens, chosen, added, rows if isinstance(rows, int) else None)
        fields = {ours: f"{theirs}_token" for ours, theirs in _NAMES.items()}
        fields |= dict(zip(("cls", "sep"), chosen.ends, strict=True))
        found = {ours: names.get(field) or defaults[field] for ours, field in fields.items()}
        parts = dict(file) if chosen.of_file else _built(chosen, held, config, found, added.ids)
    parts |= {"added_tokens": list(added.tokens.values()), "truncation": file.get("truncation")}
    return DescribedTokenizer(path, parts, found, chosen, {} if chosen.of_file else file, config)


def _with_tokens(chosen: TokenizerClass, declared: Declared, vocabulary: list[Any]) -> list[Any]:
    """Return the vocabulary of a model of SentencePiece with the special tokens of the class that reads it.

    The three special pieces that SentencePiece puts first are left out, whatever their names.
    """
    named = {name: token["content"] for name, token in declared.named.items() if token is not None}
    names = [named.get(field, chosen.tokens[field]) for field in (*chosen.first, "mask_token")]
    *before, mask = ([name, 0.0] for name in names)
    return [*before, *vocabulary[3:], mask]


def _as_it_is(content: str) -> dict[str, Any]:
    """Return an added token that is found in the text before it is normalised."""
    return token_of({"content": content, "normalized": False}, special=True)


def _built(
    chosen: TokenizerClass,
    held: Mapping[str, Any],
    config: Mapping[str, Any],
    names: Mapping[str, str],
    ids: Mapping[str, int],
) -> dict[str, Any]:
    """Return the parts of a tokenizer that a class builds anew from a vocabulary, as it does it."""
    around = {side: [names[side], ids.get(names[side])] for side in ("cls", "sep")}
    if chosen.model == "BPE":
        return {
            "model": {"type": "BPE", "vocab": held["vocab"], "merges": held["merges"]},
            "normalizer": None,
            "pre_tokenizer": {
                "type": "ByteLevel",
                "add_prefix_space": _flag(config, "add_prefix_space", False),
            },
            "post_processor": {"type": chosen.processor, **around},
        }
    if chosen.of_version_4:
        return _of_deberta(held, config, names, ids)
    if chosen.model == "Unigram":
        return {
            # transformers takes that id, whatever the name of the unknown token.
            "model": {"type": "Unigram", "vocab": held["vocab"], "unk_id": _UNKNOWN_ID},
            "normalizer": _map_of(held),
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    _metaspace(config),
                ],
            },
            "post_processor": {"type": chosen.processor, **around},
        }
    accents = config.get("strip_accents")
    return {
        "model": {"type": "WordPiece", "vocab": held["vocab"], "unk_token": names["unknown"]},
        "normalizer": {
            "type": "BertNormalizer",
            "handle_chinese_chars": _flag(config, "tokenize_chinese_chars", True),
            "strip_accents": None if accents is None else _flag(config, "strip_accents", None),
            "lowercase": _flag(config, "do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": chosen.processor, **around},
    }


def _metaspace(config: Mapping[str, Any]) -> dict[str, Any]:
    prepends = "always" if _flag(config, "add_prefix_space", True) else "never"
    return {"type": "Metaspace", "prepend_scheme": prepends}


def _of_deberta(
    held: Mapping[str, Any], config: Mapping[str, Any], names: Mapping[str, str], ids: Mapping[str, int]
) -> dict[str, Any]:
    """Return the parts that transformers 4 makes of DeBERTa-v2's model of SentencePiece, with its own map."""
    for flag in ("do_lower_case", "split_by_punct"):
        if _flag(config, flag, False):
            raise ConfigError(
                f"{CONFIG}: `{flag}` is true. With a model of SentencePiece alone this cannot be read: add "
                f"{TOKENIZER}."
            )
    blanks = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    steps = [{"type": "Strip"}, _map_of(held), blanks]
    cls, sep = ({"SpecialToken": {"id": names[side], "type_id": 0}} for side in ("cls", "sep"))
    first = [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep]
    second = [
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": names["sep"], "type_id": 1}},
    ]
    around = {
        names[side]: {"id": names[side], "ids": [ids.get(names[side])], "tokens": [names[side]]}
        for side in ("cls", "sep")
    }
    return {
        "model": {name: held[name] for name in ("type", "vocab", "unk_id", "byte_fallback")},
        "normalizer": {"type": "Sequence", "normalizers": [step for step in steps if step]},
        "pre_tokenizer": _metaspace(config),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": first,
            "pair": [*first, *second],
            "special_tokens": around,
        },
    }


def _map_of(held: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the normalizer with the map of characters of a model of SentencePiece; None for none."""
    found = held.get("charsmap")
    return {"type": "Precompiled", "precompiled_charsmap": found} if found else None


def _flag(config: Mapping[str, Any], name: str, default: bool | None) -> Any:
    value = config.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{CONFIG}: `{name}` must be true or false. Received {value!r}.")
    return value


def warn_of_difference(
    found: DescribedTokenizer,
    settings: Any,
    of_file: Callable[[Mapping[str, Any]], Any],
    fields: Mapping[str, str],
) -> None:
    """Warn in one line if `tokenizer.json` and `tokenizer_config.json` say different things.

    Args:
        found: the tokenizer.
        settings: its settings.
        of_file: returns the settings of `tokenizer.json`.
        fields: fields of the settings that count, and their names in `tokenizer_config.json`; "" for none.
    """
    folder, name = found.path.parent, found.chosen.name
    if found.chosen.of_file:
        unused = _unused(found.config, settings, fields)
        if unused:
            warn_user(
                f"{folder}: {'; '.join(unused)}. {TOKENIZER} is taken, as in transformers 5, whose {name} "
                "does not read these fields. Make the two files agree."
            )
    elif found.file:
        differences = _differences(found.file, settings, of_file, fields)
        if differences:
            warn_user(
                f"{folder}: {'; '.join(differences)}. It is read as in transformers 5, whose {name} makes "
                f"the tokenizer of {CONFIG} and its own defaults; the package tokenizers, and servers "
                f"that use it, take {TOKENIZER}. Make the two files agree."
            )


def _unused(config: Mapping[str, Any], settings: Any, fields: Mapping[str, str]) -> list[str]:
    """Return the flags of the config that say something else than `tokenizer.json`, which is taken."""
    found = []
    for ours, theirs in fields.items():
        held, value = getattr(settings, ours), config.get(theirs)
        if theirs and isinstance(value, bool) and isinstance(held, bool) and value != held:
            found.append(f"{theirs} is {value} in {CONFIG}, in {TOKENIZER} {held}")
    return found


def _differences(
    file: Mapping[str, Any],
    settings: Any,
    of_file: Callable[[Mapping[str, Any]], Any],
    fields: Mapping[str, str],
) -> list[str]:
    """Return the settings in which `tokenizer.json`, which is not taken, says something else."""
    try:
        other = of_file(file)
    except ConfigError as error:
        return [f"a part of {TOKENIZER} is not taken ({error})"]
    both = ((ours, getattr(settings, ours), getattr(other, ours)) for ours in fields)
    return [
        f"{fields[ours] or ours} is {_short(one)}, in {TOKENIZER} {_short(two)}"
        for ours, one, two in both
        if one != two
    ]


def _short(value: Any) -> str:
    if isinstance(value, Mapping | tuple | list):
        return f"{len(value)} tokens"
    if isinstance(value, str) and len(value) > _LONG:
        return f"{len(value):,} characters"
    return repr(value)
