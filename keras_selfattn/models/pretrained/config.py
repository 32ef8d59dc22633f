"""The configuration of a pretrained encoder of text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import EncoderConfig, check_count, check_share, is_number

POOLINGS = ("mean", "first", "max")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")


@dataclass(frozen=True)
class PretrainedConfig(EncoderConfig):
    """Config of a `TextEncoder`: the fields of `EncoderConfig`, and these. A folder determines all of them.

    Args:
        vocabulary_size: rows of the table of tokens.
        embedding_width: features of the tables, if a projection widens them to `width`; None for `width`.
        positions: rows of the table of positions: the most tokens of a text.
        token_types: rows of the table of token types, 0 for none. All tokens of a single text have type 0.
        relative_buckets: rows of a table of biases that each attention layer adds to its logits, one row for
            a bucket of distances (T5's, up to 128); even, 4 to 254, or 0 for none.
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
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12
    max_tokens: int = 512
    pooling: Literal["mean", "first", "max"] = "mean"
    normalized: bool = False
    pieces: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "positions", "max_tokens"):
            check_count(name, getattr(self, name))
        if self.embedding_width is not None:
            check_count("embedding_width", self.embedding_width)
        if self.token_types != 0:
            check_count("token_types", self.token_types)
        if self.relative_buckets != 0:
            check_count("relative_buckets", self.relative_buckets)
            if self.relative_buckets % 2 or not 4 <= self.relative_buckets <= 254:
                raise ConfigError(
                    "`relative_buckets` must be 0, or even and from 4 to 254. "
                    f"Received {self.relative_buckets}."
                )
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


@dataclass(frozen=True)
class FineTunedConfig(PretrainedConfig):
    """Config of a `TextClassifier` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout`, `max_tokens`, `pooling` and these.

    Args:
        training_span: tokens of a longer text that a training step reads: a random span in each epoch.
            Predictions use `max_tokens`. Ignored if `pooling` is "first", which needs the text's beginning.
        head_dropout: dropout rate in [0, 1) of a text's vector before the head.
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.
        wide: True adds a linear model of words, pairs and pieces of words beside attention, as in
            `TextConfig`.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> FineTunedConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).wide
        True
    """

    training_span: int = 128
    head_dropout: float = 0.1
    frozen_layers: int = 0
    wide: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("training_span", self.training_span)
        check_share("head_dropout", self.head_dropout)
        if self.frozen_layers != 0:
            check_count("frozen_layers", self.frozen_layers)
        if self.frozen_layers > self.num_layers:
            raise ConfigError(
                f"`frozen_layers` (--freeze) must be at most `num_layers`, {self.num_layers}. Received "
                f"{self.frozen_layers}."
            )
        if not isinstance(self.wide, bool):
            raise ConfigError(f"`wide` must be True or False. Received {self.wide!r}.")
