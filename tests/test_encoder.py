"""The encoder against its formula in NumPy, and pooling against means by hand."""

import math

import numpy as np
import pytest
import reference

from keras_selfattn.layers import AveragePooling, Encoder, EncoderBlock

BATCH, LENGTH, HEADS, WIDTH, HIDDEN = 3, 5, 2, 14, 11


def inputs(seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


def randomised(layer):
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.4 for w in layer.weights])
    return layer


def norm(x, gamma, beta):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


def block_in_numpy(block, x, mask):
    """The block's formula: x + attention(norm(x)), then x + feed_forward(norm(x)); zero where masked."""
    named = {
        weight.path.split("encoder_block")[-1].split("/", 1)[1]: np.asarray(weight)
        for weight in block.weights
    }

    def at(name):
        return np.asarray(named[name], np.float64)

    attention = [at(f"attention/{n}") for n in ("query_key_value_kernel", "query_key_value_bias")]
    attention += [at(f"attention/{n}") for n in ("output_kernel", "output_bias")]
    normed = norm(x, at("attention_norm/gamma"), at("attention_norm/beta"))
    scale = (WIDTH // HEADS) ** -0.5
    attended, _ = reference.self_attention(normed, attention, HEADS, scale, lambda b, h, t, s: mask[b, s])
    x = x + np.where(mask[:, :, None], attended, 0)
    hidden = norm(x, at("feed_forward_norm/gamma"), at("feed_forward_norm/beta")) @ at("hidden/kernel")
    hidden = hidden + at("hidden/bias")
    gelu = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    x = x + gelu @ at("output/kernel") + at("output/bias")
    return np.where(mask[:, :, None], x, 0)


def test_a_block_is_its_formula():
    block, x = randomised(EncoderBlock(HEADS, HIDDEN, name="encoder_block")), inputs()
    mask = np.arange(LENGTH) < np.array([[3], [5], [1]])
    np.testing.assert_allclose(np.asarray(block(x, mask=mask)), block_in_numpy(block, x, mask), atol=2e-5)


def test_an_encoder_is_its_blocks_and_a_norm():
    encoder, x = randomised(Encoder(2, HEADS, HIDDEN)), inputs()
    mask = np.arange(LENGTH) < np.array([[3], [5], [1]])
    inner = x
    for block in encoder._blocks:
        inner = block(inner, mask=mask)
    gamma, beta = encoder.get_weights()[-2:]
    wanted = np.where(mask[:, :, None], norm(np.asarray(inner), gamma, beta), 0)
    np.testing.assert_allclose(np.asarray(encoder(x, mask=mask)), wanted, atol=2e-5)


def test_padding_does_not_change_real_tokens_and_comes_out_zero():
    encoder, x = randomised(Encoder(3, HEADS)), inputs()
    padded = np.concatenate([x, np.full((BATCH, 17, WIDTH), 50, "float32")], axis=1)
    found = np.asarray(encoder(padded, valid_lens=np.full(BATCH, LENGTH)))
    np.testing.assert_allclose(found[:, :LENGTH], np.asarray(encoder(x)), rtol=1e-5, atol=1e-5)
    assert (found[:, LENGTH:] == 0).all()


def test_nan_in_padding_reaches_neither_real_tokens_nor_gradients():
    import tensorflow as tf

    encoder, x = randomised(Encoder(2, HEADS, seed=2**32 - 1)), inputs()
    mask = np.arange(LENGTH) < np.array([[3], [5], [1]])
    noisy = np.where(mask[:, :, None], x, np.nan)
    np.testing.assert_array_equal(np.asarray(encoder(noisy, mask=mask)), np.asarray(encoder(x, mask=mask)))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(encoder(noisy, mask=mask) ** 2)
    for gradient in tape.gradient(total, encoder.trainable_variables):
        assert np.isfinite(gradient.numpy()).all()


def test_causal_blocks_leak_nothing_through_the_stack():
    encoder, x = randomised(Encoder(2, HEADS, causal=True)), inputs()
    changed = x.copy()
    changed[:, 3:] += 100
    before, after = np.asarray(encoder(x)), np.asarray(encoder(changed))
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
    np.testing.assert_array_equal(np.asarray(encoder(x)), np.asarray(encoder(x, training=False)))
    assert not np.allclose(np.asarray(encoder(x)), np.asarray(encoder(x, training=True)))


def test_pooling_averages_real_tokens_only():
    x = inputs()
    mask = np.array([[True, False, True, False, False], [True] * 5, [True] * 5])
    found = np.asarray(AveragePooling()(x, mask=mask))
    np.testing.assert_allclose(found, [(x[0, 0] + x[0, 2]) / 2, *x[1:].mean(1)], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(AveragePooling()(x)), x.mean(1), rtol=1e-5, atol=1e-6)


def test_pooling_of_padding_alone_is_zero_and_ignores_what_it_holds():
    x = np.full((2, 3, 4), np.inf, "float32")
    found = np.asarray(AveragePooling()(x, valid_lens=np.array([0, 0])))
    np.testing.assert_array_equal(found, np.zeros((2, 4)))
    assert AveragePooling()(np.zeros((2, 0, 4), "float32")).shape == (2, 4)


def test_pooling_in_half_precision_sums_in_single():
    x = np.full((1, 4000, 1), 60.0)
    assert float(AveragePooling(dtype="float16")(x)[0, 0]) == 60.0


def test_pooling_refuses_lengths_of_rank_two():
    with pytest.raises(ValueError, match=r"must have shape \[batch\]\. Received \(2, 5\)"):
        AveragePooling()(inputs(), valid_lens=np.ones((2, 5), int))


@pytest.mark.parametrize("feed_forward_dim", [0, -1, 2.5])
def test_a_bad_hidden_width_is_named(feed_forward_dim):
    with pytest.raises(ValueError, match=f"`feed_forward_dim` must be.* Received {feed_forward_dim}"):
        EncoderBlock(2, feed_forward_dim)
