"""The linear path of models of numbers: naive forecasts, and features for ridge regressions.

Axes: B (batch), T (frames), L (last frames), F (features of a frame), N (numbers of a row).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.shapes import compiled, lengths_allowed
from keras_selfattn.models.series.frame_layers import last_values, real_frames
from keras_selfattn.models.series.random_convolutions import POINTS, sampled

Tensor = Any

# Rows in a batch, and its `window`, the cost of a frame: long rows come in smaller batches.
_BATCH, _WINDOW = 256, 48


@keras.saving.register_keras_serializable(package="keras_selfattn")
class LastFrames(keras.layers.Layer):
    """Concatenate the last frames of series, up to the last real one.

    Args:
        count: the number of frames, L; a shorter series is padded with zeros before its first frame.

    Call arguments:
        inputs: float `[batch, length, features]`, 0 for a missing value.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.

    Returns:
        float32 `[batch, count features]`, the last frame last.

    Example:

        >>> import numpy as np
        >>> rows, mask = np.array([[[1.0], [2.0], [9.0]]], "float32"), np.array([[True, True, False]])
        >>> print(np.asarray(LastFrames(3)(rows, mask=mask)))
        [[0. 1. 2.]]
    """

    def __init__(self, count: int, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", "trainable": False, **kwargs})
        self.count = count

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        real = ops.ones_like(inputs[:, :, 0]) if mask is None else mask
        real = ops.cast(real, "int32")  # [B, T]
        place = ops.arange(1, ops.shape(inputs)[1] + 1, dtype="int32")[None] * real
        # One more frame of zeros before the first: the padding, and the only frame if the length is 0.
        place = ops.pad(place, [[0, 0], [1, 0]])  # [B, 1 + T]
        end = ops.max(place, axis=1, keepdims=True, initial=0)  # [B, 1]
        chosen = ops.maximum(end + ops.arange(1 - self.count, 1, dtype="int32")[None], 0)  # [B, L]
        values = ops.pad(inputs * ops.cast(real, inputs.dtype)[:, :, None], [[0, 0], [1, 0], [0, 0]])
        found = ops.take_along_axis(values, chosen[:, :, None], axis=1)  # [B, L, F]
        return ops.reshape(found, (ops.shape(inputs)[0], self.count * inputs.shape[2]))

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: there are no frames left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.count * input_shape[2])

    def sizes(self, features: int) -> tuple[int]:
        """Return the number of features; they are of one kind."""
        return (self.count * features,)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "count": self.count}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Summary(keras.layers.Layer):
    """Summarise series of any length: 16 samples, mean, deviation, extremes, mean change, and the length.

    For each feature: the values at 16 even places, then mean, deviation, smallest, largest, and mean absolute
    change from frame to frame. For the row: the number of frames.

    Args:
        ordered: False for sets, which have no samples and no change.

    Call arguments:
        inputs: float `[batch, length, features]`, 0 for a missing value.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.

    Returns:
        float32 `[batch, 21 features + 1]`, of sets `[batch, 4 features + 1]`; zeros for a row without frames.

    Example:

        >>> import numpy as np
        >>> print(np.asarray(Summary()(np.array([[[1.0], [2.0], [4.0]]], "float32")))[0, 16:].round(2))
        [2.33 1.25 1.   4.   1.5  3.  ]
    """

    def __init__(self, *, ordered: bool = True, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", "trainable": False, **kwargs})
        self.ordered = ordered

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        real = ops.ones_like(inputs[:, :, :1]) if mask is None else ops.cast(mask, "float32")[:, :, None]
        frames = ops.sum(real, axis=1)  # [B, 1]
        count, inputs = ops.maximum(frames, 1), inputs * real
        mean = ops.sum(inputs, axis=1) / count  # [B, F]
        spread = ops.sqrt(ops.sum(ops.square(inputs - mean[:, None]) * real, axis=1) / count)
        far = ops.where(real > 0, 0.0, np.inf)
        least = ops.min(inputs + far, axis=1, initial=np.inf)
        largest = ops.max(inputs - far, axis=1, initial=-np.inf)
        least, largest = (ops.where(frames > 0, each, 0.0) for each in (least, largest))
        if not self.ordered:
            return ops.concatenate([mean, spread, least, largest, frames], axis=-1)
        both = real[:, 1:] * real[:, :-1]
        steps = ops.sum(ops.abs(inputs[:, 1:] - inputs[:, :-1]) * both, axis=1)
        change = steps / ops.maximum(ops.sum(both, axis=1), 1)
        parts = [sampled(inputs, real), mean, spread, least, largest, change, frames]
        return ops.concatenate(parts, axis=-1)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: there are no frames left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], sum(self.sizes(input_shape[2])))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ordered": self.ordered}

    def sizes(self, features: int) -> tuple[int, ...]:
        """Return the numbers of features of each kind: samples and summaries."""
        return (POINTS * features, 5 * features + 1) if self.ordered else (4 * features + 1,)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NaiveForecast(keras.layers.Layer):
    """Repeat the last season of the first feature of series; with a season of 1, the last value.

    If the value of a season before is missing or before the first frame, the last known value replaces it; 0
    if there is none.

    Args:
        horizon: the number N of values to forecast.
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
        # One more frame before the first, so that there is one if the length is 0.
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


def batched(function: Callable, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Apply a function of padded rows `[B, T, F]` to rows `[T, F]`, and return the results in their order.

    Raises:
        DataError: for no rows.
    """
    if not rows:
        raise DataError("There are no rows. Give at least one.")
    batches = LengthSortedBatches(rows, batch_size=_BATCH, window=_WINDOW, lengths=lengths_allowed())
    function = compiled(function)
    found = np.concatenate([np.asarray(function(values)) for (values,) in batches])[: len(rows)]
    in_order = np.empty_like(found)
    in_order[batches.order] = found
    return in_order
