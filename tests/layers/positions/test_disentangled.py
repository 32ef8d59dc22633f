"""Disentangled positions against a loop in NumPy, on every path of attention."""

import math

import keras
import numpy as np
import pytest
import reference
from backend import array
from samples import HEAD_DIM, HEADS, check_gradients, close, expected, inputs, randomised

from keras_selfattn import layers

WIDTH = HEADS * HEAD_DIM
SCALE = (3 * HEAD_DIM) ** -0.5


def built(buckets=4, far=6, **settings):
    settings = {"scale": SCALE, "position": layers.DisentangledPositions(buckets, far)} | settings
    return randomised(layers.MultiHeadSelfAttention(HEADS, **settings), WIDTH)


def of_distance(distance, buckets, far):
    """The bucket of a distance, by the paper's code: exact near by, then of a logarithmic width."""
    away, half = abs(distance), buckets // 2
    if away > half:
        away = half + math.ceil(math.log(away / half) / math.log((far - 1) / half) * (half - 1) - 1e-9)
    return int(math.copysign(min(away, buckets), distance))


def terms(layer, buckets, far, kv_heads=HEADS, scale=SCALE):
    """The two terms of the logits that know the distance, from the layer's weights."""
    kernel, bias, _, _, table, gain, shift = (np.asarray(w, np.float64) for w in layer.get_weights())
    table = (table - table.mean(1, keepdims=True)) / np.sqrt(table.var(1, keepdims=True) + 1e-7)
    heads = reference.heads_of(table * gain + shift, kernel, bias, HEADS + 2 * kv_heads)

    def pair(h, t, s, query, key):
        row = min(max(buckets + of_distance(t - s, buckets, far), 0), 2 * buckets - 1)
        shared = HEADS + h // (HEADS // kv_heads)
        return scale * float(query @ heads[shared][row] + heads[h][row] @ key)

    return pair


@pytest.mark.parametrize("length", [1, 2, 7, 13])
@pytest.mark.parametrize(("buckets", "far"), [(4, 6), (8, 16), (6, 5)])
def test_logits_have_the_products_with_the_vectors_of_distances(buckets, far, length):
    layer, x = built(buckets, far), inputs(length=length, width=WIDTH)
    outputs, weights = layer(x, return_weights=True)
    wanted = expected(layer, x, scale=SCALE, pair=terms(layer, buckets, far))
    close(outputs, wanted[0])
    close(weights, wanted[1])


@pytest.mark.parametrize(
    "settings",
    [{"num_kv_heads": 1}, {"causal": True}, {"window": 2}, {"window": (3, 1)}],
    ids=str,
)
@pytest.mark.parametrize("length", [7, 40])
def test_every_setting_has_them(settings, length):
    layer, x = built(**settings), inputs(length=length, width=WIDTH)
    left, right = {2: (2, 2), (3, 1): (3, 1)}.get(settings.get("window"), (length, length))
    right = 0 if settings.get("causal") else right
    kv_heads = settings.get("num_kv_heads", HEADS)
    wanted = expected(
        layer,
        x,
        lambda b, h, t, s: t - left <= s <= t + right,
        SCALE,
        kv_heads=kv_heads,
        pair=terms(layer, 4, 6, kv_heads),
    )
    close(layer(x), wanted[0])


@pytest.mark.parametrize("count", [3, 60])
def test_padding_between_tokens_takes_up_positions(count):
    """The same in the padded layout and, with many tokens on TensorFlow, in the packed one."""
    layer, x = built(), np.repeat(inputs(1, 9, WIDTH), count, 0)
    mask = np.array([[0, 1, 1, 0, 1, 1, 1, 0, 0]] * count, bool)
    x = np.where(mask[..., None], x, np.nan).astype("float32")
    zeros = np.nan_to_num(x)
    wanted = expected(layer, zeros[:1], lambda b, h, t, s: mask[0, s], SCALE, pair=terms(layer, 4, 6))[0]
    found = array(layer(x, mask=mask))
    close(found[-1], np.where(mask[0, :, None], wanted[0], 0))


@pytest.mark.parametrize(("buckets", "far"), [(256, 512), (8, 16), (4, 6), (64, 1000)])
def test_buckets_equal_the_papers_at_every_distance(buckets, far):
    strategy = layers.DisentangledPositions(buckets, far)
    for distance in range(-far - 3, far + 4):
        assert strategy.bucket(distance) == of_distance(distance, buckets, far), distance


def test_a_step_with_a_cache_has_the_same_terms():
    decoder = layers.Decoder(
        2, HEADS, scale=SCALE, position=layers.DisentangledPositions(4, 6), dropout=0.0, seed=1
    )
    x = inputs(2, 11, WIDTH)
    wanted, cache, found = array(decoder(x)), decoder.start(batch_size=2, max_length=11), []
    for step in range(11):
        outputs, cache = decoder.step(x[:, step : step + 1], cache)
        found.append(array(outputs))
    close(np.concatenate(found, 1), wanted)


@pytest.mark.parametrize("count", [2, 40])
def test_its_gradients_are_those_of_differences(count):
    """Of all weights: the table, its normalisation, and the projections that it shares with the tokens."""
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("other backends differentiate the same operations themselves")
    layer, x = built(dtype="float64"), np.repeat(inputs(2, 7, WIDTH), count // 2, 0).astype("float64")

    def loss():
        return tf.reduce_mean(tf.sin(layer(x)))

    check_gradients(layer, loss)


def test_arguments_are_checked_and_saved():
    strategy = layers.DisentangledPositions(8, 16, 1e-5)
    assert strategy.get_config() == {"num_buckets": 8, "max_distance": 16, "norm_epsilon": 1e-5}
    layer = layers.MultiHeadSelfAttention(2, position="disentangled")
    assert layer.position.num_buckets == 256
    for wrong, message in (
        ({"num_buckets": 5}, "even and at least 4. Received 5"),
        ({"num_buckets": 8, "max_distance": 5}, "greater than half of `num_buckets` and one more"),
        ({"norm_epsilon": 0}, "`norm_epsilon`"),
    ):
        with pytest.raises(ValueError, match=message):
            layers.DisentangledPositions(**wrong)
    with pytest.raises(ValueError, match="here 10. Received width 11"):
        layers.MultiHeadSelfAttention(2, 5, position="disentangled").build((None, None, 11))
