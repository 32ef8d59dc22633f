"""Graphs run fused operations, and almost nothing of a branch that is not taken."""

from collections import Counter

import keras
import numpy as np
import pytest
from backend import BACKEND, array, gradients
from samples import randomised

from keras_selfattn import layers

if BACKEND != "tensorflow":
    pytest.skip("graphs are TensorFlow's", allow_module_level=True)

import tensorflow as tf
from tensorflow.python.eager import context

from keras_selfattn.layers import attention_paths
from keras_selfattn.layers.masks import PairMask, zero_masked
from keras_selfattn.layers.tensorflow import block_walk as blocks
from keras_selfattn.layers.tensorflow import fuses_biases, fuses_norms, map_in_turn, norm_and_bias
from keras_selfattn.layers.tensorflow.packing import PackedTokens

WIDTH = 16
with tf.Graph().as_default():
    BIASES_FUSE = fuses_biases(tf.bfloat16)


@pytest.fixture(scope="module")
def operations():
    """The count of each operation in the optimised graph of an encoder of two blocks with unknown sizes."""
    layer = randomised(layers.Encoder(2, 4), WIDTH, 0.3)
    sizes = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.bool)]
    run = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=sizes)
    return optimised(run, tf.ones([1, 3, WIDTH]), tf.ones([1, 3], tf.bool))


def optimised(run, *given):
    """Return the count of each operation in the graph that TensorFlow makes of `run`."""
    context.context().enable_run_metadata()
    try:
        run(*given)
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_run_metadata()
    return Counter(node.op for graph in graphs for node in graph.node)


def test_attention_of_many_tokens_is_one_operation_where_few_are_given(operations):
    assert operations["PartitionedCall"] + operations["StatefulPartitionedCall"] == 2
    assert not any("While" in name or "NextIteration" in name for name in operations)
    assert operations.total() < 450


@pytest.mark.skipif(not fuses_norms(), reason="TensorFlow fuses like that with oneDNN only")
def test_normalisation_scores_and_projections_are_fused(operations):
    """Five norms of many tokens; the scores of few; of both branches the projections."""
    assert operations["_MklLayerNorm"] == 5
    assert operations["_MklFusedBatchMatMulV2"] == 2
    assert operations["_MklNativeFusedMatMul"] == 2 * (3 + 1 + 2) + 2 * (1 + 1 + 2)
    assert operations["_MklMatMul"] == operations["MatMul"] == 0


@pytest.mark.skipif(not BIASES_FUSE, reason="oneDNN does not multiply bfloat16 here")
def test_in_bfloat16_a_bias_of_many_tokens_is_part_of_the_product():
    random = np.random.default_rng(0)
    x, kernel, bias = (
        tf.cast(random.normal(size=size), "bfloat16") for size in ((300, WIDTH), (WIDTH, 8), (8,))
    )
    upstream = tf.ones([300, 8], "bfloat16")

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], "bfloat16")])
    def run(x):
        return norm_and_bias.affine(x, kernel, bias)

    counted = optimised(run, x)
    assert counted["_MklFusedBatchMatMulV2"] == 1
    assert counted["AddV2"] == counted["Mul"] == counted["BiasAdd"] == 0
    with tf.GradientTape() as tape:
        tape.watch([x, kernel, bias])
        found = norm_and_bias.affine(x, kernel, bias)
    of_x, of_kernel, of_bias = tape.gradient(found, [x, kernel, bias], upstream)
    wide, matrix, added, ones = (array(tensor) for tensor in (x, kernel, bias, upstream))
    exact = [wide @ matrix + added, ones @ matrix.T, wide.T @ ones, np.full(8, 300.0)]
    for one, wanted in zip((run(x), of_x, of_kernel, of_bias), exact, strict=True):
        np.testing.assert_allclose(array(one), wanted, rtol=2**-7, atol=2**-5)


@pytest.mark.skipif(fuses_norms(), reason="oneDNN fuses the pattern")
def test_the_pattern_of_a_normalisation_is_not_used_where_nothing_fuses_it(operations):
    assert operations["FusedBatchNormV3"] == operations["_FusedBatchNormEx"] == 0
    assert operations["Rsqrt"] > 0


@pytest.mark.parametrize(("window", "cut"), [(128, False), (4, True)])
def test_few_tokens_are_cut_into_chunks_for_a_short_window_only(monkeypatch, window, cut):
    """The graph knows that its tokens are few, but not how many; the layer alone sees all sizes."""
    taken, windowed = [], attention_paths.windowed
    monkeypatch.setattr(attention_paths, "windowed", lambda *given: taken.append(window) or windowed(*given))
    layer = randomised(layers.MultiHeadSelfAttention(2, window=window), WIDTH, 0.3)
    x = np.random.default_rng(0).normal(size=(2, 100, WIDTH)).astype("float32")
    mask = np.arange(100) < np.array([[100], [9]])
    sizes = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.bool)]
    found = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=sizes)(x, mask)
    assert bool(taken) == cut
    eager = [layer(x[:1], mask=mask[:1])[0], layer(x[1:, :9])[0]]
    np.testing.assert_allclose(array(found)[0], array(eager[0]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(array(found)[1, :9], array(eager[1]), rtol=1e-5, atol=1e-5)
    assert not array(found)[1, 9:].any()


@pytest.mark.parametrize("shape", [(2, 3), (6,), (2, 0), (0,)])
def test_zeros_replace_padding_even_where_it_is_no_number(shape):
    x = np.random.default_rng(0).normal(size=(*shape, 5)).astype("float32")
    real = np.arange(np.prod(shape)).reshape(shape) % 3 != 1
    x[~real] = np.nan
    wanted = np.zeros_like(x)
    wanted[real] = x[real]
    given = tf.Variable(x)
    with tf.GradientTape() as tape:
        found = zero_masked(tf.convert_to_tensor(given), tf.constant(real))
        total = tf.reduce_sum(found)
    np.testing.assert_array_equal(array(found), wanted)
    np.testing.assert_array_equal(array(tape.gradient(total, given)), np.repeat(real[..., None], 5, -1))


@pytest.mark.parametrize("name", ["attention", "feed_forward"])
def test_gradients_of_biases_add_up_in_half_precision(name):
    """The sum is over thousands of tokens, where TensorFlow's own stops growing."""
    x = np.random.default_rng(0).normal(size=(64, 64, WIDTH)).astype("float32")

    def run(dtype):
        block = randomised(layers.EncoderBlock(2, norm_first=False, dtype=dtype), WIDTH, 0.3)
        found = gradients(block, x, lambda y: keras.ops.sum(keras.ops.cast(y, "float32") * x))
        paths = [weight.path for weight in block.trainable_weights]
        return {path: one for path, one in zip(paths, found[:-1], strict=True) if f"{name}/" in path}

    exact, half = run("float32").values(), run("mixed_bfloat16")
    for (path, one), wanted in zip(half.items(), exact, strict=True):
        if path.endswith("bias"):
            parts = np.split(np.arange(wanted.size), 3)[::2] if "query_key" in path else [slice(None)]
            for part in parts:  # keys' biases change nothing
                error = np.linalg.norm(one[part] - wanted[part]) / np.linalg.norm(wanted[part])
                assert error < 0.05, (path, error)


@pytest.mark.parametrize("seed", range(5))
def test_samples_share_blocks_as_long_as_padding_is_cheap(seed):
    random, heads = np.random.default_rng(seed), 8
    lengths = random.integers(0, random.integers(2, 400), size=50)
    real = np.arange(lengths.max()) < lengths[:, None]
    tokens = PackedTokens(tf.zeros([*real.shape, 1]), tf.constant(real), gaps=bool(seed % 2))
    groups = []

    def body(at, done):
        groups.append((int(at.first), int(at.count), int(at.stop)))
        return (done,)

    blocks.Walk(tokens, PairMask(None, None, None, (None, None)), heads, width=1).stretches(body, (0,))
    falling = np.sort(lengths[lengths > 0])[::-1]
    ends = [first + count for first, count, _ in groups]
    assert [first for first, _, _ in groups] == [0, *ends[:-1]]
    assert ends[-1] == len(falling)
    for first, count, longest in groups:
        assert longest == falling[first]
        for size, allowed in ((count, True), (count + 1, False)):
            scores = heads * falling[first : first + size].astype(int) ** 2
            held = size * scores[0]
            cheap = held <= blocks._SCORES and held - scores.sum() <= blocks._WASTED_SCORES
            last = size > len(falling) - first
            assert (cheap or size == 1) == allowed or (last and not allowed)


def test_rows_that_are_known_to_be_long_have_no_branch_for_few_tokens():
    """A branch that cannot be taken is prepared all the same: in a graph of sound for 4 of 10 CPU s."""
    layer = randomised(layers.Encoder(1, 2), WIDTH, 0.3)

    def graph(length):
        sizes = [tf.TensorSpec([None, length, WIDTH])]
        return tf.function(layer, input_signature=sizes).get_concrete_function().graph

    branches = {
        length: sum(node.op in ("If", "StatelessIf") for node in graph(length).as_graph_def().node)
        for length in (None, 8, 300)
    }
    assert branches == {None: 1, 8: 1, 300: 0}
    assert layer(tf.zeros([0, 300, WIDTH])).shape == (0, 300, WIDTH)


def test_what_is_mapped_in_turn_is_once_in_a_graph():
    """Keras' own map calls the function once more, and the graph computes both."""
    traced = []

    @tf.function
    def doubled(x):
        return map_in_turn(lambda row: traced.append(row.shape) or 2 * row, x, (None,), "float32")

    for rows in (3, 1, 0):
        x = tf.random.normal([rows, 2])
        np.testing.assert_array_equal(doubled(x), 2 * x)
    traced.clear()
    doubled.get_concrete_function(tf.TensorSpec([None, None]))
    assert traced == [(None,)]
