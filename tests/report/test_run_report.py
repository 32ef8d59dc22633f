"""The report of a run: its figures against numbers computed by hand, and what it says of what a run lacks."""

import base64
import csv
import hashlib
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from html_pages import figure, read_page, section, table

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.windows import cut_windows
from keras_selfattn.errors import DataError
from keras_selfattn.metrics import report_of
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.reliability import CalibrationEffect, reliability
from keras_selfattn.models.heads.class_heads import ClassHead, MultiLabelHead
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.report import run_report as reports
from keras_selfattn.report.page import page_html
from keras_selfattn.report.rows import alike_blocks
from keras_selfattn.report.run_report import Findings, run_report
from keras_selfattn.rows.text_pairs import SYMMETRIC_PAIRS, TEXT_PAIRS

ATTACK = "<img src=x onerror=alert(1)>"
HISTORY = {
    "attention_loss": [0.9, 0.6, 0.4],
    "val_loss": [0.8, 0.5, 0.7],
    "attention_accuracy": [0.5, 0.7, 0.9],
    "val_accuracy": [0.6, 0.8, 0.75],
    "learning_rate": [0.01, 0.0057, 0.0002],
}


def folder_of(path, history=HISTORY, **changes):
    """The files of a run folder that its report reads."""
    path.mkdir(exist_ok=True)
    config = {
        "kind": "TextClassifier",
        "model": {"width": 8},
        "training": {"learning_rate": 0.01, "epochs": 4, "seed": 7},
        "data": {"train": {"source": "films.csv", "rows": 30}},
        "best_epoch": 2,
        "trained_on": 30,
        "seconds": 12.3,
        "peak_memory_mb": 456,
        **changes,
    }
    (path / "config.json").write_text(json.dumps(config))
    with (path / "history.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", *history])
        writer.writerows([n, *values] for n, values in enumerate(zip(*history.values(), strict=True), 1))
    return path


def findings(head, rows, outputs, split="test", baselines=None, **more):
    figures = report_of(head, rows.targets, outputs, baselines)
    evaluation = Evaluation(head, rows, outputs, figures, baselines or {})
    return Findings(figures, split, evaluation, tables=more.pop("tables", {"test": rows}), **more)


def written(path, found, **changes):
    """The page of findings, as text and as elements."""
    text = page_html(run_report(folder_of(path / "run", **changes), "run", found))
    return text, read_page(text)


# Six rows of three classes; rows 1, 4 and 5 are answered wrongly.
LABELS = ["bad", "good", ATTACK]
TEXTS = ["a film", "a Film!", "fine <b>", f"{ATTACK} film", "a film", "x" * 5000]
TARGETS = ["bad", "bad", "good", ATTACK, ATTACK, "good"]
OUTPUTS = np.array(
    [[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0, 0.1, 0.9], [0.95, 0.05, 0], [0.4, 0.3, 0.3]]
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    rows = LabelledRows(TEXTS, TARGETS, f"{ATTACK}.csv", [2, 3, 4, 5, 6, 7])
    train = LabelledRows(["A film", "a film", "a film"], ["bad", "bad", "good"], "films.csv", [2, 3, 4])
    effect = CalibrationEffect(
        reliability(np.array([True, False]), np.array([0.9, 0.9])),
        reliability(np.array([True, False]), np.array([0.6, 0.6])),
    )
    found = findings(
        ClassHead(LABELS), rows, OUTPUTS, tables={"train": train, "test": rows}, calibrated=effect
    )
    return written(tmp_path_factory.mktemp("report"), found)


def test_the_page_loads_nothing_and_runs_nothing(shown):
    text, found = shown
    (style,) = found.all("style")
    policies = [each.attributes["content"] for each in found.all("meta") if "http-equiv" in each.attributes]
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    ]
    assert found.all("script") + found.all("link") + found.all("iframe") == []
    assert not re.search(r"(?:https?:)?//\w", text.replace(ATTACK, ""))
    assert " style=" not in text  # which the policy would not let pass


def test_labels_texts_and_names_of_files_become_no_elements(shown):
    _text, found = shown
    said = found.text + "".join(each.tooltip for each in [*found.all("g"), *found.all("text")])
    assert found.all("img") + found.all("b", onerror="alert(1)") == []
    # In the rows of the data, the matrix, the mistakes and the classes.
    assert said.count(ATTACK) >= 10


def test_the_tiles_are_the_figures_of_the_rows(shown):
    tiles = dict(
        reversed([part.text for part in each.children])
        for each in shown[1].all("ul", class_="tiles")[0].all("li")
    )
    assert tiles["accuracy"] == "50.0%"
    assert tiles["rows measured"] == "6"
    assert (tiles["training time"], tiles["peak memory"]) == ("12 s", "456 MB")


def test_the_curves_have_the_history_and_mark_the_kept_epoch(shown):
    part = section(shown[1], "Training")
    drawn = figure(part, "Loss by epoch")
    said = [dot.tooltip for dot in drawn.all("circle")]
    assert said == [
        *(
            f"training, attention alone: {n}, {value:g}"
            for n, value in zip((1, 2, 3), (0.9, 0.6, 0.4), strict=True)
        ),
        *(
            f"validation, both paths: {n}, {value:g}"
            for n, value in zip((1, 2, 3), (0.8, 0.5, 0.7), strict=True)
        ),
    ]
    (mark,) = drawn.all("line", class_="mark")
    second = [dot for dot in drawn.all("circle") if dot.tooltip.endswith(": 2, 0.5")]
    assert mark.attributes["x1"] == second[0].attributes["cx"]
    assert "The kept weights are those of epoch 2" in part.text
    rates = figure(part, "Learning rate at the end of each epoch")
    assert [dot.tooltip for dot in rates.all("circle")] == ["1, 0.01", "2, 0.0057", "3, 2e-4"]


def test_the_confusion_matrix_and_the_pairs_are_those_counted_by_hand(shown):
    part = section(shown[1], "Answers on 6 test rows")
    cells = {each.tooltip for each in part.all("figure")[0].all("g")}
    assert cells == {
        "bad predicted as bad: 1 of 2 (50%)",
        "bad predicted as good: 1 of 2 (50%)",
        "good predicted as good: 1 of 2 (50%)",
        "good predicted as bad: 1 of 2 (50%)",
        f"{ATTACK} predicted as {ATTACK}: 1 of 2 (50%)",
        f"{ATTACK} predicted as bad: 1 of 2 (50%)",
    }
    assert "3 of 6 rows are answered wrongly" in part.text
    assert "“bad” taken for “good” (1 of 2 rows)" in shown[1].text.split("Training", 1)[0], "it is said first"
    pairs = table(part, "Most frequent mistakes").rows()
    assert [row[2:] for row in pairs] == [["1", "50%"]] * 3
    classes = {row[0]: row[1:] for row in table(part, "All 3 classes").rows()}
    # Of three answers "bad" one is right; of two rows of "bad" one was found.
    assert classes["bad"] == ["0.3333", "0.5", "0.4", "2"]


def test_answers_that_are_no_numbers_and_rows_without_a_label_are_reported(tmp_path):
    series = LabelledRows([np.zeros((5, 1))] * 2, list(np.array([[1.0], [2.0]])), "made up")
    outputs = np.array([[0.5], [math.nan]])
    text, found = written(tmp_path, findings(NumbersHead([0.0], [1.0]), series, outputs))
    errors = section(found, "Largest errors").all("table")[0].rows()
    assert [row[2:] for row in errors] == [["2", "none", "none"], ["1", "0.5", "0.5"]]
    written(tmp_path, findings(NumbersHead([0.0], [1.0]), series, np.full((2, 1), math.nan)))
    texts = LabelledRows(["a", "b"], [[], []], "made up")
    text, _found = written(tmp_path, findings(MultiLabelHead(["x", "y"]), texts, np.array([[0.9, 0.1]] * 2)))
    assert "No row has a label." in text


def test_the_errors_of_the_calibration_are_those_of_its_rows(shown):
    part = section(shown[1], "Reliability")
    # Half of the answers are right: 0.9 is 0.4 off, 0.6 is 0.1 off.
    assert "40.0% before and 10.0% after" in part.text
    # Of the test rows: (0.9 + 0.9 + 0.8 - 3 + 0.7 + 0.95 + 0.4) / 6 within bins, computed by hand:
    # 0.9 and 0.9 right, 0.8 right alone, 0.7 wrong alone, 0.95 wrong alone, 0.4 wrong alone.
    assert f"{(0.2 + 0.2 + 0.7 + 0.95 + 0.4) / 6:.1%}" in part.text
    bins = [row for row in table(part, "The bins of the curves").rows() if row[0] == "test rows"]
    assert [row[3:] for row in bins] == [
        ["1", "0.4", "0"],
        ["1", "0.7", "0"],
        ["1", "0.8", "1"],
        ["2", "0.9", "1"],
        ["1", "0.95", "0"],
    ]


def test_the_surest_mistakes_come_first_with_their_line_and_are_shortened(shown):
    part = section(shown[1], "Most surely misread")
    rows = part.all("table")[0].rows()
    assert [(row[0], *row[2:]) for row in rows] == [
        ("6", ATTACK, "bad", "0.95"),
        ("3", "bad", "good", "0.7"),
        ("7", "good", "bad", "0.4"),
    ]
    assert rows[2][1] == "x" * 599 + "…"


def test_rows_that_are_there_twice_and_leaks_are_counted(shown):
    part = section(shown[1], "Data")
    counted = dict(table(part, "Rows with the same input").rows())
    assert counted == {
        "twice in the train rows": "1",
        "of these, with another target in the train rows": "1",
        "twice in the test rows": "1",
        "of these, with another target in the test rows": "1",
        "test rows that are also training rows": "2",
        "test rows that are training rows but for case, spaces and punctuation": "1",
    }
    examples = table(part, "The first held-out rows that are also training rows").rows()
    assert examples == [["test", "2", "3", "a film"], ["test", "6", "3", "a film"]]
    lengths = table(part, "Lengths in characters").rows()
    assert lengths[0] == ["train", "6", "6", "6", "6"]


def test_the_settings_are_all_there(shown):
    part = section(shown[1], "Settings")
    assert ["seed", "7"] in table(part, "Training").rows()
    assert ["width", "8"] in table(part, "Model").rows()


@pytest.mark.slow
def test_a_report_of_150_classes_with_long_names_and_texts_is_small_and_of_10000_leaves_the_matrix_out(
    tmp_path,
):
    random = np.random.default_rng(0)
    labels = [f"class {n} {ATTACK} {'long ' * 200}" for n in range(150)]
    rows = LabelledRows(["word " * 2000] * 6000, random.choice(labels, 6000).tolist(), "many.csv")
    outputs = random.random((6000, 150)).astype("float32")
    text, found = written(tmp_path, findings(ClassHead(labels), rows, outputs))
    assert len(text.encode()) < 2_000_000
    assert len(section(found, "Answers on 6,000 test rows").all("g")) == 4_000
    labels = [f"class {n}" for n in range(10_000)]
    rows = LabelledRows(["a", "b", "c"], ["class 0", "class 1", "class 1"], "more.csv")
    outputs = np.zeros((3, 10_000), "float32")
    outputs[:, 1] = 1
    text, found = written(tmp_path, findings(ClassHead(labels), rows, outputs))
    part = section(found, "Answers on 3 test rows")
    assert "There are 10,000 classes. A matrix of more than 200 cannot be read" in part.text
    assert table(part, "Most frequent mistakes").rows() == [["class 0", "class 1", "1", "100%"]]
    assert len(text.encode()) < 500_000


def test_several_labels_a_row_have_no_matrix_and_the_reliability_of_each_label(tmp_path):
    rows = LabelledRows(["a", "b"], [["x"], ["x", "y"]], "made up")
    outputs = np.array([[0.9, 0.2], [0.6, 0.4]])
    _text, found = written(tmp_path, findings(MultiLabelHead(["x", "y"]), rows, outputs))
    assert "there is no confusion matrix" in found.text
    # x 0.9 and 0.6 are there; y 0.2 is not, 0.4 is: gaps 0.1, 0.4, 0.2, 0.6 of four.
    assert f"the calibration error is {(0.1 + 0.4 + 0.2 + 0.6) / 4:.1%}" in found.text
    assert section(found, "Most surely misread").all("table")[0].rows()[0][2:] == ["x, y", "x", "0.6"]


def test_wrong_tokens_are_framed_among_their_neighbours(tmp_path):
    head = PositionHead(["D", "N"])
    rows = LabelledRows([["the", "cat", ATTACK]], [["D", "N", "N"]], "made up")
    outputs = [np.array([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]], "float32")]
    _text, found = written(tmp_path, findings(head, rows, outputs))
    (wrong,) = found.all("span", class_="wrong")
    assert wrong.text == ATTACK
    assert "1 token is wrong." in found.text
    (row,) = section(found, "Most surely misread").all("table")[0].rows()
    assert row == ["row 0", f"the cat {ATTACK} ", "N", "D", "0.8"]


def test_rows_with_wrong_spans_have_their_true_and_predicted_spans_marked(tmp_path):
    """The second row misses a span and has another with another end; the first has a third label."""
    labels = ["O", "B-PER", "I-PER", "B-LOC"]
    tokens = [["Ada", ATTACK], ["in", "Rome", "Ada", "King", "."], ["no"]]
    targets = [["B-PER", "O"], ["O", "B-LOC", "B-PER", "I-PER", "O"], ["O"]]
    rows = LabelledRows(tokens, targets, "made up", note="FILE: 3 texts; left out: 1 text cancelled.")
    found = [["B-LOC", "O"], ["O", "O", "B-PER", "O", "O"], ["O"]]
    outputs = [np.eye(4, dtype="float32")[[labels.index(label) for label in row]] for row in found]
    tables = {"train": rows.take([2]), "test": rows.take([0, 1])}
    about = findings(PositionHead(labels), rows, outputs, tables=tables)
    _text, shown = written(tmp_path, about)
    part = section(shown, "Most surely misread")
    assert table(part, "Rows with the most wrong spans").rows() == [
        ["row 1", "in Rome LOC Ada King PER . ", "in Rome Ada PER King . ", "2"],
        ["row 0", f"Ada PER {ATTACK} ", f"Ada LOC {ATTACK} ", "1"],
    ]
    assert [mark.text for mark in part.all("mark", class_="wrong")] == [
        "Rome LOC",
        "Ada King PER",
        "Ada PER",
        "Ada PER",
        "Ada LOC",
    ]
    answers = section(shown, "Answers on 3 test rows")
    assert [row[:2] for row in table(answers, "Spans").rows()] == [
        ["exact", "all spans"],
        ["exact", "mean of labels"],
        ["overlapping", "all spans"],
        ["overlapping", "mean of labels"],
    ]
    assert table(answers, "Overlapping spans by label").rows() == [
        ["LOC", "0", "0", "0", "1"],
        ["PER", "1", "0.5", "0.6667", "2"],
    ]
    confused = table(answers, "Most frequent mistakes of spans").rows()
    assert confused == [["LOC", "(missed)", "1"], ["PER", "LOC", "1"]]
    assert "Read FILE: 3 texts; left out: 1 text cancelled." in section(shown, "Data").text


def test_numbers_have_their_errors_beside_those_of_baselines_and_by_step(tmp_path):
    head = NumbersHead([0.0, 0.0], [1.0, 1.0])
    windows = cut_windows([np.arange(6.0)], context=3, horizon=2, source="load.csv")
    outputs = np.stack(windows.targets) + np.array([[0.0, 1.0], [0.0, 3.0]])
    baselines = {"last value": np.stack(windows.targets) - np.array([[1.0, 2.0], [1.0, 2.0]])}
    found = findings(head, windows, outputs, baselines=baselines, tables={"train": windows, "test": windows})
    _text, shown = written(tmp_path, found)
    part = section(shown, "Answers on 2 test rows")
    errors = table(part, "Errors, in the units of the targets").rows()
    assert errors == [["the model", "1", "1.581"], ["last value", "1.5", "1.581"]]
    by_step = [dot.tooltip for dot in figure(part, "Mean absolute error by step").all("circle")]
    assert by_step == ["the model: 1, 0", "the model: 2, 2", "last value: 1, 1", "last value: 2, 2"]
    assert len(figure(part, "Predicted against true").all("circle")) == 4
    assert "windows that overlap in time" in shown.text
    largest = section(shown, "Largest errors")
    assert "2 rows answered, the largest error first." in largest.text
    assert [each.text for each in largest.all("th")] == ["place", "series", "true", "predicted", "error"]
    assert len(largest.all("polyline")) == 2 * 3
    assert table(section(shown, "Data"), "Rows").rows()[0] == ["train", "load.csv", "2"]  # no classes
    assert not [each for each in shown.all("ul", class_="tiles")[0].all("li") if "last value" in each.text]


def test_both_texts_of_a_pair_are_shown_and_counted_where_training_has_one_of_them(tmp_path):
    train = LabelledRows([("a", "b"), ("a", "c")], ["x", "y"], "made up", [2, 3], kind=TEXT_PAIRS)
    pairs = [("a", "b"), ("a", "<i>"), ("d", "c"), ("b", "a")]
    rows = LabelledRows(pairs, ["x", "y", "y", "x"], "made up", [2, 3, 4, 5], kind=TEXT_PAIRS)
    outputs = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.9, 0.1]])
    head, tables = ClassHead(["x", "y"]), {"train": train, "test": rows}
    _text, found = written(tmp_path, findings(head, rows, outputs, tables=tables))
    (wrong,) = section(found, "Most surely misread").all("table")
    assert wrong.rows() == [["3", "a", "<i>", "y", "x", "0.8"]]
    counted = dict(table(section(found, "Data"), "Rows with the same input").rows())
    assert counted["test rows that are also training rows"] == "1"
    assert counted["test rows whose text is in a training row"] == "2"
    assert counted["test rows whose text_pair is in a training row"] == "2"


def test_a_reversed_pair_is_a_leak_and_a_duplicate_where_the_order_says_nothing():
    kinds = {"kind": SYMMETRIC_PAIRS}
    train = LabelledRows([("a", "b"), ("b", "a"), ("c", "d")], ["x", "y", "x"], "made up", **kinds)
    rows = LabelledRows([("d", "c"), ("A", "D"), ("e", "a"), ("e", "f")], ["x"] * 4, "made up", **kinds)
    table, examples = alike_blocks({"train": train, "test": rows})
    assert dict(table.rows) == {
        "twice in the train rows": 1,
        "of these, with another target in the train rows": 1,
        "twice in the test rows": 0,
        "of these, with another target in the test rows": 0,
        "test rows that are also training rows": 1,
        "test rows that are training rows but for case, spaces and punctuation": 0,
        "test rows whose first or second text is in a training row": 2,
    }
    assert examples.rows == [["test", "row 0", "row 2", "d / c"]]


def test_held_out_rows_of_a_group_that_trains_are_counted():
    train = GroupedRows(["a", "b"], ["x", "y"], "made up", groups=["ada", "bob"], group="speaker")
    rows = GroupedRows(["c", "d", "e"], ["x"] * 3, "made up", groups=["bob", "cid", "bob"], group="speaker")
    table, *_ = alike_blocks({"train": train, "test": rows})
    assert dict(table.rows)["test rows whose speaker is that of a training row"] == 2


def test_series_and_images_are_drawn_beside_their_answers(tmp_path):
    head = ClassHead(["a", "b"])
    series = [np.array([[1.0] * 5, [2.0] * 5, [4.0] * 5], "float32")] * 2
    outputs = np.array([[0.9, 0.1], [0.2, 0.8]])
    rows = LabelledRows(series, ["b", "b"], "made up", ["row 0", ATTACK])
    _text, found = written(tmp_path, findings(head, rows, outputs))
    assert len(section(found, "Most surely misread").all("polyline")) == 3
    assert "The lines are the first 3 of 5 features." in found.text
    assert "All rows have 3 steps." in found.text
    images = [np.full((4, 4, 3), shade, np.uint8) for shade in (0, 200)]
    rows = LabelledRows(images, ["a", "a"], "made up", [ATTACK, ATTACK])
    _text, found = written(tmp_path, findings(head, rows, outputs))
    (drawn,) = found.all("img")
    assert drawn.attributes["src"].startswith("data:image/png;base64,")
    assert drawn.attributes["alt"] == f"image of {ATTACK}"


def test_what_a_run_lacks_is_a_sentence(tmp_path):
    rows = LabelledRows(["a", "b"], ["x", "y"], "made up")
    right = np.array([[0.9, 0.1], [0.1, 0.9]])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    found = read_page(
        page_html(run_report(tmp_path / "run", "run", findings(ClassHead(["x", "y"]), rows, right)))
    )
    assert "There is no history: the model was not trained here." in found.text
    assert "No held-out row is answered wrongly." in found.text
    assert "There was no calibration" in found.text
    pairs = folder_of(tmp_path / "pairs", {"loss": [0.5, 0.4]})
    found = read_page(page_html(run_report(pairs, "run", findings(ClassHead(["x", "y"]), rows, right))))
    assert "trained on pairs of rows" in found.text
    # Nor has the history of an older run its learning rate.
    assert not [each.text for each in found.all("figcaption") if each.text.startswith("Learning rate")]


@pytest.mark.parametrize(
    ("split", "rows", "encoders", "said"),
    [
        ("validation", 30, 1, "The kept weights are those of epoch 2"),
        ("validation", 33, 1, "epoch, on 33 rows with those that had been held out. {} before that."),
        ("validation", 33, 2, "with 2 encoders, on 33 rows with those that had been held out. {} before"),
        ("validation", 30, 2, "up to that epoch, with 2 encoders. {} after that."),
        ("test", 33, 1, "{} after that."),
        ("evaluated", 33, 2, "{} after that."),
    ],
)
def test_the_page_says_of_which_model_the_figures_and_the_calibration_are(
    tmp_path, split, rows, encoders, said
):
    right = np.array([[0.9, 0.1], [0.1, 0.9]])
    answers = LabelledRows(["a", "b"], ["x", "y"], "made up")
    calibrated = CalibrationEffect(*(reliability(np.array([True]), np.array([0.5])) for _ in range(2)))
    found = findings(ClassHead(["x", "y"]), answers, right, split, calibrated=calibrated)
    _text, shown = written(tmp_path, found, trained_on=rows, model={"members": encoders})
    assert said.format("The figures of answers are of the model") in section(shown, "Training").text
    # Of the calibrated model there is no third curve, which would be the second one.
    kept = split != "validation" or (encoders > 1 and rows == 30)
    assert (f"On the {split} rows the calibration error is 10.0%" in shown.text) is kept


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    random = np.random.default_rng(0)
    labels = ["good", "bad"] * 40
    texts = [f"{label} film number {random.integers(99)}" for label in labels]
    texts[:2] = [f"a film {ATTACK}", f"a film {ATTACK} "]
    small = models.TextClassifier(models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
    config = training.TrainConfig(epochs=2, validation=0.4)
    folder = tmp_path_factory.mktemp("runs") / "small"
    return training.train((texts, labels), folder, model=small, config=config, verbose=0)


@pytest.mark.slow
def test_a_training_leaves_a_report_of_its_figures_and_no_other_pictures(run):
    found = read_page((run.path / "report.html").read_text(encoding="utf-8"))
    tiles = found.all("ul", class_="tiles")[0].text
    assert f"{run.figures.accuracy:.1%}accuracy" in tiles
    captions = [each.text for each in found.all("figcaption")]
    assert {
        "Loss by epoch",
        "Learning rate at the end of each epoch",
        "Reliability of the probabilities",
    } <= set(captions)
    assert found.all("img") == []
    assert len(found.all("svg")) >= len(captions)
    assert not (run.path / "plots").exists()
    history = list(csv.DictReader((run.path / "history.csv").read_text().splitlines()))
    dots = [dot.tooltip for dot in figure(found, "Loss by epoch").all("circle")]
    assert f"{float(history[1]['val_loss']):.4g}" in dots[-1]


@pytest.mark.slow
def test_evaluate_writes_a_report_of_other_rows(run, tmp_path):
    (tmp_path / "t.csv").write_text(f"text,label\ngood film,good\ngood bad,bad\n{ATTACK} film,bad\n")
    done = CliRunner().invoke(
        main, ["evaluate", str(run.path), str(tmp_path / "t.csv"), "--report", str(tmp_path / "r.html")]
    )
    assert done.exit_code == 0, done.output
    found = read_page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert section(found, "Answers on 3 evaluated rows")
    assert "Loss by epoch" in [each.text for each in found.all("figcaption")]
    assert found.all("img") == []
    same = str(tmp_path / "t.csv")
    done = CliRunner().invoke(main, ["evaluate", str(run.path), same, "--report", same])
    assert done.exit_code == 1
    assert "--report must end in .html" in done.output


@pytest.mark.parametrize(
    ("flag", "name"),
    [("--report", "report.html"), ("--mistakes", "history.csv"), ("--mistakes", "spans.csv")],
)
def test_evaluate_replaces_no_file_of_a_training(tmp_path, flag, name):
    (folder_of(tmp_path / "run") / "model.keras").touch()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    file = tmp_path / "link" / name
    done = CliRunner().invoke(main, ["evaluate", str(tmp_path / "run"), "t.csv", flag, str(file)])
    assert done.exit_code == 1
    assert f"{flag} must not replace a file of a training. Received" in done.output


@pytest.mark.slow
def test_wrong_texts_are_coloured_by_the_attention_that_their_tokens_receive(run):
    (explained,) = run.model.explain(["good film good"])
    assert list(explained.tokens) == ["good", "film", "good"]
    np.testing.assert_allclose(explained.weights.sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(explained.received, explained.weights.mean(axis=(0, 1, 2)), rtol=1e-6)
    shown = read_page(explained._repr_html_())
    assert [each.text for each in shown.all("span")] == ["good", "film", "good"]
    assert shown.all("span")[0].attributes["title"] == f"{explained.received[0]:.1%}"


def test_a_report_that_cannot_be_written_is_a_warning_and_the_run_stays(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "run")
    rows = LabelledRows(["a"], ["x"], "made up")
    found = findings(ClassHead(["x", "y"]), rows, np.array([[0.9, 0.1]]))

    def failing(_report):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reports, "page_html", failing)
    before = {path.name for path in folder.iterdir()}
    with pytest.warns(
        UserWarning, match=r"report of runs.films could not be written: OSError: .*No space left"
    ):
        reports.write_run_report(folder, Path("runs/films"), found)
    assert {path.name for path in folder.iterdir()} == before


def test_ctrl_c_during_the_report_costs_the_report_alone(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "run")
    found = findings(ClassHead(["x", "y"]), LabelledRows(["a"], ["x"], "made up"), np.array([[0.9, 0.1]]))

    def interrupted(_report):
        raise KeyboardInterrupt

    monkeypatch.setattr(reports, "page_html", interrupted)
    with pytest.warns(UserWarning, match="could not be written: KeyboardInterrupt"):
        reports.write_run_report(folder, Path("run"), found)
    assert not (folder / "report.html").exists()


def test_half_a_report_is_taken_away(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "run")
    found = findings(ClassHead(["x", "y"]), LabelledRows(["a"], ["x"], "made up"), np.array([[0.9, 0.1]]))

    def half(file, content):
        with file.open("wb") as stream:
            stream.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.warns(UserWarning, match="report of run could not be written: OSError: .*No space left"):
        reports.write_run_report(folder, Path("run"), found)
    assert not (folder / "report.html").exists()


def test_asking_for_png_files_says_what_draws_them_now_before_any_work(tmp_path):
    for begin in (training.train, training.pretrain):
        with (
            pytest.warns(UserWarning, match=r"figures are in report.html .* `keras_selfattn.plots` draws"),
            pytest.raises(DataError, match="no rows|no texts"),
        ):
            begin(([], []) if begin is training.train else [], tmp_path / "run", plots=True)


def test_warnings_are_not_raised_for_a_report_without_failure(tmp_path):
    folder = folder_of(tmp_path / "run")
    found = findings(ClassHead(["x", "y"]), LabelledRows(["a"], ["x"], "made up"), np.array([[0.9, 0.1]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reports.write_run_report(folder, Path("run"), found)
    assert (folder / "report.html").is_file()
