"""Models of real-valued series: their base, and the classifier.

Axes: B (batch), T (frames), P (positions), F (features of a frame), D (width).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.classifier import Classifier, class_head
from keras_selfattn.models.config import EncoderConfig, check_count, check_flag, is_count
from keras_selfattn.models.core.encoder_core import encoded, encoder
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.series.frame_layers import FramePositions, Frames, SetElements
from keras_selfattn.models.series.random_convolutions import RandomConvolutions
from keras_selfattn.models.series.wide_readout import SHARES, fit_wide, wide_logits
from keras_selfattn.rows.series import SERIES, as_series, warn_of_axes

Tensor = Any

# Standard deviation of the training noise, so that no single value decides.
_NOISE = 0.05


@dataclass(frozen=True)
class SeriesConfig(EncoderConfig):
    """Config of a model of series: the fields of `EncoderConfig`, and these. Every default works.

    Args:
        kernel_size: frames of the convolution before attention.
        max_positions: the most positions of the longest training row; frames of longer series are averaged
            in windows. Attention's cost grows with their square.
        positions: False for rows that are sets, such as points or detections: no answer depends on the order
            of the frames. Then there are no convolutions and no windows, and every frame is a position.

    Raises:
        ConfigError: for a field out of range, or one that a set has no use for; it names the field, the rule
            and the value.

    Example:

        >>> SeriesConfig(kernel_size=5).width
        64
    """

    width: int = 64
    feed_forward_dim: int | None = 128
    kernel_size: int = 7
    max_positions: int = 48
    positions: bool = True

    # Fields about neighbouring frames.
    _of_order: ClassVar[tuple[str, ...]] = ("kernel_size", "max_positions")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("kernel_size", "max_positions"):
            check_count(name, getattr(self, name))
        check_flag("positions", self.positions)
        for name in self._of_order:
            if not self.positions and getattr(self, name) not in (getattr(type(self), name), 0):
                raise ConfigError(
                    f"`{name}` is about neighbouring frames, which sets (`positions=False`) do not have: "
                    f"leave it out. Received {getattr(self, name)!r}."
                )

    def to_dict(self) -> dict[str, Any]:
        found = super().to_dict()
        return (
            found if self.positions else {name: found[name] for name in found if name not in self._of_order}
        )

    @property
    def attended(self) -> int | None:
        # Above it, positions are windows of frames, so the cost of a row is linear in its length.
        return self.max_positions if self.positions else None


class SeriesModel(RawModel):
    """Base of the models of series: reading of rows, and all layers before the head.

    Rows are arrays `[length, features]`, or `[length]` of one feature, in a list or as one array
    `[rows, length, features]` or `[rows, length]`. NaN is a missing value; frames of NaN at the end are
    padding. Arrays `[rows, channels, length]`, as in aeon and sktime, are given as `x.transpose(0, 2, 1)`.

    Args:
        config: the model's settings; a `SeriesConfig` or the dict of one.
        num_features: features of a frame; left out before training.
        longest: frames of the longest training row; left out before training.
    """

    config_type = SeriesConfig
    row_kind = SERIES
    learns = "mean and deviation of each feature, and the label names,"
    returns = "a probability for each label"
    # True if only the changes of a row count, not its level.
    _relative = False

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Data sets of series are small: a hundred rows need many passes in small steps.
        return {"epochs": 60, "batch_size": 16, "learning_rate": 2e-3, "patience": 12, "refit": True}

    def alternatives(self) -> list[dict[str, Any]]:
        of_order: list[dict[str, Any]] = [{"kernel_size": 15}, {"max_positions": 96}]
        return [
            {"dropout": 0.3},
            {"learning_rate": 1e-3},
            {"width": 128},
            {"num_layers": 1},
            *(of_order if self.config.positions else []),
        ]

    def __init__(
        self,
        config: SeriesConfig | dict[str, Any] | None = None,
        *,
        num_features: int | None = None,
        longest: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_features, self.longest = num_features, longest

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.core(inputs, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_features": self.num_features, "longest": self.longest}

    @property
    def stride(self) -> int:
        """Frames of one position of attention."""
        if not self.config.positions:
            return 1
        return max(1, -(-(self.longest or 1) // self.config.max_positions))

    def read_inputs(self, x: Any) -> list[np.ndarray]:
        return as_series(x, self.num_features)

    def _learn_front_end(self, rows: Rows) -> None:
        lengths = [len(row) for row in rows.inputs]
        if not any(lengths):
            raise DataError(f"The {len(lengths)} series hold no values: all of them are empty or missing.")
        self.num_features, self.longest = rows.inputs[0].shape[1], max(lengths)
        warn_of_axes(self.longest, self.num_features)

    def _prepare(self, rows: Rows) -> None:
        self.core.get_layer("frames").learn(rows.inputs)

    def _features(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(inputs)

    def _build_core(self, head: Head) -> keras.Model:
        values = keras.Input((None, self.num_features), dtype="float32", name="values")
        frames = Frames(relative=self._relative, name="frames")(values)  # [B, T, F]
        return keras.Model(values, head.outputs(self._pooled(frames)), name="core")

    def _pooled(self, frames: Tensor) -> Tensor:
        """Return attention's features `[B, 2 D]` of standardised frames `[B, T, F]`."""
        config, policy = self.config, self.dtype_policy
        x = keras.layers.GaussianNoise(_NOISE, dtype=policy, name="noise")(frames)
        if config.positions:
            x = FramePositions(
                config.width, config.kernel_size, self.stride, dtype=policy, name="convolution"
            )(x)
            x = encoded(x, config, policy)  # [B, P, D]
        else:
            x = SetElements(config.width, dtype=policy, name="elements")(x)
            x = encoder(config, policy)(x)  # [B, T, D]
        average = layers.AveragePooling(dtype=policy, name="average")(x)
        largest = layers.MaxPooling(dtype=policy, name="largest")(x)
        x = keras.layers.Concatenate(dtype=policy, name="pooling")([average, largest])  # [B, 2 D]
        return keras.layers.Dropout(config.dropout, dtype=policy, name="head_dropout")(x)


@dataclass(frozen=True)
class SeriesClassifierConfig(SeriesConfig):
    """Config of a `SeriesClassifier`: the fields of `SeriesConfig`, and this one.

    Args:
        kernels: random convolutions beside attention; 0 for attention alone. Sets have none.

    Raises:
        ConfigError: for a field out of range; it names the field, the rule and the value.

    Example:

        >>> SeriesClassifierConfig(kernels=0).max_positions
        48
    """

    kernels: int = 4000

    _of_order = (*SeriesConfig._of_order, "kernels")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_count(self.kernels, 0):
            raise ConfigError(f"`kernels` must be 0 or a positive integer. Received {self.kernels!r}.")

    @property
    def convolutions(self) -> int:
        """The random convolutions of the model."""
        return self.kernels if self.positions else 0


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SeriesClassifier(SeriesModel, Classifier):
    """Self-attention classifier that takes raw series in `fit`, `predict` and `evaluate`.

    The first `fit` learns mean and deviation of each feature and the label names from its rows (or call
    `adapt`); both are saved in the `.keras` file. If labels of the first `fit` are lists, not all of one,
    rows can have several labels, or none. `compile()` without arguments sets Adam, cross-entropy and
    accuracy.

    Beside attention, the model has random convolutions with a linear readout, which is fitted in closed form
    before training begins. With few rows they are better than attention (`kernels=0` removes them).

    Args:
        config: the model's settings; a `SeriesClassifierConfig` or the dict of one.
        num_features: features of a frame; left out before training.
        longest: frames of the longest training row; left out before training.
        labels: label names in the order of the classes; left out before training.
        multi_label: True if a row can have several labels; by default the labels of the first `fit` decide.

    Call arguments:
        inputs: float32 `[batch, length, features]`. NaN is a missing value; rows are padded with frames of
            NaN, which have no effect.
        training: dropout and noise act only if True.

    Returns:
        Probabilities, float32 `[batch, classes]`: they sum to 1 unless a row can have several labels.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a classifier.

    Example:

        >>> model = SeriesClassifier(SeriesClassifierConfig(width=8, num_layers=1, num_heads=2, kernels=50))
        >>> model.compile()
        >>> rows = [[0.0, 1.0, 2.0], [2.0, 1.0], [1.0, 3.0], [3.0, 2.0, 0.0]] * 4
        >>> _ = model.fit(rows, ["up", "down", "up", "down"] * 4, epochs=1, verbose=0)
        >>> model.labels, model.predict([[5.0, 4.0, 3.0]], verbose=0).shape
        (['down', 'up'], (1, 2))
    """

    config_type = SeriesClassifierConfig

    def __init__(
        self,
        config: SeriesClassifierConfig | dict[str, Any] | None = None,
        *,
        num_features: int | None = None,
        longest: int | None = None,
        labels: Sequence[str] | None = None,
        multi_label: bool | None = None,
        **kwargs: Any,
    ) -> None:
        shape = {"num_features": num_features, "longest": longest}
        super().__init__(config, multi_label=multi_label, **shape, **kwargs)
        if len({num_features is None, longest is None, labels is None}) != 1:
            raise ConfigError("`num_features`, `longest` and `labels` go together. Give all of them or none.")
        if labels is not None:
            self._assemble(class_head(labels, multi_label=multi_label))

    def parts_beside(self) -> dict[str, str]:
        count = self.config.convolutions
        return {"wide path": f"a linear readout of {count:,} random convolutions"} if count else {}

    def _prepare(self, rows: Rows) -> None:
        super()._prepare(rows)
        if self.config.convolutions:
            targets, exclusive = self._indicators(rows.targets), not self.multi_label
            fit_wide(self.core, rows.inputs, targets, exclusive=exclusive, weights=rows.weights_of_rows)

    def _build_core(self, head: Head) -> keras.Model:
        if not self.config.convolutions:
            return super()._build_core(head)
        values = keras.Input((None, self.num_features), dtype="float32", name="values")
        frames = Frames(name="frames")(values)  # [B, T, F]
        convolutions = RandomConvolutions(self.config.convolutions, self.longest or 1, name="wide")
        wide = wide_logits(frames, convolutions, len(self.labels))
        return keras.Model(values, head.outputs(self._pooled(frames), wide, SHARES), name="core")
