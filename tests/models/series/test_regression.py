"""Regressors and forecasters of series: units of targets, seasons, levels, and what is refused."""

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import DataError

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "dropout": 0.0, "max_positions": 4}


NAN = float("nan")


def rising_and_falling(rows=24, features=2):
    random = np.random.default_rng(0)
    series, labels = [], []
    for row in range(rows):
        way = 1 if row % 2 else -1
        length = int(random.integers(3, 14))
        line = way * np.linspace(-1, 1, length)[:, None] * np.ones(features)
        series.append((line + 0.05 * random.normal(size=line.shape)).astype("float32"))
        labels.append("up" if way > 0 else "down")
    return series, labels


@pytest.mark.slow
def test_a_regressor_answers_in_the_units_of_its_targets():
    keras.utils.set_random_seed(0)
    series, _ = rising_and_falling(40)
    targets = [1000 + 50 * float(row[-1, 0]) for row in series]
    model = models.SeriesRegressor(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(series, targets, epochs=10, verbose=0)
    found = model.predict(series, verbose=0)[:, 0]
    assert np.abs(found - targets).mean() < 10, "of a deviation of 50"
    np.testing.assert_allclose(
        model.baselines(series)["mean of training"], np.full((40, 1), np.mean(targets))
    )


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (None, "Targets are needed"),
        (["a", "b"], "Target 0 .* must be a number or several. Received 'a'"),
        ([1.0, None], "Target 1 .* must be a number"),
        ([1.0, NAN], "Target 1 .* must be finite"),
        ([[1.0, 2.0], [1.0]], "Target 1 .* has 1 numbers, target 0 has 2"),
        ([1.0], "Received 2 and 1"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(targets, said):
    model = models.SeriesRegressor(SMALL)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit([[1.0], [2.0]], targets, verbose=0)


@pytest.mark.slow
def test_a_forecast_moves_with_a_level_that_was_never_seen():
    keras.utils.set_random_seed(0)
    wave = np.sin(np.arange(60) * np.pi / 4)
    rows = [wave[start : start + 16] for start in range(40)]
    targets = [wave[start + 16 : start + 19] for start in range(40)]
    model = models.SeriesForecaster({**SMALL, "max_positions": 16})
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(rows, targets, epochs=10, verbose=0)
    found = model.predict(rows, verbose=0)
    naive = model.baselines(rows)["last value"]
    assert np.abs(found - targets).mean() < np.abs(naive - targets).mean() / 2
    above = model.predict([row + 100 for row in rows], verbose=0)
    np.testing.assert_allclose(above - 100, found, atol=1e-3)


def test_a_season_longer_than_all_rows_is_refused():
    model = models.SeriesForecaster({**SMALL, "season": 6})
    model.compile()
    with pytest.raises(DataError, match="`season` is 6 frames, and the longest row has 5"):
        model.fit([np.arange(5.0)] * 4, [[5.0]] * 4, epochs=1, verbose=0)


def test_a_season_as_long_as_the_longest_row_is_taken():
    model = models.SeriesForecaster({**SMALL, "season": 5})
    rows = [np.arange(5.0) + shift for shift in range(4)]
    model.adapt(rows, [[row[-1] + 1] for row in rows])
    np.testing.assert_allclose(np.ravel(model.baselines(rows)["5 frames before"]), [0, 1, 2, 3], atol=1e-6)


@pytest.mark.slow
def test_a_regressor_warns_of_its_axes_in_fit_and_not_in_each_prediction():
    x, model = np.random.default_rng(0).normal(size=(6, 1, 5)), models.SeriesRegressor(SMALL)
    model.compile()
    with pytest.warns(match="rows of 1 frame, each of 5 features") as caught:
        model.fit(x, range(6), epochs=1, verbose=0)
    assert len(caught) == 1
    assert model.predict(x, verbose=0).shape == (6, 1)
    models.SeriesRegressor(SMALL).adapt(x.transpose(0, 2, 1), range(6))
