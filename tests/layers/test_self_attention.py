"""MultiHeadSelfAttention against loops in NumPy, Keras' own layers, and its contract."""

import keras
import numpy as np
import pytest
import reference
from backend import array
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, built, close, expected, inputs, randomised

from keras_selfattn.layers import MultiHeadSelfAttention


def test_equals_loops_in_numpy():
    layer, x = built(), inputs()
    outputs, weights = layer(x, return_weights=True)
    close(outputs, expected(layer, x)[0])
    close(weights, expected(layer, x)[1])


def test_custom_scale_of_one_is_the_plain_dot_product():
    layer, x = built(scale=1.0), inputs()
    close(layer(x), expected(layer, x, scale=1.0)[0])


def test_causal_equals_a_lower_triangle_in_the_reference():
    layer, x = built(causal=True), inputs()
    outputs, weights = layer(x, return_weights=True)
    wanted = expected(layer, x, lambda b, h, t, s: s <= t)
    close(outputs, wanted[0])
    close(weights, wanted[1])


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_under_causal_no_future_leaks(return_weights, dropout):
    layer, x = built(causal=True, dropout=dropout), inputs()
    changed = x.copy()
    changed[:, 4:] = 1e3
    mask = np.ones((BATCH, LENGTH), bool)
    before, after = (layer(v, mask=mask, return_weights=return_weights) for v in (x, changed))
    before, after = (v[0] if return_weights else v for v in (before, after))
    np.testing.assert_array_equal(array(before)[:, :4], array(after)[:, :4])
    assert not np.allclose(array(before)[:, 4:], array(after)[:, 4:])


def test_equals_keras_multi_head_attention_with_copied_weights():
    layer, x = built(), inputs()
    theirs = keras.layers.MultiHeadAttention(HEADS, HEAD_DIM)
    theirs.build((None, None, WIDTH), (None, None, WIDTH))
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    query, key, value = (part.reshape(WIDTH, HEADS, HEAD_DIM) for part in np.split(kernel, 3, axis=1))
    query_bias, key_bias, value_bias = (part.reshape(HEADS, HEAD_DIM) for part in np.split(bias, 3))
    output_kernel = output_kernel.reshape(HEADS, HEAD_DIM, WIDTH)
    theirs.set_weights([query, query_bias, key, key_bias, value, value_bias, output_kernel, output_bias])
    mask = np.arange(LENGTH) < np.array([4, 7])[:, None]
    pairs = np.broadcast_to(mask[:, None, :], (BATCH, LENGTH, LENGTH))
    wanted, scores = theirs(x, x, attention_mask=pairs, return_attention_scores=True)
    outputs, weights = layer(x, mask=mask, return_weights=True)
    close(outputs, np.where(mask[:, :, None], array(wanted), 0))
    of_real = mask[:, None, :, None]  # what a padding token would attend to means nothing
    close(np.where(of_real, array(weights), 0), np.where(of_real, array(scores), 0))


def test_ones_with_five_heads_ignore_what_lies_behind_their_lengths():
    layer = MultiHeadSelfAttention(5)
    x = np.ones((2, 4, 100), "float32")
    lens = np.array([3, 2])
    before = layer(x, valid_lens=lens)
    x[0, 3:], x[1, 2:] = 1e6, -1e6
    assert before.shape == (2, 4, 100)
    np.testing.assert_array_equal(array(before), array(layer(x, valid_lens=lens)))


def test_permuting_a_sequence_permutes_the_output():
    layer, x = built(), inputs()
    order = np.random.default_rng(1).permutation(LENGTH)
    close(layer(x[:, order]), array(layer(x))[:, order])


def test_lengths_zero_and_one():
    layer = built()
    assert layer(inputs(length=0)).shape == (BATCH, 0, WIDTH)
    outputs, weights = layer(inputs(length=1), return_weights=True)
    assert (array(weights) == 1).all()
    assert np.isfinite(array(outputs)).all()


def test_query_key_and_value_start_different_under_one_seed_and_equal_between_layers():
    first, second = (MultiHeadSelfAttention(1, seed=5) for _ in range(2))
    for layer in (first, second):
        layer.build((None, None, WIDTH))
    query, key, value = np.split(first.get_weights()[0], 3, axis=1)
    assert not np.allclose(query, key)
    assert not np.allclose(key, value)
    np.testing.assert_array_equal(first.get_weights()[0], second.get_weights()[0])
    # Glorot over one projection, as if the three were separate.
    limit = (6 / (WIDTH + WIDTH)) ** 0.5
    assert limit * 0.9 < np.abs(first.get_weights()[0]).max() <= limit


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_half_precision_masks_without_overflow_and_stays_near_float32(policy):
    exact, x = built(), inputs()
    layer = MultiHeadSelfAttention(HEADS, HEAD_DIM, dtype=policy)
    layer.build((None, None, WIDTH))
    layer.set_weights(exact.get_weights())
    mask = np.array([[True] * 4 + [False] * 3, [False] * 7])
    found = array(keras.ops.cast(layer(x, mask=mask), "float32"))
    wanted = array(exact(x, mask=mask))
    assert np.isfinite(found).all()
    roundings = 8 * (2**-8 if "bfloat16" in policy else 2**-11)  # of the scores, weights and sums
    np.testing.assert_allclose(found, wanted, rtol=0, atol=roundings * np.abs(wanted).max())
    assert (found[~mask] == 0).all()


def test_dropout_keeps_the_mean_and_has_the_variance_of_inverted_dropout():
    rate, length = 0.3, 64
    layer = MultiHeadSelfAttention(1, dropout=rate, use_bias=False, seed=1)
    layer.build((None, None, 1))
    layer.set_weights([np.array([[0.0, 0.0, 1.0]]), np.array([[1.0]])])
    x = np.ones((200, length, 1), "float32")
    # Zero queries and keys: each weight is 1/length, so each output is a mean of kept / (1 - rate).
    found = array(layer(x, training=True)).ravel()
    deviation = (rate / (1 - rate) / length) ** 0.5
    assert abs(found.mean() - 1) < 5 * deviation / len(found) ** 0.5
    assert abs(found.std() / deviation - 1) < 0.05


def test_dropout_is_absent_at_inference_and_follows_its_seed():
    x = inputs()
    plain, first, second = built(), built(dropout=0.5, seed=4), built(dropout=0.5, seed=4)
    np.testing.assert_array_equal(array(plain(x)), array(first(x)))
    trained = array(first(x, training=True))
    assert not np.allclose(trained, array(plain(x)))
    np.testing.assert_array_equal(trained, array(second(x, training=True)))
    assert not np.allclose(trained, array(first(x, training=True)))


def test_the_weights_returned_are_those_before_dropout():
    layer, x = built(dropout=0.5, seed=1), inputs()
    outputs, weights = layer(x, training=True, return_weights=True)
    close(weights, array(layer(x, return_weights=True)[1]))
    assert not np.allclose(array(outputs), array(layer(x)))


def test_dropout_of_one_leaves_the_bias_and_of_zero_makes_no_random_state():
    layer, x = built(dropout=1.0), inputs()
    bias = layer.get_weights()[3]
    np.testing.assert_allclose(array(layer(x, training=True)), np.broadcast_to(bias, x.shape), rtol=1e-6)
    assert not [v for v in built(dropout=0.0).variables if "seed" in v.path]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received 0"),
        ({"num_heads": 2.0}, "`num_heads` must be a positive integer. Received 2.0"),
        ({"num_heads": 2, "head_dim": -1}, "`head_dim`"),
        ({"num_heads": 2, "dropout": 1.5}, "in \\[0, 1\\].* Received 1.5"),
        ({"num_heads": 2, "dropout": -0.1}, "Received -0.1"),
    ],
)
def test_bad_arguments_are_named_with_their_value(arguments, said):
    with pytest.raises(ValueError, match=said):
        MultiHeadSelfAttention(**arguments)


def test_a_width_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="Received width 16, num_heads=3"):
        MultiHeadSelfAttention(3)(np.ones((1, 2, 16), "float32"))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**63, np.int64(3)])
def test_every_seed_that_is_not_negative_will_do(seed):
    first, second = (MultiHeadSelfAttention(1, dropout=0.5, seed=seed) for _ in range(2))
    x = inputs()
    np.testing.assert_array_equal(array(first(x, training=True)), array(second(x, training=True)))


@pytest.mark.parametrize("seed", [-1, 1.5, "one", True])
def test_a_bad_seed_is_named(seed):
    with pytest.raises(ValueError, match="`seed` must be an integer that is not negative"):
        MultiHeadSelfAttention(1, seed=seed)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_grouped_heads_equal_loops_that_share_keys_and_values(kv_heads):
    layer, x = randomised(MultiHeadSelfAttention(6, HEAD_DIM, num_kv_heads=kv_heads)), inputs()
    assert layer.weights[0].shape == (WIDTH, (6 + 2 * kv_heads) * HEAD_DIM)
    wanted = reference.self_attention(x, layer.get_weights(), 6, HEAD_DIM**-0.5, kv_heads=kv_heads)
    outputs, weights = layer(x, return_weights=True)
    close(outputs, wanted[0])
    close(weights, wanted[1])


def test_grouped_heads_equal_keras_grouped_query_attention_with_copied_weights():
    layer, x = randomised(MultiHeadSelfAttention(6, HEAD_DIM, num_kv_heads=2)), inputs()
    theirs = keras.layers.GroupQueryAttention(HEAD_DIM, 6, 2)
    theirs.build((None, None, WIDTH), (None, None, WIDTH))
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    copied = []
    for part in ((0, 6), (6, 8), (8, 10)):
        columns = slice(part[0] * HEAD_DIM, part[1] * HEAD_DIM)
        copied += [kernel[:, columns].reshape(WIDTH, -1, HEAD_DIM), bias[columns].reshape(-1, HEAD_DIM)]
    theirs.set_weights([*copied, output_kernel.reshape(6, HEAD_DIM, WIDTH), output_bias])
    close(layer(x), array(theirs(x, x)))


def test_query_key_norm_divides_each_head_by_its_root_mean_square_and_applies_the_gains():
    layer, x = built(qk_norm=True), inputs()
    gains = dict(zip(("query", "key"), layer.get_weights()[4:], strict=True))

    def turn(name, vector, position):
        return vector / np.sqrt(np.mean(vector**2) + 1e-6) * gains[name]

    close(layer(x), expected(layer, x, turn=turn)[0])


def test_query_key_norm_makes_the_scale_of_queries_and_keys_irrelevant():
    layer, x = built(qk_norm=True, use_bias=False), inputs()
    before = array(layer(x, return_weights=True)[1])
    kernel, *others = layer.get_weights()
    kernel[:, : 2 * HEADS * HEAD_DIM] *= 1000
    layer.set_weights([kernel, *others])
    close(layer(x, return_weights=True)[1], before)


def test_the_logit_cap_bounds_the_scaled_products():
    layer, x = built(logit_cap=0.7, scale=2.0), inputs()
    outputs, weights = layer(x, return_weights=True)
    wanted = expected(layer, x, scale=2.0, cap=0.7)
    close(outputs, wanted[0])
    close(weights, wanted[1])
    # No two weights of a row differ by more than e to the width of the band.
    ratio = array(weights).max(-1) / array(weights).min(-1)
    assert 1 < ratio.max() <= np.exp(2 * 0.7) + 1e-4


def test_every_head_and_projection_starts_in_glorots_limits_of_its_own():
    layer = MultiHeadSelfAttention(8, 16, num_kv_heads=1, seed=3)
    layer.build((None, None, 64))
    kernel = np.abs(layer.get_weights()[0])
    for columns, width in ((slice(0, 128), 128), (slice(128, 144), 16), (slice(144, 160), 16)):
        limit = (6 / (64 + width)) ** 0.5
        assert limit * 0.95 < kernel[:, columns].max() <= limit


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_kv_heads": 2}, "`num_heads` must be divisible by `num_kv_heads`.*num_heads=3, num_kv_heads=2"),
        ({"num_kv_heads": 0}, "`num_kv_heads` must be a positive integer. Received 0"),
        ({"scale": 0}, "`scale` must be a positive, finite number. Received 0"),
        ({"scale": float("nan")}, "`scale` must be a positive, finite number. Received nan"),
        ({"logit_cap": -1.0}, "`logit_cap` must be a positive, finite number. Received -1.0"),
        ({"window": -1}, r"`window` must be an integer w .* Received -1"),
        ({"window": (1, 2, 3)}, r"`window` must be .* Received \(1, 2, 3\)"),
        ({"window": 2**31}, r"`window` must be .* to 2\*\*31 - 1. Received 2147483648"),
        ({"causal": "no"}, "`causal` must be True or False. Received 'no'"),
        ({"qk_norm": 1}, "`qk_norm` must be True or False. Received 1"),
        ({"window": 1.5}, "`window` must be .* Received 1.5"),
        ({"window": (2, 1), "causal": True}, r"`window` and `causal` contradict.*pass \(2, 0\)"),
        (
            {"position": "sinusoids"},
            "`position` must be a PositionStrategy such as RotaryPositions.* 'sinusoids'",
        ),
    ],
)
def test_bad_settings_are_named_with_their_value(settings, said):
    with pytest.raises(ValueError, match=said):
        MultiHeadSelfAttention(3, **settings)


@pytest.mark.parametrize("head_dim", [1, 16, 32, 80])
def test_bfloat16_scales_products_by_powers_of_two_which_round_nothing(head_dim):
    layer = MultiHeadSelfAttention(2, head_dim, dtype="mixed_bfloat16")
    layer.build((None, None, 4))
    of_queries, of_products = layer._dot_product.factors
    assert of_queries * of_products == pytest.approx(head_dim**-0.5)
    assert np.frexp(of_products)[0] == 0.5
    assert 1 <= of_queries < 2


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_scales_as_float32_does(policy):
    """The root of the head width is not a power of two."""
    x = np.random.default_rng(0).normal(size=(2, 9, 6)).astype("float32")
    exact = randomised(MultiHeadSelfAttention(2, 5), 6, 0.3)
    half = MultiHeadSelfAttention(2, 5, dtype=policy)
    half.build(x.shape)
    half.set_weights(exact.get_weights())
    np.testing.assert_allclose(array(half(x)), array(exact(x)), atol=0.02)


def test_without_a_seed_every_layer_draws_weights_of_its_own_and_the_global_seed_repeats_them():
    def kernel():
        layer = MultiHeadSelfAttention(2)
        layer.build((None, None, 8))
        return array(layer.weights[0])

    keras.utils.set_random_seed(3)
    first, second = kernel(), kernel()
    assert np.abs(first - second).max() > 0.01
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(kernel(), first)
