"""The configurations of the models: frozen dataclasses, each validated once."""

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from keras_selfattn.errors import ConfigError


@dataclass(frozen=True)
class EncoderConfig:
    """Fields of all models: the encoder between the front end of a task and its head.

    Args:
        width: features of a position. Divisible by `num_heads`.
        num_layers: encoder blocks.
        num_heads: attention heads.
        feed_forward_dim: width of the blocks' hidden layer; None for 4 times `width`.
        dropout: share in [0, 1) dropped in training.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.
    """

    width: int = 128
    num_layers: int = 2
    num_heads: int = 4
    feed_forward_dim: int | None = None
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "num_layers", "num_heads"):
            check_count(name, getattr(self, name))
        if self.feed_forward_dim is not None:
            check_count("feed_forward_dim", self.feed_forward_dim)
        if self.width % self.num_heads:
            raise ConfigError(
                f"`width` must be divisible by `num_heads`. Received width={self.width}, "
                f"num_heads={self.num_heads}."
            )
        check_share("dropout", self.dropout)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class TextConfig(EncoderConfig):
    """Config of a `TextClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Beside the wide path, one block with a dropout of 0.2, 0.3 before it and 0.5 before the head, answered
    best on held-out rows of public sets.

    Args:
        tokens: "words" (runs of letters and digits; punctuation, and each sign of scripts written without
            spaces, by itself) or "characters" (Unicode code points).
        lowercase: whether to fold case first. True for words; set it to False where case tells classes apart.
        vocabulary_size: most tokens that get a vector of their own; the rest share one.
        min_count: occurrences in the training texts below which a token counts as unknown, so that the
            unknown token's vector is trained too.
        max_tokens: a longer text is cut at its end: a bound of what one row can cost.
        window: how many tokens to either side a token attends to; a text of no more is attended to whole. The
            cost of a row grows with its length, not with its square.
        training_span: tokens of a longer text that a step of training reads: a run of so many, drawn anew in
            each epoch. Answers are from all tokens.
        max_ngram: 1 embeds tokens alone, 2 adds each pair with the token before, 3 also each triple with both
            neighbours. Word order at short range is then known before the first attention layer. Where the
            wide path knows pairs of words, more than 1 overfits; of characters, 3 helps.
        ngram_buckets: rows of each hashed n-gram table and, where tokens are words, of the table for their
            beginnings, ends and shapes.
        word_dropout: share in [0, 1) of the words that training hides, so that no single one decides.
        embedding_dropout: share in [0, 1) that training drops of the vectors of words, before anything else.
        members: encoders side by side whose answers are averaged; `training.train` trains each on its own,
            `fit` all together. The command line trains two.
        head_dropout: share in [0, 1) that training drops of a text's vector before the head: more than
            elsewhere, since of a few thousand rows the head learns by heart.
        wide: whether a linear model of words, pairs and pieces of words is learned beside attention, and
            answers with it. It takes 4 bytes for each of its n-grams and classes, 32 MB at most.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> TextConfig(tokens="characters", width=96).num_heads
        4
    """

    num_layers: int = 1
    dropout: float = 0.2
    tokens: Literal["words", "characters"] = "words"
    lowercase: bool = True
    vocabulary_size: int = 20_000
    min_count: int = 2
    max_tokens: int = 100_000
    window: int = 128
    training_span: int = 128
    max_ngram: int = 1
    ngram_buckets: int = 16_384
    word_dropout: float = 0.1
    members: int = 1
    embedding_dropout: float = 0.3
    head_dropout: float = 0.5
    wide: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens not in ("words", "characters"):
            raise ConfigError(f'`tokens` must be "words" or "characters". Received {self.tokens!r}.')
        if not isinstance(self.lowercase, bool):
            raise ConfigError(f"`lowercase` must be True or False. Received {self.lowercase!r}.")
        if not isinstance(self.wide, bool):
            raise ConfigError(f"`wide` must be True or False. Received {self.wide!r}.")
        counts = ("vocabulary_size", "min_count", "max_tokens", "window", "training_span", "ngram_buckets")
        for name in (*counts, "members"):
            check_count(name, getattr(self, name))
        if self.max_ngram not in (1, 2, 3):
            raise ConfigError(f"`max_ngram` must be 1, 2 or 3. Received {self.max_ngram!r}.")
        for name in ("word_dropout", "embedding_dropout", "head_dropout"):
            check_share(name, getattr(self, name))


@dataclass(frozen=True)
class ImageConfig(EncoderConfig):
    """Config of an `ImageClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        patch_size: side of the square patches, in pixels. None for the smallest of 2, 4, 8 and 16 that leaves
            64 patches or fewer, and 16 where none does: 2 for images of 8 x 8, 4 for 28 x 28, 16 from
            128 x 128 on. What does not fill a patch is padded with the mean pixel.
        augment: whether each image is shifted at random in training, by whole pixels and at most a twelfth of
            its side. Set it to False where the place in the image tells classes apart.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> ImageConfig(patch_size=4).width
        128
    """

    patch_size: int | None = None
    augment: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patch_size is not None:
            check_count("patch_size", self.patch_size)
        if not isinstance(self.augment, bool):
            raise ConfigError(f"`augment` must be True or False. Received {self.augment!r}.")


@dataclass(frozen=True)
class TokenConfig(EncoderConfig):
    """Config of a `TokenClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        vocabulary_size: most words, whatever their case, that get a vector of their own; the rest share one.
        min_count: occurrences in the training rows below which a word counts as unknown.
        hash_buckets: rows of the table for beginnings, ends and shapes of words; at least 2.
        word_dropout: share in [0, 1) of the words that training hides, but for beginning, end and shape.
        window: how many tokens to either side a token attends to. The cost of a row grows with its length,
            not with its square; rows of any length are taken whole.
        members: encoders side by side whose answers are averaged; `training.train` trains each on its own,
            `fit` all together. The command line trains two.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> TokenConfig(width=96).window
        128
    """

    vocabulary_size: int = 20_000
    min_count: int = 2
    hash_buckets: int = 16_384
    word_dropout: float = 0.1
    window: int = 128
    members: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "min_count", "hash_buckets", "window", "members"):
            check_count(name, getattr(self, name))
        if self.hash_buckets < 2:
            raise ConfigError(f"`hash_buckets` must be at least 2. Received {self.hash_buckets!r}.")
        check_share("word_dropout", self.word_dropout)


def check_count(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is no positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"`{name}` must be a positive integer. Received {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is no share of what training drops."""
    if not (is_number(value) and 0 <= value < 1):
        raise ConfigError(f"`{name}` must be a number in [0, 1). Received {value!r}.")


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, not a text of one."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def differing(config: EncoderConfig) -> dict[str, Any]:
    """Return the fields of a config that are not its defaults."""
    default = type(config)().to_dict()
    return {name: value for name, value in config.to_dict().items() if value != default[name]}


def checked_config(kind: type[EncoderConfig], config: Any) -> Any:
    """Return a config of that kind: the one given, one of its dict, or the default for None."""
    if config is None:
        return kind()
    if isinstance(config, dict):
        return kind(**config)
    if not isinstance(config, kind):
        raise ConfigError(f"`config` must be a {kind.__name__} or the dict of one. Received {config!r}.")
    return config
