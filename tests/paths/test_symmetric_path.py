"""The command line's path from pairs that are one thing in either order to figures, and what it refuses."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from html_pages import read_page, section, table

from keras_selfattn.cli.main import main
from keras_selfattn.runs.run_folder import load_run, read_config

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


def written(path, rows):
    path.write_text(
        "".join(json.dumps(dict(zip(("a", "b", "label"), row, strict=True))) + "\n" for row in rows)
    )
    return path


@pytest.mark.slow
def test_a_run_of_symmetric_pairs_says_so_and_a_reversed_pair_is_a_leak(tmp_path):
    rows = [
        (f"a good film {n}", f"a {word} film", score)
        for n in range(12)
        for word, score in (("good", 5), ("bad", 1))
    ]
    held_out = [(b, a, score) for a, b, score in rows[:3]] + [("new", "a bad film", 2)]
    train, test = written(tmp_path / "rows.jsonl", rows), written(tmp_path / "test.jsonl", held_out)
    run = tmp_path / "run"
    columns = ("--text", "a", "--text-pair", "b", "--symmetric", "--validation", test)
    small = ("--width", 8, "--heads", 1, "--epochs", 1, "--members", 1)
    code, output = invoke("train", train, "--task", "score", "--output", run, *columns, *small)
    assert code == 0, output
    assert read_config(run)["model"]["symmetric"] is True
    report = read_page((run / "report.html").read_text(encoding="utf-8"))
    assert dict(table(section(report, "Settings"), "Model").rows())["symmetric"] == "true"
    counted = dict(table(section(report, "Data"), "Rows with the same input").rows())
    assert counted["validation rows that are also training rows"] == "3"
    assert counted["validation rows whose first or second text is in a training row"] == "4"
    model = load_run(run)
    pairs = [(a, b) for a, b, _ in rows]
    found = model.predict(pairs, verbose=0)
    np.testing.assert_array_equal(found, model.predict([pair[::-1] for pair in pairs], verbose=0))
    swapped = written(tmp_path / "swapped.jsonl", [(b, a, score) for a, b, score in rows])
    # Up to the table there is the file's path, which the terminal's width cuts.
    figures = [invoke("evaluate", run, file)[1].partition("┏")[2] for file in (train, swapped)]
    assert figures[0] == figures[1] != ""


def test_both_orders_of_one_text_are_refused_before_a_file_is_read():
    for task in ("text", "score"):
        code, output = invoke("train", "no.csv", "--task", task, "--output", "no/run", "--symmetric")
        assert code == 1
        assert (
            "--symmetric needs two texts a row: name the column of the second ones with --text-pair" in output
        )
