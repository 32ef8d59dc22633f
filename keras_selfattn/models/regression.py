"""Models that give numbers for series: a regressor, and a forecaster of what comes next.

Axes: B (batch), T (frames), F (features of a frame), N (numbers of a row; of a forecast its horizon).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_count
from keras_selfattn.models.frames import last_values, real_frames
from keras_selfattn.models.heads import Head
from keras_selfattn.models.numbers import NumbersHead
from keras_selfattn.models.rows import Rows
from keras_selfattn.models.series import SeriesConfig, SeriesModel

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SeriesRegressor(SeriesModel):
    """Self-attention model from series to one number each or several, in the units of the targets.

    Args:
        config: what the model is made of; a `SeriesConfig` or the dict of one.
        num_features: features of a frame; left out before training.
        longest: frames of the longest training row; left out before training.
        mean: of each number in the training rows; left out before training.
        deviation: of each; left out before training.

    Call arguments:
        inputs: float32 `[batch, length, features]`. NaN is a missing value; rows are padded with frames of
            NaN, on which nothing depends.
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

    def __init__(
        self,
        config: SeriesConfig | dict[str, Any] | None = None,
        *,
        num_features: int | None = None,
        longest: int | None = None,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, num_features=num_features, longest=longest, **kwargs)
        given = (num_features, longest, mean, deviation)
        if len({value is None for value in given}) != 1:
            raise ConfigError(
                "`num_features`, `longest`, `mean` and `deviation` go together. Give all of them or none."
            )
        if mean is not None and deviation is not None:
            self._assemble(NumbersHead(mean, deviation))

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Returns what is answered without looking at a series: the mean of the training targets."""
        mean = cast(NumbersHead, self.head).mean
        return {"mean of training": np.tile(mean, (len(self._read_inputs(x)), 1))}

    def _head_type(self, y: Any) -> type[Head]:
        return NumbersHead


@dataclass(frozen=True)
class ForecastConfig(SeriesConfig):
    """What a `SeriesForecaster` is made of: the fields of `SeriesConfig`, and this one.

    Args:
        season: frames after which a series repeats itself, such as 24 of hourly values. A forecast starts
            from the values one season before; with 1, from the last value.

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


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SeriesForecaster(SeriesRegressor):
    """Self-attention model of the next values of the first feature of series.

    It learns what must be added to the seasonal naive forecast, the values of one `season` before, and sees
    each row less its last values: a level that was never seen is forecast like any other.
    `data.cut_windows` makes rows and targets of long series.

    Args:
        config: what the model is made of; a `ForecastConfig` or the dict of one.
        num_features, longest, mean, deviation: as for `SeriesRegressor`, of what is added.

    Call arguments:
        inputs: as for `SeriesRegressor`; what comes next follows the last frame that holds a value.
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

    @classmethod
    def advised_training(cls, rows: int) -> dict[str, Any]:
        return {"epochs": 20, "learning_rate": 2e-3}

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Returns the naive forecasts: the last value and, with a season, the values one season before."""
        inputs, horizon = self._read_inputs(x), self.core.output_shape[1]
        found = {"last value": _naive(inputs, horizon, 1)}
        if self.config.season > 1:
            found[f"{self.config.season} frames before"] = _naive(inputs, horizon, self.config.season)
        return found

    def _adapt(self, rows: Rows, kind: type[Head]) -> None:
        naive = _naive(rows.inputs, len(rows.targets[0]), self.config.season)
        added = [target - start for target, start in zip(rows.targets, naive, strict=True)]
        self._learn(rows)
        self._assemble(NumbersHead.learned(added))
        self._prepare(rows)

    def _build_core(self, head: Head) -> keras.Model:
        core = super()._build_core(head)
        naive = NaiveForecast(core.output_shape[1], self.config.season, name="naive")(core.input)  # [B, N]
        outputs = keras.layers.Add(dtype="float32", name="forecast")([core.output, naive])
        return keras.Model(core.input, outputs, name="core")


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NaiveForecast(keras.layers.Layer):
    """Repeats the last season of the first feature of series; with a season of 1, the last value.

    Where the value of a season before is missing or before the first frame, the last known value stands for
    it; 0 if there is none.

    Args:
        horizon: values N to give.
        season: frames after which a series repeats itself.

    Call arguments:
        inputs: float `[batch, length, features]`; NaN is a missing value, frames of NaN are padding.

    Returns:
        float32 `[batch, horizon]`.

    Example:

        >>> import numpy as np
        >>> rows = np.array([[[1.0], [2.0], [3.0], [np.nan]]], "float32")
        >>> print(np.asarray(NaiveForecast(3, season=2)(rows)))
        [[2. 3. 2.]]

    Reference: Hyndman and Athanasopoulos 2021, "Forecasting: Principles and Practice", section 5.2.
    """

    def __init__(self, horizon: int, season: int, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.horizon, self.season = horizon, season

    def call(self, inputs: Tensor) -> Tensor:
        values = ops.cast(inputs, "float32")
        place = ops.arange(1, ops.shape(values)[1] + 1, dtype="int32")
        # A frame more before the first, so that there is one when the length is 0.
        places = ops.pad(place[None] * ops.cast(real_frames(values), "int32"), [[0, 0], [1, 0]])
        end = ops.max(places, axis=1, keepdims=True, initial=0)  # [B, 1], that of the last real frame
        before = ops.arange(self.horizon, dtype="int32") % self.season - self.season + 1  # [N]
        chosen = ops.maximum(end + before[None], 0)  # [B, N]
        first = ops.pad(values[:, :, 0], [[0, 0], [1, 0]], constant_values=np.nan)  # [B, 1 + T]
        found = ops.take_along_axis(first, chosen, axis=1)  # [B, N]
        return ops.where(ops.isfinite(found), found, last_values(values)[:, :1])

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.horizon)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "horizon": self.horizon, "season": self.season}


def _naive(inputs: Sequence[np.ndarray], horizon: int, season: int) -> np.ndarray:
    """Returns naive forecasts `[rows, N]` of rows `[T, F]` of any lengths."""
    layer = NaiveForecast(horizon, season)
    # Only the last season and the last known value count, and rows differ in length: one at a time.
    return np.concatenate([np.asarray(layer(row[None])) for row in inputs]).reshape(-1, horizon)
