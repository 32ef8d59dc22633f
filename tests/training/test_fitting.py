"""Training again on all rows: the rows and epochs of the second model, and the rows of the figures."""

import json

import keras
import numpy as np
import pytest

from keras_selfattn import training
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, TrainingError
from keras_selfattn.models import TextClassifier, TextConfig
from keras_selfattn.models.saving import weight_parts
from keras_selfattn.runs.run_folder import load_run, read_metrics
from keras_selfattn.training import fitting
from keras_selfattn.training.calibration import copy_calibration
from keras_selfattn.training.fitting import enough_to_choose_epoch

SMALL = TextConfig(width=8, num_heads=2, min_count=1)
ROWS = LabelledRows(
    [f"{word} film number{n}" for n in range(60) for word in ("good", "bad", "fine", "poor")],
    ["+", "-", "+", "-"] * 60,
    "made up",
)
SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}


class Trainings(keras.callbacks.Callback):
    """Counts epochs and steps of each training, and keeps the weights of its last epoch."""

    def __init__(self):
        super().__init__()
        self.models, self.epochs, self.steps, self.last = [], [], [], []

    def on_train_begin(self, logs=None):
        self.models.append(self.model)
        self.epochs.append(0)
        self.steps.append(self.params["steps"])
        self.last.append([])

    def on_epoch_end(self, epoch, logs=None):
        self.epochs[-1] += 1
        self.last[-1] = [weight.numpy() for weight in self.model.trainable_weights]


class LossesGiven(keras.callbacks.Callback):
    """Says validation losses in place of those that were measured."""

    def __init__(self, losses):
        super().__init__()
        self.losses = losses

    def on_epoch_end(self, epoch, logs=None):
        if "val_loss" in logs:
            logs["val_loss"] = self.losses[epoch]


def trained(folder, seen=None, refit=True, losses=None, patience=3, share=0.45, **settings):
    """A run; of so many rows held out that they choose the epochs."""
    config = training.TrainConfig(**{**SETTINGS, "patience": patience, "validation": share}, refit=refit)
    callbacks = [] if seen is None else [seen]
    callbacks += [] if losses is None else [LossesGiven(losses)]
    model = settings.pop("model", None) or TextClassifier(SMALL)
    return training.train(
        ROWS, folder, model=model, config=config, callbacks=callbacks, verbose=0, **settings
    )


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    seen, model = Trainings(), TextClassifier(SMALL)
    return trained(tmp_path_factory.mktemp("runs") / "run", seen, model=model), seen, model


@pytest.mark.slow
def test_the_model_kept_has_seen_all_rows(again):
    run, seen, model = again
    assert run.model is model, "it is the one that was given"
    assert seen.models[1] is model
    assert seen.models[0] is not model
    assert (run.rows, run.again) == (240, True)
    known = set(run.model.tokenizer.vocabulary)
    assert {f"number{n}" for n in range(60)} <= known, "words of rows that were held out at first"
    assert seen.steps == [-(-132 // 16), 240 // 16]


@pytest.mark.slow
def test_it_is_trained_for_the_epochs_that_were_best(again):
    run, seen, _ = again
    assert seen.epochs[1] == run.best_epoch <= seen.epochs[0] == 3


def test_fewer_than_100_held_out_rows_are_too_few_to_choose_an_epoch():
    enough = LabelledRows(["a"] * 100, ["+"] * 100, "made up")
    assert [enough_to_choose_epoch(rows) for rows in (enough.take(range(99)), enough)] == [False, True]


def test_held_out_rows_of_one_group_count_as_one():
    voices = GroupedRows(["a"] * 300, ["+"] * 300, "made up", groups=[row % 3 for row in range(300)])
    assert voices.independent == 3
    assert not enough_to_choose_epoch(voices)
    assert enough_to_choose_epoch(GroupedRows(["a"] * 300, ["+"] * 300, "made up", groups=range(300)))


@pytest.mark.slow
def test_enough_of_them_choose_the_epochs_of_both_trainings(tmp_path):
    seen = Trainings()
    run = trained(tmp_path / "run", seen, losses=[1.0, 0.5, 0.7])
    assert (seen.epochs, run.best_epoch, run.epoch_chosen) == ([3, 2], 2, True)


@pytest.mark.slow
@pytest.mark.parametrize("held_out", ["a share", "given"])
def test_too_few_choose_no_epoch_for_all_rows_but_do_where_they_are_given(tmp_path, held_out):
    seen, rising = Trainings(), [1.0, 2.0, 3.0]
    if held_out == "given":
        validation = LabelledRows(["good new", "poor new"], ["+", "-"], "dev.csv")
        run = trained(tmp_path / "run", seen, losses=rising, patience=1, validation=validation)
        assert (seen.epochs, run.best_epoch, run.epoch_chosen) == ([2], 1, True)
        return
    run = trained(tmp_path / "run", seen, losses=rising, patience=1, share=0.1)
    assert (seen.epochs, run.best_epoch, run.epoch_chosen) == ([3, 3], 3, False)
    for kept, last in zip(seen.models[0].trainable_weights, seen.last[0], strict=True):
        np.testing.assert_array_equal(kept, last)


@pytest.mark.slow
def test_figures_are_of_the_model_that_had_not_seen_their_rows(again):
    run, seen, _ = again
    _, held_out = ROWS.split(0.45, seed=0)
    figures = training.evaluate(seen.models[0], held_out)
    assert read_metrics(run.path) == {**figures.summary(), "rows": 108, "split": "validation"}
    assert figures.summary() != training.evaluate(run.model, held_out).summary()


@pytest.mark.slow
def test_the_calibration_is_that_found_on_held_out_rows(again):
    run, seen, _ = again
    for name in ("probabilities", "mixture"):
        before, after = (model.core.get_layer(name).get_weights() for model in (seen.models[0], run.model))
        assert len(before) == 1
        np.testing.assert_array_equal(before, after)
    assert run.model.core.get_layer("mixture").shares.numpy().tolist() != pytest.approx([0.3, 1.0])


@pytest.mark.slow
def test_the_run_records_it_and_loads(again):
    run, _, _ = again
    config = json.loads((run.path / "config.json").read_text())
    assert config["trained_on"] == 240
    assert config["training"]["refit"] is True
    assert config["best_epoch"] == run.best_epoch
    assert config["data"]["train"]["rows"] == 132
    found, wanted = (model.predict(ROWS.inputs[:4], verbose=0) for model in (load_run(run.path), run.model))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.slow
def test_test_rows_are_answered_by_the_model_kept(tmp_path):
    test = LabelledRows(ROWS.inputs[:7], ROWS.targets[:7], "test.csv")
    run = trained(tmp_path / "run", test=test)
    assert read_metrics(run.path) == {
        **training.evaluate(run.model, test).summary(),
        "rows": 7,
        "split": "test",
    }


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["given", "not asked"])
def test_rows_given_for_validation_are_never_trained_on(tmp_path, reason):
    seen = Trainings()
    held_out = LabelledRows(["good new", "poor new"], ["+", "-"], "dev.csv")
    settings = {"validation": held_out} if reason == "given" else {"refit": False}
    run = trained(tmp_path / "run", seen, **settings)
    assert len(seen.epochs) == 1
    assert (run.rows, run.again) == ((240, False) if reason == "given" else (132, False))
    assert "new" not in run.model.tokenizer.vocabulary


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_again(again, tmp_path):
    models = (again[0].model, trained(tmp_path / "run").model)
    for ours, theirs in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_copying_a_calibration_leaves_other_weights():
    names = {"vocabulary": ["a"], "labels": ["+", "-"], "wide_features": 2}
    source, target = TextClassifier(SMALL, **names), TextClassifier(SMALL, **names)
    source.core.get_layer("mixture").shares.assign([0.5, 0.25])
    copy_calibration(source, target)
    assert target.core.get_layer("mixture").shares.numpy().tolist() == [0.5, 0.25]
    kernels = [model.core.get_layer("logits").kernel.numpy() for model in (source, target)]
    assert not np.array_equal(*kernels)


@pytest.mark.parametrize("tune", [-1.0, float("nan"), float("inf")])
def test_the_time_to_tune_is_checked_before_training(tmp_path, tune):
    with pytest.raises(ConfigError, match="`tune` must be seconds, 0 or more. Received"):
        trained(tmp_path / "run", tune=tune)


@pytest.mark.parametrize("in_memory", [False, True])
def test_the_best_weights_are_kept_in_a_file_or_in_memory_where_there_is_none(monkeypatch, in_memory):
    if in_memory:
        monkeypatch.setattr(fitting.tempfile, "TemporaryFile", no_room)
    monkeypatch.setattr(weight_parts, "_PART", 4)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Embedding(5, 2), keras.layers.Dense(3)])
    random = np.random.default_rng(0)
    of_epochs = [[random.normal(size=each.shape) for each in model.weights] for _ in range(5)]
    stopping = fitting._EarlyStopping("val_loss", mode="min", patience=2)
    stopping.set_model(model)
    stopping.on_train_begin()
    assert stopping.best_weights is None
    for epoch, loss in enumerate([0.6, 0.5, 0.4, 0.6, 0.7]):
        model.set_weights(of_epochs[epoch])
        stopping.on_epoch_end(epoch, {"val_loss": loss})
        assert stopping.best_epoch == min(epoch, 2)
        assert isinstance(stopping._kept, list) is in_memory
    assert stopping.stopped_epoch == 4
    for read, each in zip(stopping.best_weights, model.weights, strict=True):
        assert (read.dtype, read.shape) == (each.dtype, tuple(each.shape))
    stopping.on_train_end()
    assert_weights(model, of_epochs[2])
    stopping.best_weights = model.get_weights()  # as a checkpoint sets them
    model.set_weights([np.zeros(each.shape) for each in model.weights])
    stopping.on_train_end()
    assert_weights(model, of_epochs[2])


def assert_weights(model, wanted):
    for weight, value in zip(model.weights, wanted, strict=True):
        np.testing.assert_array_equal(np.array(weight), value.astype("float32"))


def test_without_its_figure_the_last_weights_stay():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    stopping = fitting._EarlyStopping("val_other", mode="min", patience=2)
    stopping.set_model(model)
    stopping.on_train_begin()
    with pytest.warns(UserWarning, match="val_other"):
        stopping.on_epoch_end(0, {"val_loss": 1.0})
    model.set_weights(last := [np.ones((3, 2)), np.ones(2)])
    stopping.on_train_end()
    assert_weights(model, last)


def no_room():
    raise OSError("No space left on device")


def test_a_figure_of_an_epoch_is_of_rows_from_all_over_a_file():
    assert fitting._spread(ROWS, None) is ROWS is fitting._spread(ROWS, len(ROWS))
    found = fitting._spread(ROWS, 5)
    assert found.inputs == [ROWS.inputs[place] for place in (0, 59, 119, 179, 239)]
    assert [fitting._mode(name) for name in ("val_loss", "val_character_error_rate", "val_spearman")] == [
        "min",
        "min",
        "max",
    ]


def test_a_loss_that_is_no_number_is_told_before_answers_are_searched_for():
    measured = fitting._FigureMeasured("character_error_rate", ROWS, training.TrainConfig(learning_rate=7.0))
    for logs in ({"loss": np.nan, "val_loss": 1.0}, {"loss": 1.0, "val_loss": np.inf}):
        with pytest.raises(TrainingError, match="NaN or infinite. Lower the learning rate; it was 7"):
            measured.on_epoch_end(0, logs)


@pytest.mark.parametrize(
    ("losses", "rates", "stops", "kept"),
    [
        ([4, 3, 2, 1.5, 1.2, 1.1], [0.4] * 6, None, 5),  # a plateau of the figure, while the loss falls
        ([4, 3, 3, 3, 3, 3], [0.4] * 6, 3, 1),
        ([4, 3, 2, 1.5, 1.2, 1.1], [0.4, 0, 0, 0, 0, 0], 3, 3),  # nothing is left to get better
        ([1, 2, 3, 4, 5, 6], [0.4, 0.3, 0.3, 0.3, 0.3, 0.3], 3, 1),
        ([1, 2, 3, 4, 5, 6], [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], None, 5),
        ([4, 3, 2, 2.5, 1, 2.2], [0.4, 0.3, 0.2, 0.1, 0.2, 0.1], None, 5),  # not the least loss of all
    ],
)
def test_answers_are_waited_for_while_their_loss_falls(losses, rates, stops, kept):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.build((None, 1))
    stopping = fitting._early_stopping("val_character_error_rate", training.TrainConfig(patience=2))
    stopping.set_model(model)
    for _ in range(2):  # a second fit begins anew
        stopping.on_train_begin()
        model.stop_training, found = False, None
        for epoch, (loss, rate) in enumerate(zip(losses, rates, strict=True)):
            model.set_weights([np.full((1, 1), epoch), np.zeros(1)])
            stopping.on_epoch_end(epoch, {"val_loss": loss, "val_character_error_rate": rate})
            if model.stop_training:
                found = epoch
                break
        assert found == stops
        # Of equally good epochs, the one with the least loss.
        assert stopping.best_epoch == kept == stopping.best_weights[0].item()
        columns = {"val_loss": losses[: epoch + 1], "val_character_error_rate": rates[: epoch + 1]}
        assert fitting._best_of(columns, "val_character_error_rate") == kept


def test_other_figures_do_not_wait_for_the_loss():
    stopping = fitting._early_stopping("val_spearman", training.TrainConfig(patience=2))
    stopping.set_model(keras.Sequential([keras.layers.Dense(1)]))
    stopping.on_train_begin()
    for epoch in range(3):
        stopping.on_epoch_end(epoch, {"val_loss": -float(epoch), "val_spearman": 0.5})
    assert stopping.model.stop_training
