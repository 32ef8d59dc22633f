"""Resampling and log-mel frames beside their definitions in loops, and beside transformers' filter bank."""

import math

import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.audio.log_mel import LogMel, Resampling

RANDOM = np.random.default_rng(0)
RATES = [
    (44_100, 16_000),
    (8_000, 16_000),
    (48_000, 8_000),
    (11_025, 8_000),
    (22_050, 16_000),
    (12_000, 8_000),
]


def sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


def resampled_in_loops(samples, rate, to):
    """Each sample is the mean of its neighbours, weighted by a sinc in a Hann window of 16 crossings."""
    cutoff, found = 0.945 * min(1, to / rate), []
    for place in range(math.ceil(len(samples) * to / rate)):
        centre = place * rate / to
        near = range(math.floor(centre - 16 / cutoff) - 1, math.ceil(centre + 16 / cutoff) + 2)
        away = {each: cutoff * (each - centre) for each in near}
        weights = {
            each: sinc(x) * (0.5 + 0.5 * math.cos(math.pi * x / 16))
            for each, x in away.items()
            if abs(x) < 16
        }
        inside = sum(weight * samples[each] for each, weight in weights.items() if 0 <= each < len(samples))
        found.append(inside / sum(weights.values()))
    return np.array(found)


@pytest.mark.parametrize(("rate", "to"), RATES)
def test_resampling_is_a_weighted_mean_of_neighbours(rate, to):
    samples = RANDOM.normal(size=700).astype("float32")
    found = Resampling(rate, to).resampled(samples)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, resampled_in_loops(samples, rate, to), atol=2e-6)


@pytest.mark.parametrize(("rate", "to"), RATES)
def test_a_tone_stays_and_one_that_would_alias_goes(rate, to):
    time, after = np.arange(rate) / rate, np.arange(to) / to
    tone = Resampling(rate, to).resampled(np.sin(2 * np.pi * 440 * time).astype("float32"))
    np.testing.assert_allclose(tone[200:-200], np.sin(2 * np.pi * 440 * after)[200:-200], atol=1e-4)
    above = 0.55 * to
    if above < rate / 2:
        alias = Resampling(rate, to).resampled(np.sin(2 * np.pi * above * time).astype("float32"))
        assert 20 * np.log10(np.abs(alias[200:-200]).max()) < -75


def test_a_constant_stays_one_and_the_same_rate_changes_nothing():
    ones = np.ones(3000, "float32")
    np.testing.assert_allclose(Resampling(44_100, 8_000).resampled(ones)[60:-60], 1, atol=1e-6)
    assert Resampling(8_000, 8_000).resampled(ones) is ones
    assert len(Resampling(44_100, 8_000).resampled(np.zeros(0, "float32"))) == 0
    assert len(Resampling(44_100, 8_000).resampled(np.ones(1, "float32"))) == 1


def test_long_recordings_are_resampled_in_parts_as_whole():
    """More blocks than are computed together."""
    samples = RANDOM.normal(size=1_100 * 441).astype("float32")
    found = Resampling(44_100, 16_000).resampled(samples)
    assert len(found) == 1_100 * 160
    # The last four blocks, but for what depends on samples before them.
    wanted = resampled_in_loops(samples[1_096 * 441 :], 44_100, 16_000)
    np.testing.assert_allclose(found[1_096 * 160 + 80 :], wanted[80:], atol=2e-6)


@pytest.mark.parametrize(("rate", "to"), [(44_101, 8_000), (8_001, 8_000)])
def test_rates_without_a_common_divisor_are_refused(rate, to):
    with pytest.raises(
        DataError, match=rf"Sound of {rate:,} Hz cannot be resampled to {to:,} Hz: .* than 1 Hz"
    ):
        Resampling(rate, to)


def frames_in_loops(samples, rate, bands):
    """The definition: a Hann window, a Fourier sum, triangles that are equally wide in mels, a logarithm."""
    hop, size = rate // 100, rate // 40
    padded = 1 << (size - 1).bit_length()
    mels = [1127 * math.log(1 + hertz / 700) for hertz in (20, rate / 2)]
    edges = np.linspace(*mels, bands + 2)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(padded // 2 + 1), np.arange(size)) / padded)
    found = []
    for begin in range(0, len(samples), hop):
        frame = np.zeros(size)
        part = samples[begin : begin + size]
        frame[: len(part)] = part
        window = [0.5 - 0.5 * math.cos(2 * math.pi * place / size) for place in range(size)]
        power = np.abs(waves @ (frame * window)) ** 2
        energies = [0.0] * bands
        for band in range(bands):
            low, middle, high = edges[band : band + 3]
            for place, energy in enumerate(power):
                mel = 1127 * math.log(1 + place * rate / padded / 700)
                weight = min((mel - low) / (middle - low), (high - mel) / (high - middle))
                energies[band] += max(weight, 0) * energy
        found.append([math.log(energy + 1e-6) for energy in energies])
    return np.array(found).reshape(-1, bands)


@pytest.mark.parametrize(("rate", "bands"), [(8_000, 40), (16_000, 40), (11_000, 24)])
@pytest.mark.parametrize("samples", [0, 1, 79, 500])
def test_frames_are_those_of_the_definition(rate, bands, samples):
    given = (0.1 * RANDOM.normal(size=samples)).astype("float32")
    found = LogMel(rate, bands)(given)
    wanted = frames_in_loops(given, rate, bands)
    assert (found.dtype, found.shape) == (np.float32, wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_more_frames_than_are_computed_together_are_the_same():
    samples = RANDOM.normal(size=80 * 1003).astype("float32")
    found = LogMel(8_000, 40)(samples)
    assert len(found) == 1003
    np.testing.assert_allclose(found[998:], LogMel(8_000, 40)(samples[80 * 998 :]), atol=1e-5)


def test_silence_and_a_full_scale_tone_are_finite():
    assert (LogMel(8_000, 40)(np.zeros(400, "float32")) == np.float32(np.log(1e-6))).all()
    assert np.isfinite(LogMel(8_000, 40)(np.ones(400, "float32"))).all()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 16_000])
def test_frames_are_those_of_transformers(rate):
    """Its filter bank in mels of HTK; frames that are whole."""
    audio_utils = pytest.importorskip("transformers.audio_utils")
    bank = LogMel(rate, 40)
    samples = (0.1 * RANDOM.normal(size=rate // 2)).astype("float32")
    filters = audio_utils.mel_filter_bank(
        bank.padded // 2 + 1,
        40,
        20.0,
        rate / 2,
        rate,
        norm=None,
        mel_scale="htk",
        triangularize_in_mel_space=True,
    )
    window = audio_utils.window_function(bank.frame, "hann", periodic=True)
    options = {"frame_length": bank.frame, "hop_length": bank.hop, "fft_length": bank.padded, "power": 2.0}
    energies = audio_utils.spectrogram(
        samples, window, **options, center=False, mel_filters=filters, mel_floor=0
    )
    wanted = np.log(energies.T + 1e-6)
    np.testing.assert_allclose(bank(samples)[: len(wanted)], wanted, atol=1e-4)
