"""The configurations of the models: frozen dataclasses, each validated once."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

from keras_selfattn.errors import ConfigError

# Words or characters with a vector each, and the fewest pieces: the special ones and the bytes.
_MOST_TOKENS, _LEAST_PIECES = 20_000, 260


@dataclass(frozen=True)
class EncoderConfig:
    """Fields of all models: the encoder between the front end of a task and its head.

    Args:
        width: features of a position, divisible by `num_heads`.
        num_layers: encoder blocks.
        num_heads: attention heads.
        feed_forward_dim: width of the blocks' hidden layer; None for 4 times `width`.
        dropout: rate in [0, 1), in training.

    Attributes:
        training_only: the fields that have no effect on the answers of a trained model.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.
    """

    width: int = 128
    num_layers: int = 2
    num_heads: int = 4
    feed_forward_dim: int | None = None
    dropout: float = 0.1

    training_only: ClassVar[frozenset[str]] = frozenset({"dropout"})

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

    @property
    def attended(self) -> int | None:
        """Positions to attend to on either side; None for the whole row."""
        return getattr(self, "window", None)

    @property
    def hidden_width(self) -> int:
        """Width of the hidden layer of a block."""
        return self.feed_forward_dim or 4 * self.width

    @property
    def step_span(self) -> int | None:
        """Positions of a row that a training step reads; None for all."""
        return getattr(self, "training_span", None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return dataclasses.asdict(self)

    def summary(self) -> dict[str, Any]:
        """Return the fields for people to read, as JSON types."""
        return self.to_dict()


@dataclass(frozen=True)
class TextConfig(EncoderConfig):
    """Config of a `TextClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Beside the wide path, one block with a dropout of 0.2, 0.3 before it and 0.5 before the head, was best on
    held-out rows of public data sets.

    Args:
        tokens: "words" (runs of letters and digits; single punctuation marks, and single signs of scripts
            without spaces), "characters" (Unicode code points) or "pieces" (byte pairs learned from the
            training texts by the `tokenizers` package, with the case and without normalisation of Unicode).
        lowercase: True folds case first, of pieces for the wide path alone. Set it to False if case
            distinguishes the classes.
        vocabulary_size: the most tokens with a separate vector; the rest share one. None for 20,000; of
            pieces for as many as occur `min_count` times, 8,000 at most. Pieces are at least 260: the
            special ones and the bytes.
        min_count: tokens with fewer occurrences in the training texts are unknown, so that the unknown
            token's vector is trained, too; pairs of pieces with fewer do not become one.
        max_tokens: longer texts are cut at the end, to bound the cost of a row.
        window: tokens to attend to on either side. The cost of a row grows with its length, not with its
            square.
        training_span: tokens of a longer text that a training step reads: a random span in each epoch.
            Predictions use all tokens.
        max_ngram: 1 embeds tokens alone, 2 adds each pair with the token before, 3 also each triple with both
            neighbours, so that short-range word order is known before the first attention layer. Beside the
            wide path's pairs of words, more than 1 overfits; for characters, 3 helps.
        ngram_buckets: rows of each hashed n-gram table and, for words, of the table for their beginnings,
            ends and shapes.
        word_dropout: share in [0, 1) of the words that training hides, so that no single word decides.
        embedding_dropout: dropout rate in [0, 1) of the vectors of words, before anything else.
        members: number of encoders, whose outputs are averaged; `training.train` trains each separately,
            `fit` all together. The command line trains two.
        head_dropout: dropout rate in [0, 1) of a text's vector before the head: higher than elsewhere,
            because the head memorises a few thousand rows.
        wide: True adds a linear model of words, pairs and pieces of words beside attention. It takes 4 bytes
            for each of its n-grams and classes, 32 MB at most.
        symmetric: True for two texts a row that are one thing in either order: duplicates, similarity. The
            answer is then the same for both orders. It is computed from the mean of the logits of both (of
            the numbers of a regression); a training step reads one order of a pair, at random.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> TextConfig(tokens="characters", width=96).num_heads
        4
    """

    num_layers: int = 1
    dropout: float = 0.2
    tokens: Literal["words", "characters", "pieces"] = "words"
    lowercase: bool = True
    vocabulary_size: int | None = None
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
    symmetric: bool = False

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {
        "vocabulary_size",
        "min_count",
        "training_span",
        "word_dropout",
        "embedding_dropout",
        "head_dropout",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self)
        for name in ("lowercase", "wide", "symmetric"):
            check_flag(name, getattr(self, name))
        counts = ("min_count", "max_tokens", "window", "training_span", "ngram_buckets", "members")
        for name in counts:
            check_count(name, getattr(self, name))
        if self.max_ngram not in (1, 2, 3):
            raise ConfigError(f"`max_ngram` must be 1, 2 or 3. Received {self.max_ngram!r}.")
        for name in ("word_dropout", "embedding_dropout", "head_dropout"):
            check_share(name, getattr(self, name))


@dataclass(frozen=True)
class ScoreConfig(TextConfig):
    """Config of a `TextRegressor`: the fields of `TextConfig`, and this one. Every default works.

    Args:
        bounded: True if scores are in [0, 1]: they are learned by cross-entropy instead of squared error, and
            the answers are there, too.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> ScoreConfig(bounded=True).wide
        True
    """

    bounded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("bounded", self.bounded)


@dataclass(frozen=True)
class ImageConfig(EncoderConfig):
    """Config of an `ImageClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        patch_size: side of the square patches, in pixels. None for the smallest of 2, 4, 8 and 16 that gives
            64 patches or fewer, and 16 if none does: 2 for images of 8 x 8, 4 for 28 x 28, 16 from
            128 x 128 on. Partial patches are padded with the mean pixel.
        augment: True shifts each image at random in training, by whole pixels and at most a twelfth of its
            side. Set it to False if the position in the image distinguishes the classes.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> ImageConfig(patch_size=4).width
        128
    """

    patch_size: int | None = None
    augment: bool = True

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {"augment"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patch_size is not None:
            check_count("patch_size", self.patch_size)
        check_flag("augment", self.augment)


@dataclass(frozen=True)
class AudioConfig(EncoderConfig):
    """Config of an `AudioClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        sample_rate: samples a second, in Hz, divisible by 100, to which all recordings are resampled. None
            for the lowest rate of the training recordings, 16,000 at most and 8,000 at least: what is above
            half of it is in some of them only.
        bands: mel bands of a frame.
        channels: of the first of three convolutions before attention; the others have two and three times as
            many (`ConvSubsampling`).
        window: positions of 40 ms to attend to on either side. The cost of a recording grows with its length,
            not with its square.
        training_span: frames of 10 ms that a training step reads of a longer recording: a random span in each
            epoch. Predictions use all frames.
        augment: True changes the frames at random in training: other voices, another speed, and bands and
            frames that are left out (`SpecAugment`).
        kernels: random convolutions beside attention; 0 for attention alone. Twice as many are no more often
            right beside it, and take twice the time.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> AudioConfig(sample_rate=8000).bands
        40
    """

    width: int = 96
    dropout: float = 0.2
    sample_rate: int | None = None
    bands: int = 40
    channels: int = 32
    window: int = 64
    training_span: int = 1000
    augment: bool = True
    kernels: int = 1000

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {"training_span", "augment"}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("bands", "channels", "window", "training_span"):
            check_count(name, getattr(self, name))
        check_flag("augment", self.augment)
        if not is_count(self.kernels, 0):
            raise ConfigError(f"`kernels` must be 0 or a positive integer. Received {self.kernels!r}.")
        rate = self.sample_rate
        if rate is not None and (not is_count(rate, 1000) or rate % 100):
            raise ConfigError(
                f"`sample_rate` must be an integer of at least 1,000 Hz, divisible by 100. Received {rate!r}."
            )


@dataclass(frozen=True)
class TokenConfig(EncoderConfig):
    """Config of a `TokenClassifier`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        vocabulary_size: the most words, without regard to case, with a separate vector; the rest share one.
        min_count: words with fewer occurrences in the training rows are unknown.
        hash_buckets: rows of the table for beginnings, ends and shapes of words; at least 2.
        word_dropout: share in [0, 1) of the words that training hides, except their beginning, end and shape.
        window: tokens to attend to on either side. The cost of a row grows with its length, not with its
            square; rows are never cut.
        members: number of encoders, whose outputs are averaged; `training.train` trains each separately,
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

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {
        "vocabulary_size",
        "min_count",
        "word_dropout",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "min_count", "hash_buckets", "window", "members"):
            check_count(name, getattr(self, name))
        if self.hash_buckets < 2:
            raise ConfigError(f"`hash_buckets` must be at least 2. Received {self.hash_buckets!r}.")
        check_share("word_dropout", self.word_dropout)


@dataclass(frozen=True)
class SequenceConfig(EncoderConfig):
    """Config of a `SequenceToSequence`: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        decoder_layers: decoder blocks.
        tokens: the symbols of both sides: "pieces" (byte pairs learned from sources and answers by the
            `tokenizers` package, from which every text can be made), "characters" (Unicode code points) or
            "words" (what stands between blanks, such as phonemes).
        vocabulary_size: the most symbols with a separate vector. None for 20,000; of pieces for as many as
            occur `min_count` times, 8,000 at most. Pieces are at least 260: the special ones and the bytes.
        min_count: symbols with fewer occurrences in the training texts of both sides are unknown: answers
            never have them; pairs of pieces with fewer do not become one.
        max_tokens: longer sources are cut at the end; the end symbol counts.
        max_new_tokens: the most symbols of an answer, the end symbol included, in training and of those that
            the model gives.
        beams: candidates that decoding follows; 1 takes the most probable symbol of each step.
        length_penalty: a candidate's score is the sum of its log probabilities divided by its symbols to the
            power of this, the end symbol included, 0 to 5: 0 prefers short answers, 1 compares means.
        position: "sinusoidal" adds positions to the vectors of symbols. "rotary", "alibi", "t5" and "shaw"
            are of self-attention alone, as in the layers. Sources longer than any that was learned are
            answered better with them, with "shaw" and "t5" most.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> SequenceConfig(tokens="characters", width=64).decoder_layers
        3

    Reference: Vaswani et al. 2017, "Attention Is All You Need"; Wu et al. 2016, "Google's Neural Machine
    Translation System", section 7 (scores by length).
    """

    width: int = 256
    num_layers: int = 3
    decoder_layers: int = 3
    tokens: Literal["pieces", "characters", "words"] = "pieces"
    vocabulary_size: int | None = None
    min_count: int = 2
    max_tokens: int = 512
    max_new_tokens: int = 256
    beams: int = 1
    length_penalty: float = 1.0
    position: Literal["sinusoidal", "rotary", "alibi", "t5", "shaw"] = "sinusoidal"

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {"vocabulary_size", "min_count"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self)
        for name in ("decoder_layers", "min_count", "beams"):
            check_count(name, getattr(self, name))
        for name in ("max_tokens", "max_new_tokens"):
            if not is_count(getattr(self, name), 2):
                raise ConfigError(
                    f"`{name}` must be an integer of at least 2, a symbol and the end. Received "
                    f"{getattr(self, name)!r}."
                )
        check_penalty(self.length_penalty)
        object.__setattr__(self, "length_penalty", float(self.length_penalty))
        check_choice("position", self.position, ("sinusoidal", "rotary", "alibi", "t5", "shaw"))


# Of a higher power of a long answer's length float32 has no room, and all scores are 0.
MOST_PENALTY = 5


def check_penalty(value: Any) -> None:
    """Raise ConfigError if `length_penalty` is not a finite number from 0 to 5."""
    if not (is_number(value) and 0 <= value <= MOST_PENALTY):
        raise ConfigError(
            f"`length_penalty` must be a finite number from 0 to {MOST_PENALTY}; 1 compares means. Received "
            f"{value!r}."
        )


def check_tokens(config: Any) -> None:
    """Check `tokens` and `vocabulary_size` of a config, whose default depends on the tokens."""
    if config.tokens not in ("words", "characters", "pieces"):
        raise ConfigError(f'`tokens` must be "words", "characters" or "pieces". Received {config.tokens!r}.')
    if config.vocabulary_size is None and config.tokens != "pieces":
        # Of pieces it stays open: the texts decide it.
        object.__setattr__(config, "vocabulary_size", _MOST_TOKENS)
    if config.vocabulary_size is not None:
        check_count("vocabulary_size", config.vocabulary_size)
        if config.tokens == "pieces" and config.vocabulary_size < _LEAST_PIECES:
            raise ConfigError(
                f"`vocabulary_size` must be at least {_LEAST_PIECES} for pieces: the 256 bytes and 4 "
                f"special ones. Received {config.vocabulary_size}."
            )


def check_count(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is not a positive integer."""
    if not is_count(value):
        raise ConfigError(f"`{name}` must be a positive integer. Received {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is neither True nor False."""
    if not isinstance(value, bool):
        raise ConfigError(f"`{name}` must be True or False. Received {value!r}.")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ConfigError naming the field if `value` is none of the choices."""
    if value not in choices:
        raise ConfigError(f"`{name}` must be one of {', '.join(map(str, choices))}. Received {value!r}.")


def check_text(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is no text."""
    if not isinstance(value, str):
        raise ConfigError(f"`{name}` must be a text. Received {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Raise ConfigError naming the field if `value` is not a dropout rate."""
    if not (is_number(value) and 0 <= value < 1):
        raise ConfigError(f"`{name}` must be a number in [0, 1). Received {value!r}.")


def is_count(value: Any, least: int = 1) -> bool:
    """Return True if a value is an integer, and no flag, of at least so much."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> bool:
    """Return True if a value is a finite number, not a text."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def differing(config: EncoderConfig) -> dict[str, Any]:
    """Return the fields of a config that differ from their defaults."""
    default = type(config)().to_dict()
    return {name: value for name, value in config.to_dict().items() if value != default[name]}


def checked_config(kind: type[EncoderConfig], config: Any) -> Any:
    """Return a config of a kind: the given one, one from its dict, or the default for None."""
    if config is None:
        return kind()
    if isinstance(config, dict):
        return kind(**config)
    if not isinstance(config, kind):
        raise ConfigError(f"`config` must be a {kind.__name__} or the dict of one. Received {config!r}.")
    return config
