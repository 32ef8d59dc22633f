"""WAV files are read as Python's `wave` and libsndfile read them, and refused with a next step."""

import io
import struct
import wave

import numpy as np
import pytest
from wav_samples import (
    CHANNELS,
    EMPTY,
    FLOAT,
    FRAMES,
    MONO,
    NOT_FINITE,
    PCM,
    RATE,
    READ,
    REFUSED,
    SIXTEEN,
    chunk,
    described,
    plain,
)
from wav_samples import wave as riff

from keras_selfattn.errors import DataError
from keras_selfattn.rows import wav_files
from keras_selfattn.rows.wav_files import WavFormat, read_wav, wav_bytes, wav_format

# Of these libsndfile 1.2 reads no sample, or none of the file.
NOT_AS_LIBSNDFILE = {
    "RF64 with a size of 32 bits",
    "RF64, not filled in",
    "RF64, negative",
    "RF64, no ds64",
    "BW64",
    "size 0",
    "size 0, head as first written",
    "data twice",
    "two formats",
}


def as_float(samples):
    return samples / np.float32(2**15) if samples.dtype == np.int16 else samples


@pytest.mark.parametrize("name", [name for name in READ if name not in NOT_AS_LIBSNDFILE])
def test_a_file_is_read_as_libsndfile_reads_it(name):
    soundfile = pytest.importorskip("soundfile")
    wanted, rate = soundfile.read(io.BytesIO(READ[name]), dtype="float64", always_2d=True)
    samples, found_rate = read_wav(READ[name], "a.wav")
    assert (len(samples), found_rate) == (len(wanted), rate)
    # libsndfile divides 24 and 32 bits by the same power, and so equals exactly but for the order of a sum.
    np.testing.assert_allclose(as_float(samples), wanted.mean(axis=1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in READ if name.split()[0] in ("8", "16", "24", "32")])
def test_integers_are_read_as_pythons_wave_reads_them(name):
    with wave.open(io.BytesIO(READ[name])) as file:
        width, channels, frames = file.getsampwidth(), file.getnchannels(), file.getnframes()
        content, rate = file.readframes(frames), file.getframerate()
    numbers = [
        int.from_bytes(content[place : place + width], "little", signed=width > 1)
        for place in range(0, len(content), width)
    ]
    numbers = np.array(numbers, float) - (128 if width == 1 else 0)
    wanted = (numbers.reshape(frames, channels).mean(axis=1) / 2 ** (8 * width - 1)).astype(np.float32)
    samples, found_rate = read_wav(READ[name], "a.wav")
    assert found_rate == rate
    np.testing.assert_array_equal(as_float(samples), wanted)


def test_the_ends_of_each_range_are_minus_one_and_nearly_one():
    for bits, low, high in ((8, b"\0", b"\xff"), (24, b"\0\0\x80", b"\xff\xff\x7f")):
        content = riff(described(PCM, 1, bits), chunk(b"data", low + high))
        assert read_wav(content, "a.wav")[0].tolist() == [-1, 1 - 2.0 ** (1 - bits)]
    silence = riff(described(PCM, 1, 8), chunk(b"data", b"\x80"))
    assert read_wav(silence, "a.wav")[0].tolist() == [0]


def test_16_bits_of_one_channel_stay_as_they_are_and_can_be_written_to():
    samples, rate = read_wav(READ["16 bits, mono"], "a.wav")
    assert (samples.dtype, rate) == (np.int16, RATE)
    np.testing.assert_array_equal(samples, np.frombuffer(MONO, "<i2"))
    samples[0] = 1
    assert all(read_wav(READ[name], "a.wav")[0].dtype == np.float32 for name in ("16 bits", "8 bits, mono"))


def test_the_format_says_where_the_samples_are():
    assert wav_format(READ["24 bits"], "a.wav") == WavFormat(RATE, CHANNELS, 3, False, 44, FRAMES)
    assert wav_format(memoryview(READ["float 64"]), "a.wav") == WavFormat(RATE, CHANNELS, 8, True, 44, FRAMES)
    later = wav_format(READ["chunks before"], "a.wav")
    assert later.begin == READ["chunks before"].index(chunk(b"data", b"", FRAMES * CHANNELS * 2)) + 8


@pytest.mark.parametrize("name", [name for name in READ if name.startswith(("RF64", "BW64", "size", "head"))])
def test_sizes_that_were_never_filled_in_lose_no_sample(name):
    samples, _ = read_wav(READ[name], "a.wav")
    wanted = np.frombuffer(MONO, "<i2")
    if "half a frame" in name:
        wanted = wanted[:36].reshape(-1, 2).mean(axis=1) / np.float32(2**15)
    np.testing.assert_array_equal(samples, wanted)
    assert wav_format(READ[name], "a.wav").frames == len(wanted)


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_without_samples_is_an_empty_recording(name):
    samples, rate = read_wav(EMPTY[name], "a.wav")
    assert (samples.shape, rate) == ((0,), RATE)


def test_blocks_make_no_difference(monkeypatch):
    whole = [read_wav(content, "a.wav")[0] for content in READ.values()]
    monkeypatch.setattr(wav_files, "_BLOCK", 5)
    for content, wanted in zip(READ.values(), whole, strict=True):
        np.testing.assert_array_equal(read_wav(content, "a.wav")[0], wanted)


@pytest.mark.parametrize(("content", "rule", "more"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_with_its_name_the_rule_and_the_next_step(content, rule, more):
    for read in (wav_format, read_wav):
        with pytest.raises(DataError, match=f"(?s)^folder/b.wav.*{rule}") as caught:
            read(content, "folder/b.wav")
        assert caught.match(f"(?s){more}")
        assert caught.match(r"(Decode|Fetch|Write|Run|Send) .*\.$")


@pytest.mark.parametrize("content", NOT_FINITE.values(), ids=NOT_FINITE)
def test_floats_must_be_finite(content):
    assert wav_format(content, "b.wav").frames == 3
    with pytest.raises(DataError, match=r"^b\.wav: samples must be finite .* Sample 2 \(counted from 0\)"):
        read_wav(content, "b.wav")


def test_a_file_cut_at_any_place_is_refused_or_whole():
    content = plain(16, before=[chunk(b"odd ", b"\1\2\3")])
    for size in range(len(content)):
        with pytest.raises(DataError, match="^b.wav"):
            read_wav(content[:size], "b.wav")
    read_wav(content, "b.wav")


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("count", [0, 1, 37])
def test_what_is_written_is_read_again(dtype, count):
    samples = np.random.default_rng(0).uniform(-1, 1, count)
    samples = (samples * (2**15 if dtype == "int16" else 1)).astype(dtype)
    content = wav_bytes(samples, RATE)
    found, rate = read_wav(content, "a.wav")
    assert (found.dtype, rate) == (samples.dtype, RATE)
    np.testing.assert_array_equal(found, samples)
    assert struct.unpack_from("<I", content, 4)[0] == len(content) - 8


def test_what_is_written_is_what_libsndfile_and_wave_read():
    samples = np.array([-(2**15), 7, 2**15 - 1], "int16")
    with wave.open(io.BytesIO(wav_bytes(samples, RATE))) as file:
        assert (file.getparams()[:4], file.readframes(9)) == ((1, 2, RATE, 3), samples.tobytes())
    content = wav_bytes(np.array([0.25, -1.5], "float32"), RATE)
    assert chunk(b"fact", struct.pack("<I", 2)) in content
    assert described(FLOAT, 1, 32, more=bytes(2)) in content
    soundfile = pytest.importorskip("soundfile")
    assert soundfile.info(io.BytesIO(content)).subtype == "FLOAT"
    assert soundfile.read(io.BytesIO(content))[0].tolist() == [0.25, -1.5]


@pytest.mark.parametrize(
    ("samples", "rate", "said"),
    [
        (np.zeros(3), 8000, "int16 or float32 .N.. Received float64"),
        (np.zeros([3, 1], "int16"), 8000, r"shape \(3, 1\)"),
        (np.zeros(3, "int16"), 0, "`rate` must be 1,000 to .* Received 0"),
        (np.zeros(3, "int16"), 2**31, "`rate` must be 1,000 to"),
        (np.broadcast_to(np.zeros(1, "int16"), 2**31), 8000, "up to 4 GiB. Received 4,294,967,296 bytes"),
    ],
)
def test_what_cannot_be_written_is_refused(samples, rate, said):
    with pytest.raises(DataError, match=said):
        wav_bytes(samples, rate)


def test_the_whole_file_decides_over_a_size_of_zero():
    """A finished file without samples may have notes behind it, which look like a recorder's samples."""
    behind = chunk(b"data", b"") + chunk(b"LIST", bytes(10))
    assert wav_format(riff(SIXTEEN, behind), "a.wav").frames == 0
    assert wav_format(riff(SIXTEEN, behind, size=0), "a.wav").frames == 9
