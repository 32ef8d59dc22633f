"""A classifier of recordings of sound, as sequences of log-mel frames.

Axes: B (batch), N (samples), T (frames), M (mel bands), P (positions), D (features).
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.audio.log_mel import FRAMES_A_SECOND, LogMel, Resampling
from keras_selfattn.models.audio.mel_layers import (
    ConvSubsampling,
    EncoderByParts,
    MelFrames,
    SpecAugment,
    WindowedConvolutions,
)
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.classifier import Classifier, class_head
from keras_selfattn.models.config import AudioConfig
from keras_selfattn.models.core.encoder_core import encoded, pooled
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.series.wide_readout import fit_wide, wide_logits
from keras_selfattn.rows.recordings import RECORDINGS, Recording

Tensor = Any

# Rates that a model takes from its training recordings, in Hz: speech needs the first, and few sounds more
# than half of the second.
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 16_000
# Rows in all passes of a training together.
_ROWS_IN_ALL = 45_000
# Initial shares of attention and random convolutions. They stay if there are fewer than 100 validation rows,
# or groups of them: of voices that nobody has heard, both together are right most often so.
_SHARES = Shares(deep=0.5, wide=1.0, rows=100)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AudioClassifier(Classifier):
    """Self-attention classifier that takes recordings of sound in `fit`, `predict` and `evaluate`.

    A recording is the path of a file or its bytes, a pair `(samples, rate)`, a `Recording`, or what
    `datasets` has (`rows.recordings.as_recordings`), of any length and sample rate. Channels become one by
    their mean. Recordings are resampled to the model's rate (`Resampling`) and become frames of log-mel
    energies, 100 a second (`LogMel`); three convolutions leave a quarter of them, over which attention goes
    in a window.

    Beside attention, the model has random convolutions of the frames with a linear readout, which is fitted
    in closed form before training begins. With few recordings they are right more often than attention
    (`kernels=0` removes them).

    The first `fit` learns the sample rate, mean and deviation of the bands, and the label names from its
    recordings (or call `adapt`); they are saved in the `.keras` file. If labels of the first `fit` are lists,
    not all of one, rows can have several labels, or none. `compile()` without arguments sets Adam,
    cross-entropy and accuracy.

    Args:
        config: the model's settings; an `AudioConfig` or the dict of one.
        sample_rate: in Hz; left out before training.
        longest: frames of the longest training row that a training step reads; left out before training.
        labels: label names in the order of the classes; left out before training.
        multi_label: True if a row can have several labels; by default the labels of the first `fit` decide.

    Call arguments:
        inputs: log-mel frames, float32 `[batch, frames, bands]`, padded with frames of NaN.
        training: dropout and random changes act only if True.

    Returns:
        Probabilities, float32 `[batch, classes]`: they sum to 1 unless a row can have several labels.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a classifier.

    Example:

        >>> model = AudioClassifier(AudioConfig(width=8, num_layers=1, num_heads=2, channels=4))
        >>> model.compile()
        >>> time = np.arange(800) / 8000
        >>> low, high = (np.sin(2 * np.pi * hertz * time) for hertz in (200, 1000))
        >>> _ = model.fit([(low, 8000), (high, 8000)] * 8, ["low", "high"] * 8, epochs=1, verbose=0)
        >>> model.labels, model.predict([(low, 8000)], verbose=0).shape
        (['high', 'low'], (1, 2))

    References: Mohamed et al. 2019, "Transformers with convolutional context for ASR" (convolutions before
    attention). Povey et al. 2018, "A Time-Restricted Self-Attention Layer for ASR" (the window). Park et al.
    2019, "SpecAugment".
    """

    config_type = AudioConfig
    row_kind = RECORDINGS
    learns = "the sample rate, mean and deviation of the bands, and the label names,"
    returns = "a probability for each label"

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Small sets need many passes, in which changed frames never repeat.
        epochs = int(np.clip(_ROWS_IN_ALL // max(1, rows), 5, 60))
        return {
            "epochs": epochs,
            "batch_size": 32,
            "patience": max(3, epochs // 3),
            "learning_rate": 2e-3,
            "weight_decay": 0.05,
            "label_smoothing": 0.1,
            "refit": True,
        }

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"augment": not self.config.augment},
            {"dropout": 0.1},
            {"num_layers": 4},
            {"learning_rate": 1e-3},
            {"width": 128},
            {"bands": 64},
        ]

    def __init__(
        self,
        config: AudioConfig | dict[str, Any] | None = None,
        *,
        sample_rate: int | None = None,
        longest: int | None = None,
        labels: Sequence[str] | None = None,
        multi_label: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, multi_label=multi_label, **kwargs)
        if len({sample_rate is None, longest is None, labels is None}) != 1:
            raise ConfigError("`sample_rate`, `longest` and `labels` go together. Give all of them or none.")
        self.sample_rate, self.longest = sample_rate, longest
        if labels is not None:
            self._assemble(class_head(labels, multi_label=multi_label))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.core(inputs, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "sample_rate": self.sample_rate, "longest": self.longest}

    @property
    def bank(self) -> LogMel:
        """The filter bank that makes frames of samples, once the model knows its rate."""
        self._check_adapted()
        return LogMel(self.sample_rate or _HIGHEST_RATE, self.config.bands)

    def parts_beside(self) -> dict[str, str]:
        count = self.config.kernels
        return {"wide path": f"a linear readout of {count:,} random convolutions"} if count else {}

    def _learn_front_end(self, rows: Rows) -> None:
        if not any(len(row.samples) for row in rows.inputs):
            raise DataError(f"The {len(rows.inputs)} recordings hold no samples: all of them are empty.")
        # One rate for all: what is above half of it is in some recordings only, and would tell them apart.
        lowest = min(row.rate for row in rows.inputs)
        usual = int(np.clip(lowest, _LOWEST_RATE, _HIGHEST_RATE)) // 100 * 100
        self.sample_rate = self.config.sample_rate or usual
        seconds = max(row.seconds for row in rows.inputs)
        self.longest = min(math.ceil(seconds * FRAMES_A_SECOND), self.config.training_span)

    def _prepare(self, rows: Rows) -> None:
        frames = self._features(rows.inputs)
        self.core.get_layer("frames").learn(frames)
        if self.config.kernels:
            targets, exclusive = self._indicators(rows.targets), not self.multi_label
            fit_wide(self.core, frames, targets, exclusive=exclusive, weights=rows.weights_of_rows)

    def _features(self, inputs: Sequence[Recording]) -> list[np.ndarray]:
        bank, filters = self.bank, {}
        for place, row in enumerate(inputs):
            if row.rate not in filters:
                try:
                    filters[row.rate] = Resampling(row.rate, bank.rate)
                except DataError as error:
                    raise DataError(f"Recording {place} (counted from 0): {error}") from error
        return [bank(filters[row.rate].resampled(row.numbers())) for row in inputs]

    def _build_core(self, head: Head) -> keras.Model:
        config, policy = self.config, self.dtype_policy
        frames = keras.Input((None, config.bands), dtype="float32", name="frames_of_bands")
        level = x = MelFrames(name="frames")(frames)  # [B, T, M]
        if config.augment:
            x = SpecAugment(dtype=policy, name="augmentation")(x)
        x = ConvSubsampling(config.width, config.channels, dtype=policy, name="subsampling")(x)  # [B, P, D]
        x = encoded(x, config, policy, config.window, kind=EncoderByParts)  # [B, P, D]
        x = pooled(x, config.dropout, policy)  # [B, D]
        if not config.kernels:
            return keras.Model(frames, head.outputs(x), name="core")
        convolutions = WindowedConvolutions(config.kernels, self.longest or 1, name="wide")
        wide = wide_logits(level, convolutions, len(self.labels))
        return keras.Model(frames, head.outputs(x, wide, _SHARES), name="core")
