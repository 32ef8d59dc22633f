"""The same numbers as PyTorch and KerasHub where they are right, with weights copied over.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import keras
import numpy as np
import pytest
from backend import array, tensorflow_only
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, close, inputs, randomised

from keras_selfattn import layers

pytestmark = tensorflow_only  # once is enough
torch = pytest.importorskip("torch")
keras_hub = pytest.importorskip("keras_hub")

MASK = np.arange(LENGTH) < np.array([[4], [7]])


def projected(layer, x, kv_heads):
    """Query, key and value heads `[B, heads, T, D]` as torch tensors."""
    kernel, bias, _, _ = layer.get_weights()
    heads = (x @ kernel + bias).reshape(*x.shape[:2], -1, HEAD_DIM).transpose(0, 2, 1, 3)
    query_heads = heads.shape[1] - 2 * kv_heads
    return [torch.tensor(part) for part in np.split(heads, [query_heads, query_heads + kv_heads], axis=1)]


@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_torchs_scaled_dot_product_attention(kv_heads, causal):
    layer = randomised(layers.MultiHeadSelfAttention(6, HEAD_DIM, num_kv_heads=kv_heads, causal=causal))
    x = inputs()
    allowed = np.broadcast_to(MASK[:, None, None, :], (BATCH, 1, LENGTH, LENGTH))
    allowed = allowed & np.tri(LENGTH, dtype=bool) if causal else allowed
    context = torch.nn.functional.scaled_dot_product_attention(
        *projected(layer, x, kv_heads), attn_mask=torch.tensor(allowed), enable_gqa=kv_heads != 6
    )
    joined = context.numpy().transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, -1)
    _, _, kernel, bias = layer.get_weights()
    close(layer(x, mask=MASK), np.where(MASK[:, :, None], joined @ kernel + bias, 0))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_block_equals_torchs_encoder_layer(norm_first, activation):
    width, hidden = 15, 13
    block = layers.EncoderBlock(HEADS, hidden, activation=activation, norm_first=norm_first, name="block")
    randomised(block, width, deviation=0.4)
    ours = {w.path.split("block/")[1]: torch.tensor(array(w).T) for w in block.weights}
    theirs = torch.nn.TransformerEncoderLayer(
        width, HEADS, hidden, 0.0, activation, batch_first=True, norm_first=norm_first
    ).eval()
    names = {
        "self_attn.in_proj_weight": "attention/query_key_value_kernel",
        "self_attn.in_proj_bias": "attention/query_key_value_bias",
        "self_attn.out_proj.weight": "attention/output_kernel",
        "self_attn.out_proj.bias": "attention/output_bias",
        "linear1.weight": "feed_forward/hidden/kernel",
        "linear1.bias": "feed_forward/hidden/bias",
        "linear2.weight": "feed_forward/output/kernel",
        "linear2.bias": "feed_forward/output/bias",
        "norm1.weight": "attention_norm/gamma",
        "norm1.bias": "attention_norm/beta",
        "norm2.weight": "feed_forward_norm/gamma",
        "norm2.bias": "feed_forward_norm/beta",
    }
    theirs.load_state_dict({name: ours[source] for name, source in names.items()})
    x = inputs(width=width)
    with torch.no_grad():
        wanted = theirs(torch.tensor(x), src_key_padding_mask=torch.tensor(~MASK)).numpy()
    found = array(block(x, mask=MASK))
    np.testing.assert_allclose(found[MASK], wanted[MASK], rtol=1e-4, atol=5e-5)


def test_rotary_positions_equal_kerashubs():
    x = np.random.default_rng(0).normal(size=(2, 3, 50, 8)).astype("float32")  # [B, H, T, D]
    wanted = keras_hub.layers.RotaryEmbedding(max_wavelength=10000)(x.transpose(0, 2, 1, 3))
    found = layers.RotaryPositions().rotate(
        keras.ops.convert_to_tensor(x), keras.ops.arange(50, dtype="int32")
    )
    np.testing.assert_allclose(array(found), array(wanted).transpose(0, 2, 1, 3), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (8, 20)])
def test_buckets_equal_kerashubs_t5(buckets, far, causal):
    from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention

    distances = np.arange(-300, 301)
    wanted = T5MultiHeadAttention._relative_position_bucket(
        keras.ops.convert_to_tensor(distances, dtype="int32"),
        bidirectional=not causal,
        num_buckets=buckets,
        max_distance=far,
    )
    found = [layers.BucketedBias(buckets, far).bucket(int(d), causal) for d in distances]
    np.testing.assert_array_equal(found, array(wanted))


def test_causal_alibi_gives_the_weights_of_kerashubs():
    layer = randomised(layers.MultiHeadSelfAttention(4, HEAD_DIM, causal=True, position=layers.LinearBias()))
    plain = layers.MultiHeadSelfAttention(4, HEAD_DIM, causal=True)
    plain.build((None, None, inputs().shape[-1]))
    plain.set_weights(layer.get_weights())
    query, key, _ = (part.numpy() for part in projected(plain, inputs(), 4))
    logits = query @ key.swapaxes(-1, -2) * HEAD_DIM**-0.5
    biased = array(keras_hub.layers.AlibiBias()(logits))
    biased = np.where(np.tri(LENGTH, dtype=bool), biased, -np.inf)
    exponentials = np.exp(biased - biased.max(-1, keepdims=True))
    weights = layer(inputs(), return_weights=True)[1]
    close(weights, exponentials / exponentials.sum(-1, keepdims=True))


def test_sinusoids_equal_kerashubs_near_the_start_where_theirs_are_exact():
    """Their columns 2i and 2i + 1 are sine and cosine, too."""
    x = np.zeros((1, 30, 12), "float32")
    wanted = array(keras_hub.layers.SinePositionEncoding()(x))
    np.testing.assert_allclose(array(layers.SinusoidalPositionEncoding()(x)), wanted, atol=5e-6)


def test_a_query_with_nothing_to_attend_to_is_zero_where_keras_averages_padding():
    nothing = np.zeros((2, LENGTH, LENGTH), bool)
    theirs = keras.layers.MultiHeadAttention(HEADS, HEAD_DIM, use_bias=False)
    assert np.abs(array(theirs(inputs(), inputs(), attention_mask=nothing))).max() > 0
    ours = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, use_bias=False)
    assert (array(ours(inputs(), attention_mask=nothing)) == 0).all()


def test_in_bfloat16_positions_stay_apart_where_kerashubs_collide():
    theirs, ours = (
        array(make(dtype="bfloat16")(np.zeros((1, 4096, 8))))[0]
        for make in (keras_hub.layers.SinePositionEncoding, layers.SinusoidalPositionEncoding)
    )
    assert len(np.unique(theirs, axis=0)) < 1000
    assert len(np.unique(ours, axis=0)) == 4096
