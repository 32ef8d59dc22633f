"""Random convolutions and their readout, against NumPy's loops and scikit-learn's regressions."""

import keras
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from keras_selfattn import models
from keras_selfattn.errors import ConfigError
from keras_selfattn.models import convolutions
from keras_selfattn.models.batches import padded
from keras_selfattn.models.convolutions import BesideReadout, RandomConvolutions, draw, fit_readout

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


def test_what_kernels_find_is_what_loops_find():
    row = np.random.default_rng(0).normal(size=(23, 3)).astype("float32")
    found = np.asarray(RandomConvolutions(20, longest=60, seed=5)(row[None]))[0]
    shares, largest = [], []
    for dilation, parts in draw(20, 3, 60, 5).items():
        for kernel, bias in zip(parts["kernels"].T.reshape(-1, 11, 3), parts["biases"], strict=True):
            line = np.array(
                [
                    sum(
                        kernel[tap] @ row[at]
                        for tap in range(11)
                        if 0 <= (at := frame + (tap - 5) * dilation) < 23
                    )
                    for frame in range(23)
                ]
            )
            shares.append(np.clip(100 * (line + bias), 0, 1).mean())
            largest.append((line + bias).max())
    places = np.linspace(0, 22, 16)
    samples = np.stack([np.interp(places, np.arange(23), column) for column in row.T], axis=-1).reshape(-1)
    np.testing.assert_allclose(found, [*shares, *largest, *samples], atol=1e-4)


def test_kernels_of_several_dilations_are_centred_and_reach_within_the_longest_row():
    for features in (1, 4):
        drawn = draw(200, features, longest=100, seed=0)
        assert len(drawn) > 4
        assert sum(len(parts["biases"]) for parts in drawn.values()) == 200
        for dilation, parts in drawn.items():
            assert 6 * dilation < 100
            np.testing.assert_allclose(parts["kernels"].reshape(11, features, -1).sum(axis=0), 0, atol=1e-5)


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


def test_the_readout_is_the_ridge_regression_that_errs_least_on_rows_left_out():
    random = np.random.default_rng(0)
    features, targets = random.normal(size=(12, 7)) * [1, 5, 1, 1, 9, 1, 1] + 3, random.normal(size=(12, 2))
    features[:, 2] = 4.0
    sizes = (3, 2, 2)
    coefficients, intercept, left_out = fit_readout(features, sizes, targets)
    share = np.repeat(np.array([1.5 / 2, 0.5 / 2, 1.0 / 2]) ** 0.5, sizes)
    deviation = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, 1) * share
    best = None
    for penalty in convolutions._PENALTIES:
        without = np.stack(
            [
                Ridge(penalty).fit(scaled[rest], targets[rest]).predict(scaled[~rest])[0]
                for rest in ~np.eye(12, dtype=bool)
            ]
        )
        if best is None or ((without - targets) ** 2).mean() < best[0]:
            best = (((without - targets) ** 2).mean(), without, Ridge(penalty).fit(scaled, targets))
    np.testing.assert_allclose(left_out, best[1], atol=1e-6)
    np.testing.assert_allclose(features @ coefficients + intercept, best[2].predict(scaled), atol=1e-6)


def test_attention_learns_alone_and_then_adds_a_quarter():
    deep, readout = np.full((1, 2), 4.0, "float32"), np.array([[1.0, -1.0]], "float32")
    layer = BesideReadout()
    assert np.asarray(layer(deep, readout)).tolist() == [[2.0, 0.0]]
    assert np.asarray(layer(deep, readout, training=True)).tolist() == [[4.0, 4.0]]


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
