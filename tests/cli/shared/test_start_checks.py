"""Invalid arguments are refused before a file is read, and long before training."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table that must not be read."""
    file = tmp_path / "small.csv"
    file.write_text("text,label\ngood,+\nbad,-\n")
    monkeypatch.setattr(
        "keras_selfattn.data.formats.records.opened_content", lambda _: pytest.fail("a file was read")
    )
    return file


@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_an_output_that_cannot_be_a_run_folder(table, tmp_path, command):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for output, said, *more in (
        (table, "is a file, which a folder cannot replace"),
        (table / "run", "cannot be written"),
        (tmp_path / ("x" * 300), "cannot be written"),
        (tmp_path / "folder", "exists already"),
        (tmp_path / "folder", "is not a run folder, so it is not replaced", "--overwrite"),
        (tmp_path / "link", "is a link, which a folder cannot replace", "--overwrite"),
    ):
        done = invoke(command, table, "--output", output, *more)
        assert done.exit_code == 1, done.output
        assert said in " ".join(done.output.split())
        assert "Training on" not in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"small.csv", "folder", "link"}, "no draft is left"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "regression", "--balanced"], "--balanced is for one label a row. The task is regression"),
        (["--task", "tokens", "--balanced"], "--balanced is for one label a row. The task is tokens"),
        (["--task", "forecast", "--label-smoothing", "0.1"], "--label-smoothing is for labels"),
        (["--task", "series", "--from", "base"], "--from is for the task text, tokens"),
        (["--from", "./nothing"], "--from: There is no model at nothing. Give a run folder"),
        (["--width", "10", "--heads", "3"], "--width must be divisible by --heads"),
        (["--tune", "inf"], "--tune must be minutes"),
        (["--horizon", "3"], "--horizon is for the task forecast"),
        (["--kernels", "3"], "--kernels is for the task audio, series"),
    ],
)
def test_options_that_do_not_go_together(table, tmp_path, options, said):
    done = invoke("train", table, *options, "--output", tmp_path / "run")
    assert done.exit_code == 1
    assert said in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


def test_an_export_that_cannot_be(table, tmp_path):
    for run, base, said in (
        (tmp_path / "nothing", tmp_path / "models", "There is no model at"),
        (tmp_path / "nothing.keras", tmp_path / "models", "There is no model at"),
        (tmp_path / "nothing", table, "is a file; choose another name"),
    ):
        done = invoke("export", run, base, "--data", table)
        assert done.exit_code == 1
        assert said in " ".join(done.output.split())


def test_none_of_it_waits_for_tensorflow(tmp_path):
    code = (
        "import sys\n"
        "from keras_selfattn.cli.main import main\n"
        "try:\n    main(['train', 't.csv', '--output', sys.argv[1]])\n"
        "except SystemExit:\n    pass\n"
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\n"
    )
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is a file, which a folder cannot replace" in done.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["trian"], "Did you mean 'train'"),
        (["exprot"], "Did you mean 'export'?"),
        (["Evaluate"], "Did you mean 'evaluate'?"),
        (["train", "t.csv", "--outptu", "x"], "--output"),
    ],
)
def test_the_nearest_name_is_proposed_for_one_that_is_mistyped(typed, said):
    done = invoke(*typed)
    assert done.exit_code == 2
    assert said in done.output


def test_nothing_is_proposed_where_nothing_is_near():
    assert "Did you mean" not in invoke("xyzzy").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--file", "nothing.csv"], "There is no file nothing.csv"),
        (["good", "--file", "nothing.csv"], "Give texts or --file, not both"),
        (["good", "--column", "text"], "--column is for a --file"),
    ],
)
def test_rows_that_cannot_be_asked_are_refused_before_a_server_is(monkeypatch, arguments, said):
    for command, room in (("query", "asking"), ("embed", "cli")):
        monkeypatch.setattr(
            f"keras_selfattn.{room}.{command}.connected", lambda *_: pytest.fail("a server was asked")
        )
        more = ["--output", "v.npy"] if command == "embed" else []
        done = invoke(command, "model", *arguments, *more)
        assert done.exit_code in (1, 2)
        assert said in " ".join(done.output.split())
