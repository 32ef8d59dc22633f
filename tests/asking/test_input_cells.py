"""Cells of a request are what a training would read: lists, tokens, missing values, files."""

import io
import math
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from keras_selfattn.asking import input_cells
from keras_selfattn.asking.input_cells import NamedColumns, input_columns, input_value, stretched
from keras_selfattn.batch.part import PendingWindow
from keras_selfattn.batch.row_files import Window
from keras_selfattn.batch.row_writers import writer_for
from keras_selfattn.errors import ConfigError, DataError, MissingExtraError
from keras_selfattn.rows.recordings import Recording, Stretch
from keras_selfattn.rows.sound_files import decoded
from keras_selfattn.serving.client import Signature, TensorSpec


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" Ada  wrote\tit ", ["Ada", "wrote", "it"]),
        ("10\u00a0000 a\u2009b\u0085 \u2028 c\vd", ["10\u00a0000", "a\u2009b\u0085", "\u2028", "c\vd"]),
        ("two\r\nlines\n", ["two", "lines"]),
        ("[a b\u00a0c", ["[a", "b\u00a0c"]),
        ('["New York"]', ["New York"]),
        ("", []),
    ],
)
def test_blank_tab_and_line_end_alone_separate_tokens(text, wanted):
    tokens = Signature({"tokens": TensorSpec("string", (None, None))}, {})
    assert input_value(tokens, "tokens", text, "row 0") == wanted


TOKENS = Signature({"tokens": TensorSpec("string", (None, None))}, {})


@pytest.mark.parametrize("cell", [str(["Ada", "wrote"]), str(np.array(["Ada", "wrote"]))])
def test_a_row_of_tokens_is_not_split_at_the_blanks_of_a_list(cell):
    with pytest.raises(DataError, match="row 1: .* a list as Python .*json.dumps"):
        input_value(TOKENS, "tokens", cell, "row 1")


def test_a_row_of_numbers_alone_in_a_list_is_an_error():
    with pytest.raises(DataError, match=r"row 1: the tokens are a JSON list, '\[1, 2\]'"):
        input_value(TOKENS, "tokens", "[1, 2]", "row 1")
    assert input_value(TOKENS, "tokens", '["Ada", 2]', "row 1") == ["Ada", "2"]
    assert input_value(TOKENS, "tokens", "[]", "row 1") == []


@pytest.mark.parametrize(
    "cell", ["[ laughs ] he said", "[laughs]", "[ 2 ]", "[ Tholt , Jane M. ]", "[ ]", "[ 'tis the season"]
)
def test_a_row_of_tokens_may_begin_with_a_bracket(cell):
    assert input_value(TOKENS, "tokens", cell, "row 1") == cell.split()


TEXTS = ["good", None, math.nan, ""]


READ = ["good", "", "", ""]


TEXT = Signature({"text": TensorSpec("string", (None,))}, {})


FILE = Signature({"encoded": TensorSpec("string", (None,))}, {})


def test_a_request_holds_what_a_training_would_read():
    given = [*TEXTS, pd.NA, pd.NaT, 7, True, "\ud800", b"\xc3\xa9", np.float32("nan")]
    wanted = [*READ, "", "", "7", "True", "?", "é", ""]
    assert [input_value(TEXT, "text", each, "row 1") for each in given] == wanted
    assert input_value(TOKENS, "tokens", ["a", 7, b"b"], "row 1") == ["a", "7", "b"]


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        (TEXT, ["a"]),
        (TEXT, {"a": 1}),
        (TEXT, math.inf),
        (TOKENS, None),
        (TOKENS, math.nan),
        (TOKENS, ["a", None]),
        (TOKENS, ["a", math.nan]),
        (TOKENS, [["a"]]),
        (FILE, None),
        (FILE, math.nan),
    ],
)
def test_what_is_no_text_or_token_is_refused_by_its_row(signature, value):
    with pytest.raises(DataError, match="row 1"):
        input_value(signature, next(iter(signature.inputs)), value, "row 1")


ANSWERS = {"score": [np.float32("nan"), np.float32(0.5)], "values": [np.array([1, np.inf]), np.zeros(1)]}


RECORDS = [{"id": math.nan, "n": [math.nan]}, {"id": None, "n": math.inf}]


def encoded(path):
    window = Window([1, 2], RECORDS, [0], 0)
    return writer_for(path, ["id", "n"], list(ANSWERS)).encoded(window, [0, 1], ANSWERS)[0]


PAIRS = Signature({name: TensorSpec("string", (None,)) for name in ("text", "text_pair")}, {})


def test_the_texts_of_a_pair_are_in_the_columns_named_those_of_the_training_or_those_of_their_names():
    names = ["text", "text_pair", "question", "answer"]
    both = NamedColumns("question", "answer")
    for named, trained, wanted in (
        (NamedColumns(), NamedColumns(), ["text", "text_pair"]),
        (both, NamedColumns(), ["question", "answer"]),
        (NamedColumns(), both, ["question", "answer"]),
        (NamedColumns(text_pair="answer"), NamedColumns("question", "gone"), ["question", "answer"]),
        (NamedColumns(), NamedColumns("text", "gone"), ["text", "text_pair"]),
    ):
        assert list(input_columns(PAIRS, Path("f.csv"), names, named, trained).values()) == wanted


@pytest.mark.parametrize(
    ("signature", "named", "error", "said"),
    [
        (
            PAIRS,
            NamedColumns(),
            DataError,
            "has the columns 'text', 'b'; the model takes 'text', 'text_pair'. Name",
        ),
        (PAIRS, NamedColumns(text_pair="c"), DataError, "no column 'c'. Its columns are 'text', 'b'"),
        (PAIRS, NamedColumns(text_pair="text"), DataError, "in two columns. Received 'text' for both"),
        (
            TEXT,
            NamedColumns(text_pair="b"),
            ConfigError,
            "--text-pair.* The model takes 'text': leave it out",
        ),
    ],
)
def test_columns_that_make_no_pairs_are_refused(signature, named, error, said):
    with pytest.raises(error, match=said):
        input_columns(signature, Path("f.csv"), ["text", "b"], named)


SOUND = Signature({"audio": TensorSpec("string", (None,))}, {})


def wav(samples):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(np.array(samples, "<i2").tobytes())
    return file.getvalue()


def test_a_file_of_sound_is_sent_as_it_is_if_it_is_wav(tmp_path):
    for content in (wav([1, -2]), b"RIFF....WAVE, which the server refuses"):
        (tmp_path / "a.wav").write_bytes(content)
        assert input_value(SOUND, "audio", str(tmp_path / "a.wav"), "row 1") == content
    (tmp_path / "a.wav").write_text("a text")
    with pytest.raises(DataError, match=r"row 1: .*a\.wav is no WAV file.* it looks like text"):
        input_value(SOUND, "audio", str(tmp_path / "a.wav"), "row 1")
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    assert input_value(FILE, "encoded", str(tmp_path / "a.flac"), "row 1") == b"fLaC", "no sound"


def test_a_file_of_sound_in_another_format_is_sent_as_wav(tmp_path, monkeypatch):
    file = tmp_path / "a.flac"
    file.write_bytes(b"fLaC")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "soundfile", None)
        with pytest.raises(MissingExtraError, match=r"row 1: .*a.flac is FLAC.*keras-selfattn\[audio\]"):
            input_value(SOUND, "audio", str(file), "row 1")
    soundfile = pytest.importorskip("soundfile")
    with pytest.raises(DataError, match=r"row 1: .*a.flac cannot be read as FLAC"):
        input_value(SOUND, "audio", str(file), "row 1")
    samples = np.array([0.5, -0.25] * 50)
    soundfile.write(file, samples, 8000)
    found, rate = soundfile.read(io.BytesIO(input_value(SOUND, "audio", str(file), "row 1")))
    assert rate == 8000
    np.testing.assert_array_equal(found, samples)


@pytest.mark.parametrize("value", ["gone.wav", "a\0b.wav", "."])
def test_a_file_that_is_missing_is_named_by_its_row(value):
    with pytest.raises(DataError, match=r"row 1: the file .* cannot be read"):
        input_value(SOUND, "audio", value, "row 1")
    with pytest.raises(DataError, match="row 1 has no 'audio'"):
        input_value(SOUND, "audio", None, "row 1")


def test_recordings_of_a_table_are_in_its_folder_or_in_its_cells(tmp_path):
    content = wav([1, -2])
    (tmp_path / "a.wav").write_bytes(content)
    cells = [
        "a.wav",
        str(tmp_path / "a.wav"),
        {"bytes": content, "path": "b.wav"},
        {"bytes": None, "path": "a.wav"},
    ]
    for cell in [*cells, content]:
        assert input_value(SOUND, "audio", cell, "row 1", tmp_path) == content
    for columns in (["path", "label"], ["path"], ["audio", "path"]):
        found = input_columns(SOUND, tmp_path / "t.csv", columns, NamedColumns())
        assert found == {"audio": "audio" if "audio" in columns else "path"}


@pytest.mark.parametrize("extra", [{}, {"label": "x"}])
def test_a_row_with_start_and_end_asks_about_that_stretch(extra, tmp_path):
    recording = Recording(np.arange(800, dtype="int16"), 8000)
    (tmp_path / "a.wav").write_bytes(recording.wav())
    row = {"path": "a.wav", "start": "0.05", "end": None, **extra}
    found = input_value(SOUND, "audio", stretched("audio", row["path"], row), "row 1", tmp_path)
    assert found == recording.stretch(0.05).wav()
    inside = stretched("audio", {"bytes": recording.wav(), "path": "a.wav"}, {"end": 0.02})
    assert input_value(SOUND, "audio", inside, "row 1") == recording.stretch(0, 0.02).wav()
    # A row that names no stretch, and an input that is no sound.
    assert stretched("audio", "a.wav", {"start": "", "end": None}) == "a.wav"
    assert stretched("text", "a.wav", row) == "a.wav"
    with pytest.raises(DataError, match=r"row 3: A stretch must lie within the recording's 0\.100 s"):
        input_value(SOUND, "audio", stretched("audio", "a.wav", row | {"start": "7"}), "row 3", tmp_path)


def test_a_recording_is_decoded_once_for_stretches_that_follow_each_other(tmp_path, monkeypatch):
    recording = Recording(np.arange(800, dtype="int16"), 8000)
    file = tmp_path / "a.wav"
    file.write_bytes(recording.wav())
    read = []
    monkeypatch.setattr(
        input_cells,
        "read_recording",
        lambda file: read.append(file) or Recording(*decoded(file.read_bytes(), "")),
    )

    def ask(start):
        row = stretched("audio", "a.wav", {"start": start})
        return input_value(SOUND, "audio", row, f"row {start}", tmp_path)

    assert [ask(start) for start in (0.0, 0.05)] == [recording.wav(), recording.stretch(0.05).wav()]
    assert len(read) == 1
    file.write_bytes(Recording(np.arange(400, dtype="int16"), 8000).wav())
    assert ask(0.025) == Recording(np.arange(200, 400, dtype="int16"), 8000).wav()
    file.unlink()
    with pytest.raises(DataError, match=r"row 0\.05: the file .*a.wav' cannot be read"):
        ask(0.05)


def test_a_cell_that_is_no_recording_has_no_stretch():
    with pytest.raises(DataError, match="row 2: a recording must be a file or its content. Received 7"):
        input_value(SOUND, "audio", stretched("audio", 7, {"start": 1}), "row 2")


@pytest.mark.parametrize(("name", "kept"), [("a.jsonl", True), ("a.csv", True), ("a.parquet", False)])
def test_stretches_are_read_where_the_first_rows_have_none(name, kept):
    """The columns of JSON Lines are those of the first rows; a table of Arrow has no others."""
    window = Window([1], [{"audio": "a.wav", "start": 1}], [1], 0)
    pending = SimpleNamespace(_part=SimpleNamespace(file=Path(name), columns=("audio",)), _window=window)
    (found,) = PendingWindow._stretched(pending, ["a.wav"])
    assert found == (Stretch("a.wav", 1, None) if kept else "a.wav")
