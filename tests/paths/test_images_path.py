"""Images on the command line: a folder of pictures to a served model that is asked with files."""

import re
import runpy
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from test_main import invoke, read_until, run, start

from keras_selfattn.cli.main import main
from keras_selfattn.runs.run_folder import read_config

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with train/ and test/, dark and bright pictures in both, and a run trained on the first."""
    place = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for part, count, size in (("train", 24, 9), ("test", 4, 12)):
        for name, level in (("dark", 0), ("bright", 150)):
            (place / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(level, level + 100, (size, size, 3), "uint8")
                Image.fromarray(pixels).save(place / part / name / f"{number}.png")
    settings = ("--epochs", 6, "--width", 8, "--layers", 1, "--heads", 2, "--patch-size", 3, "--no-augment")
    done = run("train", "train", *settings, "--learning-rate", 0.02, "--output", "runs/light", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 rows of train, 2 classes" in done.stdout
    return place


@pytest.mark.process
def test_a_folder_is_trained_on_evaluated_exported_served_and_asked_with_files(folder):
    done = run("evaluate", "runs/light", "test", cwd=folder)
    assert "On 8 test rows: accuracy 100.0%" in done.stdout, done.stdout + done.stderr
    done = run("export", "runs/light", "models/light", cwd=folder)
    assert "Exported and checked models/light/1" in done.stdout, done.stdout + done.stderr
    server = start("serve", "--model_name=light", "--model_base_path=models/light", "--port=0", cwd=folder)
    try:
        target = re.search(r"127\.0\.0\.1:\d+", read_until(server, "Serving 'light'")).group()
        asked = ("--signature", "encoded", "--target", target)
        done = run("query", "light", "test/dark/0.png", "test/bright/1.png", *asked, cwd=folder)
        assert re.search(r"dark/0.png +│ dark +│ +\d+\.\d%", done.stdout), done.stdout + done.stderr
        assert re.search(r"bright/1.png +│ bright +│", done.stdout)
        done = run("query", "light", "test/none.png", *asked, cwd=folder)
        assert "row 0: the file 'test/none.png' cannot be read" in done.stderr
        (folder / "no.png").write_text("no image")
        done = run("query", "light", "no.png", *asked, cwd=folder)
        assert (done.returncode, "Unknown image file format" in done.stderr) == (1, True), done.stderr
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.stdout.close()


@pytest.mark.slow
def test_what_the_model_advises_for_training_holds_unless_a_flag_says_otherwise(folder):
    found = read_config(folder / "runs" / "light")["training"]
    assert (found["epochs"], found["learning_rate"]) == (6, 0.02)
    assert (found["label_smoothing"], found["weight_decay"], found["patience"]) == (0.1, 0.05, 100)
    assert (found["batch_size"], found["seed"]) == (16, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--text", "review"), "--text is for the task text, tokens"),
        (("--task", "text"), "is a folder"),
    ],
)
def test_options_of_another_task_are_refused_by_name(folder, arguments, said):
    done = invoke("train", folder / "train", "--output", folder / "never", *arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert not (folder / "never").exists()


def test_options_of_images_are_refused_for_texts(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\na,+\nb,-\n")
    for option in (("--image-size", "8"), ("--patch-size", "2"), ("--no-augment",)):
        done = CliRunner().invoke(
            main, ["train", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "run"), *option]
        )
        assert (done.exit_code, "is for the task images" in done.output) == (1, True), done.output


@pytest.mark.slow
def test_the_example_of_the_digits_prints_accuracies_and_digits_with_their_answers(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["digits.py", "--epochs", "2"])
    runpy.run_path(str(ROOT / "examples" / "digits.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(r"Of 360 test digits \d+\.\d\d% are right", printed)
    assert "support vectors: 98.33%" in printed
    *_, last = printed.rstrip().splitlines()
    assert re.fullmatch(r"( *\d \(\d+%\)){5}", last)
    assert "@@" in printed
