"""Ridge regressions under models of numbers: features against NumPy, fits against scikit-learn."""

import keras
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

from keras_selfattn import models
from keras_selfattn.data import cut_windows
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.series import forecast_features as linear
from keras_selfattn.models.series import regression
from keras_selfattn.models.series.forecast_features import LastFrames, Summary, batched
from keras_selfattn.models.series.ridge import PENALTIES

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "dropout": 0.0, "max_positions": 4}
NAN = float("nan")


def noise(lengths, features=1, seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=(length, features)).astype("float32") for length in lengths]


def test_last_frames_are_those_before_the_padding_with_zeros_before_the_first():
    row, other = noise([5, 2], features=3)
    values = np.nan_to_num(padded([row, other]))
    mask = np.array([[True] * 5, [True] * 2 + [False] * 3])
    found = np.asarray(LastFrames(3)(values, mask=mask)).reshape(2, 3, 3)
    np.testing.assert_array_equal(found[0], row[-3:])
    np.testing.assert_array_equal(found[1], [np.zeros(3), *other])
    assert LastFrames(4)(np.zeros((2, 0, 3), "float32")).shape == (2, 12)
    assert LastFrames(4)(np.zeros((0, 5, 3), "float32")).shape == (0, 12)


def test_a_summary_is_what_numpy_says_of_each_row_whatever_the_padding():
    rows = noise([7, 1, 4], features=2)
    mask = np.arange(7)[None] < np.array([[7], [1], [4]])
    found = np.asarray(Summary()(np.nan_to_num(padded(rows), nan=9.0), mask=mask))
    for row, numbers in zip(rows, found, strict=True):
        places = np.linspace(0, len(row) - 1, 16)
        samples = np.stack([np.interp(places, np.arange(len(row)), each) for each in row.T], axis=-1)
        change = np.abs(np.diff(row, axis=0)).mean(axis=0) if len(row) > 1 else np.zeros(2)
        parts = [samples.reshape(-1), row.mean(0), row.std(0), row.min(0), row.max(0), change, [len(row)]]
        np.testing.assert_allclose(numbers, np.concatenate(parts), atol=1e-5)
    nothing = np.asarray(Summary()(np.ones((1, 3, 2), "float32"), mask=np.zeros((1, 3), bool)))
    assert (nothing == 0).all()
    assert Summary()(np.zeros((2, 0, 2), "float32")).shape == (2, 43)
    assert Summary()(np.zeros((0, 4, 2), "float32")).shape == (0, 43)


def test_rows_are_answered_in_their_order_however_they_are_batched(monkeypatch):
    monkeypatch.setattr(linear, "_BATCH", 2)
    rows = noise([4, 1, 3, 1, 2])
    found = batched(lambda values: np.nansum(values, axis=1), rows)
    np.testing.assert_allclose(found, [row.sum(axis=0) for row in rows], rtol=1e-6)


@pytest.mark.slow
def test_before_any_training_a_forecaster_is_a_ridge_regression_on_the_window_less_its_last_values():
    series = np.cumsum(noise([90])[0], axis=0)
    windows = cut_windows([series], context=8, horizon=3)
    model = models.SeriesForecaster(SMALL)
    model.adapt(windows.inputs, windows.targets)
    inputs, targets = np.stack(windows.inputs)[:, :, 0], np.array(windows.targets)
    moved, last = inputs[:, :-1] - inputs[:, -1:], inputs[:, -1:]  # the last one less itself is 0
    scaled = (moved - moved.mean(0)) / moved.std(0) / np.sqrt(7)
    # Windows overlap, so that a tenth of them in a row is left out at a time.
    tenths = KFold(10)
    chosen = GridSearchCV(Ridge(), {"alpha": PENALTIES}, scoring="neg_mean_squared_error", cv=tenths)
    wanted = chosen.fit(scaled, targets - last).predict(scaled) + last
    np.testing.assert_allclose(model.predict(windows.inputs, verbose=0), wanted, atol=1e-4)
    np.testing.assert_allclose(model.baselines(windows.inputs)["ridge"], wanted, atol=1e-4)
    # Shorter and longer windows than in training have an answer, too.
    assert np.isfinite(model.predict([series[:3], series[:40]], verbose=0)).all()


@pytest.mark.slow
def test_before_any_training_a_regressor_answers_what_is_linear_in_a_summary(tmp_path):
    rows = noise(np.random.default_rng(0).integers(3, 20, 60), features=2)
    targets = [[500 + 30 * row[:, 0].mean(), 2 * row[:, 1].max() - len(row)] for row in rows]
    model = models.SeriesRegressor(SMALL)
    model.adapt(rows, targets)
    found, mean = model.predict(rows, verbose=0), np.mean(targets, axis=0)
    errors, spread = np.abs(found - targets).mean(axis=0), np.std(targets, axis=0)
    assert (errors < 0.02 * spread).all()
    baselines = model.baselines(rows)
    assert list(baselines) == ["mean of training", "ridge"]
    np.testing.assert_allclose(baselines["mean of training"], np.tile(mean, (60, 1)))
    np.testing.assert_allclose(baselines["ridge"], found, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(rows, verbose=0), found)
    np.testing.assert_allclose(again.baselines(rows)["ridge"], found, rtol=1e-5)


@pytest.mark.slow
def test_attention_learns_what_the_ridge_regression_leaves_and_leaves_it_alone():
    keras.utils.set_random_seed(0)
    rows = noise([12] * 80)
    targets = [float(row[0, 0] * row[-1, 0]) for row in rows]  # no line through the values
    model = models.SeriesRegressor(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    model.adapt(rows, targets)
    before = model.core.get_layer("ridge").get_weights()
    first = np.mean((model.predict(rows, verbose=0)[:, 0] - targets) ** 2)
    model.fit(rows, targets, epochs=15, verbose=0)
    for one, other in zip(before, model.core.get_layer("ridge").get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.mean((model.predict(rows, verbose=0)[:, 0] - targets) ** 2) < 0.7 * first


@pytest.mark.slow
def test_targets_on_a_line_leave_attention_a_deviation_to_count_in():
    rows = noise([6] * 30)
    model = models.SeriesRegressor(SMALL)
    model.compile()
    model.fit(rows, [7 * float(row[-1, 0]) for row in rows], epochs=1, verbose=0)
    deviation = np.asarray(model.head.deviation)
    assert deviation == pytest.approx(1e-3 * np.std([7 * float(row[-1, 0]) for row in rows]), rel=0.2)
    constant = models.SeriesRegressor(SMALL)
    constant.adapt(rows, [5.0] * 30)
    np.testing.assert_allclose(constant.predict(rows, verbose=0), 5.0, rtol=1e-6)


@pytest.mark.slow
def test_rows_beyond_those_that_can_be_fitted_are_drawn_the_same_again(monkeypatch):
    rows = noise([6] * 30)
    targets = [float(row.sum()) for row in rows]
    monkeypatch.setattr(regression, "_MOST_VALUES", 22 * 10)  # of 22 features
    found = []
    for _ in range(2):
        model = models.SeriesRegressor(SMALL)
        model.adapt(rows, targets)
        found.append(model.predict(rows, verbose=0))
    np.testing.assert_array_equal(found[0], found[1])
    assert np.isfinite(found[0]).all()


def test_weights_of_rows_count_for_the_ridge_regression():
    rows = noise([6] * 30)
    targets = [float(row[-1, 0]) if place % 2 else 100.0 for place, row in enumerate(rows)]
    model = models.SeriesRegressor(SMALL)
    model.adapt(rows, targets, sample_weight=[float(place % 2) for place in range(30)])
    found = model.predict(rows[1::2], verbose=0)[:, 0]
    assert np.abs(found - targets[1::2]).mean() < 0.2, "of rows that count"


@pytest.mark.slow
def test_missing_values_count_as_usual_ones():
    rows = noise([8] * 40, features=2)
    targets = [float(row[-1, 0]) for row in rows]
    rows[0][2, 1], rows[1][3] = NAN, NAN
    model = models.SeriesForecaster(SMALL)
    model.adapt(rows, [[target] for target in targets])
    assert np.isfinite(model.predict(rows, verbose=0)).all()
    assert np.isfinite(model.predict([np.zeros((0, 2)), np.full((3, 2), 3e38)], verbose=0)).all()


@pytest.mark.slow
def test_a_forecaster_learns_from_a_single_window():
    model = models.SeriesForecaster(models.ForecastConfig(**SMALL))
    model.compile()
    model.fit([[0.0, 1.0, 2.0]], [[3.0, 4.0]], epochs=1, verbose=0)
    np.testing.assert_array_equal(np.isfinite(model.predict([[5.0, 6.0, 7.0]], verbose=0)), [[True, True]])
