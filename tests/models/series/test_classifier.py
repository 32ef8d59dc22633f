"""Models of series: raw arrays in, labels or numbers out, for any padding and any missing values."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.series.forecast_features import NaiveForecast

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "dropout": 0.0, "max_positions": 4}
ATTENTION = {**SMALL, "kernels": 0}
NAN, INF = float("nan"), float("inf")


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


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.SeriesClassifier(ATTENTION)
    model.compile(keras.optimizers.Adam(0.02))
    series, labels = rising_and_falling()
    model.fit(series, labels, epochs=12, verbose=0)
    return model


@pytest.mark.slow
def test_a_classifier_learns_which_way_series_go(trained):
    series, labels = rising_and_falling(40)
    assert trained.evaluate(series, labels, verbose=0)[1] == 1.0
    assert trained.labels == ["down", "up"]
    assert trained.stride == 4, "13 frames at most, in 4 positions"


def test_a_row_is_answered_alike_whatever_the_padding_of_its_batch(trained):
    series, _ = rising_and_falling()
    together = trained.predict(series, verbose=0)
    alone = np.concatenate([trained.core(row[None]) for row in series])
    np.testing.assert_allclose(together, alone, atol=2e-6)
    more = np.concatenate([series[0], np.full((9, 2), NAN, "float32")])[None]
    np.testing.assert_allclose(trained.core(more), together[:1], atol=2e-6)


@pytest.mark.parametrize(
    ("rows", "labels", "said"),
    [
        ([], [], "There are no rows"),
        ([[1.0], [INF]], ["a", "b"], "Row 1 .* infinite, or too large for float32, in frame 0"),
        ([[1e300], [1.0]], ["a", "b"], "Row 0 .* too large for float32"),
        ([[1.0], ["x"]], ["a", "b"], "Row 1 .* of numbers. Received \\['x'\\]"),
        ([[[1.0, 2.0]], [[1.0], [2.0]]], ["a", "b"], "Row 1 .* has 1 features a frame; the others have 2"),
        ([[[1.0, 2.0], [3.0]], [1.0]], ["a", "b"], "Row 0 .* differ in length"),
        ([1.0, 2.0], ["a", "b"], "Row 0 .* must be \\[length, features\\]"),
        (np.array([1.0, 2.0]), ["a", "b"], "list of arrays.*Received shape \\(2,\\)"),
        (np.zeros((2, 3, 4, 5)), ["a", "b"], "Received shape \\(2, 3, 4, 5\\)"),
        ([[], [NAN]], ["a", "b"], "hold no values"),
        ([[1.0], [2.0]], ["a"], "Received 2 and 1"),
        ([[1.0], [2.0]], ["a", "a"], "only 'a'"),
    ],
)
def test_rows_that_cannot_train_are_refused_with_their_number(rows, labels, said):
    model = models.SeriesClassifier(ATTENTION)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(rows, labels, verbose=0)


def test_a_trained_model_refuses_other_features(trained):
    with pytest.raises(DataError, match="Row 0 .* has 3 features a frame; the others have 2"):
        trained.predict([np.zeros((4, 3))], verbose=0)


def test_empty_one_frame_constant_and_broken_rows_are_answered(trained):
    holes = np.full((5, 2), 0.5)
    holes[1, 0], holes[3] = NAN, NAN
    rows = [[], np.zeros((1, 2)), np.full((6, 2), 7.0), holes, np.full((3, 2), 3e38)]
    found = trained.predict(rows, verbose=0)
    assert np.isfinite(found).all()
    assert trained.predict([], verbose=0).shape == (0, 2)
    for batch, length in ((0, 5), (3, 0), (0, 0)):
        assert trained.core(np.zeros((batch, length, 2), "float32")).shape == (batch, 2)
    infinite = trained.core(np.full((1, 3, 2), INF, "float32"))
    np.testing.assert_allclose(infinite, found[:1], atol=1e-6, err_msg="as a row without frames")


@pytest.mark.slow
def test_one_row_a_class_and_constant_features_train():
    model = models.SeriesClassifier(ATTENTION)
    model.compile()
    model.fit([[1.0, 1.0], [1.0, 1.0, 1.0]], ["a", "b"], verbose=0)
    assert np.asarray(model.core.get_layer("frames").deviation).tolist() == [1.0]
    assert np.isfinite(model.predict([[1.0], [5.0]], verbose=0)).all()


@pytest.mark.slow
def test_several_labels_a_row():
    series, labels = rising_and_falling()
    model = models.SeriesClassifier(ATTENTION)
    model.compile()
    model.fit(series, [[label, "any"] for label in labels], verbose=0)
    assert model.multi_label
    assert model.labels == ["any", "down", "up"]


@pytest.mark.slow
def test_a_saved_file_carries_statistics_and_labels(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    series, labels = rising_and_falling()
    assert (again.labels, again.config, again.stride) == (trained.labels, trained.config, trained.stride)
    np.testing.assert_allclose(
        again.predict(series, verbose=0), trained.predict(series, verbose=0), rtol=1e-5
    )
    assert again.evaluate(series, labels, verbose=0)[1] == 1.0


def test_half_of_what_training_learns_is_refused():
    with pytest.raises(ConfigError, match="`num_features`, `longest` and `labels` go together"):
        models.SeriesClassifier(ATTENTION, labels=["a", "b"])
    with pytest.raises(ConfigError, match="`mean` and `deviation` go together"):
        models.SeriesRegressor(SMALL, num_features=2, longest=4, mean=[0.0])
    with pytest.raises(ConfigError, match="`kernel_size`.*0"):
        models.SeriesConfig(kernel_size=0)
    with pytest.raises(ConfigError, match="`season`.*0"):
        models.ForecastConfig(season=0)


def test_the_naive_forecast_repeats_the_last_season_of_what_is_known():
    rows = np.full((4, 5, 2), NAN, "float32")
    rows[0, :, 0] = [1, 2, 3, 4, 5]
    rows[1, :3, 0] = [1, 2, 3]
    rows[2, :, 0], rows[2, :, 1] = [1, 2, NAN, NAN, NAN], 0
    found = np.asarray(NaiveForecast(4, season=3)(rows))
    assert found.tolist() == [[3, 4, 5, 3], [1, 2, 3, 1], [2, 2, 2, 2], [0, 0, 0, 0]]
    assert np.asarray(NaiveForecast(2, season=1)(rows))[:, 0].tolist() == [5, 3, 2, 0]
    assert NaiveForecast(2, season=4)(np.zeros((1, 0, 1), "float32")).numpy().tolist() == [[0, 0]]


@pytest.mark.slow
def test_a_forecaster_with_a_season_begins_with_the_seasonal_naive_forecast(tmp_path):
    rows = [np.tile([1.0, 5.0, 3.0], 4) + shift for shift in range(4)]
    targets = [np.tile([1.0, 5.0, 3.0], 2) + shift for shift in range(4)]
    model = models.SeriesForecaster({**SMALL, "season": 3})
    model.adapt(rows, targets)
    np.testing.assert_allclose(model.predict(rows, verbose=0), targets, atol=1e-5)
    assert list(model.baselines(rows)) == ["last value", "3 frames before", "ridge"]
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(rows, verbose=0), targets, atol=1e-5)


def test_noise_acts_in_training_alone(trained):
    row = tf.zeros([1, 5, 2])
    np.testing.assert_array_equal(trained(row), trained(row))
    assert np.abs(trained(row, training=True) - trained(row, training=True)).max() > 0


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((6, 1, 23), "rows of 1 frame, each of 23 features"),
        ((6, 1, 2), "rows of 1 frame, each of 2 features"),
        ((6, 3, 30), "rows of at most 3 frames, each of 30 features"),
    ],
)
def test_a_first_fit_warns_of_channels_before_frames_with_the_axes_it_took(shape, said):
    with pytest.warns(match=rf"\[rows, length, features\]: {said}.*`x.transpose\(0, 2, 1\)`") as caught:
        models.SeriesClassifier(ATTENTION).adapt(np.ones(shape), ["a", "b"] * 3)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("shape", [(6, 1, 1), (6, 23), (6, 23, 1), (6, 3, 29), (6, 20, 12)])
def test_rows_of_several_frames_or_one_feature_are_taken_as_they_are(shape):
    models.SeriesClassifier(ATTENTION).adapt(np.ones(shape), ["a", "b"] * 3)


def test_channels_of_several_lengths_are_refused_with_the_order_of_the_axes():
    with pytest.raises(
        DataError, match=r"Row 1 .* has 5 features a frame; the others have 3.*\[length, features\]"
    ):
        models.SeriesClassifier(ATTENTION).adapt([np.ones((2, 3)), np.ones((2, 5))], ["a", "b"])
