"""`quickstart` works again, and asks sentences too."""

import json
import subprocess
import sys

import pytest

from keras_selfattn.data.quickstart.sentences import SENTENCES

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()"]


def run(*arguments, cwd=None):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=240, cwd=cwd, check=False
    )


@pytest.mark.process
def test_quickstart_works_again_asks_sentences_too_and_leaves_its_figures(tmp_path):
    models, runs = tmp_path / "out" / "models" / "languages-el-ka-th", tmp_path / "out" / "runs"
    for before in (models / "1", runs / "1"):
        before.mkdir(parents=True)
    (tmp_path / "out" / "metrics.json").write_text("{}")
    done = run("quickstart", "--languages", "el,ka,th", "--epochs", 1, "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answer 3" in done.stdout
    for language in ("el", "th"):
        assert SENTENCES[language].split()[-1] in done.stdout
    assert "held-out names are given to the right language" in done.stdout
    assert (models / "2" / "saved_model.pb").exists()
    assert (runs / "2" / "model.keras").exists()
    assert (runs / "2" / "held-out.csv").exists()
    figures = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert figures["accuracy"] > 0.9
    assert figures["split"] == "test"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "metrics.json",
        "models",
        "runs",
    }
