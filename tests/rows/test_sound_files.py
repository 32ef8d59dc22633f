"""Files of other formats than WAV are read by `soundfile`, whole or not at all; WAV never needs it."""

import io
import sys
import zlib

import numpy as np
import pytest

from keras_selfattn.errors import DataError, MissingExtraError
from keras_selfattn.rows import sound_files
from keras_selfattn.rows.sound_files import as_wav, decoded
from keras_selfattn.rows.wav_files import read_wav, wav_bytes

RATE, SECONDS = 16_000, 3
TIME = np.arange(SECONDS * RATE) / RATE
LEFT, RIGHT = 0.5 * np.sin(2 * np.pi * 440 * TIME), 0.25 * np.sin(2 * np.pi * 200 * TIME)
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, SECONDS * RATE)
FORMS = {"FLAC": "PCM_16", "AIFF": "PCM_16", "OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}
# What a format loses of the two tones.
LOST = {"FLAC": 4e-5, "AIFF": 4e-5, "OGG": 0.03, "MP3": 0.03}


def encoded(form, samples=LEFT, rate=RATE, **more):
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    settings = {"format": form, "subtype": FORMS[form], **more}
    with soundfile.SoundFile(file, "w", rate, channels, **settings) as writer:
        writer.write(samples)
    return file.getvalue()


def without_head(mp3):
    """Return MP3 without its first frame, in which LAME says how long it is."""
    return mp3[mp3.index(mp3[:2], 4) :]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_gives_its_samples_and_the_mean_of_its_channels(form):
    samples, rate = decoded(encoded(form), "a")
    assert (samples.dtype, samples.shape, rate) == (np.float32, LEFT.shape, RATE)
    np.testing.assert_allclose(samples, LEFT, atol=LOST[form])
    both = decoded(encoded(form, np.stack([LEFT, RIGHT], axis=1)), "a")[0]
    np.testing.assert_allclose(both, (LEFT + RIGHT) / 2, atol=LOST[form])


def test_opus_is_read():
    samples, rate = decoded(encoded("OGG", subtype="OPUS"), "a.opus")
    assert (len(samples), rate) == (len(LEFT), RATE)
    np.testing.assert_allclose(samples[1000:-1000], LEFT[1000:-1000], atol=0.05)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_mp3_of_every_version_is_told_apart_with_or_without_tags(rate, channels):
    """8 kHz is MPEG 2.5, whose first bytes are 0xFFE3; 16 kHz is MPEG 2, and 44.1 kHz MPEG 1."""
    tone = np.sin(np.arange(rate // 2) / 9)
    plain = encoded("MP3", np.stack([tone] * channels, axis=1), rate)
    assert plain[0] == 0xFF
    wanted, found_rate = decoded(plain, "a.mp3")
    assert (len(wanted), found_rate) == (rate // 2, rate)
    for content in (
        plain + b"TAG" + bytes(125),  # ID3v1
        b"ID3\x04" + bytes(4) + b"\x02\x01" + bytes(257) + plain,  # ID3v2
        b"ID3\x03" + bytes(5) + b"\x14" + bytes(20) + plain + b"TAG" + bytes(125),
    ):
        np.testing.assert_array_equal(decoded(content, "a.mp3")[0], wanted)


def test_flac_that_does_not_say_its_length_is_refused_with_the_next_step():
    """A pipe cannot be gone back in, so `flac` leaves the 36 bits of the length 0."""
    content = bytearray(encoded("FLAC"))
    content[21:26] = bytes([content[21] & 0xF0, 0, 0, 0, 0])
    with pytest.raises(DataError, match=r"^b.flac cannot be read as FLAC: its head does not .* `ffmpeg -i"):
        decoded(bytes(content), "b.flac")


def test_mp3_is_not_taken_for_sd2(tmp_path, monkeypatch):
    """libsndfile looks for the other half of a file of SD2 in the current folder, and finds one."""
    content = encoded("MP3")
    (tmp_path / "._").touch()
    monkeypatch.chdir(tmp_path)
    np.testing.assert_allclose(decoded(content, "a.mp3")[0], LEFT, atol=0.03)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9])
def test_a_file_that_is_cut_off_is_refused_by_name(form, share):
    content = encoded(form, NOISE)
    with pytest.raises(DataError, match=r"(?s)^folder/b .*\. (Repair or remove it|Fetch it again)\.$"):
        decoded(content[: int(share * len(content))], "folder/b")


@pytest.mark.parametrize("form", FORMS)
def test_garbage_behind_the_first_bytes_is_refused_by_name(form):
    begin = encoded(form)[: 12 if form == "AIFF" else 4]
    for garbage in (b"", b"\0" * 500, np.random.default_rng(1).bytes(5_000)):
        with pytest.raises(DataError, match=r"^b\.snd (cannot be read as|is damaged)") as caught:
            decoded(begin + garbage, "b.snd")
        assert "BytesIO" not in str(caught.value)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_that_libogg_would_skip_a_part_of_is_refused(subtype):
    content = encoded("OGG", NOISE, subtype=subtype)
    middle = content.rindex(b"OggS", 0, len(content) - 1_000)
    changed = content[: middle + 50] + bytes([content[middle + 50] ^ 1]) + content[middle + 51 :]
    with pytest.raises(DataError, match=rf"^b.ogg is damaged: its page .* at byte {middle:,} has another"):
        decoded(changed, "b.ogg")
    with pytest.raises(DataError, match=rf"^b.ogg is damaged: the bytes from {middle:,} to {middle + 7:,} "):
        decoded(content[:middle] + b"garbage" + content[middle:], "b.ogg")
    # A tag at the end, and two files one behind the other, are whole.
    assert len(decoded(content + b"TAG" + bytes(125), "a.ogg")[0]) == len(NOISE)
    if subtype == "VORBIS":
        assert len(decoded(content + content, "a.ogg")[0]) >= len(NOISE)


def test_the_checksum_of_ogg_is_that_of_bits_divided_one_by_one():
    page = np.random.default_rng(0).bytes(300)
    rest = 0
    for byte in page:
        rest ^= byte << 24
        for _ in range(8):
            rest = (rest << 1 ^ (0x04C11DB7 if rest & 0x80000000 else 0)) & 0xFFFFFFFF
    assert sound_files._ogg_checksum(page) == rest != zlib.crc32(page)


def test_aiff_whose_sizes_were_never_filled_in_is_read():
    content = encoded("AIFF")
    wanted = decoded(content, "a.aiff")[0]
    for size in (0, 0x7F000008, 0xFFFFFFFF):
        open_ended = content[:4] + size.to_bytes(4, "big") + content[8:]
        np.testing.assert_array_equal(decoded(open_ended, "a.aiff")[0], wanted)


def test_mp3_without_a_length_is_read_whole_or_refused():
    """libsndfile guesses its length from the first frame, and reads no further."""
    constant = {"bitrate_mode": "CONSTANT", "compression_level": 0.5}
    samples, _ = decoded(without_head(encoded("MP3", NOISE, **constant)), "a.mp3")
    assert len(NOISE) - 1152 <= len(samples) <= len(NOISE) + 3 * 1152
    loud_first = np.concatenate([NOISE, np.zeros(10 * RATE)])
    varying = encoded("MP3", loud_first, bitrate_mode="VARIABLE", compression_level=0.4)
    assert len(decoded(varying, "a.mp3")[0]) == len(loud_first)
    with pytest.raises(DataError, match=r"^b.mp3 is MP3 whose head does not say its length.*ffmpeg"):
        decoded(without_head(varying), "b.mp3")


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
def test_frames_of_mp3_are_counted(rate, mode):
    content = encoded("MP3", NOISE, rate, bitrate_mode=mode, compression_level=0.3)
    frames = int.from_bytes(content[4:].partition(b"Xing" if mode == "VARIABLE" else b"Info")[2][4:8], "big")
    of_one = 576 if rate < 32_000 else 1152
    assert sound_files._mp3_samples(content, 0) == (frames + 1) * of_one


@pytest.mark.parametrize("form", FORMS)
def test_without_soundfile_the_extra_is_named(form, monkeypatch):
    content = encoded(form)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    shown = {"OGG": "Ogg"}.get(form, form)
    said = rf"^folder/b is {shown}, which the package soundfile reads: pip install 'keras-selfattn\[audio\]'"
    for read in (decoded, as_wav):
        with pytest.raises(MissingExtraError, match=said):
            read(content, "folder/b")


def test_soundfile_without_its_library_says_so(tmp_path, monkeypatch):
    (tmp_path / "soundfile.py").write_text("raise OSError('sndfile library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "soundfile", raising=False)
    said = r"^b.flac is FLAC, and the package soundfile cannot be used: sndfile library not found\.$"
    with pytest.raises(MissingExtraError, match=said):
        decoded(b"fLaC", "b.flac")


def test_wav_and_what_is_no_sound_never_ask_soundfile(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    content = wav_bytes(np.array([3, -4], "int16"), 8_000)
    samples, rate = decoded(content, "a.flac")
    assert (samples.dtype, samples.tolist(), rate) == (np.int16, [3, -4], 8_000)
    assert as_wav(content, "a.flac") is content
    for other in (b"", b"RIFF", b"FORM 10-K of a company", b"\xff\xd8\xff\xe0JFIF", b"\xff\xf1\x50\x80"):
        for read in (decoded, as_wav):
            with pytest.raises(DataError, match=r"^b\.mp3 is no WAV file"):
                read(other, "b.mp3")


@pytest.mark.parametrize("form", FORMS)
def test_other_files_become_wav_with_the_same_samples(form):
    content = encoded(form, np.stack([LEFT, RIGHT], axis=1))
    samples, rate = read_wav(as_wav(content, "a"), "a.wav")
    wanted, wanted_rate = decoded(content, "a")
    assert rate == wanted_rate == RATE
    np.testing.assert_array_equal(samples, wanted)
    with pytest.raises(DataError, match=r"^b\.snd "):
        as_wav(content[: len(content) // 20], "b.snd")


def test_samples_that_are_not_finite_are_refused():
    content = encoded("AIFF", np.array([0.5, np.nan]), subtype="FLOAT")
    with pytest.raises(DataError, match=r"^b\.aiff: its samples are not all finite numbers"):
        decoded(content, "b.aiff")
