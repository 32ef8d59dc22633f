"""Settings of a byte-level byte-pair tokenizer."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_choice, check_count, check_flag, check_text
from keras_selfattn.models.long_rows import check_around
from keras_selfattn.models.subwords.added_tokens import check_added_ids, check_white_space

GPT_2, LLAMA_3 = "gpt-2", "llama-3"
# Around an added token in a text. It is no character: Unicode reserves it for use inside a program.
MARK = "\U0010ffff"
_FLAGS = ("added_tokens", "normalized_tokens", "lstrip_tokens", "rstrip_tokens")


@dataclasses.dataclass(frozen=True)
class BytePairSettings:
    """Settings of a `BytePairs`: those of RoBERTa by default.

    Args:
        max_tokens: longer texts are cut at the end; the tokens around a text count. At least 2.
        merges: pairs of pieces to merge, the first ones first; each is two pieces with a blank between.
        add_prefix_space: True puts a blank before a text, and after each added token, unless one is there.
        composed: True normalises texts to Unicode's form C.
        words: rule by which a text is split into words: "gpt-2", or "llama-3", in which ends of lines are
            of the signs before them, a sign or white space before letters is of their word, and numbers are
            words of three digits at most.
        whole_words: True takes a word that is in the vocabulary as it is, whatever the merges make of it.
        unknown: token that stands for a blank word among others; None if the vocabulary has none. It lacks
            nothing else: each byte is a piece.
        cls: token before each text.
        sep: token after each text.
        pad: token of padding.
        mask: token to guess; None if the vocabulary has none.
        separators: times that `sep` stands between two texts; None if that is not known.
        second_type: type of the second of two texts, and of the `sep` after it; what is before has 0.
        added_tokens: ids of tokens that are found in a text as they are, such as "<mask>". Where two begin at
            one character, the longer is taken.
        normalized_tokens: those of `added_tokens` that are found after the others, in the normalised text.
        lstrip_tokens: those of `added_tokens` that take the white space before them.
        rstrip_tokens: those of `added_tokens` that take the white space after them.

    Raises:
        ConfigError: for a setting out of range; it names the setting, the rule and the value.

    Example:

        >>> settings = BytePairSettings(max_tokens=128, merges=("t h", "th e"))
        >>> BytePairSettings.from_dict(settings.to_dict()) == settings
        True
    """

    kind: ClassVar[str] = "byte pairs"

    max_tokens: int
    merges: tuple[str, ...] = ()
    add_prefix_space: bool = False
    composed: bool = False
    words: str = GPT_2
    whole_words: bool = False
    unknown: str | None = "<unk>"
    cls: str = "<s>"
    sep: str = "</s>"
    pad: str = "<pad>"
    mask: str | None = "<mask>"
    separators: int | None = 2
    second_type: int = 0
    added_tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    normalized_tokens: tuple[str, ...] = ()
    lstrip_tokens: tuple[str, ...] = ()
    rstrip_tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_count("max_tokens", self.max_tokens)
        check_around(self.max_tokens, self.cls, self.sep)
        if self.separators is not None:
            check_count("separators", self.separators)
        check_choice("second_type", self.second_type, (0, 1))
        check_choice("words", self.words, (GPT_2, LLAMA_3))
        for name in ("add_prefix_space", "composed", "whole_words"):
            check_flag(name, getattr(self, name))
        for name in ("cls", "sep", "pad"):
            check_text(name, getattr(self, name))
        if self.unknown is not None:
            check_text("unknown", self.unknown)
        self._check_merges()
        self._check_added_tokens()

    def _check_merges(self) -> None:
        for number, merge in enumerate(self.merges):
            if not (isinstance(merge, str) and len(merge.split(" ")) == 2 and all(merge.split(" "))):
                raise ConfigError(
                    "`merges` must be two pieces each, with a blank between. "
                    f"Received {merge!r} as number {number}."
                )

    def _check_added_tokens(self) -> None:
        check_added_ids(self.added_tokens, MARK)
        for name in _FLAGS[1:]:
            for token in getattr(self, name):
                if token not in self.added_tokens:
                    raise ConfigError(f"`{name}` must be of `added_tokens`. Received {token!r}.")
        self._check_order()
        late = set(self.normalized_tokens)
        for found in (late, self.added_tokens.keys() - late):
            check_white_space(found, found & {*self.lstrip_tokens, *self.rstrip_tokens})

    def _check_order(self) -> None:
        """Raise ConfigError for tokens whose occurrences depend on each other in ways not supported."""
        for token in self.added_tokens:
            for other in self.added_tokens:
                if other != token:
                    self._check_two(token, other)

    def _check_two(self, token: str, other: str) -> None:
        late = [each in self.normalized_tokens for each in (token, other)]
        if late == [False, True] and other in token:
            raise ConfigError(
                "`normalized_tokens` must not be part of other tokens. "
                f"Received {other!r}, part of {token!r}."
            )

    @property
    def lowercase(self) -> bool:
        """False: case is kept."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        found: dict[str, Any] = {name: list(getattr(self, name)) for name in _FLAGS[1:]}
        # One text, because tens of thousands of lines would fill a file for people.
        found |= {"added_tokens": dict(self.added_tokens), "merges": "\n".join(self.merges)}
        return {"kind": self.kind, **dataclasses.asdict(self), **found}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "BytePairSettings":
        """Return the settings of `to_dict`."""
        tuples: dict[str, Any] = {name: tuple(found.get(name, ())) for name in _FLAGS[1:]}
        merges = found.get("merges", "")
        # Files from before models read two texts do not say.
        fields = {"separators": None, **{name: value for name, value in found.items() if name != "kind"}}
        return cls(**{**fields, **tuples, "merges": tuple(merges.split("\n")) if merges else ()})
