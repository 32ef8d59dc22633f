"""Shared parts of attention, encoder blocks and encoders: the call, and the choice of what runs."""

from typing import Any

import keras

from keras_selfattn.layers.masks import Pairs, token_mask
from keras_selfattn.layers.tensorflow import runs_kernels
from keras_selfattn.layers.tensorflow.packing import PackedTokens, by_size
from keras_selfattn.layers.tokens import PaddedTokens

Tensor = Any
Tokens = PaddedTokens | PackedTokens


class TokenLayer(keras.layers.Layer):
    """A layer from `[batch, length, features]` to the same, that works on the tokens as a matrix.

    On TensorFlow it runs on the real tokens alone (packing.py), other than under XLA, where weights are to be
    returned, and where there are few tokens. Elsewhere it runs on all positions. The results are the same; in
    training, attention may drop other weights where padding stands before or among the tokens, or under a
    window.

    A subclass gives `attention_layer`, whose rules hold, and `call_tokens`.
    """

    def attention_layer(self) -> Any:
        """The attention layer that makes rules of masks."""
        raise NotImplementedError

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Any]:
        """Return outputs `[N, features]` for tokens `[N, features]`, and the attention weights or None."""
        raise NotImplementedError

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        real = token_mask(inputs, mask, valid_lens)  # [B, T]
        pairs = self.attention_layer().pairs(inputs, real, valid_lens, attention_mask)

        def outputs(tokens: Tokens) -> Any:
            found, weights = self.call_tokens(tokens.pack(inputs), tokens, pairs, training, return_weights)
            return (tokens.unpack(found), weights) if return_weights else tokens.unpack(found)

        def padded() -> Any:
            return outputs(PaddedTokens(inputs, real))

        def packed() -> Any:
            return outputs(self.attention_layer().packed(inputs, real, pairs))

        if return_weights or not self.attention_layer().can_pack() or not runs_kernels(inputs):
            return padded()
        return by_size(inputs, padded, packed, training=bool(training))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)
