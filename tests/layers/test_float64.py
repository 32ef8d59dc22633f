"""Under the policy float64 every layer is its formula in NumPy to 1e-12, on every path."""

import keras
import numpy as np
import pytest
import reference
from backend import BACKEND, array, compiled, gradients, tensorflow_only
from formulas import CASES, attention_pooling_in_numpy, block_in_numpy, linear_in_numpy
from samples import HEAD_DIM, HEADS, LENGTH, WIDTH, built, expected, randomised
from variants import MAKE, mostly_slow, takes

from keras_selfattn import layers
from keras_selfattn.layers import attention_paths, window
from keras_selfattn.layers.positions.angles import sinusoids
from keras_selfattn.layers.positions.relative import alibi_slopes
from keras_selfattn.layers.tensorflow import block_walk as blocks

# JAX has no float64 unless all of it is asked to, and then Keras' own mean and tanh return float32 there; on
# PyTorch its matmul does.
pytestmark = pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras computes in float64 on TensorFlow")

MASK = np.arange(LENGTH) < np.array([[4], [LENGTH]])
TOLERANCE = 1e-12


def inputs(width=WIDTH, length=LENGTH):
    """Numbers that float32 cannot hold."""
    return np.random.default_rng(0).normal(size=(2, length, width))


def near(found, wanted, tolerance=TOLERANCE):
    assert keras.backend.standardize_dtype(found.dtype) == "float64"
    found = found if isinstance(found, np.ndarray) else array(found)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def all_pairs(patch):
    """Few tokens: every query and key at once."""


def in_query_blocks(patch):
    patch.setattr(attention_paths, "runs_kernels", lambda inputs: False)
    for name, number in {"_SCORES": 20, "_LEAST_QUERIES": 2}.items():
        patch.setattr(attention_paths, name, number)
    patch.setattr(window, "_SMALLEST_CHUNK", 2)


def packed(patch):
    patch.setattr(attention_paths, "_FEW_TOKENS", -1)
    for name, number in {"_SCORES": 60, "_WASTED_SCORES": 30, "_LEAST_QUERIES": 2, "_STRETCH": 4}.items():
        patch.setattr(blocks, name, number)


PATHS = [all_pairs, in_query_blocks, *([packed] if BACKEND == "tensorflow" else [])]
every_path = pytest.mark.parametrize("path", PATHS)


def at(table, t, s):
    return table[min(max(s - t, -2), 2) + 2]


def normalised(gains):
    def turn(name, vector, t):
        return vector / np.sqrt((vector**2).mean() + 1e-6) * gains[name]

    return turn


# Settings of the layer, and what they make of the formula, given the layer's further weights.
ATTENTION = {
    "plain": ({}, lambda _: {}),
    "scaled and capped": ({"scale": 0.3, "logit_cap": 2.0}, lambda _: {"scale": 0.3, "cap": 2.0}),
    "normalised": (
        {"qk_norm": True},
        lambda gains: {"turn": normalised(dict(zip(("query", "key"), gains, strict=True)))},
    ),
    "rotary": (
        {"position": layers.RotaryPositions(50.0)},
        lambda _: {"turn": lambda name, vector, t: reference.rotated(vector, t, 50.0)},
    ),
    "alibi": (
        {"position": layers.LinearBias()},
        lambda _: {"bias": lambda h, t, s, query: -alibi_slopes(HEADS)[h] * abs(t - s)},
    ),
    "t5": (
        {"position": layers.BucketedBias(8, 5)},
        lambda w: {"bias": lambda h, t, s, query: w[0][reference.bucket(s - t, 8, 5, False), h]},
    ),
    "shaw": (
        {"position": layers.RelativePositions(2)},
        lambda w: {
            "bias": lambda h, t, s, query: query @ at(w[0], t, s),
            "extra": lambda t, s: at(w[1], t, s),
        },
    ),
}
REACH = {"all": ({}, LENGTH), "window": ({"window": 1}, 1)}


@every_path
@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_each_kind_of_position_is_its_formula(name, reach, path, monkeypatch):
    settings, rules = ATTENTION[name]
    window, farthest = REACH[reach]
    layer, x = built(dtype="float64", **settings, **window), inputs()
    wanted, weights = expected(
        layer,
        x,
        lambda b, h, t, s: MASK[b, s] and abs(s - t) <= farthest,
        **rules(layer.get_weights()[4:]),
    )
    path(monkeypatch)
    near(layer(x, mask=MASK), np.where(MASK[:, :, None], wanted, 0))
    found = np.where(MASK[:, None, :, None], array(layer(x, mask=MASK, return_weights=True)[1]), 0)
    near(found, np.where(MASK[:, None, :, None], weights, 0))


@every_path
@pytest.mark.parametrize("name", CASES)
def test_additive_and_multiplicative_scores_are_their_formulas(name, path, monkeypatch):
    make, settings, in_numpy = CASES[name]
    layer, x = randomised(make(HEADS, HEAD_DIM, dtype="float64", **settings)), inputs()
    wanted = in_numpy(layer, x, lambda b, h, t, s: MASK[b, s])[0]
    path(monkeypatch)
    near(layer(x, mask=MASK), np.where(MASK[:, :, None], wanted, 0))


@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_is_its_formula(causal):
    layer, x = (
        randomised(layers.LinearSelfAttention(HEADS, HEAD_DIM, causal=causal, dtype="float64")),
        inputs(),
    )
    wanted = linear_in_numpy(layer, x, lambda b, h, t, s: MASK[b, s] and (s <= t or not causal))[0]
    near(layer(x, mask=MASK), np.where(MASK[:, :, None], wanted, 0))


@every_path
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_block_is_its_formula(kind, gated, path, monkeypatch):
    block = randomised(layers.EncoderBlock(2, 13, norm=kind, gated=gated, dtype="float64"), 14, 0.4)
    x = inputs(14)
    path(monkeypatch)
    near(block(x, mask=MASK), block_in_numpy(block, x, MASK, kind, gated=gated))


def test_positions_are_sines_and_cosines():
    columns = range(WIDTH)
    wanted = [[reference.sinusoid(position, column, WIDTH) for column in columns] for position in range(2000)]
    x = np.zeros((1, 2000, WIDTH))
    near(layers.SinusoidalPositionEncoding(dtype="float64")(x)[0], wanted)
    found = sinusoids(keras.ops.convert_to_tensor([10**6], dtype="int32"), WIDTH, 10000.0, "float64")
    near(found[0], [reference.sinusoid(10**6, column, WIDTH) for column in columns], 1e-9)
    rows, columns = np.array(wanted)[:3], np.array(wanted)[:5]
    found = layers.SinusoidalPositionEncoding2D(dtype="float64")(np.zeros((1, 3, 5, 2 * WIDTH)))
    near(found[0, :, 0, :WIDTH], rows)
    near(found[0, 0, :, WIDTH:], columns)


def test_pooling_is_its_formula():
    x = inputs()
    near(
        layers.AveragePooling(dtype="float64")(x, mask=MASK),
        [row[real].mean(0) for row, real in zip(x, MASK, strict=True)],
    )
    near(
        layers.MaxPooling(dtype="float64")(x, mask=MASK),
        [row[real].max(0) for row, real in zip(x, MASK, strict=True)],
    )
    layer = randomised(layers.AttentionPooling(3, 7, penalty=0.1, dtype="float64"))
    pooled, weights = layer(x, mask=MASK, training=True, return_weights=True)
    wanted, shares = attention_pooling_in_numpy(x, *layer.get_weights(), MASK)
    near(pooled, wanted.reshape(2, -1))
    near(weights, shares)
    overlap = shares @ np.swapaxes(shares, 1, 2) - np.eye(3)
    near(layer.losses[0], 0.1 * (overlap**2).sum((1, 2)).mean())


def test_equals_keras_attention_with_copied_weights():
    """Heads of 4 features: Keras rounds the scale to float32, which only a power of 2 survives."""
    layer, x = randomised(layers.MultiHeadSelfAttention(HEADS, 4, dtype="float64")), inputs()
    theirs = keras.layers.MultiHeadAttention(HEADS, 4, dtype="float64")
    theirs.build((None, None, WIDTH), (None, None, WIDTH))
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    heads = [part.reshape(WIDTH, HEADS, 4) for part in np.split(kernel, 3, axis=1)]
    biases = [part.reshape(HEADS, 4) for part in np.split(bias, 3)]
    output = [output_kernel.reshape(HEADS, 4, WIDTH), output_bias]
    theirs.set_weights([each for pair in zip(heads, biases, strict=True) for each in pair] + output)
    near(layer(x), array(theirs(x, x)), 1e-14)


@pytest.mark.parametrize("path", PATHS[1:])
@pytest.mark.parametrize("name", mostly_slow(MAKE))
def test_every_layer_answers_and_learns_alike_on_every_path(name, path, monkeypatch):
    layer = randomised(MAKE[name](dtype="float64"), WIDTH + 1, 0.3)
    x = inputs(WIDTH + 1)
    call = {"mask": MASK} if takes(layer, "mask") else {}
    shares = np.random.default_rng(1).normal(size=layer.compute_output_shape(x.shape))

    def outputs_and_gradients():
        weights = keras.ops.convert_to_tensor(shares, dtype="float64")
        found = gradients(layer, x, lambda y: keras.ops.sum(y * y * weights), **call)
        return [array(layer(x, **call)), *found]

    wanted = outputs_and_gradients()
    path(monkeypatch)
    for found, each in zip(outputs_and_gradients(), wanted, strict=True):
        near(found, each, 1e-11 * max(1, np.abs(each).max()))


@pytest.mark.parametrize("path", PATHS[1:])
@pytest.mark.parametrize("make", [layers.MultiHeadSelfAttention, layers.EncoderBlock])
def test_dropout_scales_what_it_keeps_in_float64_on_every_path(make, path, monkeypatch):
    """1 / (1 - 0.1) in float32 is off by 5e-8."""

    def dropped():
        layer = randomised(make(2, dropout=0.1, seed=1, dtype="float64"), WIDTH + 1, 0.3)
        x = keras.ops.convert_to_tensor(inputs(WIDTH + 1))
        return [array(layer(x, training=True)), *gradients(layer, x, training=True)]

    wanted = dropped()
    path(monkeypatch)
    for found, each in zip(dropped(), wanted, strict=True):
        near(found, each, 1e-11 * max(1, np.abs(each).max()))


@pytest.mark.slow
@tensorflow_only
@pytest.mark.parametrize("name", mostly_slow(MAKE))
def test_compiled_as_a_whole_it_answers_alike(name):
    layer, x = randomised(MAKE[name](dtype="float64"), WIDTH + 1, 0.3), inputs(WIDTH + 1)
    near(compiled(layer, x), array(layer(x)))


def test_a_logit_that_float32_cannot_hold_masks_no_other():
    """A mask's fill value is below every logit, also in float64."""
    layer = layers.MultiHeadSelfAttention(1, 1, use_bias=False, scale=1.0, dtype="float64")
    layer.build((None, None, 1))
    layer.set_weights([np.array([[-1e100, 1.0, 1.0]]), np.ones((1, 1))])
    x = np.array([[[1.0], [1e10], [5.0]]])
    weights = array(layer(x, mask=np.array([[True, True, False]]), return_weights=True)[1])
    np.testing.assert_array_equal(weights[0, 0, :2], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
