"""The common part of all models with a pretrained encoder: tokenizer, embedding, encoder and pooling.

Axes: B (texts), T (tokens), D (features).
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import keras
from keras import ops

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.weights.settings import weights_to_come
from keras_selfattn.models.core.both_orders import pair_input
from keras_selfattn.models.pretrained.embedding import ACTIVATIONS, PretrainedEmbedding
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import BytePairs
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer
from keras_selfattn.models.subwords.unigram import Unigram
from keras_selfattn.models.subwords.unigram_settings import UnigramSettings
from keras_selfattn.models.subwords.wordpiece import WordPiece
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings
from keras_selfattn.models.vocabulary import PADDING_ID

Tensor = Any

POOLINGS = {
    "mean": layers.AveragePooling,
    "first": layers.FirstTokenPooling,
    "max": layers.MaxPooling,
}


def pretrained_body(
    config: PretrainedConfig,
    tokenizer: SubwordTokenizer,
    policy: Any,
    *,
    pairs: bool = False,
    symmetric: bool = False,
    drawn: bool = False,
) -> keras.Model:
    """Return the layers "embedding" and "encoder", whose weights a folder determines.

    Args:
        config: the model's settings.
        tokenizer: the model's.
        policy: the layers' dtype policy.
        pairs: True for two texts a row, whose tokens have types.
        symmetric: True for both orders of pairs (`both_orders`).
        drawn: True for random weights; False for zeros, until those of a folder or a file are set.

    Returns:
        From int32 ids `[B, T]`, 0 as padding, or of pairs ids and types `[B, T, 2]`, to masked float
        `[B, T, D]`; of both orders from `[B, T, 4]` to `[2 B, T, D]`.
    """
    given = ids = keras.Input((None,), dtype="int32", name="ids")
    if pairs:
        given, ids = pair_input(symmetric=symmetric)
    with nullcontext() if drawn else weights_to_come():
        return keras.Model(given, encoded_pieces(ids, config, tokenizer, policy), name="body")


@keras.saving.register_keras_serializable(package="keras_selfattn")
class WithoutPrompt(keras.layers.Layer):
    """Masks the first tokens of each text: the special one, and those of a prompt.

    Args:
        tokens: how many.

    Call arguments:
        inputs: float `[batch, length, features]`, with a mask.

    Returns:
        the inputs.
    """

    def __init__(self, tokens: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = tokens
        self.supports_masking = True

    def call(self, inputs: Tensor) -> Tensor:
        return inputs

    def compute_mask(self, inputs: Tensor, previous: Tensor) -> Tensor:
        counted: Any = ops.cumsum(ops.ones_like(previous, dtype="int32"), axis=1)  # [B, T], from 1 on
        return ops.logical_and(previous, counted > self.tokens)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "tokens": self.tokens}


def pooled(x: Tensor, config: PretrainedConfig, policy: Any) -> Tensor:
    """Return the vector of each text, `[B, poolings D]`, of its masked tokens `[B, T, D]`."""
    names = {"pooling": config.pooling}
    names |= {f"pooling_{place}": each for place, each in enumerate(config.further_poolings)}
    found = [POOLINGS[kind](dtype=policy, name=name)(x) for name, kind in names.items()]
    return found[0] if len(found) == 1 else keras.layers.Concatenate(dtype=policy, name="poolings")(found)


def encoded_pieces(ids: Tensor, config: PretrainedConfig, tokenizer: SubwordTokenizer, policy: Any) -> Tensor:
    """Return the outputs of the layers "embedding" and "encoder", masked `[B, T, D]`.

    `ids` are `[B, T]`, or `[B, T, 2]` with types, which families without types of tokens do not read.

    MPNet's layers share one table of biases of relative positions, and DeBERTa-v2's one of vectors. Here each
    has a copy: the outputs are the same, and the gradient of the shared table is the sum of the copies'.
    Training can make them differ.
    """
    embedding = PretrainedEmbedding(
        config.vocabulary_size,
        config.width,
        config.positions if config.position_rows else 0,
        config.token_types,
        config.embedding_width,
        config.norm_epsilon,
        config.dropout,
        config.norm_shift,
        config.padding_position,
        tokenizer.written_padding,
        config.embedding_norm,
        dtype=policy,
        name="embedding",
    )
    ids, types = (ids, None) if len(ids.shape) == 2 else (ids[..., 0], ids[..., 1])
    # With one type, all tokens have it, whatever the tokenizer writes.
    x = embedding(ids) if types is None or config.token_types < 2 else embedding(ids, types=types)
    return layers.Encoder(
        config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        ACTIVATIONS[config.activation],
        attention_dropout=config.attention_dropout,
        position=_position(config),
        scale=_scale(config),
        norm=_norm(config),
        norm_first=config.norm_first,
        norm_epsilon=config.norm_epsilon,
        gated=config.gated,
        use_bias=config.use_bias,
        num_kv_heads=config.num_kv_heads,
        block_settings=_block_settings(config),
        dtype=policy,
        name="encoder",
    )(x)


def _norm(config: PretrainedConfig) -> str:
    """Return the kind of the blocks' normalisations."""
    if config.rms_norm:
        return "rms"
    return "layer" if config.norm_shift else "layer_no_shift"


def _position(config: PretrainedConfig) -> layers.PositionStrategy | None:
    """Return the positions of blocks without a window."""
    if config.relative_buckets:
        return layers.BucketedBias(config.relative_buckets)
    if config.disentangled_buckets:
        return layers.DisentangledPositions(
            config.disentangled_buckets, config.disentangled_distance, config.norm_epsilon
        )
    return None if config.rotary_base is None else layers.RotaryPositions(config.rotary_base)


def _scale(config: PretrainedConfig) -> float | None:
    """Return the factor of the logits, which in disentangled attention have three terms."""
    if not config.disentangled_buckets:
        return None
    return 1 / math.sqrt(3 * config.width / config.num_heads)


def _block_settings(config: PretrainedConfig) -> list[dict[str, Any]] | None:
    """Return how blocks differ; None if they do not."""
    found: list[dict[str, Any]] = [{} for _ in range(config.num_layers)]
    for settings, window in zip(found, config.windows, strict=False):
        if window is not None:
            settings["window"] = window
            if config.local_rotary_base is not None:
                settings["position"] = layers.RotaryPositions(config.local_rotary_base)
    if config.norm_first and config.embedding_norm:
        found[0]["attention_norm"] = False
    return found if any(found) else None


def saved_settings(config: PretrainedConfig) -> WordPieceSettings | BytePairSettings | UnigramSettings:
    """Return the settings of the tokenizer of a saved model."""
    # Files from before there were two kinds name none.
    kind = config.pieces.get("kind", WordPieceSettings.kind)
    kinds = {each.kind: each for each in (WordPieceSettings, BytePairSettings, UnigramSettings)}
    if kind not in kinds:
        raise ConfigError(f"`kind` of `pieces` must be one of {', '.join(kinds)}. Received {kind!r}.")
    return kinds[kind].from_dict({**config.pieces, "max_tokens": config.max_tokens})


def saved_tokenizer(config: PretrainedConfig, vocabulary: Sequence[str]) -> SubwordTokenizer:
    """Return the tokenizer of a saved model."""
    settings = saved_settings(config)
    if isinstance(settings, BytePairSettings):
        found: SubwordTokenizer = BytePairs(settings, vocabulary)
    elif isinstance(settings, UnigramSettings):
        found = Unigram(settings, vocabulary)
    else:
        found = WordPiece(settings, vocabulary)
    found.prompt = config.prompt
    if found.size > config.vocabulary_size:
        raise ConfigError(
            f"`vocabulary` has {found.size} pieces. `vocabulary_size` is {config.vocabulary_size}, too few."
        )
    if (padding := found.id_of(settings.pad)) != PADDING_ID:
        raise ConfigError(
            f"{settings.pad!r}, the padding, must have the id {PADDING_ID}, because models mask that id. It "
            f"has the id {padding} in `vocabulary`: put it first."
        )
    return found
