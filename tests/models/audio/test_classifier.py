"""The classifier of recordings: what it learns, what it reads, and what changes no answer."""

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.recordings import Recording
from keras_selfattn.rows.wav_files import wav_bytes

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2, "channels": 8, "kernels": 0}


def tone(hertz, rate=8000, seconds=0.3, seed=0):
    random = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    return 0.3 * np.sin(2 * np.pi * hertz * time + random.uniform(0, 6)) + 0.01 * random.normal(
        size=len(time)
    )


def tones(rows=16, **settings):
    low = [(tone(300 + 9 * row, seed=row, **settings), settings.get("rate", 8000)) for row in range(rows)]
    high = [(tone(1500 + 30 * row, seed=row, **settings), settings.get("rate", 8000)) for row in range(rows)]
    return low + high, ["low"] * rows + ["high"] * rows


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.AudioClassifier(SMALL)
    model.compile(keras.optimizers.AdamW(3e-3))
    model.fit(*tones(), epochs=25, batch_size=8, verbose=0)
    return model


@pytest.mark.slow
def test_tones_are_told_apart_at_any_rate_length_and_loudness(trained):
    asked = [
        (tone(440, seconds=1.2), 8000),
        (tone(2000, seconds=0.2), 8000),
        (tone(350, rate=44_100), 44_100),
        (0.02 * tone(1800, rate=16_000), 16_000),
    ]
    assert trained.label(asked) == ["low", "high", "low", "high"]


@pytest.mark.slow
def test_a_row_has_one_answer_alone_and_in_every_batch(trained):
    rows = [(tone(200 * place, seconds=0.05 * place), 8000) for place in range(1, 13)]
    rows += [(np.zeros(0), 8000), (np.zeros(1), 8000), (np.zeros(4000), 8000)]
    together = trained.predict(rows, verbose=0)
    assert np.isfinite(together).all()
    alone = np.concatenate([trained.predict([row], verbose=0) for row in rows])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(trained.predict(rows[::-1], batch_size=4, verbose=0)[::-1], alone, atol=1e-5)


@pytest.mark.slow
def test_a_gain_changes_no_answer(trained):
    """But in bands as quiet as the floor."""
    rows, _ = tones(4)
    louder = [(2 * samples, rate) for samples, rate in rows]
    np.testing.assert_allclose(
        trained.predict(louder, verbose=0), trained.predict(rows, verbose=0), atol=5e-3
    )


@pytest.mark.slow
def test_a_saved_model_answers_alike(trained, tmp_path):
    trained.save(tmp_path / "m.keras")
    again = models.load(tmp_path / "m.keras")
    rows, _ = tones(3)
    assert (again.sample_rate, again.labels) == (8000, ["high", "low"])
    np.testing.assert_allclose(again.predict(rows, verbose=0), trained.predict(rows, verbose=0), atol=1e-6)


@pytest.mark.slow
def test_files_bytes_and_samples_are_the_same_recording(trained, tmp_path):
    samples = (tone(440) * 2**15).astype(np.int16)
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples, 8000))
    forms = [
        tmp_path / "a.wav",
        str(tmp_path / "a.wav"),
        wav_bytes(samples, 8000),
        Recording(samples, 8000),
        (samples, 8000),
        (samples.astype("float32") / 2**15, 8000),
        {"array": samples, "sampling_rate": 8000},
    ]
    found = trained.predict(forms, verbose=0)
    np.testing.assert_array_equal(found, np.repeat(found[:1], len(forms), axis=0))


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        ([44_100, 48_000], 16_000),
        ([8_000, 44_100], 8_000),
        ([11_025], 11_000),
        ([4_000, 8_000], 8_000),
        ([16_000], 16_000),
    ],
)
def test_the_rate_is_the_lowest_there_is_within_bounds(rates, wanted):
    model = models.AudioClassifier(SMALL)
    rows = [(tone(300, rate=rate, seconds=0.1), rate) for rate in rates for _ in "ab"]
    model.adapt(rows, ["a", "b"] * len(rates))
    assert model.sample_rate == wanted == model.bank.rate
    assert models.AudioClassifier({**SMALL, "sample_rate": 12_000}).config.sample_rate == 12_000


def test_a_given_rate_is_the_models():
    model = models.AudioClassifier({**SMALL, "sample_rate": 12_000})
    model.adapt(*tones(2))
    assert model.sample_rate == 12_000


def test_rows_can_have_several_labels():
    model = models.AudioClassifier(SMALL)
    model.compile()
    rows, _ = tones(4)
    model.fit(rows, [["low"]] * 4 + [["high", "loud"]] * 3 + [[]], epochs=1, verbose=0)
    assert model.multi_label
    assert model.predict(rows, verbose=0).shape == (8, 3)


def test_a_batch_of_empty_recordings_trains_and_one_of_a_single_frame():
    model = models.AudioClassifier(SMALL)
    model.compile()
    rows = [(np.zeros(0), 8000)] * 4 + [(np.ones(1), 8000)] * 4 + [(tone(300), 8000)] * 4
    history = model.fit(rows, ["a", "b"] * 6, batch_size=4, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_a_rate_that_cannot_be_resampled_is_named_with_its_row():
    model = models.AudioClassifier(SMALL)
    model.adapt(*tones(2))
    with pytest.raises(
        DataError, match=r"Recording 1 \(counted from 0\): Sound of 8,001 Hz cannot be resampled"
    ):
        model.predict([(tone(300), 8000), (tone(300), 8001)], verbose=0)


def test_a_recording_outside_of_a_list_is_refused():
    model = models.AudioClassifier(SMALL)
    model.adapt(*tones(2))
    for alone in ("a.wav", b"RIFF", Recording(np.zeros(9), 8000)):
        with pytest.raises(DataError, match="Recordings come in a list"):
            model.predict(alone, verbose=0)


def test_a_step_reads_a_span_of_a_long_recording():
    model = models.AudioClassifier({**SMALL, "training_span": 10})
    model.compile()
    rows, labels = tones(4)
    model.adapt(rows, labels)
    batches = model.batches(model.read_rows(rows, labels, None, type(model.head)), 4, training=True)
    assert {batch[0].shape[1] for batch in batches} == {10}
    batches = model.batches(model.read_rows(rows, labels, None, type(model.head)), 4)
    assert {batch[0].shape[1] for batch in batches} == {30}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sample_rate": 800}, "`sample_rate` must be an integer of at least 1,000 Hz, divisible by 100"),
        ({"sample_rate": 11_025}, "divisible by 100. Received 11025"),
        ({"sample_rate": 8e3}, "divisible by 100. Received 8000.0"),
        ({"bands": 0}, "`bands` must be a positive integer"),
        ({"window": None}, "`window` must be a positive integer"),
        ({"augment": 1}, "`augment` must be True or False"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        models.AudioClassifier(settings)


def test_what_cannot_train_is_refused():
    model = models.AudioClassifier(SMALL)
    model.compile()
    with pytest.raises(DataError, match="The 2 recordings hold no samples"):
        model.fit([(np.zeros(0), 8000)] * 2, ["a", "b"], verbose=0)
    with pytest.raises(DataError, match="a sample rate is never guessed"):
        model.fit([np.zeros(800)] * 2, ["a", "b"], verbose=0)
    with pytest.raises(ConfigError, match="`sample_rate`, `longest` and `labels` go together"):
        models.AudioClassifier(SMALL, labels=["a", "b"])
