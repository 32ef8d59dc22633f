"""Layers that turn the frames of a series into positions.

Axes: B (batch), T (frames), P (positions: windows of frames), F (features of a frame), D (width).
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.feed_forward import gelu
from keras_selfattn.layers.weights.projection import Dense

Tensor = Any

# Values are clipped at this many deviations, so that float16 and squares stay finite.
_MOST = 1000.0
_UNKNOWN = float("nan")


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Frames(keras.layers.Layer):
    """Standardise frames by the training rows' mean and deviation, and mask empty frames.

    A frame without a finite feature is masked: it is padding, or missing. A missing value (NaN, or infinite)
    in another frame becomes 0, the training rows' mean. Mean and deviation of each feature are weights that
    are not trainable; `learn` sets them.

    Args:
        relative: True subtracts the last known value of each feature in a row first, so that only the changes
            of a series count, not its level.

    Call arguments:
        inputs: float `[batch, length, features]`; NaN is a missing value, frames of NaN are padding.

    Returns:
        float32 `[batch, length, features]`, none beyond 1,000 deviations.

    Example:

        >>> import numpy as np
        >>> layer = Frames()
        >>> layer.learn([np.array([[1.0], [3.0]], "float32")])
        >>> print(np.asarray(layer(np.array([[[3.0], [np.nan], [2.0]]], "float32")))[0, :, 0])
        [1. 0. 0.]

    Reference: for `relative`, Kim et al. 2022, "Reversible Instance Normalization", with the last value in
    place of the mean (Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?", NLinear).
    """

    def __init__(self, *, relative: bool = False, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.relative = relative

    def build(self, input_shape: tuple) -> None:
        self.mean = self._statistic("mean", "zeros", input_shape[-1])
        self.deviation = self._statistic("deviation", "ones", input_shape[-1])

    def learn(self, rows: list[np.ndarray]) -> None:
        """Set mean and deviation to those of rows `[T, F]`; a feature that is constant has deviation 1."""
        if not self.built:
            self.build((None, None, rows[0].shape[1]))
        if self.relative:
            rows = [row - last_known(row) for row in rows]
        mean, deviation = statistics(np.concatenate(rows))
        self.mean.assign(mean)
        self.deviation.assign(deviation)

    def call(self, inputs: Tensor) -> Tensor:
        inputs = ops.cast(inputs, "float32")
        known = ops.isfinite(inputs)  # [B, T, F]
        values = ops.where(known, inputs, 0.0)
        if self.relative:
            values = values - last_values(inputs)[:, None]
        values = (values - self.mean) / self.deviation
        return ops.where(known, ops.clip(values, -_MOST, _MOST), 0.0)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return real_frames(inputs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "relative": self.relative}

    def _statistic(self, name: str, initializer: str, size: int) -> Any:
        return self.add_weight(
            shape=(size,), initializer=initializer, trainable=False, name=name, dtype="float32"
        )


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FramePositions(keras.layers.Layer):
    """Convolve frames and their differences from the frame before, and average windows of them.

    The positions of a row do not depend on the padding of its batch: no convolution sees a masked frame.

    Args:
        width: features D of a position.
        kernel_size: frames of the convolution.
        stride: frames in a window, which divides the number of attention's positions.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.

    Returns:
        float `[batch, positions, width]`, masked where a window has no real frame.

    Example:

        >>> import numpy as np
        >>> FramePositions(4, kernel_size=3, stride=2)(np.zeros((1, 5, 1), "float32")).shape
        TensorShape([1, 3, 4])
    """

    def __init__(self, width: int, kernel_size: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.width, self.kernel_size, self.stride = width, kernel_size, stride
        policy = self.dtype_policy
        self._frames = Dense(width, dtype=policy, name="frames")
        self._norm = keras.layers.LayerNormalization(dtype=policy, name="norm")
        self._windows = Dense(width, dtype=policy, name="windows")

    def build(self, input_shape: tuple) -> None:
        self._frames.build((None, None, 2 * input_shape[-1] * self.kernel_size))
        self._norm.build((None, None, self.width))
        self._windows.build((None, None, self.width * _TAPS))

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        x, real = inputs, _real(inputs, mask)[:, :, None]  # [B, T, 1]
        before = ops.pad(x, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        step = (x - before) * real * ops.pad(real, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        x = ops.concatenate([x * real, step], axis=-1)  # [B, T, 2 F]
        frames = self._in_own_dtype(self._frames(patches(x, self.kernel_size)))
        x = gelu(frames, training) * real  # [B, T, D]
        x, real = self._averaged(x, real)  # [B, P, D], [B, P, 1]
        normal = self._in_own_dtype(self._norm(x))
        near = self._windows(patches(gelu(normal, training) * real, _TAPS))
        return (x + self._in_own_dtype(near)) * real

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return window_counts(_real(inputs, mask), self.stride) > 0

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        length = None if input_shape[1] is None else -(-input_shape[1] // self.stride)
        return (input_shape[0], length, self.width)

    def get_config(self) -> dict[str, Any]:
        names = ("width", "kernel_size", "stride")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _in_own_dtype(self, x: Tensor) -> Tensor:
        """Return outputs of a part, which has another dtype if the policy is a map that says so."""
        return ops.cast(x, self.compute_dtype)

    def _averaged(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean over the real frames of each window, and the mask of windows with any."""
        counts = ops.cast(window_counts(real[:, :, 0], self.stride), x.dtype)[:, :, None]  # [B, P, 1]
        rows, windows = ops.shape(x)[0], ops.shape(counts)[1]
        x = ops.pad(x, [[0, 0], [0, windows * self.stride - ops.shape(x)[1]], [0, 0]])
        x = ops.reshape(x, (rows, windows, self.stride, self.width))  # [B, P, stride, D]
        return ops.sum(x, axis=2) / ops.maximum(counts, 1), ops.cast(counts > 0, x.dtype)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SetElements(keras.layers.Layer):
    """Make a position of each frame alone, by two products: for rows that are sets.

    Args:
        width: features D of a position.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.

    Returns:
        float `[batch, length, width]`, 0 where it is masked.

    Example:

        >>> import numpy as np
        >>> SetElements(4)(np.zeros((1, 5, 2), "float32")).shape
        TensorShape([1, 5, 4])

    Reference: Zaheer et al. 2017, "Deep Sets", theorem 2 (what is learned of each element alone, then a sum).
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.width = width
        policy = self.dtype_policy
        self._first, self._second = (Dense(width, dtype=policy, name=name) for name in ("first", "second"))

    def build(self, input_shape: tuple) -> None:
        self._first.build((None, None, input_shape[-1]))
        self._second.build((None, None, self.width))

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        real = _real(inputs, mask)[:, :, None]  # [B, T, 1]
        hidden = gelu(ops.cast(self._first(inputs * real), self.compute_dtype), training)
        return ops.cast(self._second(hidden), self.compute_dtype) * real

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.width)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width}


_TAPS = 5  # positions that the second convolution spans


def patches(x: Tensor, taps: int, dilation: int = 1) -> Tensor:
    """Return each frame beside its neighbours, `[B, T, taps F]`: the input of a convolution as a product.

    Both ends are padded with zeros. Unlike convolutions, a product accepts batches and lengths of 0.
    """
    reach = taps // 2 * dilation
    length: Any = ops.shape(x)[1]
    x = ops.pad(x, [[0, 0], [reach, (taps - 1) * dilation - reach], [0, 0]])
    return ops.concatenate([x[:, tap * dilation : tap * dilation + length] for tap in range(taps)], axis=-1)


def window_counts(real: Tensor, stride: int) -> Tensor:
    """Return the number of real frames of each window, int32 `[B, P]`, from `[B, T]`."""
    real = ops.pad(ops.cast(real, "int32"), [[0, 0], [0, stride - 1]])
    # No reshape: Keras asks for masks before there is any length to reshape with.
    ends = ops.cumsum(real, axis=1)[:, stride - 1 :: stride]
    return ends - ops.pad(ends, [[0, 0], [1, 0]])[:, :-1]


def real_frames(inputs: Tensor) -> Tensor:
    """Return the mask of frames of `[B, T, F]` with a finite value, bool `[B, T]`."""
    return ops.any(ops.isfinite(inputs), axis=-1)


def last_values(inputs: Tensor) -> Tensor:
    """Return the last finite value of each feature of `[B, T, F]`, 0 if it has none, `[B, F]`."""
    known = ops.isfinite(inputs)
    # One more frame, so that there is one if the length is 0.
    values = ops.pad(ops.where(known, inputs, 0.0), [[0, 0], [1, 0], [0, 0]])
    known = ops.pad(ops.cast(known, "int32"), [[0, 0], [1, 0], [0, 0]])
    place = ops.arange(ops.shape(values)[1], dtype="int32")[None, :, None]
    last = ops.max(place * known, axis=1, keepdims=True, initial=0)  # [B, 1, F]
    return ops.take_along_axis(values, last, axis=1)[:, 0]


def last_known(row: np.ndarray) -> np.ndarray:
    """Return the last finite value of each feature of one row `[T, F]`, 0 if it has none, `[F]`."""
    known = np.isfinite(row)
    # As in `last_values`, one more frame, so that there is one.
    values, known = (np.pad(each, [(1, 0), (0, 0)]) for each in (np.where(known, row, 0), known))
    last = (np.arange(len(values))[:, None] * known).max(axis=0)
    return values[last, np.arange(row.shape[1])]


def statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the known values of each column of `[rows, F]`; 1 for a constant one."""
    known = ~np.isnan(values)
    count = np.maximum(known.sum(axis=0), 1)
    wide = np.where(known, values, 0).astype(np.float64)
    mean = wide.sum(axis=0) / count
    deviation = np.sqrt((np.where(known, wide - mean, 0) ** 2).sum(axis=0) / count)
    # The deviation of a constant column in float32 is rounding.
    constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-30)
    return mean.astype(np.float32), np.where(constant, 1, deviation).astype(np.float32)


def _real(inputs: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return ops.ones_like(inputs[:, :, 0])
    return ops.cast(mask, inputs.dtype)
