"""Training and the run folder: what it holds, what is refused, and that nothing half-written stays."""

import csv
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

from keras_selfattn import training
from keras_selfattn.cli.export import targets_for
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError, RunError, TrainingError
from keras_selfattn.models import SequenceToSequence, TextClassifier, TextConfig
from keras_selfattn.models.batches import length_sorted as batches
from keras_selfattn.runs.run_folder import load_run, read_metrics, task_of_run
from keras_selfattn.training.calibration import calibrate

SMALL = TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64)
DEEP = TextConfig(**SMALL.to_dict() | {"wide": False})
ROWS = LabelledRows(
    [f"{word} film number{n}" for n in range(20) for word in ("good", "bad", "fine", "poor")],
    ["+", "-", "+", "-"] * 20,
    "made up",
)
FAST = training.TrainConfig(epochs=12, batch_size=16, learning_rate=0.02)


def trained(folder, **settings):
    return training.train(ROWS, folder, model=TextClassifier(SMALL), config=FAST, verbose=0, **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "deep" / "run")


@pytest.mark.slow
def test_a_run_folder_holds_everything_about_the_run(run):
    names = {path.name for path in run.path.iterdir()}
    assert names == {
        "classes.csv",
        "config.json",
        "confusion.csv",
        "example.json",
        "history.csv",
        "metrics.json",
        "model.keras",
        "report.html",
        "vocabulary.txt",
    }
    figures = read_metrics(run.path)
    assert 0 <= figures.pop("calibration_error") < 0.2
    assert figures == {"accuracy": 1.0, "macro_f1": 1.0, "rows": 8, "split": "validation"}
    config = json.loads((run.path / "config.json").read_text())
    assert config["labels"] == ["+", "-"]
    assert config["kind"] == "TextClassifier"
    assert task_of_run(run.path).name == "text"
    assert config["training"]["seed"] == 0
    assert (config["backend"], config["processes"]) == (keras.backend.backend(), 1)
    assert config["best_epoch"] == run.best_epoch
    assert config["data"]["train"] == {"source": "made up", "rows": 72}
    assert {"keras", "tensorflow", "keras-selfattn"} <= set(config["versions"])
    history = list(csv.DictReader((run.path / "history.csv").read_text().splitlines()))
    figures = ["attention_accuracy", "attention_loss", "val_accuracy", "val_loss"]
    assert list(history[0]) == ["epoch", *figures, "learning_rate"]
    losses = [float(epoch["val_loss"]) for epoch in history]
    assert run.best_epoch == 1 + losses.index(min(losses))
    tokens = (run.path / "vocabulary.txt").read_text().splitlines()
    assert "good" in [json.loads(token) for token in tokens]


@pytest.mark.slow
def test_a_loaded_run_answers_as_the_trained_model_did(run):
    texts = ROWS.inputs[:5]
    found, wanted = (model.predict(texts, verbose=0) for model in (load_run(run.path), run.model))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_another_does_not(run, tmp_path):
    again = trained(tmp_path / "again")
    for ours, theirs in zip(run.model.get_weights(), again.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    other = training.TrainConfig(epochs=1, seed=1)
    differs = training.train(ROWS, tmp_path / "other", model=TextClassifier(SMALL), config=other, verbose=0)
    assert not np.array_equal(differs.model.get_weights()[0], run.model.get_weights()[0])


@pytest.mark.slow
def test_the_best_weights_are_restored(tmp_path):
    """Every validation label is wrong, so that its loss rises as the training rows are learned."""
    wrong = LabelledRows(ROWS.inputs, ROWS.targets[::-1], "wrong")
    config = training.TrainConfig(epochs=6, batch_size=16, learning_rate=0.02, patience=6)
    run = training.train(
        ROWS, tmp_path / "run", model=TextClassifier(DEEP), config=config, verbose=0, validation=wrong
    )
    history = list(csv.DictReader((run.path / "history.csv").read_text().splitlines()))
    losses = [float(epoch["val_loss"]) for epoch in history]
    run.model.core.get_layer("probabilities").temperature.assign(1.0)  # which calibration has changed
    loss = run.model.evaluate(wrong.inputs, wrong.targets, verbose=0)[0]
    assert loss == pytest.approx(min(losses), rel=1e-4)
    assert losses[-1] > min(losses)


@pytest.mark.slow
def test_test_rows_are_what_the_figures_are_of(tmp_path):
    test = LabelledRows(["good", "bad", "bad"], ["+", "-", "+"], "test.csv")
    run = trained(tmp_path / "run", test=test)
    assert read_metrics(run.path)["split"] == "test"
    assert read_metrics(run.path)["rows"] == 3
    assert run.figures.accuracy == pytest.approx(2 / 3)


@pytest.mark.slow
def test_an_existing_run_is_refused_before_training_and_replaced_where_asked(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(RunError, match="exists already. Choose another output folder, or replace"):
        trained(folder)
    with pytest.raises(RunError, match="is not a run folder, so it is not replaced"):
        trained(folder, overwrite=True)
    assert (folder / "old").exists()
    (folder / "model.keras").touch()
    trained(folder, overwrite=True)
    assert (folder / "model.keras").exists()
    assert not (folder / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_file_is_never_replaced(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(RunError, match="is a file, which a folder cannot replace"):
        trained(tmp_path / "run", overwrite=True)


@pytest.mark.slow
def test_an_interrupt_while_training_leaves_the_old_run_and_nothing_else(tmp_path):
    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.keras").touch()
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", overwrite=True, callbacks=[Interrupt()])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["model.keras"]


class Never(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        raise AssertionError("training began")


def test_an_output_that_cannot_be_written_is_said_before_training(tmp_path):
    (tmp_path / "file").touch()
    for output in (tmp_path / "file" / "run", tmp_path / ("x" * 300)):
        with pytest.raises(RunError, match="cannot be written"):
            trained(output, callbacks=[Never()])


@pytest.mark.slow
def test_a_loss_that_is_no_number_any_more_is_an_error(tmp_path):
    config = training.TrainConfig(epochs=2, learning_rate=1e30)
    with pytest.raises(TrainingError, match="Lower the learning rate; it was 1e\\+30"):
        training.train(ROWS, tmp_path / "run", model=TextClassifier(SMALL), config=config, verbose=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_tables_without_rows_are_refused(run, tmp_path):
    empty = LabelledRows([], [], "empty.csv")
    with pytest.raises(DataError, match="empty.csv has no rows"):
        training.train(empty, tmp_path / "run")
    for held_out in ({"validation": empty}, {"test": empty}):
        with pytest.raises(DataError, match="empty.csv has no rows"):
            trained(tmp_path / "run", callbacks=[Never()], **held_out)
    with pytest.raises(DataError, match="empty.csv has no rows"):
        training.evaluate(run.model, empty)


def test_one_class_is_refused_before_training(tmp_path):
    with pytest.raises(DataError, match="one.csv: A classifier needs at least two classes"):
        training.train(LabelledRows(["a"], ["+"], "one.csv"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seconds", ["10", float("nan"), -1])
def test_a_time_to_tune_that_is_none_is_refused(tmp_path, seconds):
    with pytest.raises(ConfigError, match="`tune` must be seconds, 0 or more"):
        trained(tmp_path / "run", tune=seconds)


@pytest.mark.slow
def test_a_training_of_several_labels_a_row(tmp_path):
    texts = [f"{a} {b} number{n}" for n in range(20) for a in ("good", "bad") for b in ("fast", "slow")]
    targets = [[word for word in ("good", "fast") if word in text] for text in texts]
    rows = LabelledRows(texts, targets, "made up")
    settings = training.TrainConfig(epochs=12, batch_size=16, learning_rate=0.02, label_smoothing=0.05)
    run = training.train(rows, tmp_path / "run", model=TextClassifier(SMALL), config=settings, verbose=0)
    assert read_metrics(run.path) == {
        "micro_f1": 1.0,
        "macro_f1": 1.0,
        "accuracy": 1.0,
        "rows": 8,
        "split": "validation",
    }
    assert {path.name for path in run.path.glob("*.csv")} == {"classes.csv", "history.csv"}


@pytest.mark.slow
def test_class_weights_give_a_rare_class_its_say(tmp_path):
    """With rows that say nothing, the prediction is the prior: that of the rows, or the even one.

    The validation rows are weighted alike, or the best epoch would be the one that knows the weights least.
    """
    rows = LabelledRows(["word"] * 100, ["a"] * 90 + ["b"] * 10, "made up")
    found = {}
    for asked in (None, "balanced", {"b": 9.0}):
        config = training.TrainConfig(epochs=6, batch_size=10, learning_rate=0.02, class_weight=asked)
        same = LabelledRows(["word"] * 10, ["a"] * 9 + ["b"], "made up")
        run = training.train(
            rows,
            tmp_path / str(asked),
            model=TextClassifier(SMALL),
            config=config,
            validation=same,
            verbose=0,
        )
        run.model.core.get_layer("probabilities").temperature.assign(1.0)
        found[str(asked)] = run.model.predict(["word"], verbose=0)[0, 1]
    assert found["None"] < 0.3
    assert 0.3 < found["balanced"] < 0.7
    assert 0.3 < found["{'b': 9.0}"] < 0.7


def test_what_cannot_be_recorded_is_said_before_training(tmp_path):
    with pytest.raises(ConfigError, match="`reading` must hold what JSON can"):
        trained(tmp_path / "run", reading={"text": tmp_path}, callbacks=[Never()])
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("container", [list, np.array, pd.Series])
def test_labels_are_numbers_in_any_container(tmp_path, container):
    texts, numbers = container(ROWS.inputs), container([int(label == "+") for label in ROWS.targets])
    fast = training.TrainConfig(epochs=1)
    rows = LabelledRows(texts, numbers, "made up")
    run = training.train(rows, tmp_path / "run", model=TextClassifier(SMALL), config=fast, verbose=0)
    assert run.model.labels == ["0", "1"]
    assert training.evaluate(run.model, rows).rows == 80


@pytest.mark.slow
def test_lists_of_numbers_are_several_labels_a_row(tmp_path):
    rows = LabelledRows(ROWS.inputs, [[1, 20] if label == "+" else [] for label in ROWS.targets], "made up")
    fast = training.TrainConfig(epochs=1)
    run = training.train(rows, tmp_path / "run", model=TextClassifier(SMALL), config=fast, verbose=0)
    assert run.model.labels == ["1", "20"]
    assert training.evaluate(run.model, rows).rows == 80


@pytest.mark.slow
def test_targets_of_the_other_kind_are_refused_before_training_and_prediction(run, tmp_path):
    lists = LabelledRows(["a", "b"], [["+", "-"], ["-"]], "lists.csv")
    for held_out in ({"validation": lists}, {"test": lists}):
        with pytest.raises(DataError, match="lists.csv: Label 0 .* must be one name"):
            trained(tmp_path / "run", callbacks=[Never()], **held_out)
    with pytest.raises(DataError, match="lists.csv: Label 0 .* must be one name"):
        training.evaluate(run.model, lists)
    for model in (run.model, run.model.core):
        with pytest.raises(DataError, match="lists.csv: Label 0 .* must be one name"):
            targets_for(model, lists)
    names = LabelledRows(["a", "b"], ["ab", "b"], "names.csv")
    several = TextClassifier(SMALL, vocabulary=["a"], labels=["a", "b"], multi_label=True)
    with pytest.raises(DataError, match="names.csv: The labels of row 0 .* must be a list. Received 'ab'"):
        training.evaluate(several, names)
    with pytest.raises(DataError, match="short.csv: Texts and labels differ in number. Received 2 and 1"):
        training.evaluate(run.model, LabelledRows(["a", "b"], ["+"], "short.csv"))


@pytest.mark.slow
def test_a_single_label_can_be_learned_that_a_row_bears_or_not(tmp_path):
    targets = [["good"] if "good" in text else [] for text in ROWS.inputs]
    run = training.train(
        LabelledRows(ROWS.inputs, targets, "made up"),
        tmp_path / "run",
        model=TextClassifier(SMALL),
        config=FAST,
        verbose=0,
    )
    assert (run.model.labels, run.model.multi_label) == (["good"], True)
    assert run.figures.summary()["micro_f1"] == 1.0


@pytest.mark.slow
def test_a_temperature_brings_confidence_to_how_often_it_is_right():
    """A model is sure, and right in three of four rows: calibrated, it says so, and answers the same."""
    model = TextClassifier(SMALL, vocabulary=["word"], labels=["a", "b"])
    kernel, bias = model.core.get_layer("logits").weights
    kernel.assign(np.zeros_like(kernel))
    bias.assign([5.0, 0.0])
    rows = LabelledRows(["word"] * 400, ["a", "a", "a", "b"] * 100, "made up")
    temperature = calibrate(model, rows)
    assert temperature == pytest.approx(5 / np.log(3), rel=0.03)
    np.testing.assert_allclose(model.predict(["word"], verbose=0)[0], [0.75, 0.25], atol=0.01)
    assert training.evaluate(model, rows).summary()["calibration_error"] < 0.01
    right = LabelledRows(["word"] * 30, ["a"] * 30, "made up")
    # Where the loss of 30 rows falls as fast as the square of the logarithm rises.
    temperature = calibrate(model, right)
    wrong = 1 / (1 + np.exp(5 / temperature))
    assert 30 * 5 / temperature * wrong == pytest.approx(-np.log(temperature), rel=0.02)
    assert calibrate(model, LabelledRows(["word"] * 19, ["b"] * 19, "made up")) is None, "too few to tell"


@pytest.mark.slow
def test_temperature_of_several_labels_a_row():
    model = TextClassifier(SMALL, vocabulary=["word"], labels=["a", "b"], multi_label=True)
    kernel, bias = model.core.get_layer("logits").weights
    kernel.assign(np.zeros_like(kernel))
    bias.assign([5.0, -5.0])
    rows = LabelledRows(["word"] * 400, [["a"], ["a"], ["a"], ["b"]] * 100, "made up")
    assert calibrate(model, rows) == pytest.approx(5 / np.log(3), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True])
def test_the_learning_rate_falls_over_the_steps_there_are_however_long_the_rows(monkeypatch, tmp_path, long):
    if long:  # as if each row filled a batch of its own
        monkeypatch.setattr(batches, "_MAX_PAIRS", 1)
    config = training.TrainConfig(epochs=2, batch_size=16, patience=2)
    model = training.train(ROWS, tmp_path / "run", model=TextClassifier(DEEP), config=config, verbose=0).model
    schedule = model.optimizer.get_config()["learning_rate"]["config"]
    steps = int(model.optimizer.iterations)
    assert steps == (2 * 72 if long else 2 * 5)
    assert schedule["warmup_steps"] + schedule["decay_steps"] == steps


@pytest.mark.slow
def test_what_a_callback_cannot_write_is_its_own_error_and_leaves_nothing(tmp_path):
    class Full(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise FileExistsError("the checkpoint is there already")

    with pytest.raises(FileExistsError, match="the checkpoint") as raised:
        trained(tmp_path / "run", callbacks=[Full()])
    assert not isinstance(raised.value, RunError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_class_of_no_weight_is_not_learned_and_rows_that_all_weigh_nothing_are_refused(tmp_path):
    rows = LabelledRows(
        [f"{word} {n}" for n in range(30) for word in ("good", "fine", "odd")],
        ["+", "-", "x"] * 30,
        "made up",
    )
    config = training.TrainConfig(epochs=1, class_weight={"x": 0.0})
    done = training.train(rows, tmp_path / "run", model=TextClassifier(SMALL), config=config, verbose=0)
    assert done.model.predict(["odd"], verbose=0).argmax() != done.model.labels.index("x")
    none = training.TrainConfig(epochs=1, class_weight=dict.fromkeys("+-x", 0.0))
    with pytest.raises(DataError, match="All rows weigh 0"):
        training.train(rows, tmp_path / "none", model=TextClassifier(SMALL), config=none, verbose=0)


@pytest.mark.slow
@pytest.mark.usefixtures("eager_steps")
def test_a_training_passes_at_most_six_files_of_its_room(tmp_path):
    folder, passed = str(Path(training.__file__).parent), set()

    def noted(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            passed.add(Path(frame.f_code.co_filename).name)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        config = training.TrainConfig(epochs=1)
        training.train(ROWS, tmp_path / "run", model=TextClassifier(DEEP), config=config, verbose=0)
    finally:
        sys.setprofile(before)
    assert {"training.py", "fitting.py", "schedule.py"} <= passed
    assert len(passed) <= 6, passed


def test_a_model_that_cannot_answer_on_the_backend_is_refused_before_it_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    rows, model = (["ab", "ba"] * 5, ["ba", "ab"] * 5), SequenceToSequence({"width": 8, "num_heads": 2})
    with pytest.raises(ConfigError, match="backend of Keras is jax: set KERAS_BACKEND=tensorflow, and leave"):
        training.train(rows, tmp_path / "run", model=model, verbose=0)
    assert not model.built
    assert not list(tmp_path.iterdir())
