"""Pre-norm Transformer encoder: one block, and a stack of them.

Axes: B (batch), T (positions), D (features).
"""

from typing import Any

import keras

from keras_selfattn.layers.checks import checked_count, checked_seed, checked_sequence
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.masks import token_mask, zero_masked
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.self_attention import MultiHeadSelfAttention

Tensor = Any

_NORM_EPSILON = 1e-5  # PyTorch's and BERT-like models'; Keras' 1e-3 is for batch normalisation


@keras.saving.register_keras_serializable(package="keras_selfattn")
class EncoderBlock(keras.layers.Layer):
    """Self-attention, then a feed-forward network, each on normalised input and added back to it.

    Pre-norm: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`. It trains without warmup where
    post-norm does not (reference below, section 4). Outputs at masked positions are exactly zero.

    Args:
        num_heads: number of attention heads.
        feed_forward_dim: width of the hidden layer; by default 4 times the features, as in the paper's base
            model.
        dropout: share in [0, 1] dropped in training of attention weights and of both sublayers' outputs.
        activation: name or function for the hidden layer; "gelu" as in BERT.
        causal: if True, a position attends to itself and what stands before it.
        seed: int for initial weights and dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask, valid_lens, attention_mask, training: as for `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Example:

        >>> import numpy as np
        >>> EncoderBlock(num_heads=2)(np.ones((3, 5, 8), "float32")).shape
        TensorShape([3, 5, 8])

    Reference: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", figure 1(b).
    """

    def __init__(
        self,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        *,
        causal: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.feed_forward_dim = (
            None if feed_forward_dim is None else checked_count("feed_forward_dim", feed_forward_dim)
        )
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.causal = causal
        self.seed = checked_seed(seed)
        self.supports_masking = True
        seeds = split_seed(seed, 5)
        self._seeds = seeds
        self._attention = MultiHeadSelfAttention(
            num_heads,
            causal=causal,
            dropout=dropout,
            seed=seeds[0],
            dtype=self.dtype_policy,
            name="attention",
        )
        self._attention_norm = self._norm("attention_norm")
        self._feed_forward_norm = self._norm("feed_forward_norm")
        self._attention_dropout = Dropout(
            dropout, seeds[1], dtype=self.dtype_policy, name="attention_dropout"
        )
        self._feed_forward_dropout = Dropout(
            dropout, seeds[2], dtype=self.dtype_policy, name="feed_forward_dropout"
        )

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        hidden = self.feed_forward_dim or 4 * features
        self._hidden = self._dense(hidden, self._seeds[3], "hidden", activation=self.activation)
        self._output = self._dense(features, self._seeds[4], "output")
        for layer in (self._attention_norm, self._attention, self._feed_forward_norm, self._hidden):
            layer.build(input_shape)
        self._output.build((*input_shape[:-1], hidden))

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        real = token_mask(inputs, mask, valid_lens)  # [B, T]
        # Before the normalisation: its gradient would carry a NaN out of the padding.
        inputs = zero_masked(inputs, real)
        attended = self._attention(
            self._attention_norm(inputs),
            mask=mask,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            training=training,
        )  # [B, T, D]
        # `+`, not ops.add: that one becomes BiasAdd where squeezed shapes suggest it, and fails at length 0.
        x = inputs + self._attention_dropout(attended, training=training)
        transformed = self._output(self._hidden(self._feed_forward_norm(x)))  # [B, T, D]
        x = x + self._feed_forward_dropout(transformed, training=training)
        return zero_masked(x, real)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = ("num_heads", "feed_forward_dim", "dropout", "causal", "seed")
        config = {name: getattr(self, name) for name in names}
        config["activation"] = keras.activations.serialize(self.activation)
        return {**super().get_config(), **config}

    def _norm(self, name: str) -> keras.layers.Layer:
        return keras.layers.LayerNormalization(epsilon=_NORM_EPSILON, dtype=self.dtype_policy, name=name)

    def _dense(self, units: int, seed: int | None, name: str, activation: Any = None) -> keras.layers.Layer:
        initializer: Any = keras.initializers.GlorotUniform(seed)
        return keras.layers.Dense(
            units, activation, kernel_initializer=initializer, dtype=self.dtype_policy, name=name
        )


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Encoder(keras.layers.Layer):
    """A stack of `EncoderBlock`s with a last normalisation. Keeps the mask; masked outputs are zero.

    Args:
        num_layers: number of blocks.
        num_heads, feed_forward_dim, dropout, activation, causal, seed: as for `EncoderBlock`.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask, valid_lens, attention_mask, training: as for `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Example:

        >>> import numpy as np
        >>> Encoder(num_layers=2, num_heads=2)(np.ones((3, 5, 8), "float32")).shape
        TensorShape([3, 5, 8])

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        *,
        causal: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_layers = checked_count("num_layers", num_layers)
        self.num_heads = num_heads
        self.feed_forward_dim = feed_forward_dim
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.causal = causal
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._blocks = [
            EncoderBlock(
                num_heads,
                feed_forward_dim,
                dropout,
                activation,
                causal=causal,
                seed=block_seed,
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index, block_seed in enumerate(split_seed(seed, num_layers))
        ]
        self._norm = keras.layers.LayerNormalization(
            epsilon=_NORM_EPSILON, dtype=self.dtype_policy, name="norm"
        )

    def build(self, input_shape: tuple) -> None:
        for block in self._blocks:
            block.build(input_shape)
        self._norm.build(input_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        x = inputs
        for block in self._blocks:
            x = block(
                x, mask=mask, valid_lens=valid_lens, attention_mask=attention_mask, training=training
            )  # [B, T, D]
        return zero_masked(self._norm(x), token_mask(inputs, mask, valid_lens))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = ("num_layers", "num_heads", "feed_forward_dim", "dropout", "causal", "seed")
        config = {name: getattr(self, name) for name in names}
        config["activation"] = keras.activations.serialize(self.activation)
        return {**super().get_config(), **config}
