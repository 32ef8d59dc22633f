"""Additive and multiplicative scores against loops in NumPy."""

import numpy as np
import pytest
from backend import array
from formulas import CASES
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, close, inputs, randomised

from keras_selfattn.layers import AdditiveSelfAttention, MultiplicativeSelfAttention

every_case = pytest.mark.parametrize(("make", "settings", "in_numpy"), CASES.values(), ids=CASES)


@every_case
def test_equals_loops_in_numpy(make, settings, in_numpy):
    layer, x = randomised(make(HEADS, HEAD_DIM, **settings), deviation=0.3), inputs()
    outputs, weights = layer(x, return_weights=True)
    wanted = in_numpy(layer, x)
    close(outputs, wanted[0])
    close(weights, wanted[1])


@every_case
def test_masks_equal_loops_in_numpy(make, settings, in_numpy):
    layer, x = randomised(make(HEADS, HEAD_DIM, causal=True, **settings), deviation=0.3), inputs()
    lens = np.array([3, 7])
    pairs = np.random.default_rng(0).random((BATCH, HEADS, LENGTH, LENGTH)) < 0.7
    outputs, weights = layer(x, valid_lens=lens, attention_mask=pairs, return_weights=True)
    wanted = in_numpy(layer, x, lambda b, h, t, s: s <= t and s < lens[b] and pairs[b, h, t, s])
    real = (np.arange(LENGTH) < lens[:, None])[:, None, :, None]  # weights of a padding query mean nothing
    close(np.where(real, array(weights), 0), np.where(real, wanted[1], 0))
    close(outputs, np.where(np.arange(LENGTH)[:, None] < lens[:, None, None], wanted[0], 0))


@pytest.mark.parametrize("make", [AdditiveSelfAttention, MultiplicativeSelfAttention])
def test_permuting_a_sequence_permutes_the_output(make):
    layer, x = randomised(make(HEADS, HEAD_DIM)), inputs()
    order = np.random.default_rng(1).permutation(LENGTH)
    close(layer(x[:, order]), array(layer(x))[:, order])


@pytest.mark.parametrize("make", [AdditiveSelfAttention, MultiplicativeSelfAttention])
@pytest.mark.parametrize("return_weights", [False, True])
def test_under_causal_no_future_leaks(make, return_weights):
    layer, x = randomised(make(HEADS, HEAD_DIM, causal=True)), inputs()
    changed = x.copy()
    changed[:, 4:] = 1e3
    before, after = (layer(v, return_weights=return_weights) for v in (x, changed))
    before, after = (array(v[0] if return_weights else v) for v in (before, after))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])


def test_bad_arguments_are_named_with_their_value():
    with pytest.raises(ValueError, match="`scale` must be a positive, finite number. Received -1"):
        MultiplicativeSelfAttention(2, scale=-1)
    with pytest.raises(ValueError, match="Received width 11, num_heads=2"):
        AdditiveSelfAttention(2)(inputs())


def test_multiplicative_logits_start_with_a_variance_of_one():
    layer = MultiplicativeSelfAttention(1, seed=0)
    layer.build((None, None, 64))
    x = np.random.default_rng(0).normal(size=(500, 64))
    logits = x @ layer.get_weights()[4] @ x.T / 8
    off_diagonal = logits[~np.eye(500, dtype=bool)]
    assert abs(off_diagonal.std() - 1) < 0.1
