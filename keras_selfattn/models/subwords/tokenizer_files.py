"""Read the parts that the files of all tokenizers have: `tokenizer.json`, and the config beside it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError

TOKENIZER, CONFIG, MODEL = "tokenizer.json", "tokenizer_config.json", "config.json"
TEMPLATES = ("TemplateProcessing", "BertProcessing", "RobertaProcessing")


# Fields of the parts of `tokenizer.json`, by their types.
_FIELDS = {
    "BertNormalizer": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
    "BertPreTokenizer": (),
    "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
    "Lowercase": (),
    "NFC": (),
    "Sequence": ("normalizers", "pretokenizers", "processors"),
    "WordPiece": ("vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"),
    "BPE": (
        *("vocab", "merges", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
        *("dropout", "fuse_unk", "byte_fallback", "ignore_merges"),
    ),
    "Unigram": ("vocab", "unk_id", "byte_fallback"),
    "Precompiled": ("precompiled_charsmap",),
    "Replace": ("pattern", "content"),
    "Strip": ("strip_left", "strip_right"),
    "WhitespaceSplit": (),
    "Metaspace": ("replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"),
    "TemplateProcessing": ("single", "pair", "special_tokens"),
    "BertProcessing": ("cls", "sep"),
    "RobertaProcessing": ("cls", "sep", "trim_offsets", "add_prefix_space"),
}


@contextmanager
def told_by_file(folder: Path, path: Path) -> Iterator[None]:
    """Raise ConfigError with the place of the files for whatever cannot be read of them.

    The files of others may have any form, so an error of Python about their content is one about the file.

    Args:
        folder: the tokenizer's.
        path: of the file that is read.
    """
    try:
        yield
    except ConfigError as error:
        if str(folder) in str(error):
            raise
        raise ConfigError(f"the tokenizer of {folder}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}, or {CONFIG} beside it, has not the usual form: {error!r}.") from error


def part_of(path: Path, found: Mapping[str, Any], name: str, *supported: str) -> dict[str, Any]:
    """Return a part of the tokenizer, which must be of a supported kind, with known fields."""
    part = found.get(name)
    kind = part.get("type") if isinstance(part, dict) else part
    if not isinstance(part, dict) or kind not in supported:
        raise ConfigError(f"{path}: `{name}` is {kind!r}; supported: {', '.join(map(repr, supported))}.")
    unknown = part.keys() - {"type", *_FIELDS[kind]}
    if unknown:
        raise ConfigError(f"{path}: `{min(unknown)}` of `{name}` is not a known field of {kind!r}.")
    return part


def kind_of(model: Mapping[str, Any]) -> Any:
    """Return the kind of a model; older files do not name theirs."""
    usual = "BPE" if "merges" in model else "WordPiece"
    return model.get("type", "Unigram" if isinstance(model.get("vocab"), list) else usual)


def model_of(path: Path, found: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the model of the tokenizer, which must be of a kind; older files do not name theirs."""
    model = found.get("model")
    if isinstance(model, dict) and "type" not in model:
        model = {**model, "type": kind_of(model)}
    return part_of(path, {"model": model}, "model", kind)


def template(path: Path, part: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of the tokens around a text, and between two.

    Args:
        path: the file.
        part: its `post_processor`, one of `TEMPLATES`.
        ids: of all tokens.
    """
    if part["type"] != "TemplateProcessing":
        around = [part["cls"], part["sep"]]
    else:
        single = part["single"]
        if [list(each) for each in single] != [["SpecialToken"], ["Sequence"], ["SpecialToken"]]:
            raise ConfigError(f"{path}: the template is {single}; supported: [CLS], a sequence, [SEP].")
        tokens = [part["special_tokens"][single[place]["SpecialToken"]["id"]] for place in (0, 2)]
        around = [(token["id"], *token["ids"]) for token in tokens]
    for token, *numbers in around:
        if numbers != [ids.get(token)]:
            raise ConfigError(
                f"{path}: `post_processor` gives {token!r} the ids {numbers}, and the vocabulary the id "
                f"{ids.get(token)}."
            )
    return {"cls": around[0][0], "sep": around[1][0], **_between(part)}


# Of processors without a written template: how often [SEP] stands between two texts, and the second's type.
_OF_PAIRS = {"BertProcessing": (1, 1), "RobertaProcessing": (2, 0)}


def _between(part: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the settings of two texts; a template that the settings cannot say is one that is not known."""
    if part["type"] in _OF_PAIRS:
        separators, second_type = _OF_PAIRS[part["type"]]
        return {"separators": separators, "second_type": second_type}
    (cls,), (sep,) = ([each["SpecialToken"]["id"]] for each in part["single"][::2])
    pair = part.get("pair") or []
    parts = [(kind, value["id"], value.get("type_id", 0)) for each in pair for kind, value in each.items()]
    separators, second_type = len(parts) - 4, parts[-1][2] if parts else 0
    read = [("SpecialToken", cls, 0), ("Sequence", "A", 0), *[("SpecialToken", sep, 0)] * separators]
    read += [("Sequence", "B", second_type), ("SpecialToken", sep, second_type)]
    if parts != read or separators < 1:
        return {"separators": None, "second_type": 0}
    return {"separators": separators, "second_type": second_type}


def special_names(tokens: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the names of the special tokens; of the mask None if the vocabulary has none.

    Args:
        tokens: a name, or an object with its "content", by our name of the token; "mask" is one of them.
        ids: of all tokens.
    """
    names = {ours: each["content"] if isinstance(each, dict) else each for ours, each in tokens.items()}
    return names if names["mask"] in ids else {**names, "mask": None}


def ids_of(path: Path, vocabulary: Any) -> dict[str, int]:
    """Return the ids of pieces, from a mapping, or from pieces with their scores in order.

    Raises:
        ConfigError: for a piece that is there twice.
    """
    if not isinstance(vocabulary, list):
        return dict(vocabulary)
    found = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    if len(found) < len(vocabulary):
        twice = next(piece for number, (piece, _) in enumerate(vocabulary) if found[piece] != number)
        raise ConfigError(f"{path}: the vocabulary has the piece {twice!r} twice.")
    return found


def first_map(file: Mapping[str, Any]) -> str:
    """Return the first map of characters of the normalizer; "" for none."""
    part = file.get("normalizer") or {}
    parts = part.get("normalizers", [part]) if isinstance(part, dict) else []
    found = [each.get("precompiled_charsmap") for each in parts if isinstance(each, dict)]
    return next((each for each in found if each), "")


def in_order(path: Path, ids: Mapping[str, int]) -> list[str]:
    """Return the pieces in the order of their ids."""
    if sorted(ids.values()) != list(range(len(ids))):
        raise ConfigError(
            f"{path}: the ids of the vocabulary, added tokens included, must be 0 to {len(ids) - 1}, "
            "each once."
        )
    return sorted(ids, key=ids.__getitem__)


def json_if_any(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is no such file."""
    return json_in(path) if path.is_file() else {}


def json_in(path: Path, number: Callable[[str], float] = float) -> dict[str, Any]:
    """Return the JSON object in a file.

    Args:
        path: of the file.
        number: returns a number with a point or an exponent.
    """
    try:
        found = json.loads(text_in(path), parse_float=number)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no JSON object.")
    return found


def text_in(path: Path) -> str:
    """Return the text in a file."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8: {error}.") from error
