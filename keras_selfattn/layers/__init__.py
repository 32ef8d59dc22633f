"""Keras layers for self-attention: attention, positions, encoder, decoder, pooling."""

# ruff: noqa: E402
from keras_selfattn.extras import import_keras

import_keras()  # before the layers do, with an error that says what to install

from keras_selfattn.layers.decoding.cross_attention import MultiHeadCrossAttention
from keras_selfattn.layers.decoding.decoder import Decoder
from keras_selfattn.layers.decoding.decoder_block import DecoderBlock
from keras_selfattn.layers.encoder import Encoder
from keras_selfattn.layers.encoder_block import EncoderBlock
from keras_selfattn.layers.learned_scores import AdditiveSelfAttention, MultiplicativeSelfAttention
from keras_selfattn.layers.linear_attention import LinearSelfAttention
from keras_selfattn.layers.peers.exchange import from_peer, to_peer
from keras_selfattn.layers.pooling import AttentionPooling, AveragePooling, FirstTokenPooling, MaxPooling
from keras_selfattn.layers.positions.disentangled import DisentangledPositions
from keras_selfattn.layers.positions.distance_bias import DistanceBias
from keras_selfattn.layers.positions.encodings import (
    LearnedPositionEncoding,
    SinusoidalPositionEncoding,
    SinusoidalPositionEncoding2D,
)
from keras_selfattn.layers.positions.relative import (
    BucketedBias,
    LinearBias,
    RelativePositions,
)
from keras_selfattn.layers.positions.rotary import RotaryPositions
from keras_selfattn.layers.positions.strategy import PositionStrategy
from keras_selfattn.layers.self_attention import MultiHeadSelfAttention
from keras_selfattn.layers.tensorflow.portable import portable
from keras_selfattn.layers.weights.quantized import quantize_parts, quantized_parts

__all__ = [
    "AdditiveSelfAttention",
    "AttentionPooling",
    "AveragePooling",
    "BucketedBias",
    "Decoder",
    "DecoderBlock",
    "DisentangledPositions",
    "DistanceBias",
    "Encoder",
    "EncoderBlock",
    "FirstTokenPooling",
    "LearnedPositionEncoding",
    "LinearBias",
    "LinearSelfAttention",
    "MaxPooling",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "MultiplicativeSelfAttention",
    "PositionStrategy",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositionEncoding",
    "SinusoidalPositionEncoding2D",
    "from_peer",
    "portable",
    "quantize_parts",
    "quantized_parts",
    "to_peer",
]
