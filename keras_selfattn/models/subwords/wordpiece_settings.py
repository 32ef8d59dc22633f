"""Settings of BERT's tokenizer."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_choice, check_count, check_flag, check_text
from keras_selfattn.models.long_rows import check_around
from keras_selfattn.models.subwords.added_tokens import check_added_ids

# Around an added token while a text is normalised; so no added token may hold it.
MARK = "\u2028"


@dataclasses.dataclass(frozen=True)
class WordPieceSettings:
    """Settings of a `WordPiece`: those of BERT's uncased models by default.

    Args:
        max_tokens: longer texts are cut at the end; [CLS] and [SEP] count. At least 2.
        clean_text: True removes control characters and makes each white space a blank.
        handle_chinese_chars: True makes each Chinese character a word.
        strip_accents: True removes accents; None does as `lowercase`.
        lowercase: True folds case.
        continuing_prefix: begins each piece that is not the first of its word.
        max_input_chars_per_word: a longer word is the unknown token.
        unknown: token of a word that the pieces cannot spell.
        cls: token before each text.
        sep: token after each text.
        pad: token of padding.
        mask: token to guess; None if the vocabulary has none.
        separators: times that `sep` stands between two texts; None if that is not known.
        second_type: type of the second of two texts, and of the `sep` after it; what is before has 0.
        added_tokens: ids of tokens that are found in a text as they are, before it is normalised, such as
            "[SEP]". Where two begin at one character, the longer is taken.
        normalized_tokens: those of `added_tokens` that are found after the others, in the normalised text and
            in their normal form, so "<UNK>" is "<unk>", too.

    Raises:
        ConfigError: for a setting out of range; it names the setting, the rule and the value.

    Example:

        >>> settings = WordPieceSettings(max_tokens=128, lowercase=False)
        >>> WordPieceSettings.from_dict(settings.to_dict()) == settings
        True
    """

    kind: ClassVar[str] = "wordpiece"

    max_tokens: int
    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True
    continuing_prefix: str = "##"
    max_input_chars_per_word: int = 100
    unknown: str = "[UNK]"
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    pad: str = "[PAD]"
    mask: str | None = "[MASK]"
    separators: int | None = 1
    second_type: int = 1
    added_tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    normalized_tokens: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_input_chars_per_word"):
            check_count(name, getattr(self, name))
        check_around(self.max_tokens, "[CLS]", "[SEP]")
        if self.separators is not None:
            check_count("separators", self.separators)
        check_choice("second_type", self.second_type, (0, 1))
        for name in ("clean_text", "handle_chinese_chars", "lowercase"):
            check_flag(name, getattr(self, name))
        if self.strip_accents not in (True, False, None):
            raise ConfigError(
                f"`strip_accents` must be True, False or None. Received {self.strip_accents!r}."
            )
        for name in ("continuing_prefix", "unknown", "cls", "sep", "pad"):
            check_text(name, getattr(self, name))
        self._check_added_tokens()

    def _check_added_tokens(self) -> None:
        check_added_ids(self.added_tokens, MARK)
        for token in self.normalized_tokens:
            if token not in self.added_tokens:
                raise ConfigError(f"`normalized_tokens` must be of `added_tokens`. Received {token!r}.")

    @property
    def strips_accents(self) -> bool:
        """True if accents are removed."""
        return self.lowercase if self.strip_accents is None else self.strip_accents

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        mutable = {"added_tokens": dict(self.added_tokens), "normalized_tokens": list(self.normalized_tokens)}
        return {"kind": self.kind, **dataclasses.asdict(self), **mutable}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "WordPieceSettings":
        """Return the settings of `to_dict`."""
        # Files from before models read two texts do not say.
        fields = {"separators": None, **{name: value for name, value in found.items() if name != "kind"}}
        return cls(**{**fields, "normalized_tokens": tuple(found.get("normalized_tokens", ()))})
