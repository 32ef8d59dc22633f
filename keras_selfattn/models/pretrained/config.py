"""The configuration of a pretrained encoder of text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import EncoderConfig, check_count, check_share, is_number

POOLINGS = ("mean", "first", "max")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
HIDDEN_HEADS = (None, "tanh", "relu", "gelu")


@dataclass(frozen=True)
class PretrainedConfig(EncoderConfig):
    """Config of a `TextEncoder`: the fields of `EncoderConfig`, and these. A folder determines all of them.

    Args:
        vocabulary_size: rows of the table of tokens.
        embedding_width: features of the tables, if a projection widens them to `width`; None for `width`.
        positions: the most tokens of a text: rows of the table of positions, if there is one.
        token_types: rows of the table of token types, 0 for none. All tokens of a single text have type 0.
        relative_buckets: rows of a table of biases that each attention layer adds to its logits, one row for
            a bucket of distances (T5's, up to 128); even, 4 to 254, or 0 for none.
        rotary_base: base of rotary positions, above 1, which every attention layer applies instead of a table
            of positions; None for a table.
        local_rotary_base: base in the blocks with a window; None for `rotary_base`.
        windows: for each block the number of tokens that a token sees on either side, None for all; an empty
            list if all blocks see all tokens.
        gated: True if a second projection multiplies the hidden layers.
        use_bias: False if attention and feed-forward networks have no biases.
        norm_shift: False if the normalisations have a gain alone.
        norm_first: True for pre-norm blocks and a normalisation after the last of them. The first block's
            attention has none: its inputs are the normalised embedding.
        activation: of the hidden layers: "gelu", "gelu_tanh" (its approximation), "relu" or "silu".
        attention_dropout: rate in [0, 1) of attention weights, in training.
        norm_epsilon: positive number added to the variance by every normalisation.
        max_tokens: longer texts are cut at the end, special tokens included; `positions` at most.
        pooling: "mean" of a text's tokens, the "first" one, or their "max".
        normalized: True if vectors have length 1.
        pieces: fields of the tokenizer's `WordPieceSettings` or `BytePairSettings`, and their "kind";
            `max_tokens` is that of this config.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> PretrainedConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).pooling
        'mean'
    """

    vocabulary_size: int = 30_522
    embedding_width: int | None = None
    positions: int = 512
    token_types: int = 2
    relative_buckets: int = 0
    rotary_base: float | None = None
    local_rotary_base: float | None = None
    windows: Sequence[int | None] = field(default_factory=list)
    gated: bool = False
    use_bias: bool = True
    norm_shift: bool = True
    norm_first: bool = False
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12
    max_tokens: int = 512
    pooling: Literal["mean", "first", "max"] = "mean"
    normalized: bool = False
    pieces: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        found, pieces = super().summary(), dict(self.pieces)
        if pieces.get("merges"):  # tens of thousands
            pieces["merges"] = len(pieces["merges"].split("\n"))
        return {**found, "pieces": pieces}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "positions", "max_tokens"):
            check_count(name, getattr(self, name))
        if self.embedding_width is not None:
            check_count("embedding_width", self.embedding_width)
        if self.token_types != 0:
            check_count("token_types", self.token_types)
        self._check_positions()
        for name in ("gated", "use_bias", "norm_shift", "norm_first"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"`{name}` must be True or False. Received {getattr(self, name)!r}.")
        check_share("attention_dropout", self.attention_dropout)
        if not (is_number(self.norm_epsilon) and self.norm_epsilon > 0):
            raise ConfigError(f"`norm_epsilon` must be a positive number. Received {self.norm_epsilon!r}.")
        if self.max_tokens > self.positions:
            raise ConfigError(
                f"`max_tokens` must be at most `positions`, {self.positions}. Received {self.max_tokens}."
            )
        if self.activation not in ACTIVATIONS:
            raise ConfigError(
                f"`activation` must be one of {', '.join(ACTIVATIONS)}. Received {self.activation!r}."
            )
        if self.pooling not in POOLINGS:
            raise ConfigError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received {self.pooling!r}.")

    @property
    def position_rows(self) -> int:
        """Rows of the table of positions, 0 without one."""
        return self.positions if self.rotary_base is None else 0

    def _check_positions(self) -> None:
        if self.relative_buckets != 0:
            check_count("relative_buckets", self.relative_buckets)
            if self.relative_buckets % 2 or not 4 <= self.relative_buckets <= 254:
                raise ConfigError(
                    "`relative_buckets` must be 0, or even and from 4 to 254. "
                    f"Received {self.relative_buckets}."
                )
        for name in ("rotary_base", "local_rotary_base"):
            base = getattr(self, name)
            if base is not None and not (is_number(base) and base > 1):
                raise ConfigError(f"`{name}` must be a number above 1, or None. Received {base!r}.")
        if self.rotary_base is None and self.local_rotary_base is not None:
            raise ConfigError(
                f"`local_rotary_base` needs `rotary_base`. Received {self.local_rotary_base} alone."
            )
        if self.rotary_base is not None and self.relative_buckets:
            raise ConfigError("`rotary_base` and `relative_buckets` exclude each other. Received both.")
        fits = isinstance(self.windows, Sequence) and len(self.windows) in (0, self.num_layers)
        if not fits or not all(each is None or _is_window(each) for each in self.windows):
            raise ConfigError(
                "`windows` must be an empty list, or hold an integer that is not negative, or None, for each "
                f"of the {self.num_layers} blocks. Received {self.windows!r}."
            )


def _is_window(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True)
class FineTuningConfig(PretrainedConfig):
    """Fields of all models that train a pretrained encoder on: those of `PretrainedConfig`, and these.

    Args:
        head_dropout: dropout rate in [0, 1) of what the head takes.
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.

    Attributes:
        free: the fields that a folder does not determine.
        subject: the kind of the rows.
    """

    head_dropout: float = 0.1
    frozen_layers: int = 0

    free: ClassVar[frozenset[str]] = frozenset(
        {"dropout", "attention_dropout", "max_tokens", "head_dropout", "frozen_layers"}
    )
    subject: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("head_dropout", self.head_dropout)
        if self.frozen_layers != 0:
            check_count("frozen_layers", self.frozen_layers)
        if self.frozen_layers > self.num_layers:
            raise ConfigError(
                f"`frozen_layers` (--freeze) must be at most `num_layers`, {self.num_layers}. Received "
                f"{self.frozen_layers}."
            )


@dataclass(frozen=True)
class MaskedPiecesConfig(PretrainedConfig):
    """Config of a `MaskedTokenModel` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout` and `training_span`.

    Args:
        training_span: the most tokens of a row, special ones included; at least 3, `positions` at most.
            Longer texts are read as several rows.
        guess_activation: of the head's hidden layer; the names are those of `activation`.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> sizes = {"width": 32, "vocabulary_size": 100, "positions": 64, "max_tokens": 64}
        >>> MaskedPiecesConfig(**sizes, training_span=32).dropout
        0.1
    """

    training_span: int = 128
    guess_activation: str = "gelu"

    free: ClassVar[frozenset[str]] = frozenset({"dropout", "attention_dropout", "training_span"})
    subject: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("training_span", self.training_span)
        if not 3 <= self.training_span <= self.positions:
            raise ConfigError(
                f"`training_span` must be from 3 to `positions`, {self.positions}: the first token and the "
                f"last are special. Received {self.training_span}."
            )
        if self.guess_activation not in ACTIVATIONS:
            raise ConfigError(
                f"`guess_activation` must be one of {', '.join(ACTIVATIONS)}. Received "
                f"{self.guess_activation!r}."
            )


@dataclass(frozen=True)
class FineTunedConfig(FineTuningConfig):
    """Config of a `TextClassifier` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout`, `max_tokens`, `pooling` and these; and
    `hidden_head`.

    Args:
        head_dropout: dropout rate in [0, 1) of a text's vector before the output layer.
        hidden_head: activation of a hidden layer between a text's vector and the output layer, as wide as the
            vector: "tanh", "relu" or "gelu"; None for no such layer.
        hidden_dropout: dropout rate in [0, 1) of a text's vector before the hidden layer.
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.
        training_span: tokens of a longer text that a training step reads: a random span in each epoch.
            Predictions use `max_tokens`. Ignored if `pooling` is "first", which needs the text's beginning.
        wide: True adds a linear model of words, pairs and pieces of words beside attention, as in
            `TextConfig`.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> FineTunedConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).wide
        True
    """

    training_span: int = 128
    hidden_head: Literal["tanh", "relu", "gelu"] | None = None
    hidden_dropout: float = 0.0
    wide: bool = True

    free: ClassVar[frozenset[str]] = FineTuningConfig.free | {
        "hidden_dropout",
        "pooling",
        "training_span",
        "wide",
    }
    subject: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("training_span", self.training_span)
        check_share("hidden_dropout", self.hidden_dropout)
        if self.hidden_head not in HIDDEN_HEADS:
            raise ConfigError(
                f"`hidden_head` must be one of {', '.join(map(str, HIDDEN_HEADS))}. "
                f"Received {self.hidden_head!r}."
            )
        if not isinstance(self.wide, bool):
            raise ConfigError(f"`wide` must be True or False. Received {self.wide!r}.")


@dataclass(frozen=True)
class FineTunedTokenConfig(FineTuningConfig):
    """Config of a `TokenClassifier` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout`, `max_tokens` and these. `pooling` and
    `normalized` have no effect: each token keeps its vector.

    Args:
        max_tokens: pieces that are read together, special tokens included; at least 3. Longer rows are read
            in parts.
        head_dropout: dropout rate in [0, 1) of a token's vector before the head.
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> FineTunedTokenConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).head_dropout
        0.1
    """

    subject: ClassVar[str] = "token"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tokens < 3:
            raise ConfigError(
                f"`max_tokens` must be at least 3, for a piece between [CLS] and [SEP]. Received "
                f"{self.max_tokens}."
            )
