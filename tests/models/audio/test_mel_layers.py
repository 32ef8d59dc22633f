"""Layers of models of sound: what padding, gain, chance and lengths change, and what they do not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.models.audio import mel_layers
from keras_selfattn.models.audio.mel_layers import (
    ConvSubsampling,
    EncoderByParts,
    MelFrames,
    SpecAugment,
    WindowedConvolutions,
)
from keras_selfattn.models.series.random_convolutions import RandomConvolutions

RANDOM = np.random.default_rng(0)
ANY, KNOWN = tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None], tf.bool)


def random(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def padded(rows, length):
    found = np.full((len(rows), length, rows[0].shape[1]), np.nan, "float32")
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def portable_graph(layer):
    """The outputs of a layer in other runtimes, which have no loops and no branches."""
    traced = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=[ANY, KNOWN])
    with layers.portable():
        definition = traced.get_concrete_function().graph.as_graph_def()
    nodes = [*definition.node, *(node for each in definition.library.function for node in each.node_def)]
    assert not [node.op for node in nodes if "While" in node.op or "If" in node.op or "TensorList" in node.op]
    return traced


def test_frames_lose_their_loudness_and_are_standardised():
    rows = [random(5, 3) + 4, random(9, 3) - 2]
    layer = MelFrames()
    layer.learn(rows)
    level = [row - row.mean() for row in rows]
    mean, deviation = np.concatenate(level).mean(axis=0), np.concatenate(level).std(axis=0)
    found = np.asarray(layer(padded(rows, 11)))
    for row, each in zip(level, found, strict=True):
        np.testing.assert_allclose(each[: len(row)], (row - mean) / deviation, atol=1e-5)
        assert not each[len(row) :].any()
    # A gain is the same number in every logarithm.
    np.testing.assert_allclose(layer(padded(rows, 11) + 3), found, atol=1e-5)
    mask = np.asarray(layer.compute_mask(padded(rows, 11)))
    assert mask.sum(axis=1).tolist() == [5, 9]


def test_frames_of_nothing_are_zeros():
    layer = MelFrames()
    assert not np.asarray(layer(np.full((2, 3, 4), np.nan, "float32"))).any()
    assert layer(np.zeros((2, 0, 4), "float32")).shape == (2, 0, 4)
    assert layer(np.zeros((0, 3, 4), "float32")).shape == (0, 3, 4)
    # Silence is the same in all bands.
    layer.learn([np.full((3, 4), -13.8, "float32")])
    assert np.isfinite(layer(np.full((1, 3, 4), -13.8, "float32"))).all()


def test_nothing_is_changed_outside_of_training():
    x = random(2, 6, 4)
    np.testing.assert_array_equal(SpecAugment()(x), x)


def test_rows_are_changed_each_in_its_own_way_and_by_the_seed():
    x = np.repeat(random(1, 60, 40), 3, axis=0)
    first, again = (np.asarray(SpecAugment(seed=4)(x, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[0], first[1])
    assert not np.allclose(first, SpecAugment(seed=5)(x, training=True))


def test_masks_leave_out_runs_of_bands_and_of_real_frames():
    x = np.ones((64, 50, 40), "float32")
    mask = np.arange(50)[None] < np.arange(64)[:, None]  # 0 to 50 real frames
    layer = SpecAugment(warp=0.0, speed=0.0, masks=1, seed=0)
    found = np.asarray(layer(x * mask[..., None], mask=mask, training=True))
    assert set(np.unique(found)) == {0, 1}
    assert not found[~mask].any()
    for row, real in zip(found, mask.sum(axis=1), strict=True):
        hidden = real - row[:real].any(axis=1).sum()
        assert 0 <= hidden <= np.ceil(0.2 * real) + 1
        if row.any():
            left_out = 40 - row.any(axis=0).sum()
            assert left_out <= 9
            gaps = np.flatnonzero(np.diff(row.any(axis=0).astype(int)))
            assert len(gaps) <= 2  # one run


def test_a_row_is_changed_alike_with_any_padding():
    x, more = random(3, 20, 8), np.zeros((3, 9, 8), "float32")
    mask = np.ones((3, 20), bool)
    alone = np.asarray(SpecAugment(seed=2)(x, mask=mask, training=True))
    padded = SpecAugment(seed=2)(
        np.concatenate([x, more], 1), mask=np.pad(mask, [(0, 0), (0, 9)]), training=True
    )
    np.testing.assert_allclose(np.asarray(padded)[:, :20], alone, atol=1e-6)


def test_stretching_is_a_linear_interpolation():
    x = np.tile(np.arange(40.0, dtype="float32"), (8, 5, 1))
    found = np.asarray(SpecAugment(warp=0.2, speed=0.0, masks=0, seed=0)(x, training=True))
    for row in found:
        factor = row[0, 1]
        assert 0.8 <= factor <= 1.2
        np.testing.assert_allclose(row, np.tile(np.minimum(np.arange(40) * factor, 39), (5, 1)), rtol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 31])
def test_subsampling_is_three_convolutions_with_maxima(length):
    layer = ConvSubsampling(6, channels=3)
    x = random(2, length, 10)
    found = np.asarray(layer(x))
    weights = {each.path.split("/")[-2:][0] + each.name: np.asarray(each) for each in layer.weights}
    value = np.pad(x, [(0, 0), (0, -length % 4), (0, 0)])[..., None]
    real = (np.arange(value.shape[1]) < length)[None, :, None, None]
    for name, halves in (("first", 2), ("second", 2), ("third", 1)):
        value = tf.nn.conv2d(value, weights[f"{name}kernel"], 1, "SAME") + weights[f"{name}bias"]
        value = np.asarray(keras.activations.gelu(value)) * real
        value = np.asarray(tf.nn.max_pool2d(value, (halves, 2), (halves, 2), "SAME"))
        real = real[:, ::halves]
    rows = value.reshape(2, value.shape[1], -1)
    wanted = rows @ weights["outputskernel"] + weights["outputsbias"]
    assert found.shape == (2, -(-length // 4), 6) == layer.compute_output_shape((2, length, 10))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_position_sees_eighteen_frames():
    layer, x = ConvSubsampling(6, channels=3), random(1, 60, 10)
    changed = np.array(
        [
            np.any(
                np.asarray(layer(x)) != np.asarray(layer(x + 9 * (np.arange(60) == at)[:, None])), axis=(0, 2)
            )
            for at in range(60)
        ]
    )  # [frames, positions]
    assert np.flatnonzero(changed[:, 7]).tolist() == list(range(28 - 7, 28 + 11))


@pytest.mark.parametrize("length", [1, 4, 5, 7])
def test_positions_do_not_depend_on_padding(length):
    layer, row = ConvSubsampling(6, channels=3), random(1, length, 10)
    alone = np.asarray(layer(row, mask=np.ones((1, length), bool)))
    for more in (1, 2, 3, 6):
        x = np.concatenate([row, random(1, more, 10)], axis=1)
        mask = np.arange(length + more)[None] < length
        found = np.asarray(layer(x, mask=mask))
        positions = -(-length // 4)
        np.testing.assert_allclose(found[:, :positions], alone, atol=1e-6)
        assert not found[:, positions:].any()
        assert np.asarray(layer.compute_mask(x, mask)).sum() == positions


def test_no_rows_and_no_frames_have_no_positions():
    layer = ConvSubsampling(6, channels=3)
    assert layer(np.zeros((2, 0, 10), "float32")).shape == (2, 0, 6)
    assert layer(np.zeros((0, 9, 10), "float32")).shape == (0, 3, 6)


@pytest.mark.slow
def test_random_convolutions_of_long_rows_are_the_mean_of_their_windows():
    layer, plain = WindowedConvolutions(10, longest=50), RandomConvolutions(10, longest=50)
    rows = [random(length, 4) for length in (2300, 1000, 30, 1)]
    x = np.nan_to_num(padded(rows, 2400))
    mask = np.arange(2400)[None] < np.array([2300, 1000, 30, 1])[:, None]
    traced = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=[ANY, KNOWN])
    portable = portable_graph(layer)
    for found in (layer(x, mask=mask), traced(x, mask), portable(x, mask)):
        for row, each in zip(rows, np.asarray(found), strict=True):
            parts = [row[begin : begin + 1000] for begin in range(0, len(row), 1000)]
            features = np.concatenate([np.asarray(plain(part[None])) for part in parts])
            wanted = np.average(features, axis=0, weights=list(map(len, parts)))
            np.testing.assert_allclose(each, wanted, atol=2e-4)
    for empty in ((2, 0, 4), (0, 30, 4), (0, 1200, 4)):
        for graph in (traced, portable):
            found = graph(np.zeros(empty, "float32"), np.zeros(empty[:2], bool))
            assert found.shape == (empty[0], sum(layer.sizes(4)))
            assert np.isfinite(found).all()
    assert not np.asarray(layer(x, mask=mask, training=True)).any()


@pytest.mark.parametrize(
    "layer",
    [MelFrames(), SpecAugment(seed=3), ConvSubsampling(6, channels=3), EncoderByParts(1, 2, window=3)],
)
def test_layers_are_made_again_from_their_config(layer):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize("length", [1001, 1999, 2000, 2003])
@pytest.mark.parametrize("known", [False, True])
def test_positions_of_long_recordings_are_those_of_all_frames_at_once(length, known):
    layer, x = ConvSubsampling(8, channels=3), random(2, length, 4)
    mask = np.arange(length)[None] < np.array([[length], [length - 900]])
    wanted = np.asarray(layer(x, mask=mask, training=True))  # which takes all of them together
    traced = tf.function(layer, input_signature=[ANY, KNOWN])
    found = np.asarray(layer(x, mask=mask) if known else traced(x, mask))
    assert found.shape == wanted.shape == (2, -(-length // 4), 8)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    if not known:
        np.testing.assert_allclose(portable_graph(layer)(x, mask), wanted, atol=1e-6)
    if known and length == 1999:  # under XLA every size is known
        compiled = tf.function(layer, jit_compile=True)
        np.testing.assert_allclose(compiled(x, mask), wanted, atol=1e-6)


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 149, 150, 233])
@pytest.mark.parametrize("known", [False, True])
def test_an_encoder_of_long_recordings_is_that_of_all_positions(length, known, monkeypatch):
    monkeypatch.setattr(mel_layers, "_PART", 50)
    layer, x = EncoderByParts(2, 2, window=7, seed=0), random(3, length, 8)
    mask = np.arange(length)[None] < np.array([[length], [length - 40], [0]])
    wanted = np.asarray(layers.Encoder.call(_built(layer), tf.constant(x), tf.constant(mask)))
    called = []
    monkeypatch.setattr(EncoderByParts, "_by_parts", _noted(EncoderByParts._by_parts, called))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 8]), KNOWN])
    found = np.asarray(layer(x, mask=mask) if known else traced(x, mask))
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert bool(called) == (length >= 100 or not known)
    if known and length == 233:
        np.testing.assert_allclose(tf.function(layer, jit_compile=True)(x, mask), wanted, atol=1e-5)
        np.testing.assert_allclose(layer(x), layers.Encoder.call(layer, tf.constant(x)), atol=2e-6)
        for options in ({"return_weights": True}, {"attention_mask": np.ones((length, length), bool)}):
            called.clear()
            layer(x, mask=mask, **options)
            assert not called


@pytest.mark.parametrize("length", [140, 170, 171])
def test_windows_may_reach_further_than_a_part(length, monkeypatch):
    monkeypatch.setattr(mel_layers, "_PART", 50)
    layer, x = _built(EncoderByParts(2, 2, window=30, seed=0)), random(1, length, 8)
    wanted = layers.Encoder.call(layer, tf.constant(x))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 8])])
    for found in (layer(x), traced(x)):
        np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("window", [None, (3, 2)])
def test_an_encoder_by_parts_has_windows_of_one_reach(window):
    with pytest.raises(ValueError, match="`window` must be an integer in each block, or use `Encoder`"):
        EncoderByParts(2, 2, window=window)


def _built(layer):
    layer.build((None, None, 8))
    return layer


def _noted(method, calls):
    return lambda *args: (calls.append(None), method(*args))[1]


def test_the_memory_of_an_encoder_does_not_grow_with_a_recording():
    """All positions at once have a hidden layer of 64 times the features of the inputs."""
    layer = _built(EncoderByParts(2, 2, 512, window=64))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([1, 50_000, 8])])
    graph = traced.get_concrete_function().graph
    inside = graph.as_graph_def().library.function
    sizes = [output.shape.num_elements() or 0 for each in graph.get_operations() for output in each.outputs]
    assert inside, "the parts are functions of their own"
    assert 50_000 * 8 <= max(sizes) < 50_000 * 8 * 1.1


def test_the_memory_of_convolutions_does_not_grow_with_a_recording():
    """So many frames at once have an output of the first convolution of 128 MB."""
    layer = ConvSubsampling(4, channels=32)
    layer(random(1, 8, 40))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([1, 50_000, 40])])
    operations = traced.get_concrete_function().graph.get_operations()
    sizes = [output.shape.num_elements() or 0 for each in operations for output in each.outputs]
    assert 50_000 * 40 <= max(sizes) < 50_000 * 40 * 1.1
