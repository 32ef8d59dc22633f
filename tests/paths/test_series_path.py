"""Series through the command line: from a table to a run folder and its figures."""

import csv
import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.runs.run_folder import rows_for_run

SMALL = ["--width", "8", "--layers", "1", "--heads", "1", "--epochs", "1"]


def asked(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "load.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["hour", "load", "wind"])
        for hour in range(80):
            writer.writerow([hour, 50 + 5 * np.sin(hour * np.pi / 4), hour % 3])
    return path


@pytest.mark.slow
def test_a_forecast_is_trained_and_measured_beside_naive_ones(table, tmp_path):
    run, window = tmp_path / "run", ["--context", "16", "--horizon", "4"]
    done = asked(
        "train", table, "--task", "forecast", "--time", "hour", "--values", "load,wind", *window,
        "--season", "8", *SMALL, "--output", run,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    figures = json.loads((run / "metrics.json").read_text())
    assert figures["mean_absolute_error_of_8_frames_before"] < 1e-4, "the wave repeats itself"
    assert figures["mean_absolute_error_of_last_value"] > 1
    assert figures["split"] == "validation"
    errors = (run / "errors.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in errors] == [
        "answers", "model", "last value", "8 frames before", "ridge",
    ]  # fmt: skip
    assert figures["mean_absolute_error_of_ridge"] < 1e-3
    done = asked("evaluate", run, table, "--values", "load,wind", *window)
    assert done.exit_code == 0, done.output
    assert "8 frames before" in done.output
    assert "ridge" in done.output
    done = asked("evaluate", run, table, "--values", "load,wind", "--context", "16", "--horizon", "3")
    assert done.exit_code == 1
    assert "3 numbers. The model gives 4" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--task", "series", "--id", "wind", "--label", "wind", "--season", "3"],
            "--season is for the task forecast. The task is series",
        ),
        (
            ["--task", "forecast", "--label", "wind"],
            "--label is for the task text, audio, tokens, series",
        ),
        (["--task", "forecast", "--context", "90"], "no series has 90 frames"),
        (["--task", "regression", "--id", "hour"], "no column 'label'"),
        (["--horizon", "3"], "--horizon is for the task forecast. The task is text"),
    ],
)
def test_options_that_do_not_fit_the_task_or_the_file_are_refused(table, tmp_path, given, said):
    done = asked("train", table, *given, "--output", tmp_path / "run")
    assert done.exit_code != 0
    assert said in " ".join((done.output + str(done.exception)).split())


def test_columns_of_a_file_without_columns_are_refused_by_their_flag(tmp_path):
    np.savez(tmp_path / "load.npz", x=np.zeros((3, 30)))
    window = ["--task", "forecast", "--context", "8", "--horizon", "2"]
    for flag, name in (("--id", "`row_id` (--id)"), ("--time", "`time`"), ("--values", "`values`")):
        done = asked("train", tmp_path / "load.npz", *window, flag, "hour", "--output", tmp_path / "run")
        assert done.exit_code == 1
        said = " ".join(done.output.split())
        assert f"{name} names a column of a table" in said
        assert "load.npz" in said


@pytest.mark.slow
def test_a_run_of_a_table_is_measured_on_a_file_without_columns_as_its_windows_were_cut(table, tmp_path):
    run, window = tmp_path / "run", ["--context", "16", "--horizon", "4"]
    done = asked(
        "train", table, "--task", "forecast", "--time", "hour", "--values", "load", *window, *SMALL,
        "--output", run,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    np.savez(tmp_path / "load.npz", x=np.zeros((3, 30)))
    rows = rows_for_run(run, tmp_path / "load.npz", {})
    assert [(row.shape, len(target)) for row, target in zip(rows.inputs, rows.targets, strict=True)] == [
        ((16, 1), 4)
    ] * 33


GERMAN = "%d.%m.%Y %H:%M"


@pytest.fixture
def german(tmp_path):
    """80 rising values, an hour apart over the end of a month, from the last to the first."""
    path = tmp_path / "german.csv"
    hours = [datetime(2024, 1, 30) + timedelta(hours=hour) for hour in range(80)]
    lines = [f"{moment.strftime(GERMAN)},{hour}\n" for hour, moment in enumerate(hours)]
    path.write_text("at,load\n" + "".join(reversed(lines)))
    return path


def test_times_that_are_not_read_and_a_format_without_a_column_are_refused_by_their_flag(german, tmp_path):
    window = ["--task", "forecast", "--context", "8", "--horizon", "2", "--output", tmp_path / "run"]
    for given, said in (
        (["--time", "at"], "'at' in line 2 is no time that is read. Received '02.02.2024 07:00'"),
        (["--time", "at", "--time-format", "%Y"], "'at' in line 2 is not of the format '%Y'"),
        (["--time-format", GERMAN, "--values", "load"], "without that column: name it with `time` (--time)"),
        (["--time", "at", "--time-format", "DD.MM"], "(--time-format) must be a format of"),
    ):
        done = asked("train", german, *window, *given)
        assert done.exit_code == 1
        assert said in " ".join(done.output.split())


@pytest.mark.slow
def test_the_format_of_the_times_goes_into_the_run_and_other_files_are_read_with_it(german, tmp_path):
    run, window = tmp_path / "run", ["--context", "8", "--horizon", "2"]
    times = ["--time", "at", "--time-format", GERMAN]
    done = asked("train", german, "--task", "forecast", *times, *window, *SMALL, "--output", run)
    assert done.exit_code == 0, done.output
    assert json.loads((run / "config.json").read_text())["reading"]["time_format"] == GERMAN
    rows = rows_for_run(run, german, {})
    assert rows.inputs[0][:, 0].tolist() == list(range(8)), "the first hours, from the end of the file"
    done = asked("evaluate", run, german)
    assert done.exit_code == 0, done.output
