"""Random convolutions and their readout beside attention, against NumPy's loops."""

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.data import LabelledRows
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches import padded
from keras_selfattn.models.series import random_convolutions as convolutions
from keras_selfattn.models.series.random_convolutions import RandomConvolutions, draw
from keras_selfattn.training.calibration import Calibration

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "max_positions": 4, "kernels": 40}


def bumps(rows, seed=0):
    random = np.random.default_rng(seed)
    names = ["early", "late"] * (rows // 2)
    series = []
    for name in names:
        time = np.linspace(0, 1, int(random.integers(15, 30)))
        middle = 0.3 if name == "early" else 0.7
        line = np.exp(-((time - middle) ** 2) / 0.01) + 0.1 * random.normal(size=len(time))
        series.append(line[:, None].astype("float32"))
    return series, names


def _seen(frame, tap, at):
    return frame + (tap - 5) * at.dilation


def test_what_kernels_find_is_what_loops_find():
    row = np.random.default_rng(0).normal(size=(23, 3)).astype("float32")
    found = np.asarray(RandomConvolutions(20, longest=60, seed=5)(row[None]))[0]
    shares, largest = [], []
    for at, parts in draw(20, 3, 60, 5).items():
        for kernel, bias in zip(parts["kernels"].T.reshape(-1, 11, 3), parts["biases"], strict=True):
            line = [
                bias
                + sum(kernel[tap] @ row[t] for tap in range(11) if 0 <= (t := _seen(frame, tap, at)) < 23)
                for frame in range(at.margin, 23 - at.margin)
            ]
            shares.append(np.clip(100 * np.array(line), 0, 1).mean() if line else 0)
            largest.append(max(line, default=0))
    assert 0 in largest, "one that does not fit into the row is among them"
    places = np.linspace(0, 22, 16)
    samples = np.stack([np.interp(places, np.arange(23), column) for column in row.T], axis=-1).reshape(-1)
    np.testing.assert_allclose(found, [*shares, *largest, *samples], atol=1e-4)


def test_kernels_of_several_dilations_are_centred_and_reach_within_the_longest_row():
    for features in (1, 4):
        drawn = draw(200, features, longest=100, seed=0)
        assert len(drawn) > 4
        assert sum(len(parts["biases"]) for parts in drawn.values()) == 200
        for at, parts in drawn.items():
            assert 6 * at.dilation < 100
            kernels = parts["kernels"].reshape(11, features, -1)
            np.testing.assert_allclose(kernels.sum(axis=0), 0, atol=1e-5)
            if at.margin:  # as far as the kernels reach, so that none of them sees beyond a row
                reach = np.abs(np.argwhere(np.abs(kernels).sum(axis=(1, 2)) > 0) - 5).max()
                assert at.margin == reach * at.dilation
                assert 2 * at.margin < 100
        within = sum(len(parts["biases"]) for at, parts in drawn.items() if at.margin)
        assert 70 < within < 130


def test_padding_and_rows_without_frames_change_nothing():
    layer = RandomConvolutions(15, longest=30)
    row = np.random.default_rng(0).normal(size=(1, 9, 2)).astype("float32")
    alone = layer(row)
    more = np.pad(row, [[0, 1], [0, 8], [0, 0]])
    among = layer(more, mask=np.array([[True] * 9 + [False] * 8, [False] * 17]))
    np.testing.assert_allclose(among[:1], alone, atol=1e-5)
    assert (np.asarray(among[1]) == 0).all()
    assert layer(np.zeros((0, 4, 2), "float32")).shape == (0, 62)
    assert layer(np.zeros((2, 0, 2), "float32")).shape == (2, 62)


def test_attention_learns_alone_and_then_adds_its_share():
    series, names = bumps(24)
    model = models.SeriesClassifier(SMALL)
    model.adapt(series, names)
    core, values = model.core, padded(series)
    assert np.asarray(core.get_layer("mixture").shares).tolist() == pytest.approx([0.1, 1.0])
    paths = keras.Model(core.input, [core.get_layer(name).output for name in ("logits", "readout")])
    deep, readout = (np.asarray(each) for each in paths(values))
    mixed = np.asarray(keras.ops.softmax(0.1 * deep + readout))
    np.testing.assert_allclose(core(values), mixed, atol=1e-5)
    assert np.abs(np.asarray(core(values, training=True)) - mixed).max() > 0.2


@pytest.mark.slow
def test_a_few_validation_rows_set_the_temperature_and_many_the_shares(tmp_path):
    (series, names), (few, of_few), (many, of_many) = bumps(24), bumps(40, seed=1), bumps(120, seed=2)
    model = models.SeriesClassifier(SMALL)
    model.adapt(series, names)
    mixture, end = (model.core.get_layer(name) for name in ("mixture", "probabilities"))
    some = Calibration(model, LabelledRows(few, of_few, "made up"))
    assert not some.mixes
    temperature = some.set()
    assert temperature != 1.0
    assert float(np.asarray(end.temperature)) == pytest.approx(temperature)
    assert np.asarray(mixture.shares).tolist() == pytest.approx([0.1, 1.0])
    enough = Calibration(model, LabelledRows(many, of_many, "made up"))
    assert enough.mixes
    enough.set()
    assert np.asarray(mixture.shares).tolist() != pytest.approx([0.1, 1.0])


def test_the_readout_is_that_of_all_rows_given_and_the_same_again():
    series, names = bumps(24)
    found = []
    for rows in (24, 24, 16):
        model = models.SeriesClassifier(SMALL)
        model.adapt(series[:rows], names[:rows])
        found.append([model.core.get_layer(name).get_weights() for name in ("wide", "readout")])
    for one, again in zip(found[0], found[1], strict=True):
        for left, right in zip(one, again, strict=True):
            np.testing.assert_array_equal(left, right)
    assert np.abs(found[0][1][0] - found[2][1][0]).max() > 0


def test_the_readout_counts_rows_by_their_weights():
    series, names = bumps(24)
    weights = np.array([1.0, 0.0] * 12)  # of "late" ones none
    model = models.SeriesClassifier(SMALL)
    model.adapt(series, names, sample_weight=weights)
    kernel, bias = model.core.get_layer("readout").get_weights()
    assert np.abs(kernel).max() < 1e-3
    assert bias[model.labels.index("early")] > bias[model.labels.index("late")]


@pytest.mark.slow
def test_before_any_training_the_readout_tells_classes_apart(tmp_path):
    series, names = bumps(40)
    model = models.SeriesClassifier(SMALL)
    model.adapt(series, names)
    unseen, true = bumps(60, seed=1)
    found = model.predict(unseen, verbose=0)
    right = [model.labels[place] for place in found.argmax(-1)] == np.array(true)
    assert right.mean() > 0.95
    alone = np.concatenate([model.core(row[None]) for row in unseen[:9]])
    np.testing.assert_allclose(found[:9], alone, atol=1e-5)
    np.testing.assert_allclose(model.core(padded(unseen[:9])), alone, atol=1e-5)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(models.load(tmp_path / "model.keras").predict(unseen, verbose=0), found)


@pytest.mark.slow
def test_training_leaves_kernels_and_readout_alone_and_moves_attention():
    series, names = bumps(24)
    model = models.SeriesClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.01))
    model.adapt(series, names)
    layers = ("wide", "readout", "logits")
    before = {name: model.core.get_layer(name).get_weights() for name in layers}
    model.fit(series, names, epochs=1, verbose=0)
    after = {name: model.core.get_layer(name).get_weights() for name in layers}
    for name in ("wide", "readout"):
        for one, other in zip(before[name], after[name], strict=True):
            np.testing.assert_array_equal(one, other)
    assert np.abs(after["logits"][0]).max() > 0


@pytest.mark.slow
def test_several_labels_a_row_have_a_readout_each():
    series, names = bumps(40)
    model = models.SeriesClassifier(SMALL)
    model.adapt(series, [["any", name] if name == "late" else ["any"] for name in names])
    found = model.predict(series, verbose=0)
    assert (found[:, 0] > 0.5).all()
    np.testing.assert_array_equal(found[:, 1] > 0.5, np.array(names) == "late")


def test_fewer_than_no_kernels_are_refused():
    with pytest.raises(ConfigError, match="`kernels`.*-1"):
        models.SeriesClassifierConfig(kernels=-1)


def test_long_rows_are_read_a_few_at_a_time():
    series, names = bumps(8)
    rows = [np.tile(row, (600, 1)) for row in series]
    targets = np.array([[name == "early", name == "late"] for name in names], dtype=float)
    model = models.SeriesClassifier(SMALL)
    model.adapt(rows, names)
    sizes = []
    wide = model.core.get_layer("wide")
    asked = wide.call
    wide.call = lambda inputs, **given: sizes.append(inputs.shape) or asked(inputs, **given)
    convolutions.fit_wide(model.core, rows, targets, exclusive=True)
    assert sum(size[0] for size in sizes) == 8
    assert all(rows * frames < 100_000 for rows, frames, _ in sizes)
    assert max(rows for rows, _, _ in sizes) > 1
