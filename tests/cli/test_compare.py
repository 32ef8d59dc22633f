"""`keras-selfattn compare`: figures, curves and settings of runs beside each other, from their folders."""

import csv
import json

import pytest
from click.testing import CliRunner
from html_pages import figure, read_page, section

from keras_selfattn.cli.main import main
from keras_selfattn.report.comparison import compared_figures, different_settings, read_runs


def folder_of(
    path, accuracy, error, loss, width=8, kind="TextClassifier", classes=(), rows=40, seed=0, train="all.csv"
):
    path.mkdir()
    (path / "model.keras").touch()
    config = {
        "kind": kind,
        "model": {"width": width, "num_heads": 2},
        "training": {"seed": seed},
        "data": {
            "train": {"source": train, "rows": 360},
            "validation": {"source": "films.csv", "rows": rows},
        },
        "seconds": 10.5,
        "best_epoch": 2,
    }
    (path / "config.json").write_text(json.dumps(config))
    metrics = {"accuracy": accuracy, "calibration_error": error, "rows": rows, "split": "validation"}
    (path / "metrics.json").write_text(json.dumps(metrics))
    with (path / "history.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["epoch", "val_loss", "learning_rate"], *([n, each, 0.1] for n, each in enumerate(loss, 1))]
        )
    if classes:
        with (path / "classes.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["label", "f1"], *classes])
    return path


@pytest.fixture
def folders(tmp_path):
    one = folder_of(tmp_path / "one", 0.75, 0.02, [0.9, 0.5], classes=[["<b>", 0.5], ["y", 0.75]])
    two = folder_of(tmp_path / "two", 0.8125, 0.05, [0.8, 0.4, 0.3], 64, classes=[["<b>", 0.75], ["y", 0.75]])
    return one, two


def invoke(*arguments):
    done = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    return done.exit_code, " ".join(done.output.split())


def test_the_best_of_each_figure_is_the_highest_or_of_an_error_the_lowest(folders):
    found = {each.name: each for each in compared_figures(read_runs(folders))}
    assert (found["accuracy"].values, found["accuracy"].best) == (["75.0%", "81.2%"], {1})
    assert (found["calibration error"].values, found["calibration error"].best) == (["2.0%", "5.0%"], {0})
    assert (found["seconds"].values, found["seconds"].best) == (["10.5", "10.5"], set())


def test_only_settings_that_differ_are_shown(folders):
    found = different_settings(read_runs(folders))
    assert [(each.name, each.values) for each in found] == [("model: width", ["8", "64"])]


def test_the_page_has_a_line_for_each_run_and_the_classes_that_differ(folders, tmp_path):
    code, output = invoke(*folders, "--html", tmp_path / "c.html")
    assert code == 0, output
    assert "model: width" in output
    assert "num heads" not in output
    page = read_page((tmp_path / "c.html").read_text(encoding="utf-8"))
    one, two = map(str, folders)
    dots = [dot.tooltip for dot in figure(page, "Loss, validation").all("circle")]
    assert dots[:2] == [f"{one}: 1, 0.9", f"{one}: 2, 0.5"]
    assert dots[-1] == f"{two}: 3, 0.3"
    assert figure(page, "Learning rate").all("circle")[-1].tooltip == f"{two}: 3, 0.1"
    assert section(page, "Classes whose F1 differs most").all("table")[0].rows() == [
        ["<b>", "0.5", "0.75", "0.25"]
    ]
    bold = [each.text for each in section(page, "Figures").all("b")]
    assert bold == ["81.2%", "2.0%"]
    assert section(page, "Settings that differ").all("table")[0].rows() == [["model: width", "8", "64"]]


def test_figures_of_different_rows_are_told_as_such(folders, tmp_path):
    third = folder_of(tmp_path / "third", 0.9, 0.1, [0.5], rows=7)
    _code, output = invoke(folders[0], third)
    assert "The figures are of different rows, which may be why they differ" in output
    assert "The figures are of different rows" not in invoke(*folders)[1]


@pytest.mark.parametrize(("train", "other"), [("films.csv", True), ("all.csv", False)])
def test_rows_held_out_by_another_seed_are_other_rows(tmp_path, train, other):
    one, two = (folder_of(tmp_path / f"{n}", 0.5, 0.1, [0.5], seed=n, train=train) for n in (0, 1))
    assert ("40 validation rows of films.csv, held out by seed 1" in invoke(one, two)[1]) is other


def test_a_value_of_twelve_runs_is_never_broken_over_two_lines(tmp_path):
    each = [folder_of(tmp_path / f"run-{n}", 0.5 + n / 100, 0.1, [0.5], width=n) for n in range(12)]
    _code, output = invoke(*each)
    assert all(f"{50 + n}.0%" in output for n in range(12))
    assert output.count("Figures") == output.count("Settings that differ") > 1


def test_equal_runs_are_told_as_such(folders, tmp_path):
    same = folder_of(tmp_path / "same", 0.75, 0.02, [0.9, 0.5])
    assert "All settings are the same." in invoke(folders[0], same)[1]


def test_what_cannot_be_compared_is_a_sentence(folders, tmp_path):
    one, _two = folders
    assert "needs two runs or more" in invoke(one)[1]
    assert f"needs different runs. Received {one} twice." in invoke(one, one)[1]
    assert f"There is no run folder {tmp_path / 'nowhere'}." in invoke(one, tmp_path / "nowhere")[1]
    other = folder_of(tmp_path / "other", 0.5, 0.1, [1.0], kind="ImageClassifier")
    code, output = invoke(one, other)
    assert code == 1
    assert "Runs of different tasks cannot be compared" in output
    assert f"{other} holds a ImageClassifier" in output
    (other / "config.json").write_text("{")
    assert "config.json cannot be read" in invoke(one, other)[1]
    assert (
        "--html must not replace a file of a training" in invoke(*folders, "--html", one / "report.html")[1]
    )
    assert "--html must be a file" in invoke(*folders, "--html", tmp_path)[1]
    assert "--html must end in .html" in invoke(*folders, "--html", one / "page.txt")[1]


def test_a_damaged_history_names_its_file(folders):
    (folders[0] / "history.csv").write_text("epoch,val_loss\n1,much\n")
    code, output = invoke(*folders)
    assert code == 1
    assert "history.csv is damaged" in output


@pytest.mark.parametrize(
    ("file", "keys", "value", "said"),
    [
        ("config.json", ["data"], ["films.csv"], "`data` must be a JSON object. Received ['films.csv']."),
        ("config.json", ["data", "train"], "films.csv", "`data: train` must be a JSON object."),
        ("config.json", ["training"], [0], "`training` must be a JSON object."),
        ("config.json", ["kind"], ["TextClassifier"], "`kind` must be a text."),
        ("config.json", ["seconds"], "long", "`seconds` must be a number."),
        ("metrics.json", ["split"], {}, "`split` must be a text."),
    ],
)
def test_a_value_of_another_type_in_a_run_is_named(folders, file, keys, value, said):
    path = folders[1] / file
    content = part = json.loads(path.read_text())
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_text(json.dumps(content))
    code, output = invoke(*folders)
    assert code == 1
    assert f"{path} is damaged: {said}" in output


def test_a_figure_beyond_the_largest_float_is_left_out(folders):
    path = folders[1] / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"accuracy": 10**400}))
    found = {each.name: each.values for each in compared_figures(read_runs(folders))}
    assert found["accuracy"] == ["75.0%", ""]
