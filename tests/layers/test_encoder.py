"""The encoder against its formula in NumPy: its blocks, its rates and its weights."""

import numpy as np
import pytest
from backend import array, gradients

from keras_selfattn.layers import Encoder, EncoderBlock, RelativePositions, RotaryPositions
from keras_selfattn.layers.attention_paths import PaddedTokens

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


MASK = np.arange(LENGTH) < np.array([[3], [5], [1]])


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
