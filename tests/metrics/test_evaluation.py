"""The evaluation of rows, with labels that training never had, too."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import f1_score

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.evaluation import Evaluation, examine
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.rows.targets import LABEL_PER_POSITION
from keras_selfattn.rows.tokens import TOKENS

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")

UNKNOWN = "1 of 3 rows have a label that was not in training: 'new' \\(line 3\\). They count as wrong"
TEXTS = ["good film", "bad film", "fine film", "poor film"]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def model():
    made = models.TextClassifier(models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
    made.adapt(TEXTS * 4, ["+", "-", "+", "-"] * 4)
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rows = (TEXTS * 10, ["+", "-", "+", "-"] * 10)
    small = models.TextClassifier(models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
    config = training.TrainConfig(epochs=1, refit=False)
    held_out = (["good film", "bad film"], ["+", "-"])
    folder = tmp_path_factory.mktemp("runs") / "run"
    return training.train(rows, folder, model=small, config=config, validation=held_out, verbose=0)


def test_rows_with_labels_that_training_lacked_count_as_wrong_and_are_named(model):
    rows = LabelledRows(["good film", "bad film", "good film"], ["+", "new", "-"], "t.csv", [2, 3, 4])
    with pytest.warns(UserWarning, match=UNKNOWN):
        figures = training.evaluate(model, rows)
    found = [model.labels[place] for place in model.predict(rows.inputs, verbose=0).argmax(-1)]
    assert figures.rows == 3
    assert figures.accuracy == np.mean([one == other for one, other in zip(found, rows.targets, strict=True)])
    assert figures.macro_f1 == pytest.approx(f1_score(rows.targets, found, average="macro", zero_division=0))
    assert [(c.label, c.rows) for c in figures.classes] == [("+", 1), ("-", 1), ("new", 1)]


def test_rows_with_unknown_labels_are_left_out_where_asked(model):
    rows = LabelledRows(["good film", "bad film"], ["+", "new"], "t.csv", [2, 3])
    with pytest.warns(UserWarning, match="'new' \\(line 3\\). These rows are left out"):
        found = examine(model, rows, skip_unknown_labels=True)
    assert (found.figures.rows, [c.label for c in found.figures.classes]) == (1, ["+", "-"])


def test_a_file_without_a_single_known_label_is_refused(model):
    for skip in (False, True):
        with pytest.raises(DataError, match="all.csv: 2 of 2 rows have a label .* Known are \\+, -."):
            examine(model, LabelledRows(["a", "b"], ["x", "y"], "all.csv"), skip_unknown_labels=skip)


@pytest.mark.slow
def test_images_series_and_tokens_are_measured_with_unknown_labels_too():
    images = models.ImageClassifier(models.ImageConfig(width=8, num_layers=1, num_heads=1))
    pixels = np.zeros((4, 4, 4), "uint8")
    pixels[::2] = 200
    images.adapt(list(pixels), ["a", "b"] * 2)
    series = models.SeriesClassifier(
        models.SeriesClassifierConfig(width=8, num_layers=1, num_heads=1, kernels=0)
    )
    series.adapt([np.arange(4.0), np.ones(3)] * 2, ["a", "b"] * 2)
    tokens = models.TokenClassifier(models.TokenConfig(width=8, num_layers=1, num_heads=1, hash_buckets=64))
    tokens.adapt([["one"], ["two"]] * 2, [["a"], ["b"]] * 2)
    for model, inputs, targets in (
        (images, list(pixels[:2]), ["a", "new"]),
        (series, [np.arange(4.0), np.ones(3)], ["a", "new"]),
        (tokens, [["one"], ["two"]], [["a"], ["new"]]),
    ):
        with pytest.warns(
            UserWarning, match="1 of 2 rows have a label that was not in training: 'new' \\(row 1\\)"
        ):
            found = examine(model, (inputs, targets))
        assert found.figures.rows == 2
        assert "new" in [line[-3] for line in found.mistakes().rows]


@pytest.mark.slow
def test_validation_rows_with_unknown_labels_decide_nothing_and_count_as_wrong(tmp_path):
    config = training.TrainConfig(epochs=2, refit=False)
    rows = (TEXTS * 10, ["+", "-", "+", "-"] * 10)
    known, both = (["good film"], ["+"]), LabelledRows(["good film", "oh"], ["+", "new"], "dev.csv", [2, 3])
    small = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)
    runs = []
    for number, validation in enumerate((known, both)):
        made = models.TextClassifier(small)
        settings = {"model": made, "config": config, "validation": validation, "verbose": 0}
        if validation is known:
            runs.append(training.train(rows, tmp_path / str(number), **settings))
            continue
        said = (
            "dev.csv: 1 of 2 validation rows .*'new' \\(line 3\\). They do not decide when to stop, and count"
        )
        with pytest.warns(UserWarning, match=said):
            runs.append(training.train(rows, tmp_path / str(number), **settings))
    one, other = ((run.path / "history.csv").read_text() for run in runs)
    assert one == other
    assert (runs[1].figures.rows, runs[1].figures.accuracy) == (2, runs[0].figures.accuracy / 2)


def test_validation_rows_that_all_have_unknown_labels_are_refused(tmp_path):
    rows = (TEXTS * 10, ["+", "-", "+", "-"] * 10)
    with pytest.raises(DataError, match="validation rows: 1 of 1 validation rows have a label"):
        training.train(rows, tmp_path / "run", validation=(["a"], ["x"]), verbose=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "said"), [(TEXTS, "a list"), ((TEXTS,), "a tuple of 1"), ({"text": TEXTS}, "a dict")]
)
def test_what_is_no_pair_is_refused_with_what_it_is(given, said, tmp_path, model):
    said = f"rows must be a pair, \\(inputs, targets\\), or LabelledRows. Received {said}"
    with pytest.raises(DataError, match=f"training rows: {said}"):
        training.train(given, tmp_path / "run")
    with pytest.raises(DataError, match=f"rows: {said}"):
        training.evaluate(model, given)


@pytest.mark.slow
def test_a_pair_trains_every_task(tmp_path):
    config = training.TrainConfig(epochs=1, batch_size=16)
    series = [np.sin(np.arange(12.0) + n) for n in range(24)]
    small = {"width": 8, "num_layers": 1, "num_heads": 1}
    for number, (model, inputs, targets) in enumerate(
        (
            (models.TextClassifier(small | {"ngram_buckets": 64}), TEXTS * 6, [["+"], []] * 12),
            (
                models.TokenClassifier(small | {"hash_buckets": 64}),
                [["a"], ["b", "a"]] * 12,
                [["x"], ["y", "x"]] * 12,
            ),
            (models.ImageClassifier(small), np.random.default_rng(0).random((24, 4, 4)), np.arange(24) % 2),
            (models.SeriesClassifier(small | {"kernels": 0}), np.stack(series), ["a", "b"] * 12),
            (models.SeriesRegressor(small), series, np.arange(24.0)),
            (models.SeriesForecaster(small), series, [row[:2] for row in series]),
        )
    ):
        run = training.train((inputs, targets), tmp_path / str(number), model=model, config=config, verbose=0)
        assert run.figures.rows >= 1


@pytest.mark.slow
def test_the_command_writes_mistakes_and_names_unknown_labels(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text('text,label\ngood film,-\nbad film,+\ngood film,+\n"fine, oh",new\n')
    # Without this pytest makes an error of the warning.
    with pytest.warns(UserWarning, match="'new' \\(line 5\\). They count as wrong"):
        done = invoke("evaluate", run.path, table, "--mistakes", tmp_path / "m.csv")
    assert done.exit_code == 0, done.output
    assert "Most frequent mistakes" in done.output, "however few the classes"
    found = list(csv.DictReader((tmp_path / "m.csv").read_text(encoding="utf-8").splitlines()))
    assert list(found[0]) == ["line", "text", "label", "predicted", "probability"]
    assert {(row["line"], row["text"]) for row in found} >= {("5", "fine, oh")}
    assert f"Wrote {len(found)} mistakes to" in done.output
    scores = [float(row["probability"]) for row in found]
    assert scores == sorted(scores, reverse=True)
    assert len(read_table(tmp_path / "m.csv")) == len(found), "they can be corrected and trained on"
    with pytest.warns(UserWarning, match="These rows are left out"):
        done = invoke(
            "evaluate", run.path, table, "--mistakes", tmp_path / "m.jsonl", "--skip-unknown-labels"
        )
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert "new" not in {row["label"] for row in found}
    assert "On 3 " in done.output


@pytest.mark.slow
def test_no_mistakes_are_a_file_with_its_header(run, tmp_path):
    (tmp_path / "t.csv").write_text("text,label\ngood film,+\n")
    answered = run.model.labels[run.model.predict(["good film"], verbose=0)[0].argmax()]
    (tmp_path / "t.csv").write_text(f"text,label\ngood film,{answered}\n")
    assert invoke("evaluate", run.path, tmp_path / "t.csv", "--mistakes", tmp_path / "m.csv").exit_code == 0
    assert (tmp_path / "m.csv").read_text() == "line,text,label,predicted,probability\n"


def test_a_file_for_mistakes_that_cannot_be_written_is_said_before_a_model_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "keras_selfattn.runs.run_folder.is_pretrained", lambda _: pytest.fail("a run was read")
    )
    (tmp_path / "file").touch()
    for place, said in ((tmp_path, "must be a file"), (tmp_path / "file" / "m.csv", "cannot be written")):
        done = invoke("evaluate", "run", "t.csv", "--mistakes", place)
        assert done.exit_code == 1
        assert "--mistakes" in done.output
        assert said in " ".join(done.output.split())


@pytest.mark.slow
def test_the_example_of_a_run_is_a_row_that_it_answers_rightly(run):
    found = json.loads((run.path / "example.json").read_text())
    assert found["input"] in ("good film", "bad film")
    assert found["where"].startswith("row ")


def test_the_example_of_a_labeller_has_a_label_that_is_not_outside():
    head, rows = PositionHead(["B-PER", "O"], "IOB2"), [["a", "b"], ["Ada", "c"], ["Bob"]]
    outputs = [np.float32(row) for row in ([[0.1, 0.9]] * 2, [[0.1, 0.9]] * 2, [[0.8, 0.2]])]
    kinds = {"kind": TOKENS, "target_kind": LABEL_PER_POSITION}

    def example(targets):
        labelled = LabelledRows(rows, targets, "made up", **kinds)
        return Evaluation(head, labelled, outputs, None).example()["input"]

    assert example([["O", "O"], ["B-PER", "O"], ["B-PER"]]) == ["Bob"]  # the second is wrong
    assert example([["O", "O"], ["B-PER", "O"], ["O"]]) == ["Ada", "c"]
    assert example([["O", "O"], ["O", "O"], ["O"]]) == ["a", "b"]


@pytest.mark.slow
def test_an_example_with_half_a_surrogate_pair_is_written_as_utf_8(tmp_path):
    texts = [f"{word} \ud83d film {n}" for n in range(20) for word in ("good", "bad")]
    small = models.TextClassifier(models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
    config = training.TrainConfig(epochs=1)
    training.train((texts, ["+", "-"] * 20), tmp_path / "run", model=small, config=config, verbose=0)
    found = json.loads((tmp_path / "run" / "example.json").read_text(encoding="utf-8"))
    assert found["input"].replace("?", "\ud83d") in texts


def test_settings_that_are_not_for_the_targets_are_refused_before_training(tmp_path):
    series = [np.arange(5.0) + n for n in range(20)]
    small = models.SeriesRegressor(models.SeriesConfig(width=8, num_heads=1))
    for settings, said in (
        ({"label_smoothing": 0.1}, "`label_smoothing`"),
        ({"class_weight": "balanced"}, "one label"),
    ):
        config = training.TrainConfig(**settings)
        with pytest.raises(ConfigError, match=said):
            training.train((series, np.arange(20.0)), tmp_path / "run", model=small, config=config)
    assert not (tmp_path / "run").exists()
