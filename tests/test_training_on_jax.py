"""Every task trains on JAX as on TensorFlow, in few compilations, and what JAX trained is exported from there."""

import importlib.util
import json
import os
import subprocess
import sys

import backend_training
import keras
import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import BERT, write_folder

from keras_selfattn import models
from keras_selfattn.cli.main import main

# The least optimisation: the steps are small, and compiling them is most of the time.
FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()"]
on_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def run(words, backend="jax", **settings):
    env = {**os.environ, "KERAS_BACKEND": backend, "XLA_FLAGS": FLAGS}
    return subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=900, check=False, **settings
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("backends")


@pytest.fixture(scope="module")
def wanted(folder):
    """What TensorFlow finds, from the weights that JAX begins with, too."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_training.series_classifier, "_NOISE", 0.0)
        start = write_folder(folder / "pretrained", BERT)
        for name, data in backend_training.DATA.items():
            rows, targets = data()
            keras.utils.set_random_seed(1)
            model = backend_training.MODELS[name](start)
            model.adapt(rows, targets)
            model.compile(None if model.learning_rates else keras.optimizers.SGD(0.05))
            model.save(folder / f"{name}.keras")
            found[name] = backend_training.observed(model, rows, targets)
    return found


@pytest.fixture(scope="module")
def found(folder, wanted):
    """What JAX finds."""
    done = run([sys.executable, backend_training.__file__, str(folder)])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text("utf-8"))


TASKS = list(backend_training.DATA)


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_the_same_weights_answer_and_learn_as_on_tensorflow(task, wanted, found):
    """Without dropout: rows are in the same batches, and the longer padding changes nothing."""
    ours, theirs = found[task], wanted[task]
    np.testing.assert_allclose(ours["answers"], theirs["answers"], rtol=1e-4, atol=1e-5)
    if task == "masked":  # of many steps the mean weighs a step by its places, some of which fill a batch
        np.testing.assert_allclose(ours["losses"][0], theirs["losses"][0], rtol=1e-5)
    else:
        assert len(ours["losses"]) == len(theirs["losses"]) == 10
        np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours["figures"], theirs["figures"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours["trained"], theirs["trained"], rtol=1e-3, atol=1e-4)


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_a_training_with_validation_evaluation_and_predictions_compiles_under_ten_steps(task, found):
    compiled = found[task]["compiled"]
    assert set(compiled) == {"train_step", "test_step", "predict_step"}
    assert sum(compiled.values()) < 10


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_what_jax_saved_answers_the_same_on_tensorflow_and_trains_on_there(task, folder, found):
    model = models.load(folder / f"{task}-trained.keras")
    rows, targets = backend_training.DATA[task]()
    asked = backend_training.asked_of(model, rows)
    np.testing.assert_allclose(
        backend_training.flat(model.predict(asked, verbose=0)), found[task]["trained"], rtol=1e-4, atol=1e-5
    )
    if task == "text":  # XLA cannot compile strings
        assert not model.jit_compile
        model.fit(rows, targets, epochs=1, verbose=0)


@on_jax
@pytest.mark.process
def test_a_whole_training_repeats_itself_in_under_ten_compilations_and_exports(folder, found, unchecked):
    whole = found["whole"]
    assert whole["repeated"]
    assert sum(whole["compiled"].values()) < 10
    there = backend_training.whole_training(folder / "there").figures.summary()["accuracy"]
    assert abs(whole["accuracy"] - there) < 0.2  # of 27 rows
    done = CliRunner().invoke(main, ["export", str(folder / "run"), str(folder / "models")])
    assert done.exit_code == 0, done.output
