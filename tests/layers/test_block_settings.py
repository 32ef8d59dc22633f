"""An encoder whose blocks differ: against stacked blocks, loops in NumPy, and a band in the mask."""

import keras
import numpy as np
import pytest
import reference
from backend import array, gradients
from samples import close

from keras_selfattn.layers import Encoder, EncoderBlock, LinearBias, RotaryPositions

BATCH, LENGTH, HEADS, WIDTH, HIDDEN = 3, 11, 2, 10, 7
MASK = np.arange(LENGTH) < np.array([[8], [11], [1]])
FAR = {"window": None, "position": RotaryPositions(base=500.0)}
NEAR = {"window": 2, "position": RotaryPositions(base=20.0)}
DIFFERENCES = [{**FAR, "attention_norm": False}, NEAR, {**NEAR, "window": (1, 0)}, FAR]
SETTINGS = {"norm": "layer_no_shift", "use_bias": False, "gated": True, "activation": "relu"}


def inputs(length=LENGTH, seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, length, WIDTH)).astype("float32")


def randomised(layer):
    if not layer.built:
        layer.build((None, None, WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.4 for w in layer.weights])
    return layer


@pytest.fixture(scope="module")
def encoder():
    return randomised(Encoder(4, HEADS, HIDDEN, window=5, block_settings=DIFFERENCES, seed=1, **SETTINGS))


def stacked(encoder, x, **call):
    """The blocks one after the other, each with its own masks, and the last normalisation."""
    weights = []
    for block in encoder.blocks:
        x, found = block(x, return_weights=True, **call)
        weights.append(found)
    return encoder._norm(x), weights


def in_numpy(encoder, x, mask):
    """The formula: pre-norm blocks without shifts and biases, the first without a norm of attention."""
    named = {weight.path.partition("/")[2]: array(weight).astype("float64") for weight in encoder.weights}

    def normal(name, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * named[f"{name}/gamma"]

    # Of each block: how far it sees to the left and right, and the base of its rotations.
    rules = [(LENGTH, LENGTH, 500.0), (2, 2, 20.0), (1, 0, 20.0), (LENGTH, LENGTH, 500.0)]
    x = np.where(mask[:, :, None], x, 0).astype("float64")
    for place, (left, right, base) in enumerate(rules):
        of_block = f"block_{place}"
        kernels = [named[f"{of_block}/attention/{name}_kernel"] for name in ("query_key_value", "output")]
        attended, _ = reference.self_attention(
            normal(f"{of_block}/attention_norm", x) if place else x,
            [kernels[0], np.zeros(3 * WIDTH), kernels[1], np.zeros(WIDTH)],
            HEADS,
            (WIDTH // HEADS) ** -0.5,
            lambda b, h, t, s, left=left, right=right: mask[b, s] and -left <= s - t <= right,
            turn=lambda kind, vector, position, base=base: reference.rotated(vector, position, base),
        )
        x = np.where(mask[:, :, None], x + attended, 0)
        seen = normal(f"{of_block}/feed_forward_norm", x)
        kernel = {
            name: named[f"{of_block}/feed_forward/{name}/kernel"] for name in ("hidden", "gate", "output")
        }
        hidden = np.maximum(seen @ kernel["hidden"], 0) * (seen @ kernel["gate"])
        x = x + hidden @ kernel["output"]
    return np.where(mask[:, :, None], normal("norm", x), 0)


def test_differing_blocks_are_their_formula(encoder):
    close(encoder(inputs(), mask=MASK), in_numpy(encoder, inputs(), MASK), rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("length", [LENGTH, 130], ids=["padded", "packed"])
def test_differing_blocks_are_stacked_blocks(encoder, length):
    x = inputs(length)
    mask = np.arange(length) < np.array([[length - 3], [length], [1]])
    wanted, of_blocks = stacked(encoder, x, mask=mask)
    wanted = np.where(mask[:, :, None], array(wanted), 0)
    close(encoder(x, mask=mask), wanted, rtol=1e-4, atol=2e-5)
    outputs, weights = encoder(x, mask=mask, return_weights=True)
    close(outputs, wanted, rtol=1e-4, atol=2e-5)
    for pair in zip(weights, of_blocks, strict=True):
        of_real = [np.swapaxes(array(each), 1, 2)[mask] for each in pair]  # rows of padding mean nothing
        np.testing.assert_allclose(*of_real, rtol=1e-4, atol=1e-5)


def test_padding_before_and_among_tokens_takes_up_positions_if_one_block_sees_distances():
    """Packed tokens may stand side by side only if no block counts: the first one does not."""
    settings = [{}, {"window": 2}, {"position": LinearBias()}]
    encoder, x = randomised(Encoder(3, HEADS, block_settings=settings)), inputs(130)
    mask = np.random.default_rng(2).random((BATCH, 130)) < 0.6
    wanted, _ = stacked(encoder, x, mask=mask)
    close(encoder(x, mask=mask), np.where(mask[:, :, None], array(wanted), 0), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("length", [LENGTH, 130], ids=["padded", "packed"])
def test_gradients_are_those_of_bands_in_the_mask(length):
    """A block with a window, and one without whose mask has the same band."""
    x, settings = inputs(length), {"position": RotaryPositions(), "attention_norm": False}
    mask = np.arange(length) < np.array([[length], [length - 2], [1]])
    encoder = randomised(Encoder(1, HEADS, block_settings=[{**settings, "window": 3}]))
    plain = randomised(Encoder(1, HEADS, **settings))
    places = np.arange(length)
    band = np.abs(places[:, None] - places) <= 3
    found = gradients(encoder, x, mask=mask)
    for one, other in zip(found, gradients(plain, x, mask=mask, attention_mask=band), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(other).max()))


def test_a_config_holds_the_shared_settings_and_the_differences(encoder):
    assert (encoder.window, encoder.attention_norm, encoder.position) == (5, True, None)
    assert [block.window for block in encoder.blocks] == [None, 2, (1, 0), None]
    assert encoder.block_settings == DIFFERENCES
    config = keras.saving.serialize_keras_object(encoder)["config"]
    assert config["block_settings"][1]["position"]["config"] == {"base": 20.0}
    again = Encoder.from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    assert [block.window for block in again.blocks] == [None, 2, (1, 0), None]
    assert Encoder(2, HEADS).get_config()["block_settings"] is None


def test_equal_blocks_may_be_written_either_way():
    first, second = (
        Encoder(2, HEADS, window=3, seed=4),
        Encoder(2, HEADS, block_settings=[{"window": 3}] * 2, seed=4),
    )
    np.testing.assert_array_equal(array(first(inputs(), mask=MASK)), array(second(inputs(), mask=MASK)))


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_a_block_without_a_norm_of_attention_has_no_weights_of_it(norm):
    block = randomised(EncoderBlock(HEADS, attention_norm=False, norm=norm))
    assert [weight.path for weight in block.weights if "attention_norm" in weight.path] == []
    assert [weight.path for weight in block.weights if "feed_forward_norm" in weight.path]


def test_a_norm_without_a_shift_is_one_whose_shift_is_zero():
    plain, shifted = (randomised(EncoderBlock(HEADS, norm=norm)) for norm in ("layer_no_shift", "layer"))
    gains = {weight.path.partition("/")[2]: weight for weight in plain.weights}
    for weight in shifted.weights:
        name = weight.path.partition("/")[2]
        weight.assign(gains[name] if name in gains else np.zeros(weight.shape))
    assert len(shifted.weights) == len(plain.weights) + 2
    for length in (LENGTH, 130):  # padded, packed
        close(plain(inputs(length)), array(shifted(inputs(length))), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([{}], r"must be a list of dicts, one for each block, here 2; .* Received \[{}\]"),
        ({"window": 2}, "must be a list of dicts"),
        ([{}, 3], "must be a list of dicts"),
        (
            [{}, {"windows": 2, "num_heads": 3}],
            "may hold feed_forward_dim, .*window.* Received num_heads, windows",
        ),
        ([{}, {"norm_first": False}], "Received norm_first"),
        ([{}, {"seed": 1}, {}], "here 2"),
        ([{"window": -1}, {}], "`window` must be an integer .* Received -1"),
        ([{"attention_norm": 0}, {}], "`attention_norm` must be True or False. Received 0"),
    ],
)
def test_bad_block_settings_are_named(settings, said):
    with pytest.raises(ValueError, match=said):
        Encoder(2, HEADS, block_settings=settings)
