"""Callbacks of Keras, and KerasTuner, with every kind of model; going on after a kill -9 inside an epoch."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 4
LABELS = ["+", "+", "-", "-"] * 4
SERIES = np.random.default_rng(0).normal(size=(16, 5, 3)).astype("float32")
IMAGES = np.random.default_rng(0).integers(0, 255, size=(16, 8, 8)).astype("uint8")
TOKENS = [["a", "film"], ["the", "best", "film"]] * 8
TAGS = [["D", "N"], ["D", "A", "N"]] * 8
KINDS = {
    "text": (lambda: models.TextClassifier({**SMALL, "ngram_buckets": 64}), (TEXTS, LABELS)),
    "tokens": (lambda: models.TokenClassifier({**SMALL, "hash_buckets": 64}), (TOKENS, TAGS)),
    "series": (lambda: models.SeriesClassifier({**SMALL, "kernels": 20}), (SERIES, LABELS)),
    "regression": (lambda: models.SeriesRegressor(SMALL), (SERIES, SERIES.sum((1, 2)))),
    "forecast": (lambda: models.SeriesForecaster(SMALL), (SERIES, SERIES[:, :2, 0])),
    "images": (lambda: models.ImageClassifier(SMALL), (IMAGES, LABELS)),
    "masked": (lambda: models.MaskedTokenModel(SMALL), (TEXTS,)),
    "answers": (
        lambda: models.SequenceToSequence({**SMALL, "tokens": "characters", "max_new_tokens": 8}),
        ([text[:6] for text in TEXTS], [text[:6][::-1] for text in TEXTS]),
    ),
}
EPOCHS, KILLED_IN = 3, 1


def fitted(kind, callbacks, epochs=EPOCHS):
    make, rows = KINDS[kind]
    model = make()
    model.compile()
    return model, model.fit(*rows, batch_size=4, epochs=epochs, callbacks=callbacks, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_tensorboard_and_checkpoints_are_written_and_read(kind, tmp_path, eager_steps):
    best = tmp_path / "epoch{epoch}.keras"
    callbacks = [
        keras.callbacks.TensorBoard(tmp_path / "board"),
        keras.callbacks.ModelCheckpoint(best, save_freq="epoch"),
    ]
    model, history = fitted(kind, callbacks, epochs=2)
    (events,) = (tmp_path / "board" / "train").glob("events*")
    losses = [
        float(tf.make_ndarray(value.tensor))
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
        if value.tag == "epoch_loss"
    ]
    np.testing.assert_allclose(losses, history.history["loss"], rtol=1e-6)
    loaded = models.load(tmp_path / "epoch2.keras")
    rows = KINDS[kind][1][0][:3] if kind != "masked" else ["a [mask] film"]
    for one, other in zip(loaded.predict(rows, verbose=0), model.predict(rows, verbose=0), strict=True):
        if kind == "answers":
            assert one == other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert (tmp_path / "epoch1.keras").is_file()


class Inside(keras.callbacks.Callback):
    """Calls a function in the middle of an epoch, with the weights of its beginning in a file."""

    def __init__(self, then, path):
        super().__init__()
        self.then, self.path, self.epoch = then, path, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if epoch == KILLED_IN:
            np.savez(self.path, *self.model.get_weights())

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (KILLED_IN, 1):
            self.then()


def train_until_killed(folder):
    """All kinds are in the middle of an epoch at once, each inside a step of the one before, when it ends."""

    def of(kinds):
        if not kinds:
            os.kill(os.getpid(), signal.SIGKILL)
        kind, *others = kinds
        backup = keras.callbacks.BackupAndRestore(folder / kind / "backup")
        fitted(kind, [backup, Inside(lambda: of(others), folder / kind / "begun.npz")])

    for kind in KINDS:
        (folder / kind).mkdir()
    of(list(KINDS))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    program = (
        f"import sys, pathlib; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "import keras; keras.Model.run_eagerly = property(lambda _: True, lambda _, value: None)\n"
        f"import {Path(__file__).stem} as tests; tests.train_until_killed(pathlib.Path({str(folder)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=300, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return folder


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_training_killed_inside_an_epoch_goes_on_from_its_beginning(kind, killed, eager_steps):
    """BackupAndRestore keeps whole epochs: the one in which the process died is trained again, no other."""
    begun = []

    class Beginning(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            begun.append((epoch, self.model.get_weights()))

    backup = keras.callbacks.BackupAndRestore(killed / kind / "backup")
    _, history = fitted(kind, [backup, Beginning()])
    assert [epoch for epoch, _ in begun] == list(range(KILLED_IN, EPOCHS))
    assert history.epoch == list(range(KILLED_IN, EPOCHS))
    kept = np.load(killed / kind / "begun.npz")
    for one, other in zip(begun[0][1], kept.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not (killed / kind / "backup").exists() or not list((killed / kind / "backup").iterdir())


@pytest.mark.slow
# Of KerasTuner itself, which names threads in a way that Python deprecates.
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_keras_tuner_searches_settings_and_returns_the_best_model(tmp_path, eager_steps):
    keras_tuner = pytest.importorskip("keras_tuner")

    def built(hyper):
        width = hyper.Choice("width", [4, 8])
        model = models.TextClassifier({**SMALL, "width": width, "ngram_buckets": 64})
        # So that the tuner can load the weights of a trial into a new model.
        model.adapt(TEXTS, LABELS)
        model.compile()
        return model

    tuner = keras_tuner.GridSearch(built, objective="val_loss", max_trials=2, directory=tmp_path, seed=0)
    tuner.search(TEXTS, LABELS, validation_data=(TEXTS, LABELS), epochs=1, verbose=0)
    assert {trial.hyperparameters["width"] for trial in tuner.oracle.trials.values()} == {4, 8}
    (best,) = tuner.get_best_models(1)
    assert best.evaluate(TEXTS, LABELS, verbose=0)[0] == pytest.approx(
        tuner.oracle.get_best_trials(1)[0].score, rel=1e-4
    )
