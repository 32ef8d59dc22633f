"""Models that predict numbers for series: a regressor, and a forecaster of the next values.

Axes: B (batch), T (frames), F (features of a frame), N (numbers of a row; of a forecast its horizon).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.config import check_count
from keras_selfattn.models.core.encoder_core import Sum
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.series.classifier import SeriesConfig, SeriesModel
from keras_selfattn.models.series.forecast_features import LastFrames, NaiveForecast, Summary, batched
from keras_selfattn.models.series.frame_layers import Frames, real_frames
from keras_selfattn.models.series.ridge import PENALTIES, Ridge, fit_ridge

Tensor = Any

# The most last values of a row for a forecast's ridge regression, and the most values of all rows.
_MOST_FEATURES = 1000
_MOST_VALUES = 10_000_000
# The smallest deviation of the residuals, relative to that of the targets.
_LEAST_LEFT = 1e-3


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SeriesRegressor(SeriesModel):
    """Self-attention model from series to one or several numbers each, in the units of the targets.

    Before attention trains, a ridge regression on a `Summary` of each row is fitted in closed form. Attention
    learns the residual. The prediction is the sum of both.

    Args:
        config: the model's settings; a `SeriesConfig` or the dict of one.
        num_features: features of a frame; left out before training.
        longest: frames of the longest training row; left out before training.
        mean: of each number in the training rows; left out before training.
        deviation: of the residual of each; left out before training.

    Call arguments:
        inputs: float32 `[batch, length, features]`. NaN is a missing value; rows are padded with frames of
            NaN, which have no effect.
        training: dropout and noise act only if True.

    Returns:
        float32 `[batch, numbers]`.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train the model.

    Example:

        >>> model = SeriesRegressor(SeriesConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> _ = model.fit([[0.0, 1.0, 2.0], [2.0, 1.0]] * 4, [3.0, 2.0] * 4, epochs=1, verbose=0)
        >>> model.predict([[5.0, 4.0, 3.0]], verbose=0).shape
        (1, 1)
    """

    learns = "mean and deviation of features and targets"
    returns = "numbers in the units of the targets"

    # Blocks of rows that are left out together to choose the ridge regression's penalty; None for single
    # rows.
    _blocks: int | None = None

    def __init__(
        self,
        config: SeriesConfig | dict[str, Any] | None = None,
        *,
        num_features: int | None = None,
        longest: int | None = None,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, num_features=num_features, longest=longest, **kwargs)
        given = (num_features, longest, mean, deviation)
        if len({value is None for value in given}) != 1:
            raise ConfigError(
                "`num_features`, `longest`, `mean` and `deviation` go together. Give all of them or none."
            )
        if mean is not None and deviation is not None:
            self._assemble(NumbersHead(mean, deviation, names))

    def parts_beside(self) -> dict[str, str]:
        return {"ridge": "a ridge regression of features of the row, whose residual attention learns"}

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the mean of the training targets, and the predictions of the ridge regression alone."""
        inputs = self.read_inputs(x)
        mean = np.tile(self._mean, (len(inputs), 1))
        return {"mean of training": mean, "ridge": self._of_ridge(inputs) + mean}

    def head_type(self, y: Any) -> type[Head]:
        return NumbersHead

    @property
    def _mean(self) -> np.ndarray:
        return np.asarray(cast(NumbersHead, self.head).mean)

    def _fit_linear(self, rows: Rows, head: Head) -> Head:
        """Fit the ridge regression, whose errors are what the head learns to predict."""
        targets = np.stack(rows.targets) - self._beginning(rows.inputs, len(rows.targets[0]))  # [rows, N]
        ridge, chosen = self._fitted(rows, targets)
        learned = NumbersHead.from_targets(list(targets))
        left = np.sqrt(np.mean((targets[chosen] - ridge.left_out) ** 2, axis=0)) / learned.deviation
        # If the ridge regression predicts targets exactly, the residuals have no deviation.
        deviation = learned.deviation * np.clip(left, _LEAST_LEFT, 1)
        self._ridge_weights = [ridge.coefficients, ridge.intercept - learned.mean]
        return NumbersHead(learned.mean, deviation.tolist(), cast(NumbersHead, head).names)

    def _prepare(self, rows: Rows) -> None:
        super()._prepare(rows)
        self.core.get_layer("ridge").set_weights(self._ridge_weights)
        del self._ridge_weights

    def _fitted(self, rows: Rows, targets: np.ndarray) -> tuple[Ridge, np.ndarray]:
        """Return the ridge regression, and the rows of its fit: all of them, unless there are many."""
        frames, linear = Frames(relative=self._relative), self._linear_features()
        frames.learn(rows.inputs)
        sizes = linear.sizes(rows.inputs[0].shape[1])
        most = max(_MOST_VALUES // max(sum(sizes), len(PENALTIES) * targets.shape[1]), 1)
        # In their order, because neighbours may overlap.
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows.inputs))[:most])

        def features(values: np.ndarray) -> Tensor:
            return linear(frames(values), mask=real_frames(values))

        found = batched(features, [rows.inputs[row] for row in chosen])
        weights = rows.weights_of_rows
        weights = None if weights is None else weights[chosen]
        shares = [1 / len(sizes)] * len(sizes)
        return fit_ridge(found, targets[chosen], sizes, shares, weights, self._blocks), chosen

    def _linear_features(self) -> Any:
        """Return the layer from standardised frames to the features of the ridge regression."""
        return Summary(ordered=self.config.positions, name="features")

    def _beginning(self, inputs: Sequence[np.ndarray], numbers: int) -> np.ndarray:
        """Return the fixed part of the predictions, `[rows, N]`; the model learns the rest."""
        return np.zeros((len(inputs), numbers))

    def _of_ridge(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the ridge regression's predictions minus the mean of the numbers, `[rows, N]`."""
        core = self.core
        return batched(keras.Model(core.input, core.get_layer("ridge").output), inputs)

    def _build_core(self, head: Head) -> keras.Model:
        values = keras.Input((None, self.num_features), dtype="float32", name="values")
        frames = Frames(relative=self._relative, name="frames")(values)  # [B, T, F]
        found = head.outputs(self._pooled(frames))  # [B, N]
        ridge = keras.layers.Dense(
            found.shape[1], kernel_initializer="zeros", trainable=False, dtype="float32", name="ridge"
        )(self._linear_features()(frames))  # [B, N]
        outputs = Sum(dtype="float32", name="sum")([found, ridge])
        return keras.Model(values, outputs, name="core")


@dataclass(frozen=True)
class ForecastConfig(SeriesConfig):
    """Config of a `SeriesForecaster`: the fields of `SeriesConfig`, and this one.

    Args:
        season: frames after which a series repeats itself, such as 24 for hourly values. A forecast starts
            from the values one season before; with 1, from the last value. At most the longest row's length.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> ForecastConfig(season=24).num_layers
        2
    """

    season: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("season", self.season)
        if not self.positions:
            raise ConfigError(
                "A forecast continues a series, so its frames have an order: leave `positions` out."
            )


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SeriesForecaster(SeriesRegressor):
    """Self-attention model of the next values of the first feature of series.

    It learns the difference from the seasonal naive forecast, the values one `season` before. Its inputs are
    reduced by their last values, so an unseen level is forecast like any other. A ridge regression on the
    frames of a row is fitted first, in closed form; attention learns the residual. `data.cut_windows` makes
    rows and targets from long series.

    Args:
        config: the model's settings; a `ForecastConfig` or the dict of one.
        num_features, longest, mean, deviation: as for `SeriesRegressor`, of the learned difference.

    Call arguments:
        inputs: as for `SeriesRegressor`; the forecast follows the last frame with a value.
        training: dropout and noise act only if True.

    Returns:
        float32 `[batch, horizon]`.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train the model.

    Example:

        >>> model = SeriesForecaster(ForecastConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> rows = [[0.0, 1.0, 2.0], [5.0, 4.0, 3.0]] * 4
        >>> _ = model.fit(rows, [[3.0, 4.0], [2.0, 1.0]] * 4, epochs=1, verbose=0)
        >>> model.predict([[15.0, 14.0, 13.0]], verbose=0).shape
        (1, 2)
    """

    config_type = ForecastConfig
    _relative = True
    # Windows overlap: the neighbour of a left-out window would reveal it.
    _blocks = 10

    def advised_training(self, rows: int) -> dict[str, Any]:
        return {"epochs": 20, "learning_rate": 2e-3, "refit": True}

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the naive forecasts (last value, season before if any) and the ridge regression's alone."""
        inputs, horizon = self.read_inputs(x), self.core.output_shape[1]
        found = {"last value": _naive(inputs, horizon, 1)}
        if self.config.season > 1:
            found[f"{self.config.season} frames before"] = _naive(inputs, horizon, self.config.season)
        ridge = self._beginning(inputs, horizon) + self._of_ridge(inputs) + self._mean
        return {**found, "ridge": ridge}

    def _learn_front_end(self, rows: Rows) -> None:
        super()._learn_front_end(rows)
        if self.config.season > (self.longest or 0):
            raise DataError(
                f"`season` is {self.config.season} frames, and the longest row has {self.longest}: no "
                "value of a season before is known. Give longer rows (--context), or a shorter season."
            )

    def _linear_features(self) -> Any:
        count = max(1, min(self.longest or 1, _MOST_FEATURES // (self.num_features or 1)))
        return LastFrames(count, name="features")

    def _beginning(self, inputs: Sequence[np.ndarray], numbers: int) -> np.ndarray:
        return _naive(inputs, numbers, self.config.season)

    def _build_core(self, head: Head) -> keras.Model:
        core = super()._build_core(head)
        naive = NaiveForecast(core.output_shape[1], self.config.season, name="naive")(core.input)  # [B, N]
        outputs = Sum(dtype="float32", name="forecast")([core.output, naive])
        return keras.Model(core.input, outputs, name="core")


def _naive(inputs: Sequence[np.ndarray], horizon: int, season: int) -> np.ndarray:
    """Return naive forecasts `[rows, N]` of rows `[T, F]` of any lengths."""
    return batched(NaiveForecast(horizon, season), inputs)
