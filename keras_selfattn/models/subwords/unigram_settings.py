"""Settings of a tokenizer with a unigram language model."""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_choice, check_count, check_flag, check_text
from keras_selfattn.models.long_rows import check_around
from keras_selfattn.models.subwords.added_tokens import check_added_ids, check_white_space
from keras_selfattn.models.subwords.byte_pair_settings import MARK

# What normalises a text, each by its name: see `UnigramSettings`.
MAP, BLANKS, BLANKS_TO_WORD, WHITE = "map", "blanks", "blanks to ▁", "white"
COMPOSED, STRIP, STRIP_RIGHT = "NFC", "strip", "strip right"
STEPS = (MAP, BLANKS, BLANKS_TO_WORD, WHITE, COMPOSED, STRIP, STRIP_RIGHT)
ALWAYS, AT_FIRST, NEVER = "always", "first", "never"
_TUPLES = ("normalized_tokens", "lstrip_tokens", "rstrip_tokens")


@dataclasses.dataclass(frozen=True)
class UnigramSettings:
    """Settings of a `Unigram`: those of XLM-RoBERTa by default.

    Args:
        max_tokens: longer texts are cut at the end; the tokens around a text count. At least 2.
        scores: the logarithm of each piece's probability, in the order of the ids.
        steps: what normalises a text, in this order: "map" replaces characters by `characters`; "blanks"
            makes several blanks one, "blanks to ▁" one "▁"; "white" makes each line's end, tab and run of
            white space a blank; "NFC" is Unicode's form C; "strip" and "strip right" remove white space at
            both ends, or the right one.
        characters: SentencePiece's compiled map of characters, in base64; "" for none.
        splits_white: True removes all white space between words; otherwise only blanks are between words.
        prepends: words that get a blank before them: "always" for each word of a text, and what follows an
            added token, "first" for what the text begins with, "never" for none.
        unknown: piece that stands for characters that no piece has.
        byte_fallback: True if the bytes of such a character, pieces from "<0x00>" to "<0xFF>", stand for it.
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

        >>> settings = UnigramSettings(max_tokens=128, scores=(0.0, -1.5), steps=("blanks",))
        >>> UnigramSettings.from_dict(settings.to_dict()) == settings
        True
    """

    kind: ClassVar[str] = "unigram"

    max_tokens: int
    scores: tuple[float, ...] = ()
    steps: tuple[str, ...] = ()
    characters: str = ""
    splits_white: bool = True
    prepends: str = "always"
    unknown: str = "<unk>"
    byte_fallback: bool = False
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
        check_flag("splits_white", self.splits_white)
        check_flag("byte_fallback", self.byte_fallback)
        check_choice("prepends", self.prepends, (ALWAYS, AT_FIRST, NEVER))
        for name in ("unknown", "cls", "sep", "pad"):
            check_text(name, getattr(self, name))
        for step in self.steps:
            check_choice("steps", step, STEPS)
        scores = np.array(self.scores, np.float64)
        if not np.all(np.isfinite(scores) & (scores <= 0)):
            raise ConfigError("`scores` must be logarithms of probabilities, finite numbers of 0 at most.")
        check_added_ids(self.added_tokens, MARK)
        if self.byte_fallback and self.unknown not in self.added_tokens:
            raise ConfigError(
                f"With `byte_fallback` the unknown piece must be an added token. Received {self.unknown!r}."
            )
        for name in _TUPLES:
            for token in getattr(self, name):
                if token not in self.added_tokens:
                    raise ConfigError(f"`{name}` must be of `added_tokens`. Received {token!r}.")
        late = set(self.normalized_tokens)
        for found in (late, self.added_tokens.keys() - late):
            check_white_space(found, found & {*self.lstrip_tokens, *self.rstrip_tokens})
        if (MAP in self.steps) != bool(self.characters):
            raise ConfigError("the step 'map' and `characters` need each other: give both or neither.")

    @property
    def lowercase(self) -> bool:
        """False: case is kept, unless the map of characters folds it."""
        return False

    @property
    def compiled(self) -> bytes:
        """The bytes of `characters`."""
        try:
            return base64.b64decode(self.characters, validate=True)
        except ValueError as error:
            raise ConfigError(
                f"the map of characters (precompiled_charsmap) is no base64: {error}."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        found: dict[str, Any] = {name: list(getattr(self, name)) for name in (*_TUPLES, "steps")}
        # One text, because hundreds of thousands of lines would fill a file for people.
        found |= {"added_tokens": dict(self.added_tokens), "scores": " ".join(map(repr, self.scores))}
        return {"kind": self.kind, **dataclasses.asdict(self), **found}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "UnigramSettings":
        """Return the settings of `to_dict`."""
        fields = {name: value for name, value in found.items() if name != "kind"}
        tuples: dict[str, Any] = {name: tuple(found.get(name, ())) for name in (*_TUPLES, "steps")}
        scores = tuple(map(float, found.get("scores", "").split()))
        return cls(**{**fields, **tuples, "scores": scores})
