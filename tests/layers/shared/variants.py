"""Every layer in every variant, and the models that the shared contract puts them into."""

import inspect

import keras
import numpy as np
import pytest

from keras_selfattn import layers

LENGTH, WIDTH = 7, 6


def attention(**variant):
    return lambda **s: layers.MultiHeadSelfAttention(2, **{"dropout": 0.1, "seed": 1, **variant}, **s)


def block(**variant):
    return lambda **s: layers.EncoderBlock(3, 13, **{"dropout": 0.1, "seed": 1, **variant}, **s)


MAKE = {
    "attention": attention(),
    "causal attention": attention(head_dim=7, causal=True, use_bias=False),
    "grouped attention": attention(num_kv_heads=1),
    "window": attention(window=2),
    "causal window": attention(window=(1, 0), causal=True),
    "normalised and capped": attention(qk_norm=True, logit_cap=5.0, scale=1.0),
    "rotary": attention(position=layers.RotaryPositions(base=100.0)),
    "alibi": attention(position=layers.LinearBias()),
    "t5": attention(position=layers.BucketedBias(8, 6)),
    "causal t5": attention(position=layers.BucketedBias(8, 6), causal=True),
    "shaw": attention(position=layers.RelativePositions(3)),
    "shaw in a window": attention(position=layers.RelativePositions(3), window=1),
    "disentangled": attention(position=layers.DisentangledPositions(4, 6)),
    "disentangled in a window": attention(position=layers.DisentangledPositions(4, 6), window=(1, 2)),
    "additive": lambda **s: layers.AdditiveSelfAttention(2, dropout=0.1, seed=1, **s),
    "multiplicative": lambda **s: layers.MultiplicativeSelfAttention(2, dropout=0.1, seed=1, **s),
    "linear": lambda **s: layers.LinearSelfAttention(2, seed=1, **s),
    "causal linear": lambda **s: layers.LinearSelfAttention(2, causal=True, seed=1, **s),
    "sinusoids": lambda **s: layers.SinusoidalPositionEncoding(dropout=0.1, base=50.0, seed=1, **s),
    "learned positions": lambda **s: layers.LearnedPositionEncoding(70, dropout=0.1, seed=1, **s),
    "clipped positions": lambda **s: layers.LearnedPositionEncoding(3, beyond="clip", seed=1, **s),
    "block": block(activation="relu"),
    "post-norm block": block(norm_first=False),
    "rms and gated block": block(norm="rms", gated=True, feed_forward_dropout=0.2),
    "deep block": block(stochastic_depth=0.3, attention_dropout=0.0),
    "remade block": block(remat=True, feed_forward_dropout=0.2, stochastic_depth=0.2),
    "encoder": lambda **s: layers.Encoder(2, 3, dropout=0.1, seed=1, **s),
    "rotary encoder": lambda **s: layers.Encoder(
        2, 3, position=layers.RotaryPositions(), window=2, norm_first=False, stochastic_depth=0.1, seed=1, **s
    ),
    "rms encoder": lambda **s: layers.Encoder(2, 3, norm="rms", gated=True, activation="silu", seed=1, **s),
    "encoder of differing windows": lambda **s: layers.Encoder(
        2,
        3,
        dropout=0.1,
        window=2,
        norm="layer_no_shift",
        block_settings=[
            {"attention_norm": False, "window": None, "position": layers.RotaryPositions(100.0)},
            {"window": 1, "position": layers.LinearBias(), "remat": True, "activation": "relu"},
        ],
        seed=1,
        **s,
    ),
    "causal decoder block": lambda **s: layers.DecoderBlock(
        3, 13, dropout=0.1, norm_first=False, position="shaw", remat=True, seed=1, **s
    ),
    "causal decoder": lambda **s: layers.Decoder(
        2, 3, dropout=0.1, norm="rms", block_settings=[{"window": 2, "position": "alibi"}, {}], seed=1, **s
    ),
    "average": lambda **s: layers.AveragePooling(**s),
    "max": lambda **s: layers.MaxPooling(**s),
    "first token": lambda **s: layers.FirstTokenPooling(**s),
    "attention pooling": lambda **s: layers.AttentionPooling(3, penalty=0.1, seed=1, **s),
}


def takes(layer, name):
    return name in inspect.signature(layer.call).parameters


# One of each, for questions about its kind; nobody builds or changes them.
MADE = {name: make() for name, make in MAKE.items()}
ATTENDING = [name for name, layer in MADE.items() if takes(layer, "attention_mask")]


# In quick tests, where a test takes long for each variant.
USUAL = ("attention", "block", "learned positions", "attention pooling")


def mostly_slow(names):
    """The names as parameters, of which those that are not usual are marked slow."""
    return [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in names]


every_layer = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
every_layer_mostly_slow = pytest.mark.parametrize(
    "make",
    [pytest.param(make, marks=() if name in USUAL else pytest.mark.slow) for name, make in MAKE.items()],
    ids=MAKE,
)


def inputs(batch=5, length=LENGTH):
    return np.random.default_rng(0).normal(size=(batch, length, WIDTH)).astype("float32")


def masked_model(layer):
    """Ids to the layer's output, as Keras propagates the mask of an embedding."""
    ids = keras.Input((None,), dtype="int32")
    return keras.Model(ids, layer(keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids)))


def classifier(layer):
    ids = keras.Input((None,), dtype="int32")
    x = layer(keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids))
    x = x if len(x.shape) == 2 else layers.AveragePooling()(x)
    return keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x))
