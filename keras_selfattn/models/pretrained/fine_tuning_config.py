"""Configurations of models that train a pretrained encoder on."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_choice, check_count, check_flag, check_share
from keras_selfattn.models.pretrained.vector_losses import SCORE_LOSSES, ScoreLoss
from keras_selfattn.models.pretrained_folders.pretrained_config import ACTIVATIONS, PretrainedConfig

HIDDEN_HEADS = (None, "tanh", "relu", "gelu", "gelu_tanh", "silu")


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
    training_only: ClassVar[frozenset[str]] = PretrainedConfig.training_only | {
        "head_dropout",
        "frozen_layers",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("head_dropout", self.head_dropout)
        _check_frozen(self.frozen_layers, self.num_layers)


@dataclass(frozen=True)
class TextEncoderConfig(PretrainedConfig):
    """Config of a `TextEncoder`: the fields of `PretrainedConfig`, and these, which count in training alone.

    A folder determines all but `dropout`, `attention_dropout`, `max_tokens` and these.

    Args:
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.
        score_loss: for pairs with scores, "order", which learns the order of the scores, whatever their
            range; or "cosine", the squared error of the cosine against the score, which is then in [-1, 1].

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> TextEncoderConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).score_loss
        'order'
    """

    frozen_layers: int = 0
    score_loss: ScoreLoss = "order"

    free: ClassVar[frozenset[str]] = frozenset(
        {"dropout", "attention_dropout", "max_tokens", "frozen_layers", "score_loss"}
    )
    subject: ClassVar[str] = "text"
    training_only: ClassVar[frozenset[str]] = PretrainedConfig.training_only | {"frozen_layers", "score_loss"}

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_frozen(self.frozen_layers, self.num_layers)
        check_choice("score_loss", self.score_loss, SCORE_LOSSES)


def _check_frozen(frozen: int, blocks: int) -> None:
    if frozen != 0:
        check_count("frozen_layers", frozen)
    if frozen > blocks:
        raise ConfigError(
            f"`frozen_layers` (--freeze) must be at most `num_layers`, {blocks}. Received {frozen}."
        )


@dataclass(frozen=True)
class MaskedPiecesConfig(PretrainedConfig):
    """Config of a `MaskedTokenModel` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout` and `training_span`.

    Args:
        training_span: the most tokens of a row, special ones included; at least 3, `positions` at most.
            Longer texts are read as several rows.
        guess_activation: of the head's hidden layer; the names are those of `activation`.
        guess_bias: False if the head's hidden layer has no bias.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> sizes = {"width": 32, "vocabulary_size": 100, "positions": 64, "max_tokens": 64}
        >>> MaskedPiecesConfig(**sizes, training_span=32).dropout
        0.1
    """

    training_span: int = 128
    guess_activation: str = "gelu"
    guess_bias: bool = True

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
        check_choice("guess_activation", self.guess_activation, ACTIVATIONS)
        check_flag("guess_bias", self.guess_bias)


@dataclass(frozen=True)
class FineTunedConfig(FineTuningConfig):
    """Config of a `TextClassifier` with a pretrained encoder: the fields of `PretrainedConfig`, and these.

    A folder determines all but `dropout`, `attention_dropout`, `max_tokens`, `pooling` and these; and
    `hidden_head`, `hidden_bias` and `hidden_norm`.

    Args:
        head_dropout: dropout rate in [0, 1) of a text's vector before the output layer.
        hidden_head: activation of a hidden layer between a text's vector and the output layer, as wide as the
            vector: "tanh", "relu", "gelu", "gelu_tanh" (its approximation) or "silu"; None for no such layer.
        hidden_bias: False if the hidden layer has no bias.
        hidden_norm: True for a normalisation after the hidden layer, with a shift if `norm_shift` says so.
        hidden_first: True for a hidden layer of each token's vector, before the pooling.
        hidden_dropout: dropout rate in [0, 1) of a text's vector before the hidden layer.
        frozen_layers: 0 trains everything; N leaves the embedding and the first N blocks as they are, which
            saves time and memory.
        training_span: tokens of a longer text that a training step reads: a random span in each epoch.
            Predictions use `max_tokens`. Ignored if `pooling` is "first", which needs the text's beginning.
        wide: True adds a linear model of words, pairs and pieces of words beside attention, as in
            `TextConfig`.
        symmetric: True for two texts a row that are one thing in either order, as in `TextConfig`.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> FineTunedConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).wide
        True
    """

    training_span: int = 128
    hidden_head: Literal["tanh", "relu", "gelu", "gelu_tanh", "silu"] | None = None
    hidden_bias: bool = True
    hidden_norm: bool = False
    hidden_first: bool = False
    hidden_dropout: float = 0.0
    wide: bool = True
    symmetric: bool = False

    free: ClassVar[frozenset[str]] = FineTuningConfig.free | {
        "hidden_dropout",
        "pooling",
        "symmetric",
        "training_span",
        "wide",
    }
    training_only: ClassVar[frozenset[str]] = FineTuningConfig.training_only | {
        "hidden_dropout",
        "training_span",
    }
    subject: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("training_span", self.training_span)
        check_share("hidden_dropout", self.hidden_dropout)
        check_choice("hidden_head", self.hidden_head, HIDDEN_HEADS)
        for name in ("hidden_bias", "hidden_norm", "hidden_first", "wide", "symmetric"):
            check_flag(name, getattr(self, name))
        for name in ("hidden_norm", "hidden_first"):
            if getattr(self, name) and self.hidden_head is None:
                raise ConfigError(f"`{name}` needs `hidden_head`. Received True and None.")

    @property
    def step_span(self) -> int | None:
        """Tokens of a text that a training step reads; None for all, where the first one is needed."""
        return None if self.pooling == "first" else self.training_span


@dataclass(frozen=True)
class FineTunedScoreConfig(FineTunedConfig):
    """Config of a `TextRegressor` with a pretrained encoder: the fields of `FineTunedConfig`, and this one.

    Args:
        bounded: True if scores are in [0, 1], as in `ScoreConfig`.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> FineTunedScoreConfig(width=32, vocabulary_size=100, positions=64, max_tokens=64).bounded
        False
    """

    bounded: bool = False

    free: ClassVar[frozenset[str]] = FineTunedConfig.free | {"bounded"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("bounded", self.bounded)


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
