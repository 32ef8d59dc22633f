"""Attention by blocks of queries, where tokens are not packed: the same as of all queries at once."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array, compiled, gradients, tensorflow_only
from samples import randomised
from variants import ATTENDING, MAKE, mostly_slow

from keras_selfattn import layers
from keras_selfattn.layers import attention_math, attention_paths
from keras_selfattn.layers.dropout import Dropout

BATCH, LENGTH, WIDTH = 3, 13, 6
NAMES = [name for name in ATTENDING if "linear" not in name and "window" not in name]
RANDOM = np.random.default_rng(0)
MASK = np.arange(LENGTH) < np.array([9, 0, 13])[:, None]
MASKS = {
    "none": {},
    "padding": {"mask": MASK},
    "lengths of queries": {"valid_lens": RANDOM.integers(0, LENGTH + 1, (BATCH, LENGTH)), "mask": MASK},
    "pairs": {"attention_mask": RANDOM.random((BATCH, LENGTH, LENGTH)) < 0.4},
}


@pytest.fixture(autouse=True)
def in_operations_of_keras(monkeypatch):
    """On TensorFlow, too, what XLA would run."""
    monkeypatch.setattr(attention_paths, "runs_kernels", lambda inputs: False)


@pytest.fixture
def small_blocks(monkeypatch):
    """Returns what makes blocks so small that these sequences take several."""

    def shrink(least=4):
        for name, number in {"_SCORES": 60, "_LEAST_QUERIES": least}.items():
            monkeypatch.setattr(attention_paths, name, number)

    return shrink


def drawn(seed):
    """Numbers of the shape of the inputs: weights by which outputs differ, so that no error cancels out."""
    return np.random.default_rng(seed).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


def inputs():
    return drawn(0)


def numbers(outputs):
    return outputs.detach().numpy() if BACKEND == "torch" else array(outputs)


def outputs_and_gradients(layer, **call):
    weights = keras.ops.convert_to_tensor(drawn(1))
    outputs = numbers(layer(inputs(), **{**call, "training": False}))
    return [outputs, *gradients(layer, inputs(), lambda y: keras.ops.sum(y * y * weights), **call)]


def assert_close(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        scale = max(np.abs(other).max(initial=0), 1e-3)
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=1e-5)


# JAX compiles every operation anew for each shape it meets.
@pytest.mark.parametrize("masks", ["lengths of queries"] if BACKEND == "jax" else MASKS)
@pytest.mark.parametrize("name", mostly_slow(NAMES))
def test_outputs_and_gradients_equal_those_of_all_queries_at_once(name, masks, small_blocks):
    layer = randomised(MAKE[name](), WIDTH, 0.3)
    wanted = outputs_and_gradients(layer, **MASKS[masks])
    small_blocks()
    assert_close(outputs_and_gradients(layer, **MASKS[masks]), wanted)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch draws from its own generator")
@pytest.mark.parametrize("name", mostly_slow(["grouped attention", "t5"][: 1 if BACKEND == "jax" else 2]))
def test_dropout_takes_the_elements_that_it_takes_of_all_queries_at_once(name, small_blocks):
    def run():
        layer = randomised(MAKE[name](), WIDTH, 0.3)
        return outputs_and_gradients(layer, mask=MASK, training=True)

    wanted = run()
    small_blocks()
    assert_close(run(), wanted)


def test_the_gradient_drops_what_the_outputs_dropped(small_blocks):
    """The slope along a direction, and the difference of two outputs that drop the same elements."""
    small_blocks()
    weights, direction = drawn(1), drawn(2)

    def layer():
        return randomised(layers.MultiHeadSelfAttention(2, dropout=0.5, seed=7), WIDTH, 0.3)

    scale = keras.ops.convert_to_tensor(weights)
    gradient = gradients(layer(), inputs(), lambda y: keras.ops.sum(y * scale), training=True)[-1]
    ahead, behind = (numbers(layer()(inputs() + step * direction, training=True)) for step in (0.01, -0.01))
    difference = ((ahead - behind) * weights).sum() / 0.02
    np.testing.assert_allclose(difference, (gradient * direction).sum(), rtol=0.02)


def test_a_rematerialised_block_drops_the_same_elements_again(small_blocks):
    small_blocks()

    def run(remat):
        block = randomised(layers.EncoderBlock(2, dropout=0.3, remat=remat, seed=3), WIDTH, 0.3)
        return gradients(block, inputs(), lambda y: keras.ops.sum(y**2), training=True)

    assert_close(run(True), run(False))


def test_blocks_drop_elements_of_their_own(small_blocks):
    """Queries of zero see all the same: only what is dropped tells one from another."""
    small_blocks()
    layer = layers.MultiHeadSelfAttention(1, dropout=0.5, seed=3)
    layer.build((1, LENGTH, WIDTH))
    kernel = numbers(layer.weights[0].value).copy()
    kernel[:, :WIDTH] = 0
    layer.weights[0].assign(kernel)
    outputs = numbers(layer(inputs()[:1], training=True))
    assert len(np.unique(outputs[0].round(5), axis=0)) == LENGTH


def test_no_block_holds_more_scores_than_its_budget(small_blocks, monkeypatch):
    seen, softmax = [], attention_math.masked_softmax

    def counted(logits, *args, **options):
        seen.append(int(np.prod(logits.shape)))
        return softmax(logits, *args, **options)

    monkeypatch.setattr(attention_math, "masked_softmax", counted)
    layer = randomised(layers.MultiHeadSelfAttention(2), WIDTH)
    layer(inputs())
    assert max(seen) == BATCH * 2 * LENGTH**2
    small_blocks(least=2)
    seen.clear()
    layer(inputs())
    assert max(seen) == BATCH * 2 * LENGTH * 2


def test_a_strategy_says_what_memory_a_score_takes():
    """The blocks of queries are as much smaller."""

    class Wide(layers.PositionStrategy):
        def score_width(self, num_heads, head_dim):
            return 10 * num_heads + head_dim

    for position, width in ((None, 1), (layers.RelativePositions(3), 1 + 2 * 5 // 2), (Wide(), 25)):
        layer = layers.MultiHeadSelfAttention(2, 5, position=position)
        layer.build((None, None, WIDTH))
        assert layer._formula.score_width == width


@pytest.mark.parametrize("options", [{}, {"window": 1}], ids=["all keys", "window"])
@pytest.mark.parametrize("blocks", [False, True])
def test_whether_dropout_acts_is_asked_in_one_place(blocks, options, small_blocks, monkeypatch):
    layer = randomised(layers.MultiHeadSelfAttention(2, dropout=0.5, **options), WIDTH)
    wanted = numbers(layer(inputs(), training=False))
    if blocks:
        small_blocks()
    assert np.abs(numbers(layer(inputs(), training=True)) - wanted).max() > 1e-3
    monkeypatch.setattr(Dropout, "acts", False)
    np.testing.assert_allclose(numbers(layer(inputs(), training=True)), wanted, atol=1e-6)


@tensorflow_only
def test_whether_dropout_acts_is_asked_there_for_packed_tokens_too(monkeypatch):
    monkeypatch.undo()  # TensorFlow's own kernels run
    monkeypatch.setattr(attention_paths, "_FEW_TOKENS", 0)
    layer = randomised(layers.MultiHeadSelfAttention(2, dropout=0.5), WIDTH)
    wanted = numbers(layer(inputs(), training=False))
    assert np.abs(numbers(layer(inputs(), training=True)) - wanted).max() > 1e-3
    monkeypatch.setattr(Dropout, "acts", False)
    np.testing.assert_allclose(numbers(layer(inputs(), training=True)), wanted, atol=1e-6)


@pytest.mark.skipif(BACKEND == "torch", reason="the tensor itself says where it is")
def test_an_accelerator_gets_larger_blocks(monkeypatch):
    query = keras.ops.zeros((1, 8, 4096, 2))
    assert attention_paths.queries_of_block(query, query.shape[2], 1) == 64
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["gpu:0"])
    assert attention_paths.queries_of_block(query, query.shape[2], 1) == 2048


@pytest.mark.slow
@tensorflow_only
def test_xla_compiles_them(small_blocks):
    layer = randomised(layers.EncoderBlock(2), WIDTH, 0.3)
    wanted = array(layer(inputs(), mask=MASK))
    small_blocks()
    np.testing.assert_allclose(compiled(layer, inputs(), mask=MASK), wanted, atol=1e-5)


@pytest.mark.slow
@tensorflow_only
@pytest.mark.parametrize("length", [0, 1, LENGTH])
def test_xla_cuts_lengths_that_only_the_graph_knows(length, small_blocks):
    import tensorflow as tf

    layer = randomised(layers.EncoderBlock(2, dropout=0.3, position=layers.BucketedBias()), WIDTH, 0.3)
    x, mask = inputs()[:, :length], MASK[:, :length]

    def step(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, mask=mask)
        sources = [x, *(variable.value for variable in layer.trainable_variables)]
        return [y, *tape.gradient(y, sources, tf.sin(y), unconnected_gradients="zero")]

    wanted = step(tf.constant(x), tf.constant(mask))
    small_blocks()
    signature = [tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.bool)]
    found = tf.function(step, jit_compile=True, input_signature=signature)(x, mask)
    assert_close([array(one) for one in found], [array(one) for one in wanted])
