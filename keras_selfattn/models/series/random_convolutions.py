"""Random convolutions with a linear readout: the path beside attention for few rows.

Axes: B (batch), T (frames), F (features of a frame), K (kernels of a dilation), N (features of a row),
C (outputs).

Reference: Dempster et al. 2020, "ROCKET: Exceptionally Fast and Accurate Time Series Classification Using
Random Convolutional Kernels".
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import keras
import numpy as np
from keras import ops

from keras_selfattn.models.batches import LengthSortedBatches
from keras_selfattn.models.series.frame_layers import patches, real_frames
from keras_selfattn.models.series.ridge import fit_ridge
from keras_selfattn.models.subsampling import stratified_subsample

Tensor = Any

# Dilations are rounded down to these, so that kernels of one dilation share their product.
_DILATIONS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024])
_SIZES = (7, 9, 11)
_TAPS = max(_SIZES)
# Number of samples of a row.
POINTS = 16
# Relative weights of the three kinds of features: positive shares, largest values, samples.
_WEIGHTS = (1.0, 1.0, 0.3)
_STEEP = 100.0
# The most rows for the fit of a readout: its cost grows with their cube.
_MOST_ROWS = 2000
# Rows in a batch, and its `window`, the cost of a frame: long rows come in smaller batches.
_BATCH, _WINDOW = 32, 48
# The tried scales of the readout, evenly in their logarithm, and the smoothing of each label: predictions for
# left-out rows are nearly always right, so without smoothing no scale would be too large.
_SCALES = np.geomspace(0.3, 60, 80)
_DOUBT = 0.05


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RandomConvolutions(keras.layers.Layer):
    """Features of random kernels on standardised series, and the series sampled at 16 places.

    The features of a kernel are the share of real frames with a positive value, and its largest value. Half
    of the kernels apply at every frame, with zeros before and after the row. The other half apply only within
    the row, and give 0 for a row that is too short. Kernels are drawn from the seed and not trained; their
    dilations reach up to the length of the longest training row.

    Args:
        kernels: their number.
        longest: frames of the longest training row.
        seed: of the draw.

    Call arguments:
        inputs: float `[batch, length, features]`, 0 for a missing value.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.
        training: True returns zeros: the fitted path is not needed to train the rest.

    Returns:
        float32 `[batch, 2 kernels + 16 features]`; zeros for a row without frames.

    Example:

        >>> import numpy as np
        >>> RandomConvolutions(10, longest=50)(np.ones((1, 30, 2), "float32")).shape
        TensorShape([1, 52])
    """

    def __init__(self, kernels: int, longest: int, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", "trainable": False, **kwargs})
        self.kernels, self.longest, self.seed = kernels, longest, seed

    def build(self, input_shape: tuple) -> None:
        drawn = draw(self.kernels, input_shape[-1], self.longest, self.seed)
        self._groups = [
            (
                place,
                *(
                    self._constant(f"{name}_{place.dilation}_{place.margin}", each)
                    for name, each in parts.items()
                ),
            )
            for place, parts in drawn.items()
        ]

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        if training:
            return ops.zeros((ops.shape(inputs)[0], sum(self.sizes(inputs.shape[-1]))))
        real = ops.ones_like(inputs[:, :, 0]) if mask is None else ops.cast(mask, "float32")
        real = real[:, :, None]  # [B, T, 1]
        positive, largest = [], []
        cut, dilation = inputs, 0
        for at, kernels, biases in self._groups:
            if at.dilation != dilation:  # in order of dilation; all together would take 20 times the memory
                cut, dilation = patches(inputs * real, _TAPS, at.dilation), at.dilation
            asked = _inside(real, at.margin)  # [B, T, 1]
            count = ops.sum(asked, axis=1)  # [B, 1]
            found = ops.matmul(cut, kernels) + biases  # [B, T, K]
            # A steep sigmoid instead of a step: rounding must not decide.
            above = ops.clip(found * _STEEP, 0.0, 1.0) * asked
            shares = ops.sum(above, axis=1) / ops.maximum(count, 1)
            top = ops.max(ops.where(asked > 0, found, -np.inf), axis=1, initial=-np.inf)
            positive.append(shares)  # [B, K]
            largest.append(ops.where(count > 0, top, 0.0))
        return ops.concatenate([*positive, *largest, sampled(inputs * real, real)], axis=-1)  # [B, N]

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: there are no frames left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], sum(self.sizes(input_shape[-1])))

    def sizes(self, features: int) -> tuple[int, int, int]:
        """Return the number of features of each kind."""
        return self.kernels, self.kernels, POINTS * features

    def get_config(self) -> dict[str, Any]:
        names = ("kernels", "longest", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _constant(self, name: str, values: np.ndarray) -> Any:
        return self.add_weight(
            shape=values.shape,
            initializer=keras.initializers.Constant(cast(Any, values)),
            trainable=False,
            name=name,
            dtype="float32",
        )


def fit_wide(
    core: keras.Model,
    rows: Sequence[np.ndarray],
    targets: np.ndarray,
    *,
    exclusive: bool,
    weights: np.ndarray | None = None,
) -> None:
    """Fit the layer "readout" of a core on the features of its layer "wide".

    Args:
        core: with the layers "frames", "wide" and "readout".
        rows: float32 `[T, F]` each.
        targets: 1 for each label of a row, else 0, `[rows, C]`.
        exclusive: True if a row has one label.
        weights: of the rows, float `[rows]`; by default all the same.
    """
    chosen = stratified_subsample(targets > 0, np.ones(len(rows)), _MOST_ROWS)
    batches = LengthSortedBatches([rows[row] for row in chosen], batch_size=_BATCH, window=_WINDOW)
    chosen = chosen[batches.order]
    frames, wide = core.get_layer("frames"), core.get_layer("wide")
    found = [np.asarray(wide(frames(values), mask=real_frames(values))) for (values,) in batches]
    targets = targets[chosen].astype(np.float64)
    weights = None if weights is None else weights[chosen]
    sizes = wide.sizes(rows[0].shape[1])
    ridge = fit_ridge(np.concatenate(found), 2 * targets - 1, sizes, _WEIGHTS, weights)
    scale = min(_SCALES, key=lambda scale: _loss(scale * ridge.left_out, targets, exclusive, weights))
    core.get_layer("readout").set_weights([scale * ridge.coefficients, scale * ridge.intercept])


def _loss(logits: np.ndarray, targets: np.ndarray, exclusive: bool, weights: np.ndarray | None) -> float:
    """Return the cross-entropy of slightly smoothed labels."""
    if exclusive:
        doubted = targets * (1 - _DOUBT) + _DOUBT / targets.shape[1]
        normal = np.logaddexp.reduce(logits, axis=1, keepdims=True)
        of_rows = np.sum(doubted * (normal - logits), axis=1)
    else:
        doubted = targets * (1 - _DOUBT) + _DOUBT / 2
        of_rows = np.mean(np.logaddexp(0, logits) - doubted * logits, axis=1)
    return float(np.average(of_rows, weights=weights))


class Place(NamedTuple):
    """Placement of kernels in a series: frames between taps, and the distance from either end of a row."""

    dilation: int
    margin: int


def draw(kernels: int, features: int, longest: int, seed: int) -> dict[Place, dict[str, np.ndarray]]:
    """Return the "kernels" `[11 F, K]` and their "biases" `[K]`, float32, by placement."""
    random = np.random.default_rng(seed)
    sizes = random.choice(_SIZES, kernels)
    reach = np.log2(np.maximum((longest - 1) / (sizes - 1), 1.0))
    dilations = np.floor(2.0 ** random.uniform(0, reach, kernels)).astype(int)
    dilations = _DILATIONS[np.searchsorted(_DILATIONS, dilations, side="right") - 1]
    margins = np.where(random.random(kernels) < 0.5, (sizes - 1) // 2 * dilations, 0)
    places = np.stack([dilations, margins], axis=1)
    found = {}
    for place in np.unique(places, axis=0):
        chosen = sizes[(places == place).all(axis=1)]
        drawn = np.stack([_kernel(size, features, random) for size in chosen], axis=-1)
        biases = random.uniform(-1, 1, len(chosen)).astype(np.float32)
        found[Place(*place.tolist())] = {"kernels": drawn.astype(np.float32), "biases": biases}
    return found


def sampled(inputs: Tensor, real: Tensor) -> Tensor:
    """Sample rows at 16 even places from the first to the last real frame, interpolated linearly.

    Args:
        inputs: float `[B, T, F]`.
        real: 1 or 0, `[B, T, 1]`.

    Returns:
        float `[B, 16 F]`.
    """
    # One more frame, so that there is one if the length is 0.
    inputs = ops.pad(inputs, [[0, 0], [0, 1], [0, 0]])
    places = ops.arange(1, ops.shape(inputs)[1] + 1, dtype="float32")[None, :-1] * real[:, :, 0]
    last = ops.maximum(ops.max(places, axis=1, keepdims=True, initial=0.0) - 1, 0)  # [B, 1]
    at = ops.arange(POINTS, dtype="float32")[None] / (POINTS - 1) * last  # [B, 16]
    below = ops.floor(at)
    share = (at - below)[:, :, None]
    above = ops.minimum(below + 1, last)
    low, high = (
        ops.take_along_axis(inputs, ops.cast(place, "int32")[:, :, None], axis=1) for place in (below, above)
    )
    return ops.reshape(low * (1 - share) + high * share, (ops.shape(inputs)[0], POINTS * inputs.shape[2]))


def _inside(real: Tensor, margin: int) -> Tensor:
    """Return 1 for real frames with real frames at distance `margin` on both sides, else 0, `[B, T, 1]`."""
    if not margin:
        return real
    before = ops.pad(real, [[0, 0], [margin, 0], [0, 0]])[:, :-margin]
    behind = ops.pad(real, [[0, 0], [0, margin], [0, 0]])[:, margin:]
    return real * before * behind


def _kernel(size: int, features: int, random: np.random.Generator) -> np.ndarray:
    """Return a kernel of mean 0 in each feature it uses, `[11 F]`."""
    drawn = random.normal(size=(size, features))
    used = np.ones(features, bool)
    if features > 1:
        count = int(2 ** random.uniform(0, np.log2(min(features, size) + 1)))
        used = np.isin(np.arange(features), random.choice(features, min(count, features), replace=False))
    found = np.zeros((_TAPS, features))
    begin = (_TAPS - size) // 2
    found[begin : begin + size] = (drawn - drawn.mean(axis=0)) * used
    return found.reshape(-1)
