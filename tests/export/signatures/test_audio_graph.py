"""Log-mel frames in the graph are those of training, of any rate and length, decoded by blocks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.export.signatures.audio_graph import Sound, log_mel
from keras_selfattn.models.audio.log_mel import LogMel, Resampling

RANDOM = np.random.default_rng(0)
BANKS = {rate: LogMel(rate, 40) for rate in (8_000, 16_000)}
NUMBERS, NUMBER = tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int64)
READ: list[tuple[int, int]] = []


def reader(samples):
    """Reads as a file is read: zeros beyond both ends."""

    def read(first, count):
        places = first + tf.range(count)
        known = (places >= 0) & (places < tf.size(samples, tf.int64))
        last = tf.maximum(tf.size(samples, tf.int64) - 1, 0)
        around = tf.gather(tf.pad(samples, [[0, 1]]), tf.clip_by_value(places, 0, last))
        tf.py_function(lambda first, count: READ.append((int(first), int(count))), [first, count], [])
        return tf.where(known, around, 0.0)

    return read


def traced(bank):
    @tf.function(input_signature=[NUMBERS, NUMBER])
    def frames(samples, rate):
        sound = Sound(reader(samples), tf.size(samples, tf.int64), rate)
        return log_mel(lambda _: sound, tf.constant(1), bank)[0]

    return frames


GRAPHS = {rate: traced(bank) for rate, bank in BANKS.items()}


@pytest.mark.parametrize("rate", [4_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("to", BANKS)
def test_frames_are_those_of_training(rate, to):
    for length in (0, 1, 399, rate // 3):
        samples = (0.2 * RANDOM.normal(size=length)).astype("float32")
        wanted = BANKS[to](Resampling(rate, to).resampled(samples))
        found = GRAPHS[to](samples, rate).numpy()
        assert found.shape == wanted.shape
        # Bands that are empty have what the filter leaves of others, where float32 rounds coarsely.
        np.testing.assert_allclose(found, wanted, atol=1e-4 if rate >= to else 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 44_100])
def test_a_long_recording_is_read_by_blocks_of_bounded_size(rate):
    samples = (0.2 * RANDOM.normal(size=25 * rate + 77)).astype("float32")
    wanted = BANKS[8_000](Resampling(rate, 8_000).resampled(samples))
    READ.clear()
    found = GRAPHS[8_000](samples, rate).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert len(READ) == 3  # 1,000 frames, 10 s, at once
    assert max(count for _, count in READ) < 10.2 * rate


@pytest.mark.parametrize("rate", [8_001, 44_101])
def test_rates_without_a_common_divisor_are_refused(rate):
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be resampled to 8,000 Hz"):
        GRAPHS[8_000](np.ones(100, "float32"), rate)
