"""Masks of every form against loops in NumPy: what they allow, what they zero, what they refuse."""

import keras
import numpy as np
import pytest
from backend import array, examples, gradients, tensorflow_only
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, built, close, expected, inputs

from keras_selfattn.layers import (
    AttentionPooling,
    Encoder,
    EncoderBlock,
    LinearSelfAttention,
    MultiHeadSelfAttention,
    attention_paths,
)
from keras_selfattn.layers import window as windows
from keras_selfattn.layers.tensorflow import block_walk


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


KEYS = {
    "[batch, 1, length]": lambda keys: keys[:, None],
    "[batch, 1, 1, length]": lambda keys: keys[:, None, None],
    "[batch, heads, 1, length]": lambda keys: np.repeat(keys[:, None, None], HEADS, axis=1),
}
BLOCKS = {"_SCORES": 60, "_WASTED_SCORES": 30, "_LEAST_QUERIES": 2, "_STRETCH": 4}
PATHS = {
    "all pairs": {},
    "packed": {attention_paths: {"_FEW_TOKENS": -1}, block_walk: BLOCKS},
    "query blocks": {
        attention_paths: {"runs_kernels": lambda inputs: False, "_SCORES": 20, "_LEAST_QUERIES": 2}
    },
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("form", KEYS)
def test_a_mask_of_keys_holds_for_every_query(form, window, path, monkeypatch):
    monkeypatch.setattr(windows, "_SMALLEST_CHUNK", 2)
    for module, values in PATHS[path].items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    layer, x = built(window=window), inputs()
    keys = np.random.default_rng(3).random((BATCH, LENGTH)) < 0.6
    mask = np.arange(LENGTH) < np.array([[LENGTH], [LENGTH - 1]])
    found = layer(x, mask=mask, attention_mask=KEYS[form](keys))
    reach = LENGTH if window is None else window
    wanted = expected(layer, x, lambda b, h, t, s: keys[b, s] and mask[b, s] and abs(s - t) <= reach)[0]
    close(found, np.where(mask[:, :, None], wanted, 0))


def test_a_mask_of_keys_is_that_of_keras_own_attention():
    layer, x = built(), inputs()
    keys = np.random.default_rng(3).random((BATCH, 1, LENGTH)) < 0.6
    theirs = keras.layers.MultiHeadAttention(HEADS, HEAD_DIM)
    theirs.build(x.shape, x.shape)
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    heads = [part.reshape(WIDTH, HEADS, HEAD_DIM) for part in np.split(kernel, 3, axis=1)]
    biases = [part.reshape(HEADS, HEAD_DIM) for part in np.split(bias, 3)]
    output = [output_kernel.reshape(HEADS, HEAD_DIM, WIDTH), output_bias]
    theirs.set_weights([each for pair in zip(heads, biases, strict=True) for each in pair] + output)
    close(layer(x, attention_mask=keys), array(theirs(x, x, attention_mask=keys)))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integers_of_zeros_and_ones_are_a_mask_where_they_can_be_seen(dtype):
    layer, x = built(), inputs()
    mask = np.random.default_rng(5).random((BATCH, LENGTH)) < 0.7
    pairs = np.random.default_rng(6).random((BATCH, LENGTH, LENGTH)) < 0.7
    found = array(layer(x, mask=mask.astype(dtype), attention_mask=pairs.astype(dtype)))
    np.testing.assert_array_equal(found, array(layer(x, mask=mask, attention_mask=pairs)))


def test_integers_that_cannot_be_seen_are_no_mask():
    with pytest.raises(ValueError, match="`attention_mask` must be boolean.*int32"):
        built()(keras.Input((5, WIDTH)), attention_mask=keras.Input((5, 5), dtype="int32"))


def test_mask_causal_and_attention_mask_combine():
    layer, x = built(causal=True), inputs()
    mask = np.random.default_rng(5).random((BATCH, LENGTH)) < 0.7
    pairs = np.random.default_rng(6).random((BATCH, LENGTH, LENGTH)) < 0.7
    found = array(layer(x, mask=mask, attention_mask=pairs))
    wanted = expected(layer, x, lambda b, h, t, s: s <= t and mask[b, s] and pairs[b, t, s])[0]
    close(found, np.where(mask[:, :, None], wanted, 0))


@pytest.mark.parametrize("heads", [1, HEADS])
def test_where_batch_and_heads_are_equal_a_keras_mask_and_one_of_rank_4_stay_apart(heads):
    """Keras' own attention aligns the batch of one with the heads of the other."""
    layer, x = built(), inputs(batch=HEADS)
    mask = np.arange(LENGTH) < np.array([[3], [7], [5]])
    pairs = np.random.default_rng(5).random((HEADS, heads, LENGTH, LENGTH)) < 0.6
    found = layer(x, mask=mask, attention_mask=pairs)
    wanted = expected(layer, x, lambda b, h, t, s: mask[b, s] and pairs[b, h % heads, t, s])[0]
    close(found, np.where(mask[:, :, None], wanted, 0))


def test_valid_lens_of_rank_one_is_a_padding_mask():
    layer, x = built(), inputs()
    lens = np.array([3, 7])
    mask = np.arange(LENGTH) < lens[:, None]
    np.testing.assert_array_equal(array(layer(x, valid_lens=lens)), array(layer(x, mask=mask)))


def test_valid_lens_of_rank_two_limits_each_query():
    layer, x = built(), inputs()
    lens = np.random.default_rng(7).integers(0, LENGTH + 1, (BATCH, LENGTH))
    outputs, weights = layer(x, valid_lens=lens, return_weights=True)
    wanted = expected(layer, x, lambda b, h, t, s: s < lens[b, t])
    close(outputs, wanted[0])
    close(weights, wanted[1])


def test_weights_sum_to_one_or_are_exactly_zero():
    layer, x = built(), inputs()
    mask = np.random.default_rng(3).random((BATCH, LENGTH, LENGTH)) < 0.25
    mask[0, 2] = False
    sums = array(layer(x, attention_mask=mask, return_weights=True)[1]).sum(-1)
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
        assert (array(weights) == 0).all()
    np.testing.assert_allclose(array(found), np.broadcast_to(layer.get_weights()[3], x.shape), rtol=1e-6)


def test_masked_positions_are_exactly_zero_and_an_empty_row_too():
    layer, x = built(), inputs()
    mask = np.array([[True] * 4 + [False] * 3, [False] * 7])
    found = array(layer(x, mask=mask))
    assert (found[~mask] == 0).all()
    assert (found[mask] != 0).all()


@settings(max_examples=examples(20), deadline=None)
@given(length=st.integers(1, 9), padding=st.integers(0, 40), seed=st.integers(0, 1000))
def test_padding_does_not_change_real_tokens(length, padding, seed):
    layer, x = built(), inputs(length=length, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(BATCH, padding, WIDTH)).astype("float32") * 100
    padded = np.concatenate([x, noise], axis=1)
    mask = np.arange(length + padding)[None] < np.full((BATCH, 1), length)
    alone, among = array(layer(x)), array(layer(padded, mask=mask))[:, :length]
    np.testing.assert_allclose(among, alone, rtol=1e-5, atol=1e-5 * np.abs(alone).max())


def test_large_negative_logits_in_half_precision_still_beat_the_mask():
    """A fill of -3e4, as Keras uses for float16, would give padding the weight here."""
    layer = MultiHeadSelfAttention(1, scale=1.0, use_bias=False, dtype="mixed_float16")
    layer.build((None, None, 2))
    eye = np.eye(2)
    layer.set_weights([np.concatenate([eye, -eye, eye], axis=1), eye])
    x = np.array([[[200.0, 0], [200.0, 1], [0, 0]]])
    weights = array(layer(x, mask=np.array([[True, True, False]]), return_weights=True)[1])
    assert (weights[..., 2] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)


def test_gradients_are_finite_where_nothing_may_be_attended_to():
    mask = np.zeros((BATCH, LENGTH), bool)
    found = gradients(built(), inputs(), mask=mask, attention_mask=np.zeros((LENGTH, LENGTH), bool))
    assert all(np.isfinite(gradient).all() for gradient in found)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"mask": np.ones((BATCH, LENGTH), "float32")}, "`mask` must be boolean.*float32"),
        ({"mask": np.ones((BATCH, LENGTH - 1), bool)}, "`mask` must have shape"),
        (
            {"mask": np.ones((BATCH, LENGTH, 11), "float32")},
            "`mask` must have .* takes one input.*2, 7, 11",
        ),
        ({"attention_mask": np.zeros((LENGTH, LENGTH), "float32")}, "`attention_mask` must be boolean"),
        ({"attention_mask": np.ones(LENGTH, bool)}, "`attention_mask` must be of rank 2"),
        ({"attention_mask": np.ones((1, LENGTH, LENGTH), bool)}, "\\[batch, length or 1, length\\]"),
        ({"attention_mask": np.ones((HEADS, LENGTH, LENGTH), bool)}, "\\[batch, length or 1, length\\]"),
        ({"attention_mask": np.ones((1, 1, LENGTH), bool)}, "\\[batch, length or 1, length\\]"),
        ({"attention_mask": np.ones((BATCH, LENGTH, 1), bool)}, "\\[batch, length or 1, length\\]"),
        ({"attention_mask": np.ones((BATCH, 2, LENGTH), bool)}, "\\[batch, length or 1, length\\]"),
        ({"attention_mask": np.ones((BATCH, 1, 2, LENGTH), bool)}, "heads or 1, length or 1"),
        ({"attention_mask": np.ones((BATCH, LENGTH), bool)}, "tokens, \\[batch, length\\], goes to `mask`"),
        ({"attention_mask": np.full((LENGTH, LENGTH), 2)}, "zeros and ones.*from 2 to 2"),
        ({"mask": np.full((BATCH, LENGTH), -1)}, "`mask` of integers must hold zeros and ones"),
        ({"attention_mask": np.ones((BATCH, BATCH, LENGTH, LENGTH), bool)}, "heads or 1"),
        ({"valid_lens": np.ones(BATCH, "float32")}, "`valid_lens` must hold integers"),
        ({"valid_lens": np.ones((BATCH, LENGTH, 1), int)}, "`valid_lens` must have shape"),
        ({"valid_lens": np.ones(BATCH + 1, int)}, "`valid_lens` must have shape"),
        (
            {"valid_lens": np.full(BATCH, LENGTH + 1)},
            "between 0 and the length of the inputs, 7.*from 8 to 8",
        ),
        ({"valid_lens": np.full((BATCH, LENGTH), -1)}, "between 0 and the length of the inputs, 7.*from -1"),
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
    wanted = array(layer(x, mask=mask))
    np.testing.assert_array_equal(array(layer(np.where(mask[:, :, None], x, noise), mask=mask)), wanted)
    assert np.isfinite(wanted).all()


@pytest.mark.slow
@tensorflow_only
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mask", (BATCH, 1)),
        ("mask", (1, LENGTH)),
        ("attention_mask", (1, LENGTH, LENGTH)),
        ("attention_mask", (BATCH, 1, 1)),
        ("attention_mask", (BATCH, 2, LENGTH)),
        ("attention_mask", (1, 1, 1, LENGTH)),
        ("mask", (LENGTH, BATCH)),  # as many values, but time-major
        ("attention_mask", (LENGTH, BATCH, LENGTH)),
    ],
)
def test_where_sizes_are_known_only_when_it_runs_masks_are_not_broadcast_either(name, shape):
    import tensorflow as tf

    layer = built()
    unknown = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None] * len(shape), tf.bool)]
    traced = tf.function(lambda x, m: layer(x, **{name: m}), input_signature=unknown)
    right = {2: (BATCH, LENGTH), 3: (BATCH, LENGTH, LENGTH), 4: (BATCH, 1, LENGTH, LENGTH)}[len(shape)]
    assert traced(inputs(), np.ones(right, bool)).shape == (BATCH, LENGTH, WIDTH)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ConcatOp|BroadcastTo"):
        traced(inputs(), np.ones(shape, bool))


@tensorflow_only
@pytest.mark.parametrize("keys_known_to_be_one", [False, True])
def test_where_sizes_are_known_only_when_it_runs_a_mask_of_keys_holds_for_every_query(keys_known_to_be_one):
    import tensorflow as tf

    layer, x = built(), inputs()
    queries = 1 if keys_known_to_be_one else None
    unknown = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None, queries, None], tf.bool)]
    traced = tf.function(lambda x, m: layer(x, attention_mask=m), input_signature=unknown)
    keys = np.random.default_rng(3).random((BATCH, 1, 1, LENGTH)) < 0.6
    close(traced(x, keys), array(layer(x, attention_mask=keys)))


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"return_attention_scores": True}, "pass `return_weights=True`"),
        ({"use_causal_mask": True}, "pass `causal=True` in the constructor"),
        ({"padding_mask": np.ones((BATCH, LENGTH), bool)}, "pass `mask`"),
        ({"query_mask": np.ones((BATCH, LENGTH), bool)}, "pass `mask`"),
        ({"key": inputs()}, "pass `inputs` alone.*`MultiHeadCrossAttention`"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [MultiHeadSelfAttention, LinearSelfAttention, EncoderBlock, lambda n: Encoder(1, n), AttentionPooling],
)
def test_a_call_with_a_peers_name_is_told_ours(make, given, ours):
    for x in (inputs(width=6), keras.Input((LENGTH, 6))):
        with pytest.raises(TypeError, match=ours):
            make(HEADS)(x, **given)


def test_a_mask_and_lengths_that_contradict_each_other_are_refused():
    mask = np.arange(LENGTH) < np.array([[3], [7]])
    np.testing.assert_array_equal(
        array(built()(inputs(), mask=mask, valid_lens=np.array([3, 7]))), array(built()(inputs(), mask=mask))
    )
    with pytest.raises(ValueError, match=r"contradict.*row 1: mask \[1, 1, 1, 1, 1, 1, 1\], valid length 6"):
        built()(inputs(), mask=mask, valid_lens=np.array([3, 6]))


@tensorflow_only
def test_inside_a_graph_a_token_is_real_if_mask_and_lengths_both_say_so():
    import tensorflow as tf

    layer, x = built(), inputs()
    traced = tf.function(lambda x, m, n: layer(x, mask=m, valid_lens=n))
    mask = np.arange(LENGTH) < np.array([[3], [7]])
    found = traced(tf.constant(x), tf.constant(mask), tf.constant([7, 4]))
    close(found, array(layer(x, valid_lens=np.array([3, 4]))))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"mask": keras.Input((5,), dtype="float32")}, "`mask` must be boolean"),
        ({"mask": keras.Input((4,), dtype="bool")}, "`mask` must have shape"),
        ({"valid_lens": keras.Input((), dtype="float32")}, "`valid_lens` must hold integers"),
        ({"valid_lens": keras.Input((5, 1), dtype="int32")}, "`valid_lens` must have shape"),
        ({"attention_mask": keras.Input((5, 4), dtype="bool")}, "`attention_mask` must have shape"),
        ({"attention_mask": keras.Input((HEADS + 1, 5, 5), dtype="bool")}, "heads or 1"),
    ],
)
@pytest.mark.parametrize("make", [MultiHeadSelfAttention, lambda n: Encoder(1, n, head_dim=2)])
def test_a_functional_model_refuses_them_when_it_is_built(make, call, said):
    with pytest.raises(ValueError, match=said):
        make(HEADS)(keras.Input((5, WIDTH - 2)), **call)
