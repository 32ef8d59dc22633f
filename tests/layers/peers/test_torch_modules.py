"""Weights to and from KerasHub's block and PyTorch's modules: equal outputs, equal bits, clear refusals.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import keras
import numpy as np
import pytest
from backend import BACKEND, array
from samples import LENGTH, inputs, randomised

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.feed_forward import gelu_tanh

pytestmark = pytest.mark.skipif(BACKEND == "jax", reason="nothing in it depends on JAX")
torch = pytest.importorskip("torch")
keras_hub = pytest.importorskip("keras_hub")

HEADS, WIDTH, HIDDEN = 3, 15, 13
MASK = np.arange(LENGTH) < np.array([[4], [7]])
CAUSAL = np.tri(LENGTH, dtype=bool)
HUB, BLOCK = keras_hub.layers.TransformerEncoder, torch.nn.TransformerEncoderLayer
ATTENTION = torch.nn.MultiheadAttention
nn = torch.nn


def hub_block(**settings):
    peer = HUB(HIDDEN, HEADS, **settings)
    peer.build((None, None, WIDTH))
    return randomised(peer, deviation=0.4)


def random_module(module, deviation=0.4):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * deviation)
    return module.eval()


def torch_block(*arguments, **settings):
    return random_module(BLOCK(WIDTH, HEADS, HIDDEN, *arguments, **settings))


def torch_attention(**settings):
    return random_module(ATTENTION(WIDTH, HEADS, **settings))


def outputs_of(peer, mask, causal):
    """The outputs of a peer called in its own way, `[batch, length, width]`."""
    x = inputs(width=WIDTH)
    if isinstance(peer, HUB):
        both = np.broadcast_to(CAUSAL, (len(x), LENGTH, LENGTH)) if causal else None
        return array(peer(x, padding_mask=mask, attention_mask=both))
    hidden = None if mask is None else torch.tensor(~mask)
    pairs = torch.tensor(~CAUSAL) if causal else None
    with torch.no_grad():
        if isinstance(peer, BLOCK):
            x = torch.tensor(x) if peer.self_attn.batch_first else torch.tensor(x).transpose(0, 1)
            found = peer(x, src_mask=pairs, src_key_padding_mask=hidden)
            return (found if peer.self_attn.batch_first else found.transpose(0, 1)).numpy()
        x = torch.tensor(x)
        return peer.eval()(x, x, x, key_padding_mask=hidden, attn_mask=pairs)[0].numpy()


def assert_agree(layer, peer, mask=None):
    """They agree on the real tokens."""
    found, wanted = array(layer(inputs(width=WIDTH), mask=mask)), outputs_of(peer, mask, layer.causal)
    real = np.ones(MASK.shape, bool) if mask is None else mask
    np.testing.assert_allclose(found[real], wanted[real], rtol=1e-5, atol=1e-5)


def assert_same_weights(found, wanted):
    if not isinstance(wanted, keras.layers.Layer):
        found, wanted = found.state_dict(), wanted.state_dict()
        assert list(found) == list(wanted)
        assert all(found[name].dtype == wanted[name].dtype for name in wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        return
    for one, other in zip(found.weights, wanted.weights, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(array(one), array(other))


PEERS = {
    "KerasHub": hub_block,
    "KerasHub, pre-norm": lambda: hub_block(normalize_first=True, layer_norm_epsilon=1e-3, dropout=0.2),
    "KerasHub, GELU": lambda: hub_block(activation="gelu", kernel_initializer="he_normal", trainable=False),
    "KerasHub, approximate GELU": lambda: hub_block(
        activation=keras_hub.src.utils.keras_utils.gelu_approximate
    ),
    "PyTorch": lambda: torch_block(0.0, batch_first=True),
    "PyTorch, length first": torch_block,
    "PyTorch, pre-norm": lambda: torch_block(0.3, "gelu", 1e-3, batch_first=True, norm_first=True),
    "PyTorch, no biases": lambda: torch_block(0.1, nn.GELU(), batch_first=True, bias=False),
    "PyTorch, approximate GELU": lambda: torch_block(0.0, nn.GELU("tanh"), batch_first=True),
    "PyTorch, SiLU": lambda: torch_block(0.0, nn.functional.silu, batch_first=True),
    "PyTorch, tanh": lambda: torch_block(0.0, torch.tanh, batch_first=True),
    "PyTorch, attention": lambda: torch_attention(batch_first=True, dropout=0.2),
    "PyTorch, attention without biases": lambda: torch_attention(batch_first=True, bias=False),
}
each_peer = pytest.mark.parametrize("name", PEERS)


def settings_of(peer):
    """All that a peer is told when it is made, apart from the layout of inputs and the name."""
    if isinstance(peer, keras.layers.Layer):
        return {key: value for key, value in peer.get_config().items() if key != "name"}
    attention = peer if isinstance(peer, ATTENTION) else peer.self_attn
    found = [attention.dropout, attention.num_heads, attention.embed_dim]
    if isinstance(peer, BLOCK):
        found += [str(module) for name, module in peer.named_children() if name != "activation"]
        found += [peer.norm_first]
    return found


@each_peer
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_from_a_peer_computes_the_same(name, causal):
    peer = PEERS[name]()
    layer = layers.from_peer(peer, causal=causal, name="ours")
    assert layer.name == "ours"
    for mask in (None, MASK):
        assert_agree(layer, peer, mask)
    again = type(layer).from_config(layer.get_config())
    again.build((None, None, WIDTH))
    again.set_weights(layer.get_weights())
    assert_agree(again, peer)


@each_peer
def test_there_and_back_settings_and_bits_are_the_same(name):
    peer = PEERS[name]()
    layer = layers.from_peer(peer)
    back = layers.to_peer(layer, type(peer))
    assert_same_weights(back, peer)
    assert_same_weights(layers.from_peer(back), layer)
    if "approximate" not in name or "KerasHub" not in name:  # the name of the function is ours there
        assert settings_of(back) == settings_of(peer)
    assert_agree(layer, back if isinstance(back, HUB) else back.eval(), MASK)


def test_each_rate_of_dropout_has_its_place_in_pytorch():
    block = layers.EncoderBlock(HEADS, dropout=0.1, attention_dropout=0.2, feed_forward_dropout=0.3)
    block.build((None, None, WIDTH))
    peer = layers.to_peer(block, BLOCK)
    rates = [peer.dropout1.p, peer.dropout2.p, peer.self_attn.dropout, peer.dropout.p]
    assert rates == [0.1, 0.1, 0.2, 0.3]
    again = layers.from_peer(peer)
    assert (again.dropout, again.attention_dropout, again.feed_forward_dropout) == (0.1, 0.2, 0.3)
    assert peer.training
    assert peer.self_attn.batch_first


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", [HUB, BLOCK])
def test_weights_keep_their_dtype(kind, dtype):
    block = layers.EncoderBlock(HEADS, HIDDEN, dtype=dtype)
    block.build((None, None, WIDTH))
    for weight in block.weights:
        weight.assign(np.random.default_rng(3).normal(size=weight.shape))
    peer = layers.to_peer(block, kind)
    if kind is BLOCK:
        assert {str(each.dtype) for each in peer.parameters()} == {f"torch.{block.variable_dtype}"}
    else:
        assert peer.dtype_policy == block.dtype_policy
    assert_same_weights(layers.from_peer(peer), block)


@pytest.mark.parametrize("kind", [HUB, BLOCK])
def test_a_block_of_a_loaded_encoder_goes_out_with_its_updates_merged(kind, tmp_path):
    encoder = layers.Encoder(2, HEADS, HIDDEN, activation="relu", name="encoder")
    model = keras.Sequential([keras.Input((None, WIDTH)), encoder])
    randomised(encoder, deviation=0.4)
    encoder.enable_lora(2, parts=["value", "feed_forward"])
    for weight in encoder.trainable_variables:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").get_layer("encoder")
    for block in loaded.blocks:
        peer = layers.to_peer(block, kind)
        assert_agree(block, peer, MASK)


def test_low_rank_updates_of_keras_come_in_merged():
    peer = hub_block()
    dense = peer._feedforward_intermediate_dense
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.random.default_rng(2).normal(size=dense.lora_kernel_b.shape))
    assert_agree(layers.from_peer(peer), peer)


def changed(change, **settings):
    peer = torch_block(**settings)
    change(peer)
    return peer


def unequal(name, part):
    return changed(lambda peer: setattr(getattr(peer, name), part, 0.5))


def replaced(name, module, **settings):
    return changed(lambda peer: setattr(peer, name, module), **settings)


def weighted():
    return changed(lambda peer: nn.utils.parametrizations.weight_norm(peer.self_attn.out_proj))


class Derived(BLOCK):
    """May compute something else."""


REFUSED = {
    "not built": (lambda: HUB(HIDDEN, HEADS), "`peer` has no weights yet: call it on inputs"),
    "another module": (lambda: nn.Linear(2, 3), r"`peer` must be keras.*Received Linear\(in_features=2"),
    "a stack": (lambda: nn.TransformerEncoder(torch_block(), 2), "Of a stack, pass each of its layers"),
    "a derived class": (lambda: Derived(4, 2, 3), "not a class derived from one"),
    "keys of another width": (
        lambda: torch_attention(kdim=7),
        "`kdim` of `peer` must be its `embed_dim`, 15, in self-attention .*Received 7",
    ),
    "values of another width": (lambda: torch_attention(vdim=7), "`vdim` of `peer` must be .*Received 7"),
    "keys of biases": (lambda: torch_attention(add_bias_kv=True), "`add_bias_kv` of `peer` must be False"),
    "a key of zeros": (lambda: torch_attention(add_zero_attn=True), "`add_zero_attn` of `peer` must be F"),
    "another activation": (
        lambda: torch_block(0.0, nn.functional.elu),
        "`activation` of `peer` must be one of torch.nn.ReLU, .*Received <function elu",
    ),
    "a function of the user's own": (
        lambda: torch_block(0.0, lambda x: x),
        "`activation` of `peer` .*Received <function <lambda>",
    ),
    "two epsilons": (
        lambda: unequal("norm2", "eps"),
        "`norm1.eps` and `norm2.eps` of `peer` must be equal: .*Received 1e-05 and 0.5",
    ),
    "two rates": (lambda: unequal("dropout2", "p"), "`dropout1.p` and `dropout2.p` of `peer` must be equal"),
    "another norm": (
        lambda: replaced("norm1", nn.RMSNorm(WIDTH), bias=False),
        "`norm1` of `peer` must be a LayerNorm of torch.nn, .*Received torch.nn.modules.norm.*RMSNorm",
    ),
    "a norm without gains": (
        lambda: replaced("norm1", nn.LayerNorm(WIDTH, elementwise_affine=False)),
        "all biases or none: .*Received others, or not these: norm1.bias, norm1.weight",
    ),
    "a bias too few": (
        lambda: replaced("linear1", nn.Linear(WIDTH, HIDDEN, bias=False)),
        "Received others, or not these: linear1.bias",
    ),
    "weights of another form": (
        weighted,
        "`self_attn.out_proj` of `peer` must be a NonDyn.*Received .*Parametrized.*: merge what was added",
    ),
    "two dtypes": (
        lambda: changed(lambda peer: peer.linear1.double()),
        "`peer` must have parameters of one dtype, .*Received float32, float64",
    ),
    "complex numbers": (
        lambda: changed(lambda peer: peer.to(torch.complex64)),
        "convert it first, for example by `peer.float\\(\\)`. Received complex64",
    ),
}


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature", "ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("case", REFUSED)
def test_a_peer_without_a_counterpart_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        layers.from_peer(make())


ALIKE = "It acts in training alone: copy the weights to a layer with"
ODD = "The peer cannot compute the same: export the model instead, or train one with"
BOTH, OF_TORCH, OF_HUB = (HUB, BLOCK), (BLOCK,), (HUB,)
KEPT = {
    "scale": (BOTH, {"scale": 0.1}, f"`scale` must be 0.447.*Received 0.1. {ODD}"),
    "position": (BOTH, {"position": "rotary"}, f"`position` must be None .*{ODD}"),
    "window": (BOTH, {"window": 2}, f"`window` must be None .*Received 2. {ODD} window=None"),
    "groups": (BOTH, {"num_kv_heads": 1}, f"`num_kv_heads` must be 3 .*Received 1. {ODD}"),
    "head width": (BOTH, {"head_dim": 4}, "`head_dim` must be 5 .*Received 4"),
    "norm": (BOTH, {"norm": "rms"}, "`norm` must be 'layer' in .*Received 'rms'"),
    "no norm": (BOTH, {"attention_norm": False}, "`attention_norm` must be True .*Received False"),
    "gate": (BOTH, {"gated": True}, "`gated` must be False .*Received True"),
    "depth": (BOTH, {"stochastic_depth": 0.1}, f"`stochastic_depth` must be 0.0 .*{ALIKE}"),
    "penalty": (BOTH, {"kernel_regularizer": "l2"}, f"`kernel_regularizer` must be None .*L2.*{ALIKE}"),
    "bound": (BOTH, {"bias_constraint": "non_neg"}, f"`bias_constraint` must be None .*{ALIKE}"),
    "no biases": (OF_HUB, {"use_bias": False}, "`use_bias` must be True .*Received False"),
    "no shift": (OF_TORCH, {"use_bias": False}, "`norm` must be 'layer_no_shift' in .*Received 'layer'"),
    "rate": (OF_HUB, {"attention_dropout": 0.1}, f"`attention_dropout` must be 0.0 .*Received 0.1. {ALIKE}"),
    "inner rate": (OF_HUB, {"feed_forward_dropout": 0.1}, f"`feed_forward_dropout` must be 0.0 .*{ALIKE}"),
    "activation": (OF_TORCH, {"activation": "elu"}, "`activation` must be 'relu', .*Received <function elu"),
}


@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case in KEPT for kind in KEPT[case][0]])
def test_a_block_that_a_peer_cannot_compute_is_refused(case, kind):
    _kinds, settings, message = KEPT[case]
    block = layers.EncoderBlock(HEADS, HIDDEN, **settings)
    block.build((None, None, WIDTH))
    with pytest.raises(ConfigError, match=message):
        layers.to_peer(block, kind)


def test_attention_that_pytorch_cannot_compute_is_refused():
    layer = layers.MultiHeadSelfAttention(3, 4)
    layer.build((None, None, 11))
    with pytest.raises(ConfigError, match=r"`head_dim` must be 3\.6"):
        layers.to_peer(layer, ATTENTION)


def test_heads_that_do_not_divide_the_width_go_to_kerashub_and_back():
    peer = HUB(HIDDEN, 3)
    peer.build((None, None, 11))
    layer = layers.from_peer(peer)
    assert layer.head_dim == 3
    assert_same_weights(layers.to_peer(layer, HUB), peer)


def test_the_approximation_of_gelu_is_ours_in_a_file():
    layer = layers.from_peer(PEERS["KerasHub, approximate GELU"]())
    assert layer.activation is gelu_tanh
    assert layer.get_config()["activation"]["config"] == "keras_selfattn>gelu_tanh"


@pytest.mark.parametrize("part", ["attention", "feed_forward/hidden"])
def test_a_quantized_block_is_refused(part):
    block = layers.EncoderBlock(HEADS, HIDDEN)
    block.build((None, None, WIDTH))
    layers.quantize_parts(block, {part: None})
    with pytest.raises(ConfigError, match="`layer` must have weights of floats. Received .*kernel of int8"):
        layers.to_peer(block, BLOCK)
