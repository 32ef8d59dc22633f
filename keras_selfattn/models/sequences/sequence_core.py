"""The encoder and the decoder of a model of answers: from ids of both sides to logits, or step by step.

Axes: B (batch), S (symbols of a source), T (symbols of an answer), R (rows of a step), D (features), V
(vocabulary).
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn import layers
from keras_selfattn.models.config import SequenceConfig

Tensor = Any
Cache = dict[str, Any]

# The ids that no answer has: padding, the unknown symbol and the beginning.
NEVER = 3
# In place of their logits: their probability is exactly 0, and no product with it is NaN.
_IMPOSSIBLE = -1e9


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SharedEmbedding(keras.layers.Layer):
    """One vector for each symbol: of sources, of answers, and for the logits of the next symbol.

    Vectors are scaled by `sqrt(width)` where they are read, so that added positions do not dominate them.

    Args:
        vocabulary_size: number of ids V, special ones included.
        width: features D.

    Call arguments:
        inputs: int32 ids `[batch, length]`, 0 is padding, and masked; or float `[..., width]`, the features
            that are compared with each symbol's vector.

    Returns:
        float `[batch, length, width]` of ids; of features logits, float32 `[..., vocabulary_size]`, those of
        padding, of the unknown symbol and of the beginning -1e9: no answer has these.

    Example:

        >>> layer = SharedEmbedding(6, 4)
        >>> vectors = layer(np.array([[5, 4, 0]]))
        >>> tuple(layer(vectors).shape)
        (1, 3, 6)

    References: Press & Wolf 2017, "Using the Output Embedding to Improve Language Models"; Vaswani et al.
    2017, "Attention Is All You Need", section 3.4.
    """

    def __init__(self, vocabulary_size: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.width = vocabulary_size, width
        self.supports_masking = True
        # Of this deviation logits of normalised features begin with a variance of 1.
        deviation: Any = keras.initializers.RandomNormal(stddev=width**-0.5)
        self._table = keras.layers.Embedding(
            vocabulary_size, width, deviation, dtype=self.dtype_policy, name="table"
        )
        self._never = np.where(np.arange(vocabulary_size) < NEVER, _IMPOSSIBLE, 0).astype(np.float32)

    def build(self, input_shape: tuple) -> None:
        self._table.build(input_shape)

    @property
    def is_plain(self) -> bool:
        """True if the vectors are a weight as it is: of another dtype, or int8, they are made of one."""
        table = self._table
        return table.quantization_mode is None and table.variable_dtype == self.compute_dtype

    @property
    def vectors(self) -> Tensor:
        """The vectors of all ids, `[vocabulary_size, width]`, without the scale."""
        table = self._table
        found: Any = ops.cast(table.embeddings, self.compute_dtype)
        if table.quantization_mode is None:
            return found
        return found / ops.cast(ops.expand_dims(table.embeddings_scale, -1), self.compute_dtype)

    def call(self, inputs: Tensor) -> Tensor:
        if _are_ids(inputs):
            return ops.cast(self._table(inputs), self.compute_dtype) * math.sqrt(self.width)
        logits: Any = ops.cast(ops.matmul(inputs, ops.transpose(self.vectors)), "float32")  # [..., V]
        return logits + ops.convert_to_tensor(self._never, "float32")

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        # Targets say which logits are of padding, also where a step hands on no mask.
        return ops.not_equal(inputs, 0) if _are_ids(inputs) else None

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        if _are_ids(inputs):
            return keras.KerasTensor((*inputs.shape, self.width), dtype=self.compute_dtype)
        return keras.KerasTensor((*inputs.shape[:-1], self.vocabulary_size), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size, "width": self.width}


def _are_ids(inputs: Tensor) -> bool:
    return "int" in keras.backend.standardize_dtype(inputs.dtype)


class SequenceCore(keras.Model):
    """From the ids of sources and of answers to the logits of the symbol after each of the answer's.

    Args:
        config: of the model.
        size: number of ids V, special ones included.
        policy: the layers' dtype policy.

    Call arguments:
        inputs: two int32 tensors, 0 is padding: sources `[batch, length]`, and answers `[batch, length]`,
            which begin with the begin symbol.

    Returns:
        float32 `[batch, length of the answers, vocabulary]`.
    """

    def __init__(self, config: SequenceConfig, size: int, policy: Any) -> None:
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        embedding = SharedEmbedding(size, config.width, dtype=policy, name="embedding")
        positions = _positions(config, policy)
        encoder, decoder = (_stack(kind, config, policy) for kind in (layers.Encoder, layers.Decoder))
        memory = encoder(positions(embedding(source)))  # [B, S, D]
        found = decoder(positions(embedding(target)), memory)  # [B, T, D]
        super().__init__([source, target], embedding(found), name="core")

    @property
    def embedding(self) -> SharedEmbedding:
        """The vectors of symbols."""
        return self.get_layer("embedding")

    def memory(self, source: Tensor) -> Tensor:
        """Return the encoded source, `[B, S, D]`, with its mask."""
        return self.get_layer("encoder")(self._embedded(source, {}))

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """Return how an answer's symbols attend to those of the source, float32 `[B, T, S]`.

        They are the weights of the last decoder block, mean of its heads: of what is read to give the symbol
        after each of the target's.

        Args:
            source: int32 ids `[B, S]`, 0 is padding.
            target: int32 ids `[B, T]`, begin first.
        """
        decoder: Any = self.get_layer("decoder")
        found = decoder(self._embedded(target, {}), self.memory(source), return_weights=True)
        return ops.cast(ops.mean(found[-1][-1], axis=1), "float32")

    def start(self, source: Tensor, max_length: Tensor | int | None = None) -> Cache:
        """Return the cache of the decoder before the first symbol; see `layers.Decoder.start`.

        Args:
            source: int32 ids `[B, S]`, 0 is padding.
            max_length: the most symbols that steps may read, an int or an int scalar tensor; None lets the
                cache grow.
        """
        memory = self.memory(source)
        mask = ops.not_equal(source, 0)
        return self.get_layer("decoder").start(memory, memory_mask=mask, max_length=max_length)

    def step(
        self, tokens: Tensor, cache: Cache, logits: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Cache]:
        """Return the logits of the symbols after these, float32 `[R, V]`, and the cache after them.

        Args:
            tokens: int32 `[R]`, first the begin symbol; all rows are at the same position.
            cache: as `start` or `step` returned it, or with other rows of it.
            logits: function from features `[R, D]` to logits, by default `embedding`.
        """
        x = self._embedded(tokens[:, None], {"offset": cache["position"][0]})  # [R, 1, D]
        found, cache = self.get_layer("decoder").step(x, cache)
        return (logits or self.embedding)(found[:, 0]), cache

    def _embedded(self, ids: Tensor, place: dict[str, Tensor]) -> Tensor:
        layer = self.get_layer("positions")
        return layer(self.embedding(ids), **(place if isinstance(layer, _ADDED) else {}))


# Positions that are added to vectors; others are of attention.
_ADDED = layers.SinusoidalPositionEncoding


def _positions(config: SequenceConfig, policy: Any) -> keras.layers.Layer:
    """Return the layer between embedding and stacks, with their dropout."""
    if config.position == "sinusoidal":
        return _ADDED(config.dropout, dtype=policy, name="positions")
    return keras.layers.Dropout(config.dropout, dtype=policy, name="positions")


def _stack(kind: Any, config: SequenceConfig, policy: Any) -> keras.layers.Layer:
    """Return the encoder or the decoder of a config."""
    decodes = kind is layers.Decoder
    return kind(
        config.decoder_layers if decodes else config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        position=None if config.position == "sinusoidal" else config.position,
        dtype=policy,
        name="decoder" if decodes else "encoder",
    )
