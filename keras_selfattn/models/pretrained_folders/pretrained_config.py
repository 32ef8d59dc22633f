"""The configuration of a pretrained encoder of text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import (
    EncoderConfig,
    check_choice,
    check_count,
    check_flag,
    check_share,
    is_count,
    is_number,
)

POOLINGS = ("mean", "first", "max")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
_OF_DENSE = {"units", "activation", "use_bias"}
_FLAGS = ("padding_position", "gated", "use_bias", "norm_shift", "rms_norm", "norm_first", "embedding_norm")
_FLAGS += ("pools_prompt",)


@dataclass(frozen=True)
class PretrainedConfig(EncoderConfig):
    """Config of a pretrained encoder: the fields of `EncoderConfig`, and these, which a folder determines.

    Args:
        vocabulary_size: rows of the table of tokens.
        embedding_width: features of the tables, if a projection widens them to `width`; None for `width`.
        positions: the most tokens of a text: rows of the table of positions, if there is one.
        padding_position: True if that table has one more row, the first, for the padding token where a text
            itself has it, which the positions of the tokens after it then do not count.
        token_types: rows of the table of token types, 0 for none. All tokens of a single text have type 0.
        relative_buckets: rows of a table of biases that each attention layer adds to its logits, one row for
            a bucket of distances (T5's, up to 128); even, 4 to 254, or 0 for none.
        disentangled_buckets: of disentangled attention, which has distances instead of a table of positions,
            the buckets on either side, even, from 4 on; 0 for another attention.
        disentangled_distance: the least distance that has the last of them.
        rotary_base: base of rotary positions, above 1, which every attention layer applies instead of a table
            of positions; None for a table.
        local_rotary_base: base in the blocks with a window; None for `rotary_base`.
        windows: for each block the number of tokens that a token sees on either side, None for all; an empty
            list if all blocks see all tokens.
        gated: True if a second projection multiplies the hidden layers.
        use_bias: False if attention and feed-forward networks have no biases.
        norm_shift: False if the normalisations have a gain alone.
        rms_norm: True for normalisations of blocks by the root mean square, which have a gain alone.
        norm_first: True for pre-norm blocks and a normalisation after the last of them. The first block's
            attention has none if its inputs are a normalised embedding.
        embedding_norm: False if the embedding is not normalised.
        num_kv_heads: heads of keys and values, which several of queries share; None for one each.
        activation: of the hidden layers: "gelu", "gelu_tanh" (its approximation), "relu" or "silu".
        attention_dropout: rate in [0, 1) of attention weights, in training.
        norm_epsilon: positive number added to the variance by every normalisation.
        max_tokens: longer texts are cut at the end, special tokens included; `positions` at most.
        pooling: "mean" of a text's tokens, the "first" one, or their "max".
        further_poolings: others, whose vectors stand after that of `pooling`, in this order.
        dense: layers that a vector then passes, one after the other, each with its "units", its "activation"
            ("tanh", "identity" or one of those of hidden layers) and "use_bias".
        normalized: True if vectors have length 1, after these.
        truncate_dim: features of a text's vector that are kept, the first ones, after all else, so that a
            vector of length 1 becomes shorter, as in sentence-transformers; None for all.
        prompt: put before each text, whose tokens count for `max_tokens`; "" for none.
        pools_prompt: False if pooling leaves out the prompt's tokens, and the one before them.
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
    padding_position: bool = False
    token_types: int = 2
    relative_buckets: int = 0
    disentangled_buckets: int = 0
    disentangled_distance: int = 512
    rotary_base: float | None = None
    local_rotary_base: float | None = None
    windows: Sequence[int | None] = field(default_factory=list)
    gated: bool = False
    use_bias: bool = True
    norm_shift: bool = True
    rms_norm: bool = False
    norm_first: bool = False
    embedding_norm: bool = True
    num_kv_heads: int | None = None
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12
    max_tokens: int = 512
    pooling: Literal["mean", "first", "max"] = "mean"
    further_poolings: Sequence[str] = field(default_factory=list)
    dense: Sequence[Mapping[str, Any]] = field(default_factory=list)
    normalized: bool = False
    truncate_dim: int | None = None
    prompt: str = ""
    pools_prompt: bool = True
    pieces: Mapping[str, Any] = field(default_factory=dict)

    training_only: ClassVar[frozenset[str]] = EncoderConfig.training_only | {"attention_dropout"}

    def summary(self) -> dict[str, Any]:
        found, pieces = super().summary(), dict(self.pieces)
        if pieces.get("merges"):  # tens of thousands
            pieces["merges"] = len(pieces["merges"].split("\n"))
        return {**found, "pieces": pieces}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "positions", "max_tokens"):
            check_count(name, getattr(self, name))
        for name in ("embedding_width", "truncate_dim"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.token_types != 0:
            check_count("token_types", self.token_types)
        self._check_positions()
        for name in _FLAGS:
            check_flag(name, getattr(self, name))
        self._check_kv_heads()
        check_share("attention_dropout", self.attention_dropout)
        if not (is_number(self.norm_epsilon) and self.norm_epsilon > 0):
            raise ConfigError(f"`norm_epsilon` must be a positive number. Received {self.norm_epsilon!r}.")
        if self.max_tokens > self.positions:
            raise ConfigError(
                f"`max_tokens` (--max-tokens) must be at most `positions`, {self.positions}. "
                f"Received {self.max_tokens}."
            )
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("pooling", self.pooling, POOLINGS)
        for each in self.further_poolings:
            check_choice("further_poolings", each, POOLINGS)
        for layer in self.dense:
            _check_dense(layer)
        if not isinstance(self.prompt, str):
            raise ConfigError(f"`prompt` must be a text. Received {self.prompt!r}.")

    @property
    def vector_width(self) -> int:
        """Features of a text's vector before `truncate_dim`."""
        return self.dense[-1]["units"] if self.dense else self.width * (1 + len(self.further_poolings))

    @property
    def position_rows(self) -> int:
        """Rows of the table of positions, 0 without one."""
        of_distances = self.rotary_base is not None or self.disentangled_buckets
        return 0 if of_distances else self.positions + self.padding_position

    def _check_kv_heads(self) -> None:
        if self.num_kv_heads is None:
            return
        check_count("num_kv_heads", self.num_kv_heads)
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"`num_kv_heads` must divide `num_heads`, {self.num_heads}. Received {self.num_kv_heads}."
            )

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
        if self.disentangled_buckets != 0:
            self._check_disentangled()
        kinds = ("rotary_base", "relative_buckets", "disentangled_buckets")
        given = [name for name in kinds if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(f"`{given[0]}` and `{given[1]}` exclude each other. Received both.")
        fits = isinstance(self.windows, Sequence) and len(self.windows) in (0, self.num_layers)
        if not fits or not all(each is None or is_count(each, 0) for each in self.windows):
            raise ConfigError(
                "`windows` must be an empty list, or hold an integer that is not negative, or None, for each "
                f"of the {self.num_layers} blocks. Received {self.windows!r}."
            )

    def _check_disentangled(self) -> None:
        check_count("disentangled_buckets", self.disentangled_buckets)
        check_count("disentangled_distance", self.disentangled_distance)
        if self.disentangled_buckets % 2 or self.disentangled_buckets < 4:
            raise ConfigError(
                "`disentangled_buckets` must be 0, or even and 4 or more. "
                f"Received {self.disentangled_buckets}."
            )
        if self.disentangled_distance <= self.disentangled_buckets // 2 + 1:
            raise ConfigError(
                "`disentangled_distance` must be greater than half of `disentangled_buckets` and one more. "
                f"Received {self.disentangled_distance}."
            )


def _check_dense(layer: Any) -> None:
    """Raise ConfigError for what is no entry of `dense`."""
    if not isinstance(layer, Mapping) or set(layer) != _OF_DENSE:
        raise ConfigError(
            f"`dense` must hold mappings with {', '.join(sorted(_OF_DENSE))}. Received {layer!r}."
        )
    check_count("units", layer["units"])
    check_choice("activation", layer["activation"], ("identity", "tanh", *ACTIVATIONS))
    check_flag("use_bias", layer["use_bias"])
