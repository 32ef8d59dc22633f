"""The front of models of sound: files and samples have the model's answers, alone and together."""

import base64

import numpy as np
import pytest
import tensorflow as tf
from wav_samples import READ, REFUSED

from keras_selfattn import models
from keras_selfattn.export.signatures.audio_preprocessing import AudioFront
from keras_selfattn.rows.recordings import as_recordings
from keras_selfattn.rows.wav_files import wav_bytes

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model():
    made = models.AudioClassifier({"width": 8, "num_layers": 1, "num_heads": 2, "channels": 4, "kernels": 0})
    made.adapt([(RANDOM.normal(size=800), 8000) for _ in range(4)], ["a", "b"] * 2)
    return made


@pytest.fixture(scope="module")
def front(model):
    return AudioFront(model)


def close(found, frames):
    for row, wanted in zip(found.numpy(), frames, strict=True):
        np.testing.assert_allclose(row[: len(wanted)], wanted, atol=1e-4)
        assert np.isnan(row[len(wanted) :]).all()


def test_every_kind_of_file_has_the_frames_of_training(model, front):
    files = list(READ.values())
    close(front(tf.constant(files)), model._features(as_recordings(files)))


def test_no_rows_have_no_frames(front):
    assert front(tf.zeros([0], tf.string)).shape == (0, 0, 40)


def test_samples_have_the_frames_of_their_file(model, front):
    rows = [
        (0.2 * RANDOM.normal(size=size).astype("float32"), rate)
        for size, rate in ((900, 8000), (3000, 44_100))
    ]
    samples = np.zeros((2, 3000), "float32")
    for place, (values, _) in enumerate(rows):
        samples[place, : len(values)] = values
    # What is behind the length is no sample.
    samples[0, 900:] = np.nan
    found = front.from_samples(*map(tf.constant, (samples, [900, 3000], [8000, 44_100])))
    close(found, model._features(as_recordings(rows)))


@pytest.mark.parametrize(
    ("samples", "length", "rate"),
    [([[0.0, 1.0]], 3, 8000), ([[0.0, 1.0]], -1, 8000), ([[0.0, np.inf]], 2, 8000), ([[0.0, 1.0]], 2, 0)],
)
def test_samples_that_cannot_be_are_refused(front, samples, length, rate):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="`lengths` must be from 0 to the samples of a row"
    ):
        front.from_samples(tf.constant(samples, tf.float32), tf.constant([length]), tf.constant([rate]))


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_training_refuses_fails_with_its_rule(front, name):
    content, rule, *_ = REFUSED[name]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){rule}"):
        front(tf.constant([content]))


def test_positions_have_their_seconds_and_long_recordings_are_explained_at_first(front):
    files = tf.constant([wav_bytes(np.zeros(seconds * 8000, "int16"), 8000) for seconds in (1, 30)])
    assert front._explained(files).shape == (2, 2048, 40)
    seconds = front.places(files)["seconds"].numpy()
    assert seconds.shape == (2, 512, 2)
    np.testing.assert_allclose(seconds[0, :2], [[0, 0.04], [0.04, 0.08]], atol=1e-6)
    np.testing.assert_allclose(seconds[0, 24:27], [[0.96, 1], [1, 1], [1, 1]], atol=1e-6)


def test_a_recording_is_asked_as_python_has_it_or_as_json(front):
    content = wav_bytes(np.arange(9, dtype="int16"), 8000)
    for row in (content, as_recordings([content])[0], {"b64": base64.b64encode(content).decode()}):
        (asked,) = front.asked(row)["audio"]
        assert asked == content
