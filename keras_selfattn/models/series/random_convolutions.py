"""Features of series from random kernels, for a linear readout: the path beside attention for few rows.

Axes: B (batch), T (frames), F (features of a frame), K (kernels of a dilation), N (features of a row).

Reference: Dempster et al. 2020, "ROCKET: Exceptionally Fast and Accurate Time Series Classification Using
Random Convolutional Kernels".
"""

from typing import Any, cast

import keras
import numpy as np
from keras import ops

from keras_selfattn.models.series.dictionary import RIVALS, draw_groups, wins
from keras_selfattn.models.series.frame_layers import patches
from keras_selfattn.models.series.kernel_pooling import Sums, pooled, summed
from keras_selfattn.models.series.random_kernels import TAPS, Bank, dilations_within, draw, inside

Tensor = Any

# Number of samples of a row.
POINTS = 16
# Random kernels for each group of competing kernels at a dilation.
_FOR_A_GROUP = 125
# The pooled features of each kind.
_POOLED = (("share", "largest"), ("mean",), ("place",))


@keras.saving.register_keras_serializable(package="keras_selfattn")
class RandomConvolutions(keras.layers.Layer):
    """Features of random kernels on standardised series and on their differences from frame to frame.

    Half of the kernels are for the series, half for the differences. Four features pool the outputs of each
    (`pooling.Pooled`). Beside them, kernels compete in groups at dilations 1, 2, 4, … (`dictionary.wins`),
    and the series are sampled at 16 places. Kernels are drawn from the seed and not trained; they reach no
    further than the longest training row.

    Args:
        kernels: the number of pooled kernels; the competing ones follow from it.
        longest: frames of the longest training row.
        seed: of the draw.

    Call arguments:
        inputs: float `[batch, length, features]`, 0 for a missing value.
        mask: bool `[batch, length]`, True = a real frame; propagated by Keras.
        training: True returns zeros: the fitted path is not needed to train the rest.

    Returns:
        float32 `[batch, sum of sizes]`; zeros for a row without frames.

    Example:

        >>> import numpy as np
        >>> layer = RandomConvolutions(10, longest=50)
        >>> layer(np.ones((1, 30, 2), "float32")).shape, layer.sizes(2)
        (TensorShape([1, 168]), (10, 5, 5, 48, 10, 5, 5, 48, 32))
    """

    def __init__(self, kernels: int, longest: int, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", "trainable": False, **kwargs})
        self.kernels, self.longest, self.seed = kernels, longest, seed

    def build(self, input_shape: tuple) -> None:
        random = np.random.default_rng(self.seed)
        self._banks, self._groups = [], []
        for name, count in zip(("series", "differences"), self._counts, strict=True):
            drawn = draw(count, input_shape[-1], self.longest, random)
            self._banks.append(
                {
                    dilation: Bank(
                        *(self._constant(f"{name}_{dilation}_{at}", each) for at, each in _parts(bank))
                    )
                    for dilation, bank in drawn.items()
                }
            )
            self._groups.append(
                {
                    dilation: self._constant(
                        f"{name}_groups_{dilation}", draw_groups(self._groups_at, input_shape[-1], random)
                    )
                    for dilation in self._rival_dilations
                }
            )

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        if training:
            return ops.zeros((ops.shape(inputs)[0], sum(self.sizes(inputs.shape[-1]))))
        real = ops.ones_like(inputs[:, :, 0]) if mask is None else ops.cast(mask, "float32")
        real = real[:, :, None]  # [B, T, 1]
        series = inputs * real
        found = []
        for banks, groups, (x, known) in zip(
            self._banks, self._groups, ((series, real), differences(series, real)), strict=True
        ):
            found += self._features(x, known, banks, groups)
        return ops.concatenate([*found, sampled(series, real)], axis=-1)  # [B, N]

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: there are no frames left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], sum(self.sizes(input_shape[-1])))

    def sizes(self, features: int) -> tuple[int, ...]:
        """Return the number of features of each kind.

        The kinds are, for the series and then for the differences: shares and largest values; means;
        places; competing kernels. The last one is the samples.
        """
        rivals = 2 * RIVALS * self._groups_at * len(self._rival_dilations)
        each = [(*(len(kind) * count for kind in _POOLED), rivals) for count in self._counts]
        return (*each[0], *each[1], POINTS * features)

    def get_config(self) -> dict[str, Any]:
        names = ("kernels", "longest", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    @property
    def _counts(self) -> tuple[int, int]:
        return self.kernels - self.kernels // 2, self.kernels // 2

    @property
    def _groups_at(self) -> int:
        return max(1, round(self.kernels / _FOR_A_GROUP))

    @property
    def _rival_dilations(self) -> list[int]:
        return [dilation for dilation in dilations_within(self.longest).tolist() if dilation.bit_count() == 1]

    def _features(
        self, x: Tensor, known: Tensor, banks: dict[int, Bank], groups: dict[int, Tensor]
    ) -> list[Tensor]:
        """Return the features of four kinds, `[B, N]` each."""
        sums, won = [], []
        # One dilation after the other: all together would take 20 times the memory.
        for dilation in sorted({*banks, *groups}):
            cut = patches(x, TAPS, dilation)  # [B, T, 9 F]
            if dilation in banks:
                sums.append(self._summed(cut, known, banks[dilation], dilation))
            if dilation in groups:
                won.append(wins(ops.matmul(cut, groups[dilation]), known))
        kinds = []
        if sums:
            of_all = pooled(Sums(*(ops.concatenate(each, axis=-1) for each in zip(*sums, strict=True))))
            kinds = [[getattr(of_all, name) for name in kind] for kind in _POOLED]
        return [ops.concatenate(each, axis=-1) for each in (*kinds, won) if each]

    def _summed(self, cut: Tensor, known: Tensor, bank: Bank, dilation: int) -> Sums:
        found = ops.matmul(cut, bank.kernels) + bank.biases
        return summed(found, bank.anywhere, known, inside(known, TAPS // 2 * dilation))

    def _constant(self, name: str, values: np.ndarray) -> Any:
        return self.add_weight(
            shape=values.shape,
            initializer=keras.initializers.Constant(cast(Any, values.astype(np.float32))),
            trainable=False,
            name=name,
            dtype="float32",
        )


def differences(series: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Return the difference of each frame from the one before, and 1 where both are real, else 0.

    Args:
        series: float `[B, T, F]`.
        real: 1 or 0, `[B, T, 1]`.
    """
    before, known = (ops.pad(each, [[0, 0], [1, 0], [0, 0]])[:, :-1] for each in (series, real))
    return (series - before) * real * known, real * known


def _parts(bank: Bank) -> list[tuple[str, np.ndarray]]:
    return list(bank._asdict().items())


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
