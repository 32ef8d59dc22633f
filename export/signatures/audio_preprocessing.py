"""Preprocess sound, as WAV files or as samples, for a model of recordings, inside the graph.

Axes: B (batch), N (samples), T (frames), M (mel bands), P (positions).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models import AudioClassifier
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.long_rows import EXPLAINED_TOKENS
from keras_selfattn.rows.recordings import as_recordings
from keras_selfattn.rows.wav_files import HIGHEST_RATE, LOUDEST, LOWEST_RATE, wav_bytes
from keras_selfattn.serving.wire.signature_names import AUDIO

from .audio_graph import Sound, log_mel
from .model_signatures import Graphs, Signature
from .raw_front import RawFront, front_of
from .trial_requests import Request, in_batches
from .wav_graph import wav_format, wav_samples

Tensor = Any

# Frames of a position: two convolutions halve them.
_FRAMES = 4
# Rates of the invented recordings beside the model's own, in Hz.
_RATES = (8_000, 44_100)
# Seconds of the invented recordings.
_SECONDS = (0.3, 1.0, 0.0, 0.01, 0.55, 0.1)


@front_of(AudioClassifier)
class AudioFront(RawFront):
    """Sound in WAV files, string `[B]`, of any length and sample rate.

    Attributes:
        sample_specs: the inputs that hold samples instead.
    """

    padding = None

    def __init__(self, model: AudioClassifier) -> None:
        super().__init__(model)
        self._bank = model.bank
        self.specs = {AUDIO: tf.TensorSpec([None], tf.string, name=AUDIO)}
        self.sample_specs = {
            "samples": tf.TensorSpec([None, None], tf.float32, name="samples"),
            "lengths": tf.TensorSpec([None], tf.int32, name="lengths"),
            "sample_rate": tf.TensorSpec([None], tf.int32, name="sample_rate"),
        }
        self.tracked: list[Any] = []
        self.described = {"sample_rate": self._bank.rate}

    def __call__(self, *raw: Tensor) -> Tensor:
        files = raw[0]

        def sound(row: Tensor) -> Sound:
            file = files[row]
            form = wav_format(file)
            return Sound(lambda first, count: wav_samples(file, form, first, count), form.frames, form.rate)

        return log_mel(sound, tf.size(files), self._bank)

    def from_samples(self, *raw: Tensor) -> Tensor:
        """Return the frames of samples `[B, N]` with their lengths and rates `[B]`, float32 `[B, T, M]`."""
        samples, lengths, rates = raw

        def sound(row: Tensor) -> Sound:
            with tf.control_dependencies([_checked(samples[row], lengths[row], rates[row])]):
                length, rate = tf.cast(lengths[row], tf.int64), tf.cast(rates[row], tf.int64)
            real = samples[row][:length]
            return Sound(lambda first, count: _block(real, first, count), length, rate)

        return log_mel(sound, tf.size(lengths), self._bank)

    def places(self, *raw: Tensor) -> dict[str, Tensor]:
        """Return begin and end of each position in seconds, float32 `[B, P, 2]`; both the end behind it."""
        frames = self._explained(*raw)
        real = tf.reduce_any(tf.math.is_finite(frames), axis=-1)  # [B, T]
        counts = tf.math.count_nonzero(real, axis=1, dtype=tf.int32)
        positions = tf.range((tf.shape(frames)[1] + _FRAMES - 1) // _FRAMES)
        edges = _FRAMES * (positions[:, None] + [0, 1])  # [P, 2], in frames
        found = tf.minimum(edges[None], counts[:, None, None])
        return {"seconds": tf.cast(found, tf.float32) * (self._bank.hop / self._bank.rate)}

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `explain`, with the time of each position, and `samples`."""
        explain = graphs.explain(together=True, read=self._explained, places=self.places)
        samples = graphs.on_files(self.sample_specs, self.from_samples)
        return {
            "explain": Signature(explain, requests),
            "samples": Signature(samples, list(map(self._as_samples, requests))),
        }

    def named(self, rows: Any) -> Mapping[str, Any]:
        """Return recordings in any container as inputs by name."""
        return {AUDIO: _files([row.wav() for row in as_recordings(rows)])}

    def asked(self, row: Any) -> Request:
        """Return the request for a recording."""
        return dict(self.named([row]))

    def requests(self) -> list[Request]:
        random = np.random.default_rng(0)
        files = []
        for place, rate in enumerate((self._bank.rate, *_RATES)):
            for seconds in _SECONDS:
                values = random.normal(0, 0.1, round(seconds * rate)).astype(np.float32)
                # Of 16 bits and of floats, by turns.
                files.append(wav_bytes((values * 2**14).astype(np.int16) if place % 2 == 0 else values, rate))
        return in_batches({AUDIO: _files(files)})

    def _as_samples(self, request: Request) -> Request:
        """Return the request for the same recordings as samples."""
        rows = as_recordings(list(request[AUDIO]))
        values = padded([row.numbers() for row in rows]) if rows else np.zeros((0, 0), np.float32)
        return {
            "samples": np.nan_to_num(values),
            "lengths": np.array([len(row.samples) for row in rows], np.int32),
            "sample_rate": np.array([row.rate for row in rows], np.int32),
        }

    def _explained(self, *raw: Tensor) -> Tensor:
        """Return the first frames: the weights of all pairs of an hour's positions would fill the memory."""
        return self(*raw)[:, : _FRAMES * EXPLAINED_TOKENS]


def _block(samples: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Return samples `[count]` from a place on; 0 beyond both ends."""
    size = tf.size(samples, tf.int64)
    begin, end = tf.clip_by_value(first, 0, size), tf.clip_by_value(first + count, 0, size)
    inside = samples[begin:end]
    before = tf.minimum(tf.maximum(-first, 0), count)
    return tf.pad(inside, [[before, count - before - tf.size(inside, tf.int64)]])


def _checked(samples: Tensor, length: Tensor, rate: Tensor) -> Tensor:
    """Return an operation that fails for a length, a rate or samples that cannot be."""
    fits = (length >= 0) & (length <= tf.size(samples))
    finite = tf.reduce_all(tf.abs(samples[: tf.maximum(length, 0)]) <= LOUDEST)
    said = (
        f"`lengths` must be from 0 to the samples of a row, `sample_rate` from {LOWEST_RATE:,} to "
        f"{HIGHEST_RATE:,} Hz, and the samples of a row finite numbers of at most 1e9. Received a length and "
        "a rate of"
    )
    return tf.debugging.Assert(
        fits & (rate >= LOWEST_RATE) & (rate <= HIGHEST_RATE) & finite, [said, length, rate]
    )


def _files(files: Sequence[bytes]) -> np.ndarray:
    found = np.empty(len(files), dtype=object)
    found[:] = files
    return found
