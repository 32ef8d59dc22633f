"""Log-mel frames of sound inside the graph, with stock operations: resampling and filter bank by blocks.

Both are those of training, `keras_selfattn/models/audio/log_mel.py`, whose numbers these are.

Axes: N (samples), T (frames), M (mel bands), K (bins), Q (blocks of the filter), W and L (its inputs and
outputs).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_selfattn.models.audio.log_mel import (
    CROSSINGS,
    CUTOFF,
    FLOOR,
    MOST_WEIGHTS,
    REACHES,
    LogMel,
)

Tensor = Any
_ragged: Any = tf.RaggedTensor
# From the first sample and a count, int64 `[]`, to so many samples, float32 `[count]`; 0 beyond both ends.
Reader = Callable[[Tensor, Tensor], Tensor]

# Frames that are computed together: 10 s, of which the spectra take some 2 MB.
_TOGETHER = 1000


class Sound(NamedTuple):
    """A recording that is decoded as it is read.

    Args:
        read: of its samples.
        samples: their number, int64 `[]`.
        rate: samples a second, in Hz, int64 `[]`.
    """

    read: Reader
    samples: Tensor
    rate: Tensor


def log_mel(sound: Callable[[Tensor], Sound], rows: Tensor, bank: LogMel) -> Tensor:
    """Return the log-mel frames of recordings, padded with NaN, float32 `[B, T, M]`.

    They are computed one after the other, and a block at a time: no more of a recording is decoded. Frames of
    an hour take 60 MB, so no copy of them is made that is not needed.

    Args:
        sound: from the number of a row, int32 `[]`, to its recording.
        rows: B, int32 `[]`.
        bank: the filter bank.
    """

    def row(place: Tensor, blocks: Tensor, found: Any, lengths: Any) -> tuple[Tensor, Tensor, Any, Any]:
        found, blocks, count = _write_blocks(found, blocks, sound(place), bank)
        return place + 1, blocks, found, lengths.write(place, count[None])

    found, lengths = (
        tf.TensorArray(dtype, 0, dynamic_size=True, infer_shape=False) for dtype in (tf.float32, tf.int64)
    )
    _, blocks, found, lengths = tf.while_loop(
        lambda place, *_: place < rows, row, (0, 0, found, lengths), parallel_iterations=1
    )
    # Without a block or a row there is nothing to concatenate.
    frames = found.write(blocks, tf.zeros([0, bank.bands])).concat()
    frames = tf.ensure_shape(frames, [None, bank.bands])
    lengths = lengths.write(rows, tf.zeros([0], tf.int64)).concat()

    def together() -> Tensor:
        return _ragged.from_row_lengths(frames, lengths, validate=False).to_tensor(float("nan"))

    padded = tf.cond(rows == 1, lambda: frames[None], together)
    return tf.ensure_shape(padded, [None, None, bank.bands])


def _write_blocks(found: Any, blocks: Tensor, sound: Sound, bank: LogMel) -> tuple[Any, Tensor, Tensor]:
    """Write a recording's blocks behind others; return the array, the number of all, and of the frames."""
    resampled = _resampled(sound.read, sound.rate, bank.rate)
    length = _upwards(sound.samples * bank.rate, sound.rate)  # after resampling
    count = _upwards(length, bank.hop)  # T

    def block(first: Tensor, place: Tensor, found: Any) -> tuple[Tensor, Tensor, Any]:
        frames = tf.minimum(count - first, _TOGETHER)
        begin, needed = first * bank.hop, (frames - 1) * bank.hop + bank.frame
        # The filter rings beyond the end; a frame there has zeros.
        part = resampled(begin, tf.minimum(needed, length - begin))
        part = _frames(tf.pad(part, [[0, needed - tf.size(part, tf.int64)]]), frames, bank)
        return first + frames, place + 1, found.write(place, part)

    start = tf.constant(0, tf.int64)
    _, blocks, found = tf.while_loop(
        lambda first, *_: first < count, block, (start, blocks, found), parallel_iterations=1
    )
    return found, blocks, count


def _frames(samples: Tensor, frames: Tensor, bank: LogMel) -> Tensor:
    """Return so many frames of samples, float32 `[T, M]`."""
    places = tf.range(frames)[:, None] * bank.hop + tf.range(bank.frame, dtype=tf.int64)
    windowed = tf.gather(samples, places) * tf.constant(bank.window, tf.float32)  # [T, frame]
    spectra = tf.signal.rfft(windowed, [bank.padded])  # [T, K]
    power = tf.math.real(spectra) ** 2 + tf.math.imag(spectra) ** 2
    return tf.math.log(power @ tf.constant(bank.triangles, tf.float32) + FLOOR)


class _Filter(NamedTuple):
    """The filter from a file's rate to the model's, as `Resampling` has it, int64 `[]` each."""

    reach: Tensor
    up: Tensor
    down: Tensor
    span: Tensor


def _resampled(read: Reader, rate: Tensor, to: int) -> Reader:
    """Return the reader of the same recording at the rate `to`."""
    scale = tf.minimum(tf.constant(1, tf.float64), to / tf.cast(rate, tf.float64)) * CUTOFF
    reach = tf.cast(tf.math.ceil(CROSSINGS / scale), tf.int64)
    divisor = _common_divisor(rate, to)
    times = _upwards(REACHES * reach, rate // divisor)
    down = times * (rate // divisor)
    filter_ = _Filter(reach, times * (to // divisor), down, down + 2 * reach + 1)
    small = filter_.span * filter_.up <= MOST_WEIGHTS
    said = [
        f"Sound cannot be resampled to {to:,} Hz from a rate without a larger common divisor. Save it at a "
        f"usual rate, such as {to:,} Hz. Received a rate, in Hz, of",
        rate,
    ]
    with tf.control_dependencies([tf.debugging.Assert(small, said)]):
        same = rate == to
        weights = tf.cond(same, lambda: tf.zeros([0, 0]), lambda: _weights(filter_, scale, rate, to))

    def resampled(first: Tensor, count: Tensor) -> Tensor:
        return tf.cond(
            same, lambda: read(first, count), lambda: _filtered(read, filter_, weights, first, count)
        )

    return resampled


def _weights(filter_: _Filter, scale: Tensor, rate: Tensor, to: int) -> Tensor:
    """Return the weights of a filter, float32 `[W, L]`."""
    ends = tf.cast(tf.range(filter_.up), tf.float64) * tf.cast(rate, tf.float64) / to
    places = tf.cast(tf.range(filter_.span) - filter_.reach, tf.float64)
    away = scale * (places[:, None] - ends)
    none, one = tf.zeros_like(away), tf.ones_like(away)
    window = tf.where(tf.abs(away) < CROSSINGS, tf.cos(math.pi / 2 * away / CROSSINGS) ** 2, none)
    turned = math.pi * tf.where(away == 0, one, away)
    weights = tf.where(away == 0, one, tf.sin(turned) / turned) * window
    return tf.cast(weights / tf.reduce_sum(weights, axis=0), tf.float32)


def _filtered(read: Reader, filter_: _Filter, weights: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Return resampled samples from `first` on, of the blocks of the filter that hold them."""
    begin = first // filter_.up
    blocks = _upwards(first + count, filter_.up) - begin  # Q
    inputs = read(begin * filter_.down - filter_.reach, (blocks - 1) * filter_.down + filter_.span)
    places = tf.range(blocks)[:, None] * filter_.down + tf.range(filter_.span)
    found = tf.reshape(tf.gather(inputs, places) @ weights, [-1])  # [Q L]
    return found[first - begin * filter_.up :][:count]


def _common_divisor(rate: Tensor, to: int) -> Tensor:
    """Return the greatest common divisor, by Euclid's algorithm, int64 `[]`."""
    found = tf.while_loop(
        lambda _, rest: rest > 0,
        lambda number, rest: (rest, number % rest),
        (rate, tf.constant(to, tf.int64)),
        parallel_iterations=1,
    )
    return found[0]


def _upwards(number: Tensor, by: Any) -> Tensor:
    """Return a quotient, rounded upwards."""
    return -(-number // by)
