"""Weights to and from Keras' attention layers: equal outputs, equal bits, and what has no counterpart."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, inputs, randomised

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError

MASK = np.arange(LENGTH) < np.array([[4], [7]])
MULTI, GROUPED = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
CASES = {
    "plain": (MULTI, {}),
    "no biases": (MULTI, {"use_bias": False, "dropout": 0.2, "trainable": False}),
    "window": (MULTI, {"sliding_window": 3, "value_dim": HEAD_DIM, "output_shape": WIDTH}),
    "settings": (
        MULTI,
        {
            "kernel_initializer": "he_normal",
            "bias_initializer": "ones",
            "kernel_regularizer": "l2",
            "bias_regularizer": "l1",
            "activity_regularizer": "l2",
            "kernel_constraint": "non_neg",
            "bias_constraint": "non_neg",
        },
    ),
    "grouped": (GROUPED, {}),
    "grouped, no biases": (GROUPED, {"use_bias": False, "dropout": 0.3, "sliding_window": 2}),
}
# JAX compiles every operation for each new shape, and moves weights as the other backends do.
each_case = pytest.mark.parametrize("case", ["plain", "grouped"] if BACKEND == "jax" else CASES)
not_on_jax = pytest.mark.skipif(BACKEND == "jax", reason="depends on no backend")


def built(kind, **settings):
    heads = (HEADS, HEAD_DIM) if kind is MULTI else (HEAD_DIM, 2 * HEADS, HEADS)
    peer = kind(*heads, **settings)
    peer.build((None, None, WIDTH), (None, None, WIDTH))
    return randomised(peer)


def settings_of(layer):
    config = layer.get_config()
    for name in ("name", "output_shape", "seed", "build_config"):
        config.pop(name, None)
    return config


def assert_same_bits(found, wanted):
    found, wanted = found.weights, wanted.weights
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(array(one), array(other))


def assert_agree(ours, peer, mask=None, **call):
    """They agree on the real tokens."""
    x = keras.ops.convert_to_tensor(inputs())
    masks = {} if mask is None else {"value_mask": keras.ops.convert_to_tensor(mask)}
    wanted = array(peer(x, x, **masks, **call))
    found = array(ours(x, mask=None if mask is None else keras.ops.convert_to_tensor(mask)))
    real = np.ones((BATCH, LENGTH), bool) if mask is None else mask
    np.testing.assert_allclose(found[real], wanted[real], rtol=1e-5, atol=1e-5)


@each_case
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_from_keras_computes_the_same(case, causal):
    kind, settings = CASES[case]
    peer = built(kind, **settings)
    layer = layers.from_peer(peer, causal=causal, name="ours")
    assert layer.name == "ours"
    assert layer.trainable == peer.trainable
    for mask in (None, MASK):
        assert_agree(layer, peer, mask, use_causal_mask=causal)


@each_case
def test_there_and_back_settings_and_bits_are_the_same(case):
    kind, settings = CASES[case]
    peer = built(kind, **settings)
    layer = layers.from_peer(peer)
    back = layers.to_peer(layer, kind)
    assert settings_of(back) == settings_of(peer)
    assert_same_bits(back, peer)
    assert_same_bits(layers.from_peer(back), layer)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MULTI, {}),
        (MULTI, {"causal": True, "window": (2, 0), "use_bias": False}),
        (MULTI, {"causal": True, "window": 2}),
        (MULTI, {"window": (2, 2), "scale": 0.4472135955, "num_kv_heads": HEADS}),
        (GROUPED, {"num_kv_heads": 1, "window": 1}),
        (GROUPED, {"causal": True}),
    ],
)
def test_keras_computes_the_same_as_a_layer_of_ours(kind, settings):
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, **settings))
    peer = layers.to_peer(layer, kind)
    assert type(peer) is kind
    assert_agree(layer, peer, MASK, use_causal_mask=layer.causal)


OF_MEMORY = [(MULTI, 6, {}), (MULTI, WIDTH, {"use_bias": False, "dropout": 0.2}), (GROUPED, 6, {})]


@pytest.mark.parametrize(("kind", "width", "settings"), OF_MEMORY[:1] if BACKEND == "jax" else OF_MEMORY)
def test_attention_to_another_sequence_computes_the_same_and_goes_back(kind, width, settings):
    x, memory = inputs(), inputs(length=4, width=width, seed=2)
    mask, pairs = np.arange(4) < np.array([[4], [1]]), np.arange(4) <= np.arange(LENGTH)[:, None]
    peer = kind(*((HEADS, HEAD_DIM) if kind is MULTI else (HEAD_DIM, 2 * HEADS, HEADS)), **settings)
    peer.build((None, None, WIDTH), (None, None, width))
    randomised(peer)
    layer = layers.from_peer(peer, kind=layers.MultiHeadCrossAttention)
    masks = {"value_mask": keras.ops.convert_to_tensor(mask)}
    wanted = array(peer(x, memory, attention_mask=np.broadcast_to(pairs, (BATCH, *pairs.shape)), **masks))
    found = array(layer(x, memory, memory_mask=mask, attention_mask=pairs))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    back = layers.to_peer(layer, kind)
    assert settings_of(back) == settings_of(peer)
    assert_same_bits(back, peer)


def test_where_nothing_may_be_attended_to_ours_is_the_bias_alone():
    peer = built(MULTI)
    nothing = np.zeros((LENGTH, LENGTH), bool)
    found = array(layers.from_peer(peer)(inputs(), attention_mask=nothing))
    np.testing.assert_allclose(found, np.broadcast_to(array(peer.weights[-1]), found.shape), rtol=1e-6)


@not_on_jax  # which has float64 only by a setting of its own
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "mixed_float16", "mixed_bfloat16"])
def test_weights_keep_their_dtype_and_layers_their_policy(dtype):
    peer = built(MULTI, dtype=dtype)
    layer = layers.from_peer(peer)
    back = layers.to_peer(layer, MULTI)
    assert layer.dtype_policy.name == back.dtype_policy.name == dtype
    assert {weight.dtype for weight in layer.weights} == {peer.variable_dtype}
    assert_same_bits(back, peer)
    assert_same_bits(layers.from_peer(back), layer)


def with_updates(layer):
    """The layer, whose low-rank updates begin at zero, with updates that matter."""
    for weight in layer.trainable_variables:
        if "lora" in weight.path:
            weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    return layer


def test_low_rank_updates_go_out_merged_and_stay_in_the_layer():
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    layer.enable_lora(2, parts=["key", "output"])
    before = [array(weight) for weight in with_updates(layer).weights]
    assert_agree(layer, layers.to_peer(layer, MULTI), MASK)
    for weight, value in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(array(weight), value)


def test_low_rank_updates_of_keras_come_in_merged():
    peer = built(MULTI)
    for dense in (peer.query_dense, peer.output_dense):
        dense.enable_lora(2)
    layer = layers.from_peer(with_updates(peer))
    assert len(layer.weights) == 4
    assert_agree(layer, peer)


def test_a_layer_of_a_loaded_model_goes_out(tmp_path):
    inside = keras.Input((None, WIDTH))
    outputs = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, name="mine")(inside)
    model = keras.Model(inside, outputs)
    randomised(model.get_layer("mine"))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").get_layer("mine")
    assert_agree(model.get_layer("mine"), layers.to_peer(again, MULTI))


def unbuilt():
    return MULTI(HEADS, HEAD_DIM)


def of_shapes(query, value, key=None, **settings):
    peer = MULTI(HEADS, HEAD_DIM, **settings)
    peer.build((None, *query), (None, *value), key and (None, *key))
    return peer


def quantized():
    peer = built(MULTI)
    peer.key_dense.quantize("int8")
    return peer


class Derived(MULTI):
    """May compute something else."""


REFUSED = {
    "a list": (list, r"`peer` must be keras.layers.MultiHeadAttention, .*Received \[\]"),
    "another layer": (lambda: keras.layers.Dense(3), "`peer` must be .*Received <Dense"),
    "its class": (lambda: MULTI, "`peer` must be .*Received <class"),
    "a derived class": (lambda: Derived(1, 1), "not a class derived from one. Received <Derived"),
    "not built": (
        unbuilt,
        "`peer` has no weights yet: call it on inputs, or `build` it. Received multi",
    ),
    "grouped, not built": (lambda: GROUPED(5, 4, 2), "`peer` has no weights yet"),
    "widths of values": (
        lambda: built(MULTI, value_dim=7),
        "`value_dim` of `peer` must be 5: here queries, keys and values have one width, 5. Received 7",
    ),
    "gate": (lambda: built(MULTI, use_gate=True), "`use_gate` of `peer` must be False: .*Received True"),
    "grouped gate": (lambda: built(GROUPED, use_gate=True), "`use_gate` of `peer` must be False"),
    "outputs": (
        lambda: built(MULTI, output_shape=9),
        r"`output_shape` of `peer` must be None or \(11,\): .*Received \(9,\)",
    ),
    "a grid": (
        lambda: of_shapes((4, 4, 6), (4, 4, 6)),
        r"`attention_axes` of `peer` must be \(1,\): .*Received \(1, 2\)",
    ),
    "an axis": (
        lambda: of_shapes((4, 4, 6), (4, 4, 6), attention_axes=2),
        r"`attention_axes` of `peer` must be \(1,\): .*Received \(2,\)",
    ),
    "two sequences": (
        lambda: of_shapes((4, 6), (4, 8)),
        "of one sequence. Received kernels for widths 6, 8, 8. Give `kind=layers.MultiHeadCrossAttention`",
    ),
    "quantized": (quantized, "`quantization_mode` of `peer` must be None: read key before .*Received 'int8'"),
}


@not_on_jax
@pytest.mark.parametrize("case", REFUSED)
def test_a_peer_without_a_counterpart_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        layers.from_peer(make())


KEPT = {
    "another scale": ({"scale": 1.0}, MULTI, r"`scale` must be 0\.4472135\d+ in .*Received 1\.0\. The peer"),
    "positions": (
        {"position": "alibi"},
        GROUPED,
        "`position` must be None in a layer that becomes a keras",
    ),
    "query-key norm": ({"qk_norm": True}, MULTI, "`qk_norm` must be False in .*Received True"),
    "a cap": ({"logit_cap": 5.0}, MULTI, r"`logit_cap` must be None in .*Received 5\.0\. .*export the model"),
    "one side": ({"window": (2, 1)}, MULTI, r"`window` must reach as far to the left .*Received \(2, 1\)"),
    "groups": ({"num_kv_heads": 1}, MULTI, "must be `num_heads`, 3, in .*Received 1. Give keras.layers.Gr"),
}


OF_TWO = {
    "a window": (
        lambda: built(MULTI, sliding_window=3),
        {},
        "`sliding_window` of `peer` must be None: .*Received 3",
    ),
    "keys of another width": (
        lambda: of_shapes((4, 6), (4, 8), (4, 7)),
        {},
        "make keys and values of one sequence. Received kernels for widths 6, 7, 8. Keep Keras' layer",
    ),
    "causal": (
        lambda: built(MULTI),
        {"causal": True},
        "`causal` must be False for .*MultiHeadCrossAttention, which is causal never. Received True",
    ),
    "another kind": (
        lambda: built(MULTI),
        {"kind": layers.EncoderBlock},
        "`kind` must be MultiHeadSelfAttention or MultiHeadCrossAttention for a keras.*Received <class",
    ),
}


@not_on_jax
@pytest.mark.parametrize("case", OF_TWO)
def test_attention_to_another_sequence_without_a_counterpart_is_refused(case):
    make, options, message = OF_TWO[case]
    with pytest.raises(ConfigError, match=message):
        layers.from_peer(make(), **{"kind": layers.MultiHeadCrossAttention, **options})


@not_on_jax
@pytest.mark.parametrize("case", KEPT)
def test_a_layer_that_keras_cannot_compute_is_refused(case):
    settings, kind, message = KEPT[case]
    layer = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH))
    with pytest.raises(ConfigError, match=message):
        layers.to_peer(layer, kind)


@pytest.mark.parametrize(
    ("layer", "kind", "message"),
    [
        (layers.MultiHeadSelfAttention(2), MULTI, "`layer` has no weights yet: call it on inputs"),
        (
            layers.MultiHeadSelfAttention(2),
            unbuilt,
            "`kind` must be a class, .*Received an object of func",
        ),
        (
            layers.MultiHeadSelfAttention(2),
            unbuilt(),
            "Received an object of MultiHeadAttention: give its ",
        ),
        (
            layers.MultiHeadSelfAttention(2),
            keras.layers.Attention,
            "`kind` must be keras.layers.Mu",
        ),
        (
            layers.EncoderBlock(2),
            MULTI,
            "`layer` must be a MultiHeadSelfAttention or MultiHeadCrossAttention to become a keras",
        ),
        (layers.Encoder(1, 2), GROUPED, "Received Encoder. Of an Encoder or a Decoder, pass each of its"),
        (layers.LinearSelfAttention(2), MULTI, "Received LinearSelfAttention"),
    ],
)
def test_another_layer_or_class_is_refused(layer, kind, message):
    with pytest.raises(ConfigError, match=message):
        layers.to_peer(layer, kind)
