"""A convolutional network in the place of attention and random convolutions, for `benchmarks sound`.

Axes: B (batch), T (frames), M (mel bands).
"""

from typing import Any

import keras
from keras import ops

from keras_selfattn import layers
from keras_selfattn.models.audio.classifier import AudioClassifier
from keras_selfattn.models.audio.mel_layers import MelFrames, SpecAugment
from keras_selfattn.models.heads.class_heads import Head

# Channels of the convolutions: together about as many trained weights as `AudioClassifier` has.
_CHANNELS = (32, 64, 112, 254)


@keras.saving.register_keras_serializable(package="benchmarks")
class ConvolutionalClassifier(AudioClassifier):
    """Four convolutions, 3 x 3, each with batch normalisation; the first three halve frames and bands.

    Then mean and maximum over what is left, dropout, and one layer. Log-mel frames, their standardisation,
    random changes, batches, loss, optimizer, epochs and the choice of the epoch are those of
    `AudioClassifier`.
    """

    def parts_beside(self) -> dict[str, str]:
        return {}

    def _build_core(self, head: Head) -> keras.Model:
        frames = keras.Input((None, self.config.bands), dtype="float32", name="frames_of_bands")
        real = ops.any(ops.isfinite(frames), axis=-1)  # [B, T]
        x: Any = SpecAugment(name="augmentation")(MelFrames(name="frames")(frames))
        x = ops.expand_dims(x, 3)  # [B, T, M, 1]
        for place, channels in enumerate(_CHANNELS):
            x = keras.layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
            x = x * ops.cast(real, x.dtype)[:, :, None, None]  # padding stays 0
            if place < len(_CHANNELS) - 1:
                x = keras.layers.MaxPooling2D(2, padding="same")(x)
                real = real[:, ::2]
        mean = layers.AveragePooling(name="average")(ops.mean(x, axis=2), mask=real)
        x = ops.concatenate([mean, ops.max(x, axis=(1, 2))], axis=-1)
        x = keras.layers.Dropout(self.config.dropout, name="head_dropout")(x)
        return keras.Model(frames, head.outputs(x), name="core")
