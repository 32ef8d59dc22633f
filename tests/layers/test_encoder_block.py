"""The encoder's block against its formula in NumPy, its rates of dropout, and rematerialisation."""

import numpy as np
import pytest
from backend import array, gradients, tensorflow_only
from formulas import block_in_numpy

from keras_selfattn.layers import EncoderBlock

BATCH, LENGTH, HEADS, WIDTH, HIDDEN = 3, 5, 2, 14, 11


def inputs(seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


def randomised(layer):
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.4 for w in layer.weights])
    return layer


MASK = np.arange(LENGTH) < np.array([[3], [5], [1]])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_block_is_its_formula(kind, norm_first, gated):
    settings = {"norm_first": norm_first, "gated": gated}
    block, x = randomised(EncoderBlock(HEADS, HIDDEN, norm=kind, **settings)), inputs()
    wanted = block_in_numpy(block, x, MASK, kind, **settings)
    np.testing.assert_allclose(array(block(x, mask=MASK)), wanted, rtol=1e-4, atol=5e-5)


def test_the_hidden_layer_is_four_times_the_features_unless_told():
    assert randomised(EncoderBlock(HEADS)).count_params() == sum(
        (WIDTH * 3 * WIDTH + 3 * WIDTH, WIDTH * WIDTH + WIDTH, 2 * 4 * WIDTH * WIDTH + 5 * WIDTH, 4 * WIDTH)
    )


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
        return sum(operation.type == "Erf" for operation in graph.get_operations())

    assert count(remat=True) == 2 * count(remat=False) == 2


@pytest.mark.parametrize("feed_forward_dim", [0, -1, 2.5])
def test_a_bad_hidden_width_is_named(feed_forward_dim):
    with pytest.raises(ValueError, match=f"`feed_forward_dim` must be.* Received {feed_forward_dim}"):
        EncoderBlock(2, feed_forward_dim)
