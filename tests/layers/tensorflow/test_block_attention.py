"""Attention of packed tokens by blocks: the same as on all positions, in memory for one block."""

import dataclasses

import keras
import numpy as np
import pytest
from backend import BACKEND, array, gradients
from samples import randomised
from variants import ATTENDING, MAKE, mostly_slow

from keras_selfattn import layers

if BACKEND != "tensorflow":
    pytest.skip("tokens are packed on TensorFlow only", allow_module_level=True)

import tensorflow as tf

from keras_selfattn.layers import attention_paths
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.tensorflow import block_attention, packing
from keras_selfattn.layers.tensorflow import block_walk as blocks

BATCH, LENGTH, WIDTH = 5, 13, 6
ATTENTION = [name for name in ATTENDING if "linear" not in name]  # never packed by itself

RANDOM = np.random.default_rng(0)
LENS = np.array([9, 0, 13, 1, 4])
MASK = np.arange(LENGTH) < LENS[:, None]
HOLES = (RANDOM.random((BATCH, LENGTH)) < 0.6) & (LENS[:, None] > 0)
MASKS = {
    "none": {},
    "right padding": {"mask": MASK},
    "left padding": {"mask": MASK[:, ::-1].copy()},
    "holes": {"mask": HOLES},
    "lengths of queries": {"valid_lens": RANDOM.integers(0, LENGTH + 1, (BATCH, LENGTH)), "mask": HOLES},
    "pairs": {"attention_mask": RANDOM.random((BATCH, LENGTH, LENGTH)) < 0.4, "mask": MASK[:, ::-1].copy()},
    "pairs of all": {"attention_mask": RANDOM.random((LENGTH, LENGTH)) < 0.4},
}


def inputs(batch=BATCH, length=LENGTH, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, length, WIDTH)).astype("float32")


@pytest.fixture
def small_blocks(monkeypatch):
    """Packs however few tokens there are, in blocks so small that these sequences take several."""
    monkeypatch.setattr(attention_paths, "_FEW_TOKENS", -1)
    for name, number in {"_SCORES": 60, "_WASTED_SCORES": 30, "_LEAST_QUERIES": 4, "_STRETCH": 4}.items():
        monkeypatch.setattr(blocks, name, number)


@pytest.fixture
def padded(monkeypatch):
    """Runs a function on all positions."""

    def run(function):
        with monkeypatch.context() as patch:
            patch.setattr(attention_paths, "runs_kernels", lambda inputs: False)
            return function()

    return run


def outputs_and_gradients(layer, x, **call):
    """Weights differ by output, so that no error cancels out."""
    weights = np.random.default_rng(1).normal(size=x.shape).astype("float32")
    outputs = array(layer(x, **call))
    return [outputs, *gradients(layer, x, lambda y: keras.ops.sum(y * y * weights), **call)]


def assert_close(found, wanted, tolerance=2e-5):
    """Equal up to float32's rounding in another order, which grows through the blocks of an encoder."""
    for one, other in zip(found, wanted, strict=True):
        scale = max(np.abs(other).max(initial=0), 1e-3)
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "masks",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("none", "left padding", "pairs of all") else ())
        for name in MASKS
    ],
)
@pytest.mark.parametrize("name", mostly_slow(ATTENTION))
def test_outputs_and_gradients_equal_those_of_all_positions(name, masks, small_blocks, padded):
    layer, x = randomised(MAKE[name](), WIDTH, 0.3), inputs()
    found = outputs_and_gradients(layer, x, **MASKS[masks])
    assert_close(found, padded(lambda: outputs_and_gradients(layer, x, **MASKS[masks])))


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("window", [None, 2, (5, 0)])
def test_lengths_at_the_edges_of_blocks_and_groups(length, window, small_blocks, padded):
    x = inputs(length=length)
    mask = np.arange(length) < np.array([length, 1, length - 1, length, 0])[:, None]
    layer = randomised(layers.MultiHeadSelfAttention(2, window=window), WIDTH)
    found = outputs_and_gradients(layer, x, mask=mask)
    assert_close(found, padded(lambda: outputs_and_gradients(layer, x, mask=mask)))


@pytest.mark.parametrize(
    "name", mostly_slow(n for n in ATTENTION if "window" not in n and n != "rotary encoder")
)
def test_dropout_takes_the_same_elements_in_blocks_again_for_the_gradient_and_on_all_positions(
    name, small_blocks, padded
):
    x = inputs()

    def run():
        layer = randomised(MAKE[name](), WIDTH, 0.3)
        return outputs_and_gradients(layer, x, mask=MASK, training=True)

    found = run()
    assert_close(found, padded(run))
    layer = randomised(MAKE[name](), WIDTH, 0.3)
    drops = layer.get_config()["dropout"] > 0
    assert np.allclose(found[0], array(layer(x, mask=MASK))) != drops


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [layers.BucketedBias(), layers.RelativePositions(16)])
def test_half_precision_adds_up_the_gradients_of_learned_positions(strategy, padded):
    """Hundreds of tokens: where each of many small gradients is rounded, the sum of them stands still."""
    x = inputs(12, 300)

    def run(dtype):
        layer = randomised(layers.MultiHeadSelfAttention(2, 3, position=strategy, dtype=dtype), WIDTH, 0.3)
        return gradients(layer, x, lambda y: keras.ops.sum(keras.ops.cast(y, "float32") ** 2))[4:-1]

    for wanted, one in zip(run("float32"), run("mixed_bfloat16"), strict=True):
        assert np.linalg.norm(one - wanted) < 0.03 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    "longest", [46_341, *(pytest.param(longest, marks=pytest.mark.slow) for longest in (65_536, 100_000))]
)
def test_a_sample_whose_square_is_beyond_int32_is_a_group_of_its_own(longest):
    tokens = packing.PackedTokens(tf.zeros([1, longest, 1]), None)
    seen = []
    walk = blocks.Walk(tokens, PairMask(None, None, None, (64, 64)), num_heads=4, width=1)

    def body(at, count):
        seen.append(int(at.stop - at.start))
        return (count + at.count,)

    walk.stretches(body, (0,))
    assert max(seen) == 256
    assert sum(seen) == longest


def test_a_rate_of_one_drops_all_and_has_gradients_of_zero(small_blocks):
    layer = randomised(layers.MultiHeadSelfAttention(2, dropout=1.0), WIDTH)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(inputs(), mask=MASK, training=True))
    found = tape.gradient(total, layer.trainable_variables)
    assert not any(gradient is None for gradient in found)
    assert not array(found[0]).any()
    np.testing.assert_allclose(array(total), MASK.sum() * array(layer.weights[3]).sum(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_no_worse_than_on_all_positions(policy, small_blocks, padded):
    x = inputs(length=29)
    mask = np.arange(29) < np.array([29, 3, 0, 17, 28])[:, None]

    def run(dtype):
        layer = randomised(layers.EncoderBlock(3, dtype=dtype), WIDTH, 0.3)
        return outputs_and_gradients(layer, x, mask=mask)

    exact, packed, whole = run("float32"), run(policy), padded(lambda: run(policy))
    for wanted, one, other in zip(exact, packed, whole, strict=True):
        scale = np.abs(wanted).max()
        assert np.abs(one - wanted).max() <= 2 * np.abs(other - wanted).max() + 0.004 * scale


@pytest.mark.slow
def test_a_sample_that_is_not_a_number_spoils_no_other(small_blocks):
    layer, x = randomised(layers.EncoderBlock(2), WIDTH), inputs()
    wanted = outputs_and_gradients(layer, x, mask=MASK)
    x[0, 2] = np.nan
    found = outputs_and_gradients(layer, x, mask=MASK)
    for one, other in ((found[0], wanted[0]), (found[-1], wanted[-1])):
        np.testing.assert_allclose(one[1:], other[1:], rtol=1e-5, atol=1e-5)
    assert np.isnan(found[0][0, :9]).all()


def test_what_stands_in_the_padding_does_not_matter(small_blocks):
    layer, x = randomised(layers.EncoderBlock(2), WIDTH), inputs()
    wanted = outputs_and_gradients(layer, x, mask=MASK)
    x[~MASK] = np.nan
    assert_close(outputs_and_gradients(layer, x, mask=MASK), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 3])
def test_no_block_holds_more_scores_than_its_budget(window, small_blocks, monkeypatch):
    """And together they hold all pairs, or those of a window: a number in proportion to the length."""
    seen = []
    softmax = block_attention.masked_softmax

    def counted(logits, *args, **options):
        seen.append(int(tf.size(logits)))
        return softmax(logits, *args, **options)

    monkeypatch.setattr(block_attention, "masked_softmax", counted)
    layer = randomised(layers.MultiHeadSelfAttention(1, window=window), WIDTH)
    totals = []
    for length in (100, 200):
        seen.clear()
        layer(inputs(1, length))
        assert max(seen) <= max(60, 4 * length if window is None else 4 * (4 + 6))
        totals.append(sum(seen))
    assert totals == [100**2, 200**2] if window is None else totals[1] < 2.1 * totals[0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 40])
def test_a_graph_of_unknown_sizes_takes_few_tokens_and_many_and_has_gradients(rows, padded):
    """The sizes stand on both sides of the number up to which nothing is packed."""
    layer = randomised(layers.Encoder(2, 2), WIDTH, 0.3)
    x, mask = inputs(rows), np.arange(LENGTH) < np.resize(LENS, rows)[:, None]
    assert (rows * LENGTH <= attention_paths._FEW_TOKENS) == (rows == 2)

    @tf.function(input_signature=[tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.bool)])
    def run(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, mask=mask)
        return y, tape.gradient(y, x, tf.sin(y))

    def eager():
        with tf.GradientTape() as tape:
            start = tf.constant(x)
            tape.watch(start)
            y = layer(start, mask=mask)
        return [array(y), array(tape.gradient(y, start, tf.sin(y)))]

    assert_close([array(found) for found in run(x, mask)], padded(eager))


def test_no_sample_with_a_token_gives_zeros_and_no_gradient(small_blocks):
    layer = randomised(layers.EncoderBlock(2), WIDTH)
    for found in outputs_and_gradients(layer, inputs(), mask=np.zeros((BATCH, LENGTH), bool)):
        assert not found.any()


@pytest.mark.process
def test_fit_predict_and_export_work_on_packed_tokens(small_blocks, tmp_path):
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, WIDTH, mask_zero=True)(tokens)
    x = layers.Encoder(1, 2, dropout=0.2)(x)
    model = keras.Model(tokens, keras.layers.Dense(2)(layers.AveragePooling()(x)))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids = np.where(MASK, RANDOM.integers(1, 11, MASK.shape), 0)
    history = model.fit(ids, LENS % 2, epochs=2, batch_size=3, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    wanted = model.predict(ids, verbose=0)
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(str(tmp_path))
    answers = served.serve(tf.constant(ids, tf.int32))
    np.testing.assert_allclose(array(answers), wanted, rtol=1e-5, atol=1e-6)


# Settings of two blocks; the first are alike.
BLOCKS = {
    "alike": [{}, {}],
    "windows": [{"window": 1}, {"window": 3}],
    "bounds of scores": [{"logit_cap": 0.5}, {}],
    "positions": [{"position": layers.LinearBias()}, {"position": layers.RotaryPositions(10.0)}],
    "kinds of one position": [
        {"position": layers.RotaryPositions(10.0)},
        {"position": layers.RotaryPositions(20.0)},
    ],
    "what is dropped": [{"attention_dropout": 1.0}, {"attention_dropout": 1e-9}],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_a_graph_share_their_attention_if_they_are_alike(name):
    """Of 30 samples with 13 tokens, which are packed."""
    layer = randomised(layers.Encoder(2, 2, block_settings=BLOCKS[name]), WIDTH, 0.6)
    x = tf.constant(inputs(30))

    def step(x):
        with tf.GradientTape() as tape:
            outputs = layer(x, training=True)
            loss = tf.reduce_sum(outputs**2 * inputs(30, seed=1))
        return [outputs, *tape.gradient(loss, layer.trainable_weights)]

    graph = tf.function(step, input_signature=[tf.TensorSpec([None, None, WIDTH])])
    assert_close([array(each) for each in graph(x)], [array(each) for each in step(x)])
    functions = [
        each.signature.name for each in graph.get_concrete_function().graph.as_graph_def().library.function
    ]
    shared = 1 if name == "alike" else 2
    for kind in ("context", "gradients"):
        assert sum(f"_{kind}_" in each for each in functions) == shared


def test_a_position_strategy_needs_no_hash():
    """One of a user's may be a data class."""

    @dataclasses.dataclass
    class Recency(layers.PositionStrategy):
        rate: float

        def logits(self, learned, query, distance, *, causal):
            return -self.rate * keras.ops.cast(keras.ops.abs(distance), "float32")

        def get_config(self):
            return {"rate": self.rate}

    layer = randomised(layers.Encoder(2, 2, position=Recency(0.3)), WIDTH, 0.6)
    x = tf.constant(inputs(30))
    assert_close([array(tf.function(layer)(x, training=True))], [array(layer(x, training=True))])
