"""Stretches of recordings through the command line: from a table with start and end to served windows."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.rows.recordings import Recording
from keras_selfattn.runs.run_folder import load_run
from keras_selfattn.serving.server import Server, ServerConfig

SMALL = ["--width", 8, "--layers", 1, "--heads", 1, "--epochs", 1, "--kernels", 100]
RATE, SECOND = 8000, np.arange(8000) / 8000


def asked(*arguments):
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def recording(*hertz):
    """A second of each tone, one after the other."""
    tones = [0.3 * np.sin(2 * np.pi * each * SECOND) for each in hertz]
    return Recording((np.concatenate(tones) * 2**15).astype("int16"), RATE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    lines = ["path,start,end,label"]
    for number in range(6):
        tones = (250 + 9 * number, 1900 + 9 * number)
        (folder / f"{number}.wav").write_bytes(recording(*tones, *tones).wav())
        for second, label in enumerate(("low", "high") * 2):
            lines += [
                f"{number}.wav,{second}.25,{second}.5,{label}",
                f"{number}.wav,{second}.5,{second}.9,{label}",
            ]
    (folder / "stretches.csv").write_text("\n".join(lines) + "\n")
    asked("train", folder / "stretches.csv", "--task", "audio", "--output", folder / "run", *SMALL)
    return folder


@pytest.mark.slow
def test_stretches_are_learned_and_whole_recordings_held_out(trained):
    run = trained / "run"
    figures = json.loads((run / "metrics.json").read_text())
    assert figures["accuracy"] == 1.0
    assert figures["split"] == "validation"
    assert figures["rows"] == 8, "all stretches of one recording"
    assert "accuracy" in asked("evaluate", run, trained / "stretches.csv")


@pytest.mark.slow
def test_rows_of_a_table_are_predicted_by_their_stretch(trained):
    low_then_high = trained / "new.wav"
    low_then_high.write_bytes(recording(260, 1950).wav())
    table = trained / "new.csv"
    table.write_text("path,start,end\nnew.wav,0.2,0.8\nnew.wav,1.2,1.8\nnew.wav,0,9\nnew.wav,1,\n")
    done = CliRunner().invoke(
        main, ["predict", str(trained / "run"), "--file", str(table), "--output", str(trained / "out.csv")]
    )
    with (trained / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["predicted_label"] for row in rows] == ["low", "high", "high"]
    assert [row["start"] for row in rows] == ["0.2", "1.2", "1"]
    assert done.exit_code != 0, "a row names what is not in its recording"
    assert (
        "A stretch must lie within the recording's 2.000 s" in (trained / "out.csv.errors.jsonl").read_text()
    )


@pytest.mark.process
def test_a_served_model_answers_windows_of_a_recording_with_their_times(trained, tmp_path):
    asked("export", trained / "run", tmp_path / "models" / "tones")
    long = tmp_path / "long.wav"
    long.write_bytes(recording(255, 255, 1960, 300).stretch(0, 3.5).wav())
    with Server(ServerConfig("tones", str(tmp_path / "models" / "tones"), port=0)) as server:
        where = ["--target", server.target, "--format", "json"]
        found = [
            json.loads(line) for line in asked("query", "tones", long, "--windows", 1, *where).splitlines()
        ]
        assert [(row["start"], row["end"]) for row in found] == [(0, 1), (1, 2), (2, 3), (3, 3.5)]
        assert [row["label"] for row in found] == ["low", "low", "high", "low"]
        (tmp_path / "table.jsonl").write_text(json.dumps({"path": "long.wav", "start": 2, "end": 3}) + "\n")
        (row,) = asked("query", "tones", "--file", tmp_path / "table.jsonl", *where).splitlines()
        assert json.loads(row)["score"] == pytest.approx(found[2]["score"], abs=1e-5)
    model = load_run(trained / "run")
    (scores,) = model.predict([Recording.stretch(recording(255, 255, 1960), 2, 3)], verbose=0)
    assert max(scores) == pytest.approx(found[2]["score"], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--windows", "1"], "--windows is for recordings that are named in the command"),
        (["--windows", "1", "--file", "rows.csv"], "A --file names stretches in the columns start and end"),
    ],
)
def test_windows_without_recordings_are_refused_before_a_server_is_asked(
    arguments, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("path\na.wav\n")
    done = CliRunner().invoke(main, ["query", "tones", *arguments])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
