"""Recordings are read from folders and tables, and unusable ones refused with their names and lines."""

import io
import json
import struct
import sys
import wave

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from keras_selfattn.data import audio
from keras_selfattn.data.audio import read_audio
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.errors import ConfigError, DataError, MissingExtraError
from keras_selfattn.rows.recordings import RECORDINGS
from keras_selfattn.rows.targets import LABEL_SET, ONE_LABEL


def wav(*samples, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate, 0, "NONE", ""))
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()


def write(folder, **contents):
    """Write files; in a name, "__" is "/" and "_" a dot."""
    for name, content in contents.items():
        file = folder / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def table(folder, text, name="t.csv"):
    (folder / name).write_text(text)
    return folder / name


def samples_of(rows):
    return [row.samples.tolist() for row in rows.inputs]


@pytest.fixture
def three(tmp_path):
    return write(tmp_path, sounds__1_wav=wav(1), sounds__2_wav=wav(2, 2), c_wav=wav(3, 3, 3))


def test_a_folder_by_class_gives_recordings_in_the_order_of_names(tmp_path):
    rows = read_audio(write(tmp_path, dog__c_wav=wav(3), cat__b_WAV=wav(2, 2), cat__a_wav=wav(1)))
    assert (samples_of(rows), rows.targets) == ([[1], [2, 2], [3]], ["cat", "cat", "dog"])
    assert (rows.where, rows.source) == (["cat/a.wav", "cat/b.WAV", "dog/c.wav"], str(tmp_path))
    assert (rows.kind, rows.target_kind, rows.note) == (RECORDINGS, ONE_LABEL, "")
    assert {row.rate for row in rows.inputs} == {8000}


def test_hidden_files_are_skipped_and_others_counted(tmp_path):
    folder = write(tmp_path, cat__a_wav=wav(1), dog__b_wav=wav(2), _git__c_wav=b"", cat___d_wav=b"", _e=b"")
    write(tmp_path, labels_csv=b"", cat__deep__f_wav=wav(9), cat__notes_txt=b"")
    with pytest.warns(UserWarning, match=r": 3 files are no files of sound .*, such as ") as warned:
        assert samples_of(read_audio(folder)) == [[1], [2]]
    assert len(warned) == 1


def test_a_class_without_recordings_is_named_and_none(tmp_path):
    folder = write(tmp_path, cat__a_wav=wav(1), dog__b_wav=wav(2))
    (folder / "emu").mkdir()
    with pytest.warns(UserWarning, match="emu holds no recordings: no class is made of it"):
        assert set(read_audio(folder).targets) == {"cat", "dog"}


def test_folders_without_recordings_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no recordings. Give a folder .* a table that names files"):
        read_audio(tmp_path)
    write(tmp_path, a_wav=wav(1))
    with pytest.raises(DataError, match="holds its recordings in no subfolder,"):
        read_audio(tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        read_audio(tmp_path / "nowhere")
    with pytest.raises(DataError, match="nowhere.csv"):
        read_audio(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("option", ["audio", "label", "group", "label_separator"])
def test_what_names_columns_is_refused_for_a_folder(tmp_path, option):
    with pytest.raises(ConfigError, match=f"`{option}` is for tables. .* is a folder, whose subfolders"):
        read_audio(write(tmp_path, cat__a_wav=wav(1)), **{option: "x"})


@pytest.mark.parametrize(("option", "value"), [("separator", ";"), ("has_header", False)])
def test_the_form_of_tables_is_refused_for_a_folder(tmp_path, option, value):
    with pytest.raises(ConfigError, match=f"`{option}` is for tables"):
        read_audio(write(tmp_path, cat__a_wav=wav(1)), **{option: value})


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_paths_of_a_table_begin_at_its_folder(three, form, monkeypatch):
    cells = [("sounds/1.wav", "+"), (" c.wav ", "-"), (str(three / "sounds" / "2.wav"), "+")]
    if form == "jsonl":
        text = "".join(json.dumps({"path": path, "label": label}) + "\n" for path, label in cells)
    else:
        between = {"csv": ",", "tsv": "\t"}[form]
        text = f"path{between}label\n" + "".join(f"{path}{between}{label}\n" for path, label in cells)
    monkeypatch.chdir("/")
    rows = read_audio(table(three, text, f"t.{form}"))
    assert (samples_of(rows), rows.targets) == ([[1], [3, 3, 3], [2, 2]], ["+", "-", "+"])
    assert rows.where == ([1, 2, 3] if form == "jsonl" else [2, 3, 4])
    assert rows.source == str(three / f"t.{form}")
    assert (rows.kind, rows.target_kind, rows.note) == (RECORDINGS, ONE_LABEL, "")
    assert not isinstance(rows, GroupedRows)


def test_columns_are_named_or_numbered(three):
    named = table(three, "emotion;file\n+;c.wav\n")
    rows = read_audio(named, audio="file", label="emotion", separator=";")
    assert (samples_of(rows), rows.targets) == ([[3, 3, 3]], ["+"])
    rows = read_audio(table(three, "c.wav,+\n"), audio="1", label="2", has_header=False)
    assert (samples_of(rows), rows.targets) == ([[3, 3, 3]], ["+"])
    with pytest.raises(DataError, match=r"no column 'path'. Its columns .* `audio` \(--audio\) and `label`"):
        read_audio(table(three, "file,label\nc.wav,+\n"))


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_objects_of_datasets_are_read_from_their_bytes_or_their_path(three, ending):
    """A path beside bytes is a name of a file elsewhere."""
    cells = [{"bytes": wav(7, 8), "path": "gone.wav"}, {"bytes": None, "path": "c.wav"}]
    cells.append({"bytes": wav(9, rate=16_000), "path": None})
    columns = pa.table({"audio": cells, "label": ["+", "-", "+"]})
    write_table = {"parquet": pyarrow.parquet.write_table, "feather": pyarrow.feather.write_feather}[ending]
    write_table(columns, three / f"t.{ending}")
    rows = read_audio(three / f"t.{ending}")
    assert (samples_of(rows), rows.targets) == ([[7, 8], [3, 3, 3], [9]], ["+", "-", "+"])
    note = "recordings of 2 sample rates, which are resampled to one: 2 of 8,000 Hz, 1 of 16,000 Hz."
    assert rows.note == note


def test_parquet_may_hold_plain_paths(three):
    pyarrow.parquet.write_table(pa.table({"file": ["c.wav"], "label": ["+"]}), three / "t.parquet")
    assert samples_of(read_audio(three / "t.parquet", audio="file")) == [[3, 3, 3]]


def test_bytes_that_are_no_sound_are_named_by_their_line(tmp_path):
    cells = [{"bytes": wav(7), "path": None}, {"bytes": b"no sound", "path": "b.wav"}]
    pyarrow.parquet.write_table(pa.table({"audio": cells, "label": ["+", "-"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="1 of 2 .*the 'audio' in (line|row) .*looks like text") as caught:
        read_audio(tmp_path / "t.parquet")
    assert "Recording 0" not in str(caught.value)


def test_rows_may_have_several_labels(three):
    rows = read_audio(table(three, "path,label\nc.wav,a|b\nsounds/1.wav,\n"), label_separator="|")
    assert (rows.target_kind, [list(names) for names in rows.targets]) == (LABEL_SET, [["a", "b"], []])
    lines = '{"path": "c.wav", "label": ["a", "b"]}\n{"path": "c.wav", "label": []}\n'
    rows = read_audio(table(three, lines, "t.jsonl"))
    assert (rows.target_kind, [list(names) for names in rows.targets]) == (LABEL_SET, [["a", "b"], []])
    with pytest.raises(DataError, match="`label_separator` must be at least one character"):
        read_audio(table(three, "path,label\nc.wav,a|b\n"), label_separator="")


def test_of_labels_that_are_all_numbers_nothing_is_told_which_is_for_texts(tmp_path):
    write(tmp_path, a_wav=wav(1), b_wav=wav(1, rate=16_000), c_wav=wav(1))
    rows = read_audio(table(tmp_path, "path,label\na.wav,1\nb.wav,2\nc.wav,3\n"))
    assert (
        rows.note
        == "recordings of 2 sample rates, which are resampled to one: 2 of 8,000 Hz, 1 of 16,000 Hz."
    )


def test_two_rates_of_a_folder_are_told(tmp_path):
    rows = read_audio(write(tmp_path, cat__a_wav=wav(1), dog__b_wav=wav(2, rate=16_000), dog__c_wav=wav(3)))
    note = "recordings of 2 sample rates, which are resampled to one: 2 of 8,000 Hz, 1 of 16,000 Hz."
    assert rows.note == note


def test_a_group_is_never_split(three):
    lines = [f"{path},{label},{who}" for who in range(5) for path, label in (("c.wav", "+"), ("c.wav", "-"))]
    rows = read_audio(table(three, "path,label,speaker\n" + "\n".join(lines) + "\n"), group="speaker")
    assert isinstance(rows, GroupedRows)
    assert (rows.groups, rows.group) == ([str(who) for who in range(5) for _ in range(2)], "speaker")
    kept, held = rows.split(0.4, seed=0)
    assert (len(kept), len(held)) == (6, 4)
    assert set(kept.groups).isdisjoint(held.groups)
    assert held.kind == RECORDINGS
    with pytest.raises(DataError, match="the 'speaker' in line 3 is empty. Name the group of each row"):
        read_audio(table(three, "path,label,speaker\nc.wav,+,x\nc.wav,-,\n"), group="speaker")
    with pytest.raises(DataError, match="has no column 'who'"):
        read_audio(three / "t.csv", group="who")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": "path"}, r"`label` \(--label\) must be another column than `audio` \(--audio\)"),
        ({"group": "label"}, r"`group` \(--group\) must be another column than `label` \(--label\)"),
        (
            {"audio": "x", "group": "x"},
            r"`group` \(--group\) must be another .* Received 'x' for both",
        ),
    ],
)
def test_one_column_cannot_be_two_things(three, columns, said):
    with pytest.raises(DataError, match=said):
        read_audio(table(three, "path,label,x\nc.wav,+,1\n"), **columns)


def test_missing_files_are_counted_and_the_first_named_with_their_lines(three):
    lines = "".join(f"gone{number}.wav,+\n" for number in range(5))
    with pytest.raises(DataError) as caught:
        read_audio(table(three, f"path,label\nc.wav,+\n{lines}"))
    said = str(caught.value)
    assert said.startswith(f"{three / 't.csv'}: 5 of 6 recordings cannot be read. Repair or remove them: ")
    for number in range(3):
        assert (
            f"the 'path' in line {number + 3}: {three / f'gone{number}.wav'} cannot be read: No such" in said
        )
    assert "gone3" not in said
    assert said.endswith(" …")


@pytest.mark.parametrize("cell", ["", "  ", None, 7, ["c.wav"], {"path": None}, {"bytes": None}, {}])
def test_a_cell_that_is_no_path_is_refused_by_its_line(three, cell):
    lines = [json.dumps({"path": path, "label": "+"}) for path in ("c.wav", cell)]
    with pytest.raises(DataError, match=r"t.jsonl: the 'path' in line 2 must be .*Received "):
        read_audio(table(three, "\n".join(lines), "t.jsonl"))


def test_recordings_that_are_empty_damaged_or_text_are_named(tmp_path):
    folder = write(
        tmp_path, cat__a_wav=wav(1), cat__b_wav=wav(), dog__c_wav=wav(1, 2, 3)[:-2], dog__d_wav=b"some text\n"
    )
    with pytest.raises(DataError) as caught:
        read_audio(folder)
    said = str(caught.value)
    assert said.startswith(
        f"{folder}: 3 of 4 recordings cannot be read. Repair or remove them: cat/b.wav has no"
    )
    assert f"{folder / 'dog' / 'c.wav'} is damaged: of 6 bytes of samples the last 2 are missing" in said
    assert f"{folder / 'dog' / 'd.wav'} is no WAV file" in said
    assert "it looks like text" in said
    assert "dog/c.wav: " not in said
    write(tmp_path, cat__b_wav=b"")
    with pytest.raises(DataError, match=r"b.wav is no WAV file.* it is empty"):
        read_audio(folder)


def test_other_formats_need_soundfile_and_are_read_with_it(tmp_path, monkeypatch):
    folder = write(tmp_path, cat__a_wav=wav(1), dog__b_flac=b"fLaC")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "soundfile", None)
        with pytest.raises(MissingExtraError, match=r"b.flac is FLAC.*keras-selfattn\[audio\]"):
            read_audio(folder)
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(folder / "dog" / "b.flac", np.array([0.5, -0.25] * 50), 8000)
    assert samples_of(read_audio(folder))[1] == [0.5, -0.25] * 50


def test_rows_with_start_and_end_are_stretches_of_their_recording(tmp_path, monkeypatch):
    """Each recording is decoded once, in whatever order the rows come."""
    first, second = list(range(800)), list(range(-800, 0))
    write(tmp_path, a_wav=wav(*first), b_wav=wav(*second))
    read, calls = audio.read_recording, []
    monkeypatch.setattr(audio, "read_recording", lambda file: calls.append(file.name) or read(file))
    rows = read_audio(
        table(
            tmp_path,
            "path,start,end,label\na.wav,0.05,0.075,x\nb.wav,,,y\na.wav,0,0.025,y\nb.wav,0.075,,x\na.wav,,0.1,x\n",
        )
    )
    assert samples_of(rows) == [first[400:600], second, first[:200], second[600:], first]
    assert rows.targets == ["x", "y", "y", "x", "x"]
    assert rows.where == [2, 3, 4, 5, 6]
    assert calls == ["a.wav", "b.wav"]


def test_stretches_of_one_recording_are_one_group(tmp_path):
    write(tmp_path, a_wav=wav(*range(800)), b_wav=wav(*range(800)))
    text = "path,start,end,label,day\na.wav,0,0.05,x,1\na.wav,0.05,,y,2\nb.wav,0,0.05,x,2\nb.wav,0.05,,y,1\n"
    rows = read_audio(table(tmp_path, text))
    assert isinstance(rows, GroupedRows)
    assert rows.groups == ["a.wav", "a.wav", "b.wav", "b.wav"]
    kept, held = rows.split(0.5, seed=0)
    assert {*kept.where} in ({2, 3}, {4, 5})
    assert len(held) == 2
    named = read_audio(table(tmp_path, text), group="day")
    assert named.groups == ["1", "2", "2", "1"]
    # The same recording twice, but whole, is as before.
    whole = read_audio(table(tmp_path, "path,start,end,label\na.wav,,,x\na.wav,,,y\n"))
    assert not isinstance(whole, GroupedRows)


@pytest.mark.parametrize(
    "cells",
    [
        ['"a.wav"', '"./a.wav"', '" a.wav "', '"b.wav"'],
        ['{"path": "a.wav", "bytes": null}', '{"path": "a.wav"}', '"a.wav"', '"b.wav"'],
    ],
)
def test_a_recording_is_one_group_however_its_cells_name_it(cells, tmp_path):
    write(tmp_path, a_wav=wav(*range(800)), b_wav=wav(*range(800)))
    ends = ["0.02", "0.03", "0.04", "0.05"]
    lines = [
        f'{{"path": {cell}, "start": 0, "end": {end}, "label": "{label}"}}\n'
        for cell, end, label in zip(cells, ends, "xyxy", strict=True)
    ]
    rows = read_audio(table(tmp_path, "".join(lines), "t.jsonl"))
    assert [*map(rows.groups.index, rows.groups)] == [0, 0, 0, 3]


def test_a_recording_in_the_table_is_one_group_by_its_content(tmp_path):
    first, second = wav(*range(800)), wav(*range(1, 801))
    cells = [{"bytes": content, "path": None} for content in (first, first, second)]
    columns = {"audio": cells, "start": [0, 0, 0], "end": [0.05, 0.02, 0.03], "label": ["x", "y", "x"]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    rows = read_audio(tmp_path / "t.parquet")
    assert [*map(rows.groups.index, rows.groups)] == [0, 0, 2]


def test_groups_that_cannot_be_held_out_name_the_way_out(tmp_path):
    write(tmp_path, a_wav=wav(*range(800)), b_wav=wav(*range(800)))
    text = "path,start,end,label\na.wav,0,0.05,x\na.wav,0.05,,x\nb.wav,0,0.05,y\nb.wav,0.05,,y\n"
    rows = read_audio(table(tmp_path, text))
    with pytest.raises(
        DataError, match=r"\(the recording of start and end\).*column of other groups .*--group"
    ):
        rows.split(0.2, seed=0)


@pytest.mark.parametrize("role", ["label", "group"])
def test_a_column_named_for_something_else_is_no_stretch(role, tmp_path):
    write(tmp_path, a_wav=wav(*range(800)), b_wav=wav(*range(800)))
    text = "path,start,label\na.wav,x,1\nb.wav,y,2\n"
    rows = read_audio(table(tmp_path, text), **{role: "start"})
    assert [len(row.samples) for row in rows.inputs] == [800, 800]
    assert (rows.targets if role == "label" else rows.groups) == ["x", "y"]


def test_stretches_of_a_single_recording_are_told_and_not_grouped(tmp_path):
    write(tmp_path, a_wav=wav(*range(800)))
    with pytest.warns(UserWarning, match="all rows are stretches of one recording"):
        rows = read_audio(table(tmp_path, "path,start,end,label\na.wav,0,0.05,x\na.wav,0.05,,y\n"))
    assert not isinstance(rows, GroupedRows)


def test_stretches_in_parquet_may_be_of_recordings_in_the_table(tmp_path):
    cells = [{"bytes": wav(*range(800)), "path": "a.wav"}] * 2
    columns = {"audio": cells, "start": [0.0, 0.05], "end": [0.05, None], "label": ["x", "y"], "more": [1, 2]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="all rows are stretches of one recording"):
        rows = read_audio(tmp_path / "t.parquet")
    assert samples_of(rows) == [list(range(400)), list(range(400, 800))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "a.wav,0.05,0.2,x",
            r"t.csv: the 'path' in line 3: A stretch must lie within the recording's 0.100 s",
        ),
        ("a.wav,0.05,0.02,x", "line 3: A stretch must .* Received 0.05 to 0.02 s"),
        ("a.wav,soon,,x", "line 3: the 'start' of a recording must be a number, in seconds. Received 'soon'"),
        ("a.wav,,2026-11-30,x", "line 3: the 'end' of a recording must be a number"),
    ],
)
def test_a_stretch_that_is_none_is_refused_with_its_line(line, message, tmp_path):
    write(tmp_path, a_wav=wav(*range(800)))
    with pytest.raises(DataError, match=message):
        read_audio(table(tmp_path, f"path,start,end,label\na.wav,0,0.05,y\n{line}\n"))
