"""Decoders' blocks and attention to a memory, to and from KerasHub and PyTorch: outputs, bits, refusals.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import keras
import numpy as np
import pytest
from backend import BACKEND, array
from samples import inputs, randomised

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError

pytestmark = pytest.mark.skipif(BACKEND == "jax", reason="nothing in it depends on JAX")
torch = pytest.importorskip("torch")
keras_hub = pytest.importorskip("keras_hub")

nn = torch.nn
HEADS, WIDTH, HIDDEN, MEMORY_WIDTH = 3, 15, 13, 6
T, S = 7, 5
HUB, BLOCK, ATTENTION = keras_hub.layers.TransformerDecoder, nn.TransformerDecoderLayer, nn.MultiheadAttention
CROSS = layers.MultiHeadCrossAttention
MASK, MEMORY_MASK = np.arange(T) < np.array([[4], [7]]), np.arange(S) < np.array([[5], [2]])
PAIRS = np.random.default_rng(5).random((T, S)) < 0.5
PAIRS[:, 0] = True  # a token with nothing to attend to is zero here alone
CAUSAL = np.tri(T, dtype=bool)


def hub_block(memory_width=MEMORY_WIDTH, **settings):
    peer = HUB(HIDDEN, HEADS, **settings)
    peer.build((None, None, WIDTH), memory_width and (None, None, memory_width))
    return randomised(peer, deviation=0.4)


def random_module(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.4)
    return module.eval()


def torch_block(*arguments, **settings):
    return random_module(BLOCK(WIDTH, HEADS, HIDDEN, *arguments, **settings))


def torch_attention(width=MEMORY_WIDTH, **settings):
    return random_module(ATTENTION(WIDTH, HEADS, kdim=width, vdim=width, batch_first=True, **settings))


PEERS = {
    "KerasHub": (hub_block, MEMORY_WIDTH),
    "KerasHub, pre-norm": (
        lambda: hub_block(
            WIDTH, normalize_first=True, layer_norm_epsilon=1e-3, dropout=0.2, activation="gelu"
        ),
        WIDTH,
    ),
    "KerasHub, without a memory": (lambda: hub_block(None, trainable=False), None),
    "PyTorch": (lambda: torch_block(0.0, batch_first=True), WIDTH),
    "PyTorch, length first": (torch_block, WIDTH),
    "PyTorch, pre-norm": (lambda: torch_block(0.3, "gelu", 1e-3, batch_first=True, norm_first=True), WIDTH),
    "PyTorch, no biases": (lambda: torch_block(0.1, nn.SiLU(), batch_first=True, bias=False), WIDTH),
    "PyTorch, attention": (lambda: torch_attention(dropout=0.2), MEMORY_WIDTH),
    "PyTorch, attention, one width": (lambda: torch_attention(WIDTH), WIDTH),
    "PyTorch, attention without biases": (lambda: torch_attention(bias=False), MEMORY_WIDTH),
    "PyTorch, attention without biases, one width": (lambda: torch_attention(WIDTH, bias=False), WIDTH),
}
each_peer = pytest.mark.parametrize("name", PEERS)


def from_peer(peer, **options):
    return layers.from_peer(peer, kind=CROSS if isinstance(peer, ATTENTION) else None, **options)


def outputs_of(peer, memory, masked):
    """The outputs of a peer called in its own way, `[batch, T, width]`."""
    x = inputs(length=T, width=WIDTH)
    if isinstance(peer, HUB):
        masks = {"decoder_padding_mask": MASK} if masked else {}
        if masked and memory is not None:
            pairs = np.broadcast_to(PAIRS, (len(x), T, S))
            masks |= {"encoder_padding_mask": MEMORY_MASK, "encoder_attention_mask": pairs}
        return array(peer(x, memory, **masks))
    x, memory, tokens, of_memory, pairs, causal = (
        torch.tensor(each) for each in (x, memory, ~MASK, ~MEMORY_MASK, ~PAIRS, ~CAUSAL)
    )
    with torch.no_grad():
        if isinstance(peer, ATTENTION):
            masks = {"key_padding_mask": of_memory, "attn_mask": pairs} if masked else {}
            return peer.eval()(x, memory, memory, **masks)[0].numpy()
        masks = {"tgt_mask": causal}
        if masked:
            masks |= {
                "tgt_key_padding_mask": tokens,
                "memory_key_padding_mask": of_memory,
                "memory_mask": pairs,
            }
        if peer.self_attn.batch_first:
            return peer.eval()(x, memory, **masks).numpy()
        return peer.eval()(x.transpose(0, 1), memory.transpose(0, 1), **masks).transpose(0, 1).numpy()


def assert_agree(layer, peer, memory_width):
    """They agree on the real tokens."""
    memory = memory_width and inputs(length=S, width=memory_width, seed=1)
    for masked in (False, True):
        masks = {"mask": MASK} if masked else {}
        if masked and memory is not None:
            pairs = "attention_mask" if isinstance(layer, CROSS) else "memory_attention_mask"
            masks |= {"memory_mask": MEMORY_MASK, pairs: PAIRS}
        found = array(layer(inputs(length=T, width=WIDTH), memory, **masks))
        wanted, real = outputs_of(peer, memory, masked), MASK if masked else np.ones_like(MASK)
        np.testing.assert_allclose(found[real], wanted[real], rtol=1e-5, atol=1e-5)


def assert_same_weights(found, wanted):
    if not isinstance(wanted, keras.layers.Layer):  # which is a module on PyTorch, too
        found, wanted = found.state_dict(), wanted.state_dict()
        assert list(found) == list(wanted)
        assert all(found[name].dtype == wanted[name].dtype for name in wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        return
    for one, other in zip(found.weights, wanted.weights, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(array(one), array(other))


def settings_of(peer):
    """All that a peer is told when it is made, apart from the layout of inputs and the name."""
    if isinstance(peer, keras.layers.Layer):
        return {key: value for key, value in peer.get_config().items() if key != "name"}
    attentions = [module for module in peer.modules() if isinstance(module, ATTENTION)]
    found = [(each.dropout, each.num_heads, each.embed_dim, each.kdim, each.vdim) for each in attentions]
    parts = [str(module) for name, module in peer.named_children() if name != "activation"]
    return found, parts, getattr(peer, "norm_first", None)


@each_peer
def test_a_layer_from_a_peer_computes_the_same_and_goes_back(name):
    make, memory_width = PEERS[name]
    peer = make()
    layer = from_peer(peer, name="ours")
    assert layer.name == "ours"
    assert_agree(layer, peer, memory_width)
    back = layers.to_peer(layer, type(peer))
    assert_same_weights(back, peer)
    assert settings_of(back) == settings_of(peer)
    again = from_peer(back)
    assert_same_weights(again, layer)
    assert {**again.get_config(), "name": None} == {**layer.get_config(), "name": None}


@pytest.mark.parametrize("kind", [HUB, BLOCK])
def test_a_block_of_a_decoder_goes_out_in_its_dtype_with_its_updates_merged(kind):
    decoder = layers.Decoder(2, HEADS, HIDDEN, activation="relu")
    decoder.build((None, None, WIDTH), (None, None, WIDTH))
    randomised(decoder, deviation=0.4)
    decoder.enable_lora(2, parts=["value", "feed_forward"])
    for weight in decoder.trainable_variables:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    for block in decoder.blocks:
        assert_agree(block, layers.to_peer(block, kind), WIDTH)
    narrow = layers.DecoderBlock(HEADS, HIDDEN, dtype="bfloat16")
    narrow.build((None, None, WIDTH), (None, None, WIDTH))
    assert_same_weights(layers.from_peer(layers.to_peer(narrow, kind)), narrow)


def test_each_rate_of_dropout_has_its_place_in_pytorch():
    block = layers.DecoderBlock(HEADS, dropout=0.1, attention_dropout=0.2, feed_forward_dropout=0.3)
    block.build((None, None, WIDTH), (None, None, WIDTH))
    peer = layers.to_peer(block, BLOCK)
    of_branches = [peer.dropout1.p, peer.dropout2.p, peer.dropout3.p]
    assert of_branches == [0.1] * 3
    assert [peer.self_attn.dropout, peer.multihead_attn.dropout, peer.dropout.p] == [0.2, 0.2, 0.3]
    again = layers.from_peer(peer)
    assert (again.dropout, again.attention_dropout, again.feed_forward_dropout) == (0.1, 0.2, 0.3)


def changed(place, value):
    peer, (*path, name) = torch_block(), place.split(".")
    setattr(peer.get_submodule(".".join(path)), name, value)
    return peer


REFUSED = {
    "not built": (lambda: HUB(HIDDEN, HEADS), {}, "`peer` has no weights yet: call it on inputs"),
    "a stack": (lambda: nn.TransformerDecoder(torch_block(), 2), {}, "Of a stack, pass each of its layers"),
    "not causal": (
        torch_block,
        {"causal": False},
        "`causal` must be True for a peer that becomes a DecoderBlock, .*always. Received False",
    ),
    "a kind of encoders": (
        torch_block,
        {"kind": layers.EncoderBlock},
        "`kind` must be DecoderBlock for a torch.nn.TransformerDecoderLayer. Received <class",
    ),
    "two epsilons": (
        lambda: changed("norm3.eps", 0.5),
        {},
        "`norm1.eps` and `norm3.eps` of `peer` must be equal: .*Received 1e-05 and 0.5",
    ),
    "two rates of branches": (
        lambda: changed("dropout3.p", 0.5),
        {},
        "`dropout1.p` and `dropout3.p` of `peer` must be equal",
    ),
    "two rates of attention": (
        lambda: changed("multihead_attn.dropout", 0.5),
        {},
        "`self_attn.dropout` and `multihead_attn.dropout` of `peer` must be equal",
    ),
    "two numbers of heads": (
        lambda: changed("multihead_attn", ATTENTION(WIDTH, 5)),
        {},
        "`self_attn.num_heads` and `multihead_attn.num_heads` of `peer` must be equal.*Received 3 and 5",
    ),
    "keys of another width": (
        lambda: changed("multihead_attn", torch_attention(7)),
        {},
        "`kdim` of `peer` must be its `embed_dim`, 15, .*Received 7",
    ),
    "a norm of another class": (
        lambda: changed("norm2", nn.RMSNorm(WIDTH)),
        {},
        "`norm2` of `peer` must be a LayerNorm of torch.nn, ",
    ),
    "self-attention of two widths": (
        torch_attention,
        {},
        "`kdim` of `peer` must be its `embed_dim`, .*read with `kind=layers.MultiHeadCrossAttention`",
    ),
    "keys and values of two widths": (
        lambda: ATTENTION(WIDTH, HEADS, kdim=7, vdim=8),
        {"kind": CROSS},
        "`kdim` and `vdim` of `peer` must be equal: .*Received 7 and 8",
    ),
    "keys of biases": (
        lambda: torch_attention(add_bias_kv=True),
        {"kind": CROSS},
        "`add_bias_kv` of `peer` must be False",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_peer_without_a_counterpart_is_refused(case):
    make, options, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        layers.from_peer(make(), **options)


KEPT = {
    "no memory": (BLOCK, None, {}, "a memory of its own width, 15, .*Received none. Give keras_hub"),
    "another width": (BLOCK, 6, {}, "to become a torch.nn.TransformerDecoderLayer. Received one of width 6"),
    "position": (BLOCK, WIDTH, {"position": "rotary"}, "`position` must be None .*TransformerDecoderLayer"),
    "window": (HUB, WIDTH, {"window": 2}, "`window` must be None .*TransformerDecoder. Received 2"),
    "activation": (BLOCK, WIDTH, {"activation": "elu"}, "becomes a torch.nn.TransformerDecoderLayer. Rec"),
    "no biases": (HUB, WIDTH, {"use_bias": False}, "`use_bias` must be True .*Received False"),
    "an encoder's": (nn.TransformerEncoderLayer, WIDTH, {}, "must be a EncoderBlock .*Received DecoderBlock"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_block_that_a_peer_cannot_compute_is_refused(case):
    kind, memory_width, settings, message = KEPT[case]
    block = layers.DecoderBlock(HEADS, HIDDEN, **settings)
    block.build((None, None, WIDTH), memory_width and (None, None, memory_width))
    with pytest.raises(ConfigError, match=message):
        layers.to_peer(block, kind)
