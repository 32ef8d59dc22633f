"""MultiHeadSelfAttention against loops in NumPy, Keras' own layer, worked numbers and its contract."""

import keras
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_selfattn.layers import MultiHeadSelfAttention

# A different prime for every axis, so that a swapped one fails.
BATCH, LENGTH, HEADS, HEAD_DIM, WIDTH = 2, 7, 3, 5, 11


def inputs(batch=BATCH, length=LENGTH, width=WIDTH, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, length, width)).astype("float32")


def built(**settings):
    """A layer with weights that are all different, biases included (they start at zero)."""
    layer = MultiHeadSelfAttention(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.5 for w in layer.weights])
    return layer


def expected(layer, x, allowed=lambda b, h, t, s: True, scale=HEAD_DIM**-0.5):
    return reference.self_attention(x, layer.get_weights(), HEADS, scale, allowed)


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=2e-5)


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
    np.testing.assert_array_equal(np.asarray(before)[:, :4], np.asarray(after)[:, :4])
    assert not np.allclose(np.asarray(before)[:, 4:], np.asarray(after)[:, 4:])


def test_attention_masks_of_each_rank_equal_the_reference():
    layer, x = built(), inputs()
    random = np.random.default_rng(3)
    of_rank = {
        2: random.random((LENGTH, LENGTH)) < 0.6,
        3: random.random((BATCH, LENGTH, LENGTH)) < 0.6,
        4: random.random((BATCH, HEADS, LENGTH, LENGTH)) < 0.6,
    }
    chosen = {
        2: lambda b, h, t, s: of_rank[2][t, s],
        3: lambda b, h, t, s: of_rank[3][b, t, s],
        4: lambda b, h, t, s: of_rank[4][b, h, t, s],
    }
    for rank, mask in of_rank.items():
        outputs, weights = layer(x, attention_mask=mask, return_weights=True)
        wanted = expected(layer, x, chosen[rank])
        close(outputs, wanted[0])
        close(weights, wanted[1])


def test_a_mask_for_all_heads_may_have_one_head():
    layer, x = built(), inputs()
    mask = np.random.default_rng(3).random((BATCH, 1, LENGTH, LENGTH)) < 0.6
    close(layer(x, attention_mask=mask), expected(layer, x, lambda b, h, t, s: mask[b, 0, t, s])[0])


def test_mask_causal_and_attention_mask_combine():
    layer, x = built(causal=True), inputs()
    mask = np.random.default_rng(5).random((BATCH, LENGTH)) < 0.7
    pairs = np.random.default_rng(6).random((BATCH, LENGTH, LENGTH)) < 0.7
    found = np.asarray(layer(x, mask=mask, attention_mask=pairs))
    wanted = expected(layer, x, lambda b, h, t, s: s <= t and mask[b, s] and pairs[b, t, s])[0]
    close(found, np.where(mask[:, :, None], wanted, 0))


def test_valid_lens_of_rank_one_is_a_padding_mask():
    layer, x = built(), inputs()
    lens = np.array([3, 7])
    mask = np.arange(LENGTH) < lens[:, None]
    np.testing.assert_array_equal(np.asarray(layer(x, valid_lens=lens)), np.asarray(layer(x, mask=mask)))


def test_valid_lens_of_rank_two_limits_each_query():
    layer, x = built(), inputs()
    lens = np.random.default_rng(7).integers(0, LENGTH + 1, (BATCH, LENGTH))
    outputs, weights = layer(x, valid_lens=lens, return_weights=True)
    wanted = expected(layer, x, lambda b, h, t, s: s < lens[b, t])
    close(outputs, wanted[0])
    close(weights, wanted[1])


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
    close(outputs, np.where(mask[:, :, None], wanted, 0))
    of_real = mask[:, None, :, None]  # what a padding token would attend to means nothing
    close(np.where(of_real, weights, 0), np.where(of_real, scores, 0))


def test_worked_example_with_matrices_by_hand():
    """Inputs and matrices from a lecture: q1 = (3, 3, 2), unscaled scores 16, 20, 41, 37."""
    x = np.array([[[1, 0, 1], [1, 2, 0], [3, 1, 1], [2, 1, 2]]], "float32")
    key = np.array([[1, 0, 1], [1, 1, 1], [2, 1, 0]], "float32")
    query = np.array([[3, 2, 0], [1, 1, 2], [2, 1, 0]], "float32")
    np.testing.assert_array_equal(query @ x[0, 0], [3, 3, 2])
    np.testing.assert_array_equal(x[0] @ key.T, [[2, 2, 2], [1, 3, 4], [4, 5, 7], [4, 5, 5]])
    layer = MultiHeadSelfAttention(1, scale=1.0, use_bias=False)
    layer.build((None, None, 3))
    eye = np.eye(3, dtype="float32")
    layer.set_weights([np.concatenate([query.T, key.T, eye], axis=1), eye])
    outputs, weights = layer(x, return_weights=True)
    scores = np.exp(np.array([16, 20, 41, 37.0]) - 41)
    np.testing.assert_allclose(np.asarray(weights)[0, 0, 0], scores / scores.sum(), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(outputs)[0, 0], scores @ x[0] / scores.sum(), rtol=1e-6)


def test_ones_with_five_heads_ignore_what_lies_behind_their_lengths():
    layer = MultiHeadSelfAttention(5)
    x = np.ones((2, 4, 100), "float32")
    lens = np.array([3, 2])
    before = layer(x, valid_lens=lens)
    x[0, 3:], x[1, 2:] = 1e6, -1e6
    assert before.shape == (2, 4, 100)
    np.testing.assert_array_equal(np.asarray(before), np.asarray(layer(x, valid_lens=lens)))


def test_weights_sum_to_one_or_are_exactly_zero():
    layer, x = built(), inputs()
    mask = np.random.default_rng(3).random((BATCH, LENGTH, LENGTH)) < 0.25
    mask[0, 2] = False
    sums = np.asarray(layer(x, attention_mask=mask, return_weights=True)[1]).sum(-1)
    has_key = mask.any(-1)
    np.testing.assert_allclose(sums[np.broadcast_to(has_key[:, None], sums.shape)], 1, rtol=1e-6)
    assert (sums[np.broadcast_to(~has_key[:, None], sums.shape)] == 0).all()
    assert (~has_key).any()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_query_with_nothing_to_attend_to_outputs_the_projections_bias(dropout, return_weights):
    layer, x = built(dropout=dropout), inputs()
    nothing = np.zeros((LENGTH, LENGTH), bool)
    found = layer(x, attention_mask=nothing, return_weights=return_weights)
    if return_weights:
        found, weights = found
        assert (np.asarray(weights) == 0).all()
    np.testing.assert_allclose(np.asarray(found), np.broadcast_to(layer.get_weights()[3], x.shape), rtol=1e-6)


def test_masked_positions_are_exactly_zero_and_an_empty_row_too():
    layer, x = built(), inputs()
    mask = np.array([[True] * 4 + [False] * 3, [False] * 7])
    found = np.asarray(layer(x, mask=mask))
    assert (found[~mask] == 0).all()
    assert (found[mask] != 0).all()


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 9), padding=st.integers(0, 40), seed=st.integers(0, 1000))
def test_padding_does_not_change_real_tokens(length, padding, seed):
    layer, x = built(), inputs(length=length, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(BATCH, padding, WIDTH)).astype("float32") * 100
    padded = np.concatenate([x, noise], axis=1)
    mask = np.arange(length + padding)[None] < np.full((BATCH, 1), length)
    alone, among = np.asarray(layer(x)), np.asarray(layer(padded, mask=mask))[:, :length]
    np.testing.assert_allclose(among, alone, rtol=1e-5, atol=1e-5 * np.abs(alone).max())


def test_permuting_a_sequence_permutes_the_output():
    layer, x = built(), inputs()
    order = np.random.default_rng(1).permutation(LENGTH)
    close(layer(x[:, order]), np.asarray(layer(x))[:, order])


def test_lengths_zero_and_one():
    layer = built()
    assert layer(inputs(length=0)).shape == (BATCH, 0, WIDTH)
    outputs, weights = layer(inputs(length=1), return_weights=True)
    assert (np.asarray(weights) == 1).all()
    assert np.isfinite(np.asarray(outputs)).all()


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
    found = np.asarray(keras.ops.cast(layer(x, mask=mask), "float32"))
    wanted = np.asarray(exact(x, mask=mask))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, wanted, atol=0.1 if "b" in policy else 0.02)
    assert (found[~mask] == 0).all()


def test_large_negative_logits_in_half_precision_still_beat_the_mask():
    """A fill of -3e4, as Keras uses for float16, would give padding the weight here."""
    layer = MultiHeadSelfAttention(1, scale=1.0, use_bias=False, dtype="mixed_float16")
    layer.build((None, None, 2))
    eye = np.eye(2)
    layer.set_weights([np.concatenate([eye, -eye, eye], axis=1), eye])
    x = np.array([[[200.0, 0], [200.0, 1], [0, 0]]])
    weights = np.asarray(layer(x, mask=np.array([[True, True, False]]), return_weights=True)[1], "float32")
    assert (weights[..., 2] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)


def test_gradients_are_finite_where_nothing_may_be_attended_to():
    import tensorflow as tf

    layer, x = built(), tf.constant(inputs())
    mask = np.zeros((BATCH, LENGTH), bool)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(layer(x, mask=mask, attention_mask=np.zeros((LENGTH, LENGTH), bool)) ** 2)
    for gradient in tape.gradient(total, [x, *layer.trainable_variables]):
        assert gradient is None or np.isfinite(gradient.numpy()).all()


def test_dropout_keeps_the_mean_and_has_the_variance_of_inverted_dropout():
    rate, length = 0.3, 64
    layer = MultiHeadSelfAttention(1, dropout=rate, use_bias=False, seed=1)
    layer.build((None, None, 1))
    layer.set_weights([np.array([[0.0, 0.0, 1.0]]), np.array([[1.0]])])
    x = np.ones((200, length, 1), "float32")
    # Zero queries and keys: each weight is 1/length, so each output is a mean of kept / (1 - rate).
    found = np.asarray(layer(x, training=True)).ravel()
    deviation = (rate / (1 - rate) / length) ** 0.5
    assert abs(found.mean() - 1) < 5 * deviation / len(found) ** 0.5
    assert abs(found.std() / deviation - 1) < 0.05


def test_dropout_is_absent_at_inference_and_follows_its_seed():
    x = inputs()
    plain, first, second = built(), built(dropout=0.5, seed=4), built(dropout=0.5, seed=4)
    np.testing.assert_array_equal(np.asarray(plain(x)), np.asarray(first(x)))
    trained = np.asarray(first(x, training=True))
    assert not np.allclose(trained, np.asarray(plain(x)))
    np.testing.assert_array_equal(trained, np.asarray(second(x, training=True)))
    assert not np.allclose(trained, np.asarray(first(x, training=True)))


def test_dropout_of_one_leaves_the_bias_and_of_zero_makes_no_random_state():
    layer, x = built(dropout=1.0), inputs()
    bias = layer.get_weights()[3]
    np.testing.assert_allclose(np.asarray(layer(x, training=True)), np.broadcast_to(bias, x.shape), rtol=1e-6)
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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"mask": np.ones((BATCH, LENGTH), "float32")}, "`mask` must be boolean.*float32"),
        ({"mask": np.ones((BATCH, LENGTH - 1), bool)}, "`mask` must have shape"),
        ({"attention_mask": np.zeros((LENGTH, LENGTH), "float32")}, "`attention_mask` must be boolean"),
        ({"attention_mask": np.ones(LENGTH, bool)}, "`attention_mask` must be of rank 2"),
        ({"attention_mask": np.ones((1, LENGTH, LENGTH), bool)}, "\\[batch, length, length\\]"),
        ({"attention_mask": np.ones((HEADS, LENGTH, LENGTH), bool)}, "\\[batch, length, length\\]"),
        ({"attention_mask": np.ones((BATCH, BATCH, LENGTH, LENGTH), bool)}, "heads or 1"),
        ({"valid_lens": np.ones(BATCH, "float32")}, "`valid_lens` must hold integers"),
        ({"valid_lens": np.ones((BATCH, LENGTH, 1), int)}, "`valid_lens` must have shape"),
        ({"valid_lens": np.ones(BATCH + 1, int)}, "`valid_lens` must have shape"),
    ],
)
def test_bad_masks_are_refused_and_never_broadcast(call, said):
    with pytest.raises(ValueError, match=said):
        built()(inputs(), **call)


@pytest.mark.parametrize(
    ("policy", "noise"), [("float32", np.nan), ("float32", np.inf), ("mixed_float16", 6e4)]
)
def test_whatever_padding_holds_does_not_matter(policy, noise):
    layer = MultiHeadSelfAttention(HEADS, HEAD_DIM, dtype=policy)
    x, mask = inputs(), np.arange(LENGTH) < np.array([[4], [7]])
    wanted = np.asarray(layer(x, mask=mask))
    np.testing.assert_array_equal(np.asarray(layer(np.where(mask[:, :, None], x, noise), mask=mask)), wanted)
    assert np.isfinite(wanted).all()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mask", (BATCH, 1)),
        ("mask", (1, LENGTH)),
        ("attention_mask", (1, LENGTH, LENGTH)),
        ("attention_mask", (BATCH, 1, 1)),
        ("attention_mask", (BATCH, 1, 1, LENGTH)),
    ],
)
def test_where_sizes_are_known_only_when_it_runs_masks_are_not_broadcast_either(name, shape):
    import tensorflow as tf

    layer = built()
    unknown = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None] * len(shape), tf.bool)]
    traced = tf.function(lambda x, m: layer(x, **{name: m}), input_signature=unknown)
    right = {2: (BATCH, LENGTH), 3: (BATCH, LENGTH, LENGTH), 4: (BATCH, 1, LENGTH, LENGTH)}[len(shape)]
    assert traced(inputs(), np.ones(right, bool)).shape == (BATCH, LENGTH, WIDTH)
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        traced(inputs(), np.ones(shape, bool))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**63, np.int64(3)])
def test_every_seed_that_is_not_negative_will_do(seed):
    first, second = (MultiHeadSelfAttention(1, dropout=0.5, seed=seed) for _ in range(2))
    x = inputs()
    np.testing.assert_array_equal(np.asarray(first(x, training=True)), np.asarray(second(x, training=True)))


@pytest.mark.parametrize("seed", [-1, 1.5, "one", True])
def test_a_bad_seed_is_named(seed):
    with pytest.raises(ValueError, match="`seed` must be an integer that is not negative"):
        MultiHeadSelfAttention(1, seed=seed)
