"""Read a unigram tokenizer from a model folder: `tokenizer.json`, or a model of SentencePiece."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords import unigram_settings as steps
from keras_selfattn.models.subwords.byte_pair_files import added_settings
from keras_selfattn.models.subwords.described_tokenizer import described, warn_of_difference
from keras_selfattn.models.subwords.sentencepiece_file import read_model
from keras_selfattn.models.subwords.tokenizer_class import FILE, XLM_ROBERTA, TokenizerClass
from keras_selfattn.models.subwords.tokenizer_files import (
    TEMPLATES,
    TOKENIZER,
    ids_of,
    in_order,
    json_in,
    model_of,
    part_of,
    special_names,
    template,
    told_by_file,
)
from keras_selfattn.models.subwords.unigram_settings import UnigramSettings

MODELS = ("sentencepiece.bpe.model", "spm.model")

# Regular expressions that files replace by one blank or "▁", and the steps that do so.
_REPLACED = {
    (" {2,}", " "): steps.BLANKS,
    (" {2,}", "▁"): steps.BLANKS_TO_WORD,
    (r"\s{2,}|[\n\r\t]", " "): steps.WHITE,
}
_OTHER = "Give the folder of a model with a tokenizer like that of XLM-RoBERTa, WordPiece or byte pairs."
_COMPARED = {
    "characters": "",
    "splits_white": "",
    "byte_fallback": "",
    "prepends": "add_prefix_space",
    "lowercase": "do_lower_case",
    "cls": "cls_token",
    "sep": "sep_token",
    "added_tokens": "",
    "normalized_tokens": "",
    "lstrip_tokens": "",
    "rstrip_tokens": "",
}


def read_unigram(
    folder: Path, max_tokens: int, usual: TokenizerClass = FILE
) -> tuple[UnigramSettings, list[str]]:
    """Return the settings of the tokenizer in a folder, and its vocabulary in the order of the ids.

    `tokenizer.json` is read if there is one (the format of the `tokenizers` package), otherwise a model of
    SentencePiece, whose ids XLM-RoBERTa's class moves. As in transformers, that class makes the
    pre-tokenizer and takes special tokens from `tokenizer_config.json` and its own defaults, and others take
    `tokenizer.json` as it is. Scores are exact, but for classes that leave the file to `tokenizers`, as it
    reads them.

    Args:
        folder: a model's.
        max_tokens: longer texts are cut at the end; the tokens around a text count.
        usual: the class of the model's family, which opens the tokenizer where the folder names none.

    Raises:
        ConfigError: for a missing or broken file, and for a tokenizer of another kind; it names the file,
            what was found and what is supported.
    """
    found = described(folder, "Unigram", _vocabulary, XLM_ROBERTA.tokens, usual)
    with told_by_file(folder, found.path):
        parts = found.parts
        if found.chosen.of_tokenizers:
            parts = {**parts, "model": json_in(found.path, number_of_tokenizers)["model"]}
        settings, vocabulary = _read(found.path, parts, found.names, max_tokens)
        warn_of_difference(
            found, settings, lambda file: _read(found.path, file, found.names, max_tokens)[0], _COMPARED
        )
    return settings, vocabulary


def number_of_tokenizers(text: str) -> float:
    """Return a number of JSON as the package `tokenizers` reads it; its last bit can differ from Python's.

    Example:

        >>> number_of_tokenizers("-9.500349149344583")
        -9.500349149344585

    Reference: serde_json, "Cargo features", `float_roundtrip`, which `tokenizers` leaves off; `de.rs`, its
    functions `parse_decimal` and `f64_from_parts`.
    """
    mantissa, _, exponent = text.lower().removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    # Without that feature, all digits that an unsigned integer of 64 bits holds become a float64, which a
    # power of ten multiplies or divides. Of equal sums of scores the first wins, so the last bit can decide.
    digits = whole + fraction
    while int(digits) >= 2**64:
        digits = digits[:-1]
    found, places = float(int(digits)), int(exponent or 0) + len(whole) - len(digits)
    while found and places < -308:  # there is no power of ten beyond
        found, places = found / 1e308, places + 308
    if found:
        found = found * float(f"1e{places}") if places > 0 else found / float(f"1e{-places}")
    return -found if text.startswith("-") else found


def _read(
    path: Path, found: Mapping[str, Any], special: Mapping[str, Any], max_tokens: int
) -> tuple[UnigramSettings, list[str]]:
    """Return the settings and the vocabulary of a tokenizer in the form of `tokenizer.json`."""
    model = model_of(path, found, "Unigram")
    if model.get("byte_fallback") and path.name != TOKENIZER:
        # transformers 4, as which it is read, drops it; SentencePiece does not.
        raise ConfigError(
            f"{path}: `byte_fallback` is true, bytes for unknown characters: supported in {TOKENIZER} alone. "
            f"{_OTHER}"
        )
    if (found.get("truncation") or {}).get("direction", "Right") != "Right":
        raise ConfigError(
            f"{path}: `truncation` is at the left; only the right is supported. If that is meant, set its "
            "direction to 'Right'."
        )
    pieces = ids_of(path, model["vocab"])
    listed = [token for token in found.get("added_tokens") or [] if token["content"]]
    ids = {**pieces, **{token["content"]: token["id"] for token in listed}}
    processor = part_of(path, found, "post_processor", *TEMPLATES)
    normalisation, characters = _normalisation(path, found)
    added = added_settings(path, listed)
    unknown = model.get("unk_id")
    if not isinstance(unknown, int) or not 0 <= unknown < len(pieces):
        raise ConfigError(
            f"{path}: `unk_id` of the model must be the id of a piece, 0 to {len(pieces) - 1}. Received "
            f"{unknown!r}."
        )
    settings = UnigramSettings(
        max_tokens,
        scores=tuple(float(score) for _, score in model["vocab"]),
        steps=normalisation,
        characters=characters,
        byte_fallback=model.get("byte_fallback") or False,
        **_words(path, found),
        **added,
        **special_names(special, ids)
        | template(path, processor, ids)
        | {"unknown": model["vocab"][unknown][0]},
    )
    return settings, in_order(path, ids)


def _normalisation(path: Path, found: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the steps of the normalisation, and the compiled map of characters; "" for none."""
    found_steps, characters = [], ""
    for part in _flat(path, found, "normalizer", "normalizers", ("Precompiled", "Replace", "NFC", "Strip")):
        if part["type"] == "Precompiled":
            characters = part.get("precompiled_charsmap") or ""
            if not isinstance(characters, str):
                raise ConfigError(f"{path}: `precompiled_charsmap` must be a text in base64.")
            if characters:
                found_steps.append(steps.MAP)
        elif part["type"] == "Replace":
            pattern = part["pattern"].get("Regex"), part["content"]
            if pattern not in _REPLACED:
                raise ConfigError(
                    f"{path}: the normalizer replaces {part['pattern']} by {part['content']!r}: not "
                    f"supported. {_OTHER}"
                )
            found_steps.append(_REPLACED[pattern])
        elif part["type"] == "NFC":
            found_steps.append(steps.COMPOSED)
        elif part.get("strip_right", True):
            both = part.get("strip_left", True)
            found_steps.append(steps.STRIP if both else steps.STRIP_RIGHT)
        elif part.get("strip_left", True):
            raise ConfigError(f"{path}: the normalizer strips the left end alone: not supported. {_OTHER}")
    return tuple(found_steps), characters


def _words(path: Path, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the pre-tokenizer."""
    parts = list(_flat(path, found, "pre_tokenizer", "pretokenizers", ("WhitespaceSplit", "Metaspace")))
    kinds = [part["type"] for part in parts]
    if kinds[-1:] != ["Metaspace"] or kinds[:-1] not in ([], ["WhitespaceSplit"]):
        raise ConfigError(
            f"{path}: the pre-tokenizer is {kinds}; supported: Metaspace, alone or after "
            f"WhitespaceSplit. {_OTHER}"
        )
    metaspace = parts[-1]
    if metaspace.get("replacement", "▁") != "▁" or metaspace.get("split", True) is not True:
        raise ConfigError(
            f'{path}: Metaspace must replace blanks by "▁" and split there: {metaspace}. {_OTHER}'
        )
    flag = metaspace.get("add_prefix_space")
    prepends = metaspace.get("prepend_scheme", steps.NEVER if flag is False else steps.ALWAYS)
    if flag is False and prepends != steps.NEVER:
        raise ConfigError(
            f"{path}: `add_prefix_space` of Metaspace is false, and `prepend_scheme` {prepends!r}. Leave one "
            "of them out."
        )
    return {"splits_white": kinds[0] == "WhitespaceSplit", "prepends": prepends}


def _flat(
    path: Path, found: Mapping[str, Any], name: str, inner: str, supported: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the parts of a part of the tokenizer, one after the other; none if there is none."""
    if found.get(name) is None:
        return
    part = part_of(path, found, name, *supported, "Sequence")
    if part["type"] != "Sequence":
        yield part
        return
    for each in part[inner]:
        yield from _flat(path, {name: each}, name, inner, supported)


def _vocabulary(folder: Path) -> dict[str, Any]:
    """Return the model of a folder without `tokenizer.json`."""
    for name in MODELS:
        if (folder / name).is_file():
            return read_model(folder / name)
    raise ConfigError(
        f"{folder} holds no unigram tokenizer: neither {TOKENIZER} nor a model of SentencePiece "
        f"({', '.join(MODELS)})."
    )
