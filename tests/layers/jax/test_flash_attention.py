"""The kernels of a GPU, interpreted on the CPU: equal to the path of all scores; when they are chosen."""

import types

import keras
import numpy as np
import pytest
from backend import BACKEND, array
from samples import randomised

from keras_selfattn import layers
from keras_selfattn.layers import attention_paths
from keras_selfattn.layers import jax as ours_on_jax
from keras_selfattn.layers.attention_paths import PaddedTokens
from keras_selfattn.layers.jax import flash_attention
from keras_selfattn.layers.jax.flash_kernels import Blocks
from keras_selfattn.layers.masks import PairMask

if BACKEND != "jax":
    pytest.skip("the kernels are JAX'", allow_module_level=True)

import jax

if ours_on_jax.pallas() is None:
    pytest.skip("this JAX has no Pallas for Triton", allow_module_level=True)

BATCH, LENGTH, WIDTH, HEADS = 3, 70, 12, 4
REAL = np.arange(LENGTH) < np.array([LENGTH, 37, 0])[:, None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks, of other sizes for queries and keys, for these lengths."""
    monkeypatch.setattr(flash_attention, "_WHOLE", 64)
    for name in ("_FORWARD", "_OF_KEYS", "_OF_QUERIES"):
        monkeypatch.setattr(flash_attention, name, {64: Blocks(32, 64, 4, 2)})


def outputs_and_gradients(monkeypatch, kernels, **arguments):
    """Outputs of a layer in training and gradients of all its weights; padding is NaN."""
    monkeypatch.setattr(attention_paths, "runs_kernels_of_gpu", lambda: kernels)
    monkeypatch.setattr(attention_paths, "fits_kernels", lambda heads, pairs: kernels)
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, seed=3, **arguments), WIDTH, 0.3)
    x = np.random.default_rng(0).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
    x[~REAL] = np.nan
    weights = [variable.value for variable in layer.trainable_variables]
    seeds = [variable.value for variable in layer.non_trainable_variables]

    def loss(weights):
        outputs, _ = layer.stateless_call(weights, seeds, x, mask=REAL, training=True)
        return keras.ops.sum(outputs**2), outputs

    (_, outputs), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(weights)
    return [array(outputs), *(array(gradient) for gradient in gradients)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        # The rate lies between two levels of a byte, see dropout_bits.py.
        {"dropout": 0.3, "num_kv_heads": 2, "position": "rotary"},
        {"causal": True},
        {"dropout": 0.3, "num_kv_heads": 2},
    ],
    ids=["dropout", "causal", "joined"],
)
def test_outputs_and_gradients_are_those_of_all_scores_at_once(arguments, monkeypatch):
    wanted = outputs_and_gradients(monkeypatch, kernels=False, **arguments)
    joined = []

    def attend(heads, pairs, array, **settings):
        joined.append(array is not None)
        return flash_attention.flash_attention(heads, pairs, array, **settings)

    monkeypatch.setattr(attention_paths, "flash_attention", attend)
    found = outputs_and_gradients(monkeypatch, kernels=True, **arguments)
    assert joined == ["position" not in arguments]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


def test_a_block_that_is_traced_again_for_its_gradient_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(attention_paths, "runs_kernels_of_gpu", lambda: True)
    encoder = layers.Encoder(2, 2, 8, remat=True)
    x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
    encoder(x)
    weights = [variable.value for variable in encoder.trainable_variables]
    states = [variable.value for variable in encoder.non_trainable_variables]

    def loss(weights):
        return keras.ops.sum(encoder.stateless_call(weights, states, x, training=True)[0] ** 2)

    with jax.checking_leaks():
        jax.jit(jax.grad(loss))(weights)


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(compute_capability="9.0")])


def fits(pairs=None, dtype="bfloat16", batch=4, length=2048, width=64, heads=8, reach=(None, None)):
    query = keras.KerasTensor((batch, heads, length, width), dtype=dtype)
    return flash_attention.fits_kernels((query,) * 3, pairs or PairMask(None, None, None, reach))


def test_long_sequences_in_half_precision_are_for_the_kernels(hopper):
    assert all(fits(dtype=dtype) for dtype in ("bfloat16", "float16"))
    assert fits(length=flash_attention._SHORTEST)
    assert fits(PairMask(REAL, None, None, (None, 0)))


def test_what_the_kernels_do_not_compute_is_left_to_other_paths(hopper):
    assert not fits(dtype="float32")
    assert not fits(length=flash_attention._SHORTEST - 1)
    assert not fits(length=None)
    assert not fits(width=129)
    assert not fits(heads=2**11), "the array of all heads has 3 * 2^30 elements"
    assert not fits(batch=2**16, length=128, width=4, heads=1)
    assert not fits(batch=None)
    assert not fits(reach=(3, None))
    for names in ({"lens": REAL}, {"chosen": REAL}):
        assert not fits(
            PairMask(**{"real": None, "lens": None, "chosen": None, "reach": (None, None), **names})
        )


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        ({}, True),
        ({"position": "rotary", "qk_norm": True, "dropout": 0.5}, True),
        ({"position": "alibi"}, False),
        ({"position": "shaw"}, False),
        ({"logit_cap": 30.0}, False),
        ({"dropout": 1.0}, False),
    ],
)
def test_only_scaled_products_are_for_the_kernels(arguments, plain, monkeypatch):
    monkeypatch.setattr(attention_paths, "fits_kernels", lambda heads, pairs: True)
    layer = layers.MultiHeadSelfAttention(2, **arguments)
    layer.build((None, None, 8))
    heads = (keras.ops.zeros((1, 2, 5, 4)),) * 3
    tokens = PaddedTokens(keras.ops.zeros((1, 5, 8)), None)
    pairs = PairMask(None, None, None, (None, None))
    path = attention_paths.choose_path(heads, tokens, pairs, layer._formula, False)
    assert (path is attention_paths.fused) == plain
    assert (
        attention_paths.choose_path(heads, tokens, pairs, layer._formula, True)
        is attention_paths.with_weights
    )


def test_only_unchanged_parts_of_one_array_are_read_where_they_are(monkeypatch):
    monkeypatch.setattr(attention_paths, "runs_kernels_of_gpu", lambda: True)
    tokens = PaddedTokens(keras.ops.zeros((BATCH, LENGTH, WIDTH)), None)
    x = np.random.default_rng(0).normal(size=(BATCH * LENGTH, 8 * 5)).astype("float32")
    heads = tokens.split_parts(keras.ops.convert_to_tensor(x), [4, 2, 2])
    joined = tokens.joined_heads(heads)
    assert joined is not None
    np.testing.assert_array_equal(array(joined), x.reshape(BATCH, LENGTH, 8, 5))
    wanted = array(joined).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(np.concatenate(list(map(array, heads)), axis=1), wanted)
    query, key, value = heads
    assert tokens.joined_heads((query * 1.0, key, value)) is None
    assert tokens.joined_heads((query, value, key)) is None
    assert tokens.joined_heads(heads[:2]) is None
    monkeypatch.setattr(attention_paths, "runs_kernels_of_gpu", lambda: False)
    tokens = PaddedTokens(keras.ops.zeros((BATCH, LENGTH, WIDTH)), None)
    assert tokens.joined_heads(tokens.split_parts(keras.ops.convert_to_tensor(x), [4, 2, 2])) is None


def test_only_one_hopper_gpu_runs_the_kernels(hopper, monkeypatch):
    assert ours_on_jax.runs_kernels_of_gpu()
    for kind in ({"compute_capability": "8.0"}, {"compute_capability": "gfx90a"}, {}):
        with monkeypatch.context() as patch:
            patch.setattr(jax, "devices", lambda kind=kind: [types.SimpleNamespace(**kind)])
            assert not ours_on_jax.runs_kernels_of_gpu()
    with monkeypatch.context() as patch:
        patch.setattr(keras.distribution, "distribution", lambda: object())
        assert not ours_on_jax.runs_kernels_of_gpu()


@pytest.mark.parametrize("version", [(0, 4, 34), (0, 12, 0)])
def test_versions_of_jax_without_known_kernels_do_not_run_them(version, hopper, monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", version)
    ours_on_jax.pallas.cache_clear()
    try:
        assert not ours_on_jax.runs_kernels_of_gpu()
    finally:
        ours_on_jax.pallas.cache_clear()
