"""Tokens that a folder's files add to its vocabulary, as `transformers` 5 collects them.

Five files can hold some: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and
`added_tokens.json`, and the class of the tokenizer names others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.subwords.tokenizer_class import TokenizerClass
from keras_selfattn.models.subwords.tokenizer_files import CONFIG, TOKENIZER, json_if_any

ADDED, SPECIAL_MAP = "added_tokens.json", "special_tokens_map.json"
# Fields of special tokens, in the order in which they are added.
SPECIAL_FIELDS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass
class AddedTokens:
    """Added tokens with their ids; an id is that of the vocabulary, or the next one.

    Args:
        vocabulary: ids of the pieces.
        tokens: the added tokens by their content, each as in `tokenizer.json`.
    """

    vocabulary: Mapping[str, int]
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of all pieces and added tokens."""
        return {**self.vocabulary, **{content: each["id"] for content, each in self.tokens.items()}}

    @property
    def next_id(self) -> int:
        """The id of the next token that is no piece."""
        used = [len(self.vocabulary) - 1, *(each["id"] for each in self.tokens.values())]
        return max(used) + 1

    def add(self, token: Mapping[str, Any], path: Path) -> None:
        """Add a token, or replace its flags.

        Raises:
            ConfigError: if a file, `path`, says another id than it has.
        """
        content = token["content"]
        if not content:
            return
        held = self.tokens.get(content)
        number = self.vocabulary.get(content, self.next_id) if held is None else held["id"]
        stated = token.get("id", number)
        if stated != number:
            where = "in the vocabulary" if content in self.vocabulary else "is the next one"
            raise ConfigError(
                f"{path}: the added token {content!r} has the id {stated}, but {number} {where}."
            )
        late = token.get("normalized", not token.get("special", False))
        self.tokens[content] = {**token, "normalized": late, "id": number}


@dataclass(frozen=True)
class Declared:
    """The added tokens that the files of a folder declare.

    Args:
        listed: tokens with their ids, in the order of these.
        path: the file of these, for messages.
        named: special tokens by their fields; those of the class are not among them.
        extra: further special tokens.
    """

    listed: list[dict[str, Any]]
    path: Path
    named: Mapping[str, dict[str, Any] | None]
    extra: list[dict[str, Any]]


def declared_tokens(folder: Path, config: Mapping[str, Any], file: Mapping[str, Any]) -> Declared:
    """Return what the files of a folder say of added tokens.

    With `added_tokens_decoder` in `tokenizer_config.json`, that is all; without it, the older files beside
    it and the tokens of `tokenizer.json` count.

    Args:
        folder: a model's.
        config: its `tokenizer_config.json`.
        file: its `tokenizer.json`; empty if there is none.
    """
    found = dict(config)
    if not found.get("extra_special_tokens") and "additional_special_tokens" in found:
        found["extra_special_tokens"] = found.pop("additional_special_tokens")
    if "added_tokens_decoder" in found:
        path = folder / CONFIG
        listed = {int(key): token_of(each) for key, each in found["added_tokens_decoder"].items()}
    else:
        path = folder / (TOKENIZER if file else ADDED)
        found = _with_special_map(found, json_if_any(folder / SPECIAL_MAP))
        special = {str(_content(found.get(name))) for name in SPECIAL_FIELDS}
        special |= {_content(each) for each in _extra(found)}
        listed = {
            number: token_of({"content": content, "special": content in special})
            for content, number in json_if_any(folder / ADDED).items()
        }
        listed |= {each["id"]: token_of(each) for each in file.get("added_tokens") or []}
    named = {name: each for name, each in found.items() if name.endswith("_token") and _is_token(each)}
    extra = found.get("extra_special_tokens") or []
    if isinstance(extra, Mapping):
        named, extra = {**named, **extra}, []
    named = {name: None if each is None else token_of(each, special=True) for name, each in named.items()}
    ordered = [{**listed[number], "id": number} for number in sorted(listed)]
    return Declared(ordered, path, named, [token_of(each, special=True) for each in extra])


def all_tokens(
    declared: Declared, chosen: TokenizerClass, added: AddedTokens, rows: int | None
) -> dict[str, str | None]:
    """Add the tokens that the files and the class of the tokenizer name; return the names of special ones.

    Args:
        declared: what the files say.
        chosen: the class.
        added: where to add them.
        rows: rows of the model's table of tokens; a token of the class alone beyond them is left out.
    """
    named: dict[str, dict[str, Any] | None] = {
        name: token_of(content, special=True) for name, content in chosen.tokens.items()
    }
    named |= declared.named
    special = {token["content"] for token in named.values() if token}
    for token in declared.listed:
        added.add({**token, "special": True} if token["content"] in special else token, declared.path)
    order = [*SPECIAL_FIELDS, *(name for name in named if name not in SPECIAL_FIELDS)]
    for name in order:
        token = named.get(name)
        if token is None or token["content"] in added.tokens:
            continue
        of_class = name not in declared.named and token["content"] not in added.vocabulary
        if of_class and (rows is None or added.next_id >= rows):
            continue
        if name == "mask_token" and chosen.mask_takes_blanks and "lstrip" not in token:
            token = {**token, "lstrip": True}
        added.add(token, declared.path)
    for token in declared.extra:
        if token["content"] not in added.tokens:
            added.add(token, declared.path)
    return {name: None if token is None else token["content"] for name, token in named.items()}


def token_of(found: Any, *, special: bool = False) -> dict[str, Any]:
    """Return a token as in `tokenizer.json`, from a text or an object, without an id."""
    if isinstance(found, str):
        found = {"content": found}
    token = {name: each for name, each in found.items() if name not in ("id", "__type")}
    unknown = token.keys() - {"content", *FLAGS}
    if unknown:
        raise ConfigError(
            f"the added token {token.get('content')!r} has the field {min(unknown)!r}. Known are "
            f"{', '.join(FLAGS)}."
        )
    return {**token, "special": True} if special else token


def _with_special_map(config: dict[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with the fields of `special_tokens_map.json`, which win."""
    merged = {**config, **found}
    extra = "extra_special_tokens"
    if isinstance(found.get(extra), list):
        before = list(config.get(extra) or [])
        merged[extra] = [*before, *(each for each in found[extra] if each not in before)]
    elif extra not in merged and "additional_special_tokens" in merged:
        merged[extra] = merged.pop("additional_special_tokens")
    return merged


def _extra(config: Mapping[str, Any]) -> Iterable[Any]:
    return config.get("extra_special_tokens") or []


def _is_token(value: Any) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, Mapping) and "content" in value)


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token


def check_added_ids(tokens: Mapping[str, int], mark: str) -> None:
    """Raise ConfigError for added tokens that no tokenizer can find, or without an id.

    Args:
        tokens: their ids.
        mark: the character that stands for them while a text is split.
    """
    for token, number in tokens.items():
        if not token or mark in token:
            raise ConfigError(
                f"`added_tokens` must not be empty and must not hold U+{ord(mark):04X}. Received {token!r}."
            )
        if not is_count(number, 0):
            raise ConfigError(f"`added_tokens` must have ids from 0 on. Received {number!r} for {token!r}.")


def check_white_space(tokens: Iterable[str], stripping: Iterable[str]) -> None:
    """Raise ConfigError for tokens whose occurrences depend on white space in ways not supported.

    Args:
        tokens: those that are searched at the same time.
        stripping: those of them that take the white space before or after them.
    """
    stripping = set(stripping)
    for token in tokens:
        for other in tokens:
            blank = other[0].isspace() or other[-1].isspace()
            if token in stripping and other != token and (blank or other.startswith(token)):
                raise ConfigError(
                    f"the added token {token!r} takes the white space beside it. It must not begin another "
                    f"one, and no other one may begin or end with white space. Received {other!r}."
                )
