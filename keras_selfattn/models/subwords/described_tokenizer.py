"""The tokenizer that `transformers` makes of a folder's files, in the form of `tokenizer.json`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.added_tokens import AddedTokens, all_tokens, declared_tokens
from keras_selfattn.models.subwords.tokenizer_class import TokenizerClass, class_of
from keras_selfattn.models.subwords.tokenizer_files import (
    CONFIG,
    MODEL,
    TOKENIZER,
    in_order,
    json_if_any,
    json_in,
    model_of,
    told_by_file,
)
from keras_selfattn.user_warnings import warn_user

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
        model: kind of its vocabulary, "WordPiece" or "BPE".
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
        held = model_of(path, file, model)
    else:
        file, held = {}, vocabulary(folder)
        path = held.pop("path")
    with told_by_file(folder, path):
        chosen = class_of(folder, config, of_model, usual, model, has_file=bool(file))
        pieces = {**held, "vocab": dict(held["vocab"])}
        if model == "WordPiece":
            in_order(path, pieces["vocab"])
        added = AddedTokens(pieces["vocab"])
        if chosen.of_file:
            for token in file.get("added_tokens") or []:
                added.add(token, path)
        rows = of_model.get("vocab_size")
        tokens = declared_tokens(folder, config, file)
        names = all_tokens(tokens, chosen, added, rows if isinstance(rows, int) else None)
        fields = {ours: f"{theirs}_token" for ours, theirs in _NAMES.items()}
        found = {ours: names.get(field) or defaults[field] for ours, field in fields.items()}
        parts = dict(file) if chosen.of_file else _built(chosen, pieces, config, found, added.ids)
    parts |= {"added_tokens": list(added.tokens.values()), "truncation": file.get("truncation")}
    return DescribedTokenizer(path, parts, found, chosen, {} if chosen.of_file else file, config)


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
    return repr(value)
