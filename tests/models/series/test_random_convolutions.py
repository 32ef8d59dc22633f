"""Random convolutions and their readout beside attention, against NumPy's loops."""

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.data import LabelledRows
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.series.dictionary import draw_groups
from keras_selfattn.models.series.kernel_pooling import pooled, summed
from keras_selfattn.models.series.random_convolutions import RandomConvolutions
from keras_selfattn.models.series.random_kernels import draw
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


def outputs(kernel, bias, x, real, dilation, margin):
    """Return the outputs of a kernel `[9, F]` at the frames that count, and these frames, by loops."""
    frames = [
        frame
        for frame in range(len(x))
        if real[frame] and all(0 <= frame + way < len(x) and real[frame + way] for way in (-margin, margin))
    ]
    taps = range(9)
    seen = {frame: [(tap, frame + (tap - 4) * dilation) for tap in taps] for frame in frames}
    return frames, [
        bias + sum(kernel[tap] @ x[at] for tap, at in seen[frame] if 0 <= at < len(x)) for frame in frames
    ]


def pooled_by_loops(line, frames, rows_frames):
    """Return share, largest, mean and place of the outputs at frames of a row of so many real frames."""
    above = [min(max(100 * value, 0), 1) for value in line]
    total = max(sum(above), 1)
    first, last = rows_frames[0], max(len(rows_frames) - 1, 1)
    places = [2 * (frame - first) / last - 1 for frame in frames]
    return [
        sum(above) / max(len(line), 1),
        max(line, default=0),
        sum(value for value in line if value > 0) / total,
        sum(each * place for each, place in zip(above, places, strict=True)) / total,
    ]


def wins_by_loops(lines):
    """Return the roots of what each of eight lines `[8, T]` wins as the largest, and as the smallest."""
    largest, smallest = np.zeros(8), np.zeros(8)
    for outputs_there in np.transpose(lines):
        for place, value in enumerate(outputs_there):
            largest[place] += max(0, 1 - 100 * (max(outputs_there) - value)) * max(value, 0)
            smallest[place] += max(0, 1 - 100 * (value - min(outputs_there)))
    return [*np.sqrt(largest), *np.sqrt(smallest)]


def test_what_kernels_find_is_what_loops_find():
    row = np.random.default_rng(0).normal(size=(23, 3)).astype("float32")
    layer = RandomConvolutions(21, longest=60, seed=5)
    found = np.split(np.asarray(layer(row[None]))[0], np.cumsum(layer.sizes(3))[:-1])
    steps = np.concatenate([np.zeros((1, 3), "float32"), np.diff(row, axis=0)])
    random, short = np.random.default_rng(5), 0
    for part, (x, real) in enumerate(((row, np.ones(23)), (steps, np.arange(23) > 0))):
        places = np.flatnonzero(real)
        pools, rivals = [], []
        for dilation, bank in draw(11 - part, 3, 60, random).items():
            for kernel, bias, anywhere in zip(bank.kernels.T, bank.biases, bank.anywhere, strict=True):
                margin = 0 if anywhere else 4 * dilation
                frames, line = outputs(kernel.reshape(9, 3), bias, x, real, dilation, margin)
                short += not line
                pools.append(pooled_by_loops(line, frames, places))
        for dilation in (1, 2, 4):
            group = draw_groups(1, 3, random).T.reshape(8, 9, 3)
            rivals += wins_by_loops([outputs(kernel, 0, x, real, dilation, 0)[1] for kernel in group])
        share, largest, mean, place = np.transpose(pools)
        kinds = [[*share, *largest], mean, place, rivals]
        for wanted, kind in zip(kinds, found[4 * part : 4 * part + 4], strict=True):
            np.testing.assert_allclose(kind, wanted, atol=2e-4)
    assert short, "one that does not fit into the row is among them"
    samples = [np.interp(np.linspace(0, 22, 16), np.arange(23), column) for column in row.T]
    np.testing.assert_allclose(found[-1], np.stack(samples, axis=-1).reshape(-1), atol=1e-4)


def test_a_missing_frame_counts_for_nothing():
    row = np.random.default_rng(0).normal(size=(1, 12, 1)).astype("float32")
    mask = np.arange(12)[None] != 5
    kernels = np.random.default_rng(1).normal(size=(1, 12, 3)).astype("float32")
    real = mask[:, :, None].astype("float32")
    found = pooled(summed(kernels, np.ones(3, "float32"), real, np.zeros_like(real)))
    line, frames = kernels[0, mask[0], 1], np.arange(11)
    np.testing.assert_allclose(
        [each[0, 1] for each in found], pooled_by_loops(line, frames, frames), atol=1e-5
    )
    layer = RandomConvolutions(12, longest=30)
    other = np.where(mask[:, :, None], row, 7.0).astype("float32")
    np.testing.assert_array_equal(layer(row, mask=mask), layer(other, mask=mask))


def test_padding_and_rows_without_frames_change_nothing():
    layer = RandomConvolutions(15, longest=30)
    row = np.random.default_rng(0).normal(size=(1, 9, 2)).astype("float32")
    alone = layer(row)
    more = np.pad(row, [[0, 1], [0, 8], [0, 0]])
    among = layer(more, mask=np.array([[True] * 9 + [False] * 8, [False] * 17]))
    np.testing.assert_allclose(among[:1], alone, atol=1e-5)
    assert (np.asarray(among[1]) == 0).all()
    size = sum(layer.sizes(2))
    assert layer(np.zeros((0, 4, 2), "float32")).shape == (0, size)
    assert layer(np.zeros((2, 0, 2), "float32")).shape == (2, size)
    assert np.isfinite(layer(row[:, :1])).all()


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
