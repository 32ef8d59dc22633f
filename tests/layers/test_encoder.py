"""The encoder against its formula in NumPy, its rates, and rematerialisation."""

import math

import keras
import numpy as np
import pytest
import reference
from backend import BACKEND, array, gradients, tensorflow_only

from keras_selfattn.layers import Encoder, EncoderBlock, RelativePositions, RotaryPositions
from keras_selfattn.layers.attention_paths import PaddedTokens
from keras_selfattn.layers.feed_forward import _gelu

BATCH, LENGTH, HEADS, WIDTH, HIDDEN = 3, 5, 2, 14, 11


def inputs(seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


def randomised(layer):
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.4 for w in layer.weights])
    return layer


def normalised(x, named, name, kind):
    gain = named[f"{name}/gamma" if kind == "layer" else f"{name}/scale"]
    if kind == "rms":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gain
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + named[f"{name}/beta"]


def block_in_numpy(block, x, mask, kind="layer", norm_first=True, gated=False):
    """The block's formula, pre-norm or post-norm; zero where masked."""
    named = {
        weight.path.split("/", weight.path.split("/").index(block.name) + 1)[-1]: array(weight).astype(
            "float64"
        )
        for weight in block.weights
    }
    attention = [named[f"attention/{n}"] for n in ("query_key_value_kernel", "query_key_value_bias")]
    attention += [named[f"attention/{n}"] for n in ("output_kernel", "output_bias")]

    def attend(x):
        scale = (WIDTH // HEADS) ** -0.5
        found, _ = reference.self_attention(x, attention, HEADS, scale, lambda b, h, t, s: mask[b, s])
        return np.where(mask[:, :, None], found, 0)

    def feed_forward(x):
        hidden = x @ named["feed_forward/hidden/kernel"] + named["feed_forward/hidden/bias"]
        hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        if gated:
            hidden = hidden * (x @ named["feed_forward/gate/kernel"] + named["feed_forward/gate/bias"])
        return hidden @ named["feed_forward/output/kernel"] + named["feed_forward/output/bias"]

    for name, sublayer in (("attention_norm", attend), ("feed_forward_norm", feed_forward)):
        if norm_first:
            x = x + sublayer(normalised(x, named, name, kind))
        else:
            x = normalised(x + sublayer(x), named, name, kind)
    return np.where(mask[:, :, None], x, 0)


MASK = np.arange(LENGTH) < np.array([[3], [5], [1]])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_block_is_its_formula(kind, norm_first, gated):
    settings = {"norm_first": norm_first, "gated": gated}
    block, x = randomised(EncoderBlock(HEADS, HIDDEN, norm=kind, **settings)), inputs()
    wanted = block_in_numpy(block, x, MASK, kind, **settings)
    np.testing.assert_allclose(array(block(x, mask=MASK)), wanted, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_is_its_blocks_and_if_pre_norm_a_last_norm(norm_first):
    encoder, x = randomised(Encoder(2, HEADS, HIDDEN, norm_first=norm_first)), inputs()
    inner = x
    for block in encoder._blocks:
        inner = block(inner, mask=MASK)
    wanted = array(inner)
    if norm_first:
        gamma, beta = encoder.get_weights()[-2:]
        wanted = normalised(wanted, {"norm/gamma": gamma, "norm/beta": beta}, "norm", "layer")
    wanted = np.where(MASK[:, :, None], wanted, 0)
    np.testing.assert_allclose(array(encoder(x, mask=MASK)), wanted, atol=2e-5)


def test_the_hidden_layer_is_four_times_the_features_unless_told():
    assert randomised(EncoderBlock(HEADS)).count_params() == sum(
        (WIDTH * 3 * WIDTH + 3 * WIDTH, WIDTH * WIDTH + WIDTH, 2 * 4 * WIDTH * WIDTH + 5 * WIDTH, 4 * WIDTH)
    )


def test_without_biases_only_the_norms_shift_anything():
    encoder = randomised(Encoder(1, HEADS, gated=True, use_bias=False, norm="rms"))
    assert not [weight.path for weight in encoder.weights if "bias" in weight.path or "beta" in weight.path]


def test_an_encoder_returns_the_weights_of_every_block():
    encoder, x = randomised(Encoder(3, HEADS)), inputs()
    outputs, weights = encoder(x, mask=MASK, return_weights=True)
    np.testing.assert_allclose(array(outputs), array(encoder(x, mask=MASK)), rtol=1e-5, atol=1e-6)
    inner = x
    for block, found in zip(encoder._blocks, weights, strict=True):
        inner, wanted = block(inner, mask=MASK, return_weights=True)
        of_real = [np.swapaxes(array(weights), 1, 2)[MASK] for weights in (found, wanted)]  # queries
        np.testing.assert_allclose(*of_real, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"position": RotaryPositions(), "window": 2, "num_kv_heads": 1, "qk_norm": True, "logit_cap": 9.0},
        {"position": RelativePositions(2), "causal": True, "scale": 0.3, "head_dim": 5},
        {"use_bias": False},
    ],
)
def test_every_setting_of_attention_reaches_it(settings):
    block = EncoderBlock(HEADS, **settings)
    assert {name: getattr(block._attention, name) for name in settings} == settings
    assert {name: getattr(block, name) for name in settings} == settings
    encoder = randomised(Encoder(2, HEADS, **settings))
    assert {name: getattr(encoder, name) for name in settings} == settings
    for inner in encoder._blocks:
        assert {name: getattr(inner._attention, name) for name in settings} == settings
    again = Encoder.from_config(encoder.get_config())
    again.build((None, None, WIDTH))
    again.set_weights(encoder.get_weights())
    np.testing.assert_array_equal(array(again(inputs(), mask=MASK)), array(encoder(inputs(), mask=MASK)))


RATES = {
    "dropout": lambda block: [block._attention_dropouts[0].rate, block._feed_forward_dropouts[0].rate],
    "attention_dropout": lambda block: [block._attention.dropout],
    "feed_forward_dropout": lambda block: [block._feed_forward.hidden_dropout.rate],
    "stochastic_depth": lambda block: [
        block._attention_dropouts[1].rate,
        block._feed_forward_dropouts[1].rate,
    ],
}


@pytest.mark.parametrize("name", RATES)
def test_each_rate_reaches_its_own_dropout_and_no_other(name):
    block = EncoderBlock(HEADS, **{"attention_dropout": 0.0, name: 0.25}, seed=1)
    for other, rates in RATES.items():
        assert set(rates(block)) == {0.25 if other == name else 0.0}, other
    randomised(block)
    assert not np.allclose(array(block(inputs(), training=True)), array(block(inputs())))


def test_attention_dropout_is_dropout_unless_told():
    assert EncoderBlock(HEADS, dropout=0.3)._attention.dropout == 0.3
    assert EncoderBlock(HEADS, dropout=0.3, attention_dropout=0.1)._attention.dropout == 0.1


def test_stochastic_depth_drops_whole_samples_and_scales_the_others():
    """Every other dropout off: each sublayer adds 0 or twice what it adds without."""
    block = randomised(EncoderBlock(HEADS, stochastic_depth=0.5, seed=3))
    x = np.repeat(inputs()[:1], 400, axis=0)
    plain = array(block._attention(block._attention_norm(x)))[0]
    after_attention = array(x)[0] + 2 * plain
    transformed = {
        kept: array(
            block._feed_forward(block._feed_forward_norm(base), tokens=PaddedTokens(base[None], None))
        )
        for kept, base in (("attention", after_attention.astype("float32")), ("none", x[0]))
    }
    cases = [
        x[0],
        after_attention,
        x[0] + 2 * transformed["none"],
        after_attention + 2 * transformed["attention"],
    ]
    found = array(block(x, training=True))
    distances = np.array([[np.abs(sample - case).max() for case in cases] for sample in found])
    assert distances.min(axis=1).max() < 1e-3
    counts = np.bincount(distances.argmin(axis=1), minlength=4)
    assert (np.abs(counts - 100) < 5 * (400 * 0.25 * 0.75) ** 0.5).all()


def test_stochastic_depth_grows_evenly_with_depth():
    encoder = Encoder(4, HEADS, stochastic_depth=0.4)
    np.testing.assert_allclose([b.stochastic_depth for b in encoder._blocks], [0.1, 0.2, 0.3, 0.4])


REMADE = {"dropout": 0.3, "feed_forward_dropout": 0.2, "stochastic_depth": 0.2, "seed": 5}


@pytest.mark.slow
def test_rematerialisation_changes_no_gradient_dropout_included():
    """A second run with new random numbers would give gradients of another function."""
    plain, remade = EncoderBlock(HEADS, **REMADE), EncoderBlock(HEADS, remat=True, **REMADE)
    for block in (plain, remade):
        randomised(block)
    for _ in range(2):  # the random state moves on the same way
        pairs = zip(*(gradients(b, inputs(), mask=MASK, training=True) for b in (plain, remade)), strict=True)
        for wanted, found in pairs:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert max(np.abs(gradient).max() for gradient in gradients(remade, inputs(), training=True)) > 0.1


def test_rematerialisation_draws_anew_in_every_step():
    block = randomised(EncoderBlock(HEADS, remat=True, **REMADE))
    first, second = (array(block(inputs(), training=True)) for _ in range(2))
    assert not np.allclose(first, second)


@pytest.mark.slow
@tensorflow_only
def test_rematerialisation_runs_the_block_twice_and_keeps_nothing_between():
    import tensorflow as tf

    def count(remat):
        block = randomised(EncoderBlock(HEADS, remat=remat))

        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.reduce_sum(block(x, training=True))
            return tape.gradient(total, x)

        graph = tf.function(step).get_concrete_function(tf.TensorSpec([2, LENGTH, WIDTH])).graph
        return sum(operation.type == "Erfc" for operation in graph.get_operations())

    assert count(remat=True) == 2 * count(remat=False) == 2


def test_padding_does_not_change_real_tokens_and_comes_out_zero():
    encoder, x = randomised(Encoder(3, HEADS)), inputs()
    padded = np.concatenate([x, np.full((BATCH, 17, WIDTH), 50, "float32")], axis=1)
    found = array(encoder(padded, valid_lens=np.full(BATCH, LENGTH)))
    np.testing.assert_allclose(found[:, :LENGTH], array(encoder(x)), rtol=1e-5, atol=1e-5)
    assert (found[:, LENGTH:] == 0).all()


def test_nan_in_padding_reaches_neither_real_tokens_nor_gradients():
    encoder, x = randomised(Encoder(2, HEADS, seed=2**32 - 1)), inputs()
    mask = np.arange(LENGTH) < np.array([[3], [5], [1]])
    noisy = np.where(mask[:, :, None], x, np.nan)
    np.testing.assert_array_equal(array(encoder(noisy, mask=mask)), array(encoder(x, mask=mask)))
    assert all(np.isfinite(gradient).all() for gradient in gradients(encoder, noisy, mask=mask))


def test_causal_blocks_leak_nothing_through_the_stack():
    encoder, x = randomised(Encoder(2, HEADS, causal=True)), inputs()
    changed = x.copy()
    changed[:, 3:] += 100
    before, after = array(encoder(x)), array(encoder(changed))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])


def test_one_seed_gives_different_blocks_and_equal_encoders():
    first, second = Encoder(2, HEADS, seed=3), Encoder(2, HEADS, seed=3)
    for encoder in (first, second):
        encoder.build((None, None, WIDTH))
    kernels = [block._attention.get_weights()[0] for block in first._blocks]
    assert not np.allclose(*kernels)
    for ours, theirs in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_dropout_changes_training_only():
    encoder, x = randomised(Encoder(1, HEADS, dropout=0.5, seed=1)), inputs()
    np.testing.assert_array_equal(array(encoder(x)), array(encoder(x, training=False)))
    assert not np.allclose(array(encoder(x)), array(encoder(x, training=True)))


@pytest.mark.parametrize("feed_forward_dim", [0, -1, 2.5])
def test_a_bad_hidden_width_is_named(feed_forward_dim):
    with pytest.raises(ValueError, match=f"`feed_forward_dim` must be.* Received {feed_forward_dim}"):
        EncoderBlock(2, feed_forward_dim)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"norm_first": "post"}, "`norm_first` must be True or False. Received 'post'"),
        ({"norm": "batch"}, "`norm` must be one of 'layer', 'rms', 'layer_no_shift'. Received 'batch'"),
        ({"stochastic_depth": 2}, "`stochastic_depth` must be a number in .* Received 2"),
        ({"attention_dropout": -1}, "`attention_dropout` must be a number in .* Received -1"),
        ({"num_kv_heads": 4}, "num_heads=2, num_kv_heads=4"),
    ],
)
@pytest.mark.parametrize("make", [EncoderBlock, lambda *a, **s: Encoder(2, *a, **s)])
def test_bad_settings_are_named_with_their_value(make, settings, said):
    with pytest.raises(ValueError, match=said):
        make(2, **settings)


def test_an_unknown_argument_is_refused_by_the_encoder_itself_and_keras_own_reach_it():
    with pytest.raises(ValueError, match="Encoder"):
        Encoder(2, 2, windows=3)
    encoder = Encoder(2, 2, name="mine", autocast=False, dtype="mixed_float16", trainable=False)
    assert (encoder.name, encoder.autocast, encoder.trainable) == ("mine", False, False)
    assert encoder._blocks[1].compute_dtype == "float16"


@pytest.mark.skipif(BACKEND != "jax", reason="elsewhere it is Keras' own")
@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 8), ("float16", 11)])
def test_gelu_in_half_precision_is_rounded_once(dtype, bits):
    x = keras.ops.cast(np.linspace(-4, 4, 999), dtype)
    exact = array(x).astype("float64")
    exact = exact * np.array([1 + math.erf(each / 2**0.5) for each in exact]) / 2
    error = np.abs(array(_gelu(x)) - exact)
    assert (error <= np.abs(exact) * 2.0**-bits + 1e-6).all()
