"""Keras layers for self-attention: attention, positions, encoder, pooling."""

from keras_selfattn.layers.encoder import Encoder, EncoderBlock
from keras_selfattn.layers.pooling import AveragePooling
from keras_selfattn.layers.positions import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_selfattn.layers.self_attention import MultiHeadSelfAttention

__all__ = [
    "AveragePooling",
    "Encoder",
    "EncoderBlock",
    "LearnedPositionEncoding",
    "MultiHeadSelfAttention",
    "SinusoidalPositionEncoding",
]
