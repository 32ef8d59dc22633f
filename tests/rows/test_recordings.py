"""Recordings are files, bytes, samples with a rate or objects of `datasets`; others are refused by row."""

import base64
import io
import struct
import wave
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.rows.kind import Curves
from keras_selfattn.rows.recordings import RECORDINGS, Recording, Stretch, as_floats, as_recordings

SAMPLES = np.array([0, 1, -(2**15), 2**15 - 1, -300], "int16")
RATE = 11_025


def wav(samples=SAMPLES, rate=RATE):
    """Return a WAV file of Python's own `wave`."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate, 0, "NONE", ""))
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples.tolist()))
    return file.getvalue()


def forms(path):
    path.write_bytes(wav())
    return {
        "Recording": Recording(SAMPLES, RATE),
        "path": str(path),
        "Path": Path(path),
        "bytes": wav(),
        "bytearray": bytearray(wav()),
        "memoryview": memoryview(wav()),
        "pair": (SAMPLES, RATE),
        "pair of NumPy's integer": (SAMPLES, np.int64(RATE)),
        "array": {"array": SAMPLES, "sampling_rate": RATE, "path": "gone.wav"},
        "bytes of datasets": {"bytes": wav(), "path": "gone.wav"},
        "bytes without a path": {"bytes": wav(), "path": None},
        "path of datasets": {"bytes": None, "path": str(path)},
        "b64": {"b64": base64.b64encode(wav()).decode()},
    }


def test_every_form_of_a_row_gives_the_same_samples_and_rate(tmp_path):
    given = forms(tmp_path / "a.wav")
    for name, row in zip(given, as_recordings(list(given.values())), strict=True):
        assert (row.samples.dtype, row.rate, type(row.rate)) == (np.int16, RATE, int), name
        np.testing.assert_array_equal(row.samples, SAMPLES, name)


def test_rows_come_in_any_ordered_container():
    rows = {"first": (SAMPLES, RATE), "second": (SAMPLES[:2], 8000)}
    assert [row.rate for row in as_recordings(tuple(rows.values()))] == [RATE, 8000]
    assert [row.rate for row in as_recordings(rows.values())] == [RATE, 8000]
    assert as_recordings([]) == []
    for given, said in ((SAMPLES, "Received ndarray"), ("a.wav", "Received str"), (7, "Received int")):
        with pytest.raises(DataError, match=rf"Recordings come in a list: of files' paths .*{said}"):
            as_recordings(given)


def test_int16_is_kept_and_other_floats_become_float32():
    for given in (np.array([0.5, -1.25]), np.array([0.5, -1.25], "float16"), [0.5, -1.25]):
        row = as_recordings([(given, RATE)])[0]
        assert (row.samples.dtype, row.samples.tolist()) == (np.float32, [0.5, -1.25])
    row = Recording(SAMPLES, RATE)
    assert np.shares_memory(row.samples, SAMPLES)
    assert row.numbers().dtype == np.float32
    assert row.numbers().tolist() == [number / 32_768 for number in SAMPLES.tolist()]
    floats = row.numbers()
    assert as_floats(floats) is floats


STEREO = np.zeros([2, 5], "float32")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((STEREO, RATE), r"Samples must be .* of one channel, .* Received float32 of shape \(2, 5\)"),
        ((np.float32(0.5), RATE), r"Received float32 of shape \(\)"),
        ((np.zeros(5, "int32"), RATE), r"Samples must be int16, or floats .* Received int32 of shape \(5,\)"),
        ((["a", "b"], RATE), r"Received <U1 of shape \(2,\)"),
        (([[0.5], [0.5, 0.25]], RATE), "inhomogeneous"),
        (([0.5, np.nan], RATE), "must be finite numbers of at most 1e9. Received nan as sample 1"),
        (([0.5, 0.25, -np.inf], RATE), "must be finite numbers of at most 1e9. Received -inf as sample 2"),
        (([0.5, 1e39], RATE), "must be finite numbers of at most 1e9. Received inf as sample 1"),
        ((SAMPLES, 0), "rate must be an integer from 1,000 to 768,000, in Hz. Received 0"),
        ((SAMPLES, -1), "Received -1"),
        ((SAMPLES, True), "Received True"),
        ((SAMPLES, 8000.0), "Received 8000.0"),
        ((SAMPLES, None), "Received None"),
        ({"array": SAMPLES, "sampling_rate": "8000"}, "Received '8000'"),
        (SAMPLES, r"a pair \(samples, rate\): a sample rate is never guessed. Received an array .*\(5,\)"),
        ([0.5, 0.25], r"a sample rate is never guessed. Received list \[0.5, 0.25\]"),
        (0.5, "must be a file's path or bytes, .* Received float 0.5"),
        (None, "Received NoneType None"),
        ({"array": SAMPLES}, r'must have "array" and "sampling_rate", .* Received a mapping of array'),
        ({}, "Received a mapping of nothing"),
        ({"bytes": None, "path": None}, "Received a mapping of bytes, path"),
        ({"bytes": b"", "path": "b.wav"}, "b.wav is no WAV file.* it is empty"),
        (b"hello", "is no WAV file.* it looks like text"),
        ({"b64": "????"}, '"b64" is no base64'),
        ({"b64": "UklGR"}, '"b64" is no base64'),
        ({"path": 7}, "Received a mapping of path"),
        ({"bytes": 7}, '"bytes" must be bytes. Received int'),
    ],
)
def test_what_is_no_sound_is_refused_with_its_row_the_rule_and_what_was_received(row, said):
    with pytest.raises(DataError, match=rf"(?s)^Recording 1 \(counted from 0\).*{said}"):
        as_recordings([(SAMPLES, RATE), row])


def test_a_recording_made_alone_is_checked_too():
    with pytest.raises(DataError, match=r"^Samples must be .*Received int64 of shape \(1,\)"):
        Recording(np.array([7]), RATE)
    with pytest.raises(DataError, match=r"^A sample rate must be .*Received 1.5"):
        Recording(SAMPLES, 1.5)


def test_files_that_are_missing_or_no_sound_are_named(tmp_path):
    with pytest.raises(DataError, match=r"gone.wav cannot be read: No such file .* Current folder: "):
        as_recordings([str(tmp_path / "gone.wav")])
    with pytest.raises(DataError, match="cannot be read"):
        as_recordings([f"{tmp_path}/a\0b.wav"])
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        as_recordings([tmp_path])
    (tmp_path / "b.wav").write_text("no sound")
    with pytest.raises(DataError, match=r"b.wav is no WAV file, .* it looks like text"):
        as_recordings([{"path": str(tmp_path / "b.wav")}])


@pytest.mark.parametrize("samples", [SAMPLES, np.array([0.5, -1.25], "float32"), np.zeros(0, "int16")])
def test_a_row_as_json_is_read_again_unchanged(samples):
    written = RECORDINGS.as_json(Recording(samples, RATE))
    content = base64.b64decode(written["b64"], validate=True)
    assert (content[:4], struct.unpack_from("<I", content, 24)[0]) == (b"RIFF", RATE)
    row = RECORDINGS.read([written])[0]
    assert (row.samples.dtype, row.samples.tolist(), row.rate) == (samples.dtype, samples.tolist(), RATE)


def test_keys_are_those_of_the_sound_not_of_how_it_is_stored():
    """Of one recording as int16 and as floats, one in training and one held out would leak."""
    key = RECORDINGS.key(Recording(SAMPLES, RATE))
    assert key == RECORDINGS.key(Recording(SAMPLES.copy(), RATE))
    assert key == RECORDINGS.key(Recording(SAMPLES / 2**15, RATE))
    hash(key)
    others = [Recording(SAMPLES, 2 * RATE), Recording(SAMPLES[:4], RATE), Recording(SAMPLES[::-1], RATE)]
    assert len({key, *map(RECORDINGS.key, others)}) == 4


def test_a_row_has_a_length_in_samples_and_is_short_up_to_two_seconds():
    rows = [Recording(np.zeros(count, "int16"), 1000) for count in (0, 1, 2000, 2001)]
    assert [RECORDINGS.length(row) for row in rows] == [0, 1, 2000, 2001]
    assert [RECORDINGS.is_short(row) for row in rows] == [False, True, True, False]
    assert [RECORDINGS.shown(row) for row in rows[::2]] == ["0.00 s of sound", "2.00 s of sound"]
    assert rows[1].seconds == 0.001


def test_a_picture_is_the_highest_and_lowest_sample_of_each_stretch():
    def picture(samples):
        found = RECORDINGS.picture(Recording(samples, RATE))
        assert isinstance(found, Curves)
        assert found.values.dtype == np.float32
        return found.values.tolist()

    assert picture(np.zeros(0, "int16")) == [[0, 0]]
    assert picture(np.array([0.5, -0.25])) == [[0.5, 0], [0, -0.25]]
    long = np.zeros(3000, "float32")
    long[10:20] = np.linspace(-0.5, 0.75, 10)
    wanted = [[0.0, 0.0] for _ in range(300)]
    wanted[1] = [0.75, -0.5]
    assert picture(long) == wanted


def test_a_list_of_recordings_is_rows_and_an_array_is_not():
    assert RECORDINGS.are_rows([Recording(SAMPLES, RATE)])
    assert not RECORDINGS.are_rows(np.zeros([3, 5]))


def test_a_stretch_has_the_samples_between_two_moments():
    recording = Recording(np.arange(800, dtype="int16"), 8000)
    assert recording.stretch(0.0125, 0.05).samples.tolist() == list(range(100, 400))
    assert recording.stretch(0.05).samples.tolist() == list(range(400, 800))
    assert recording.stretch().seconds == 0.1
    assert recording.stretch(0.0, 0.105).seconds == 0.1  # what a tool has rounded
    with pytest.raises(
        DataError, match=r"A stretch must have a sample at least. Received 0\.05 to 0\.05001 s"
    ):
        recording.stretch(0.05, 0.05001)
    with pytest.raises(DataError, match="A stretch must have a sample"):
        recording.stretch(0.1, 0.105)
    for start, end in ((-0.01, 0.05), (0.05, 0.05), (0.06, 0.05), (0.0, 0.2), (0.2, None), (np.nan, 0.05)):
        with pytest.raises(
            DataError, match=r"A stretch must lie within the recording's 0\.100 s, .* Received"
        ):
            recording.stretch(start, end)


def test_windows_cover_a_recording_and_the_last_is_shorter():
    recording = Recording(np.arange(1001, dtype="int16"), 8000)
    found = recording.windows(0.05)
    assert found == [(0.0, 0.05), (0.05, 0.1), (0.1, 1001 / 8000)]
    parts = [recording.stretch(*window).samples for window in found]
    assert np.concatenate(parts).tolist() == list(range(1001))
    assert recording.windows(10.0) == [(0.0, 1001 / 8000)]
    # What is left of a rounded length is no window of its own.
    assert recording.windows(0.125) == [(0.0, 1001 / 8000)]
    assert recording.windows(0.0625) == [(0.0, 0.0625), (0.0625, 1001 / 8000)]
    for wrong in (0.0, -1.0, 1e-5, np.nan, np.inf):
        with pytest.raises(DataError, match="Windows must have seconds"):
            recording.windows(wrong)


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        ("0.01", " 0.03 ", 160),
        (0.01, 0.03, 160),
        ("", "0.03", 240),
        ("0.01", None, 720),
        ("1e-2", np.float32(0.03), 160),
        (None, float("nan"), 800),
        (Decimal("0.01"), Decimal("0.03"), 160),
    ],
)
def test_a_stretch_is_read_from_cells(start, end, wanted):
    recording = Recording(np.zeros(800, "int16"), 8000)
    assert len(Stretch("a.wav", start, end).of(recording, "row 1").samples) == wanted


@pytest.mark.parametrize("cell", ["now", "0:01", "1_0", "\u0661", True, [1], "1 s"])
def test_a_cell_that_is_no_moment_is_refused_with_its_row(cell):
    recording = Recording(np.zeros(80_000, "int16"), 8000)
    with pytest.raises(DataError, match="row 7: the 'start' of a recording must be a number, in seconds"):
        Stretch("a.wav", cell, "3").of(recording, "row 7")
    with pytest.raises(DataError, match=r"row 7: A stretch must lie within .* Received 0\.0 to 30\.0 s"):
        Stretch("a.wav", None, "30").of(recording, "row 7")
