"""Every task trains on JAX as on TensorFlow, in few compilations, and TensorFlow exports its models."""

import importlib.util
import itertools
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
from keras_selfattn.cli.shared.backend import check_backend
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.shapes import few_lengths

# The least optimisation: the steps are small, and compiling them is most of the time.
FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()"]
TASKS = list(backend_training.DATA)
on_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def run(words, backend="jax", **variables):
    env = {**os.environ, "KERAS_BACKEND": backend, "XLA_FLAGS": FLAGS, **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("backends")


@pytest.fixture(scope="module")
def wanted(folder):
    """The findings of TensorFlow, from the weights that JAX begins with, too."""
    found = {}
    start = write_folder(folder / "pretrained", BERT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_training.series_classifier, "_NOISE", 0.0)
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
    """The findings of JAX."""
    # The training that is repeated finds its steps there.
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    done = run([sys.executable, backend_training.__file__, str(folder)], **cache)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text("utf-8"))


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_the_same_weights_answer_and_learn_as_on_tensorflow(task, wanted, found):
    """Without dropout: rows are in the same batches, and the longer padding changes nothing."""
    ours, theirs = found[task], wanted[task]
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(ours["answers"], theirs["answers"], **close)
    assert len(ours["losses"]) == len(theirs["losses"]) == 10
    if task == "masked":  # the mean of several steps weighs each by its places, some of which fill a batch
        np.testing.assert_allclose(ours["losses"][0], theirs["losses"][0], **close)
    else:
        np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours["figures"], theirs["figures"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours["trained"], theirs["trained"], rtol=1e-4, atol=1e-4)


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_a_training_with_its_validation_compiles_at_most_seven_steps(task, found):
    """The evaluation of all rows afterwards compiles three more, and their predictions two."""
    compiled = found[task]["compiled"]
    steps = {"train_step", "test_step"} | ({"predict_step"} if task != "answers" else set())
    assert set(compiled) == steps
    assert compiled["train_step"] <= 4
    assert compiled["test_step"] <= 6
    assert compiled.get("predict_step", 0) <= 2


@on_jax
@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_what_jax_trained_answers_the_same_on_tensorflow_and_is_not_compiled_there(task, folder, found):
    model = models.load(folder / f"{task}-trained.keras")
    answers = backend_training.answers_of(model, *backend_training.DATA[task]())
    np.testing.assert_allclose(answers, found[task]["trained"], rtol=1e-4, atol=1e-5)
    assert not model.jit_compile  # XLA cannot compile strings


@on_jax
@pytest.mark.process
def test_a_whole_training_repeats_itself_in_under_ten_compilations_and_is_exported(folder, found, unchecked):
    whole = found["whole"]
    assert whole["repeated"]
    assert sum(whole["compiled"].values()) < 10
    there = backend_training.whole_training(folder / "there").figures.summary()["accuracy"]
    assert abs(whole["accuracy"] - there) < 0.2  # of 30 rows, with other dropout
    done = CliRunner().invoke(main, ["export", str(folder / "run"), str(folder / "models")])
    assert done.exit_code == 0, done.output


@pytest.mark.process
@pytest.mark.parametrize("backend", ["jaxx", "openvino"])
def test_a_wrong_backend_is_one_line(backend, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("text,label\n" + "good,+\nbad,-\n" * 20, encoding="utf-8")
    done = run([*COMMAND, "train", str(table), "--output", str(tmp_path / "run")], backend)
    assert done.returncode == 1
    said = f"Error: KERAS_BACKEND must be one of tensorflow, jax, torch. Received {backend!r}."
    assert done.stderr.strip() == said


def test_a_backend_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="'jax', which is not installed. Install it"):
        check_backend()


def test_a_backend_of_keras_own_file_is_checked_too(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    check_backend()
    (tmp_path / "keras.json").write_text('{"backend": "theano"}')
    with pytest.raises(
        ConfigError, match="keras.json must be one of tensorflow, jax, torch. Received 'theano'"
    ):
        check_backend()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    check_backend()


def test_few_lengths_pad_with_the_fewest_positions_of_all_choices():
    random = np.random.default_rng(0)
    for _ in range(100):
        lengths = random.integers(0, 20, random.integers(1, 12))
        found = few_lengths(lengths, 3)
        sizes = sorted({*np.maximum(lengths, 1).tolist()})
        chosen = [each for count in (1, 2, 3) for each in itertools.combinations(sizes, count)]

        def padded(tried, lengths=lengths):
            return sum(min(each for each in tried if each >= length) for length in lengths)

        best = min(padded(each) for each in chosen if each[-1] == sizes[-1])
        assert found[-1] == sizes[-1]
        assert best <= padded(found) <= best / 0.95**2  # a length that saves less is left out


@pytest.mark.parametrize(
    "lengths", [[9], [0, 0], [3] * 70, [*range(1, 301)], [5] * 300 + [700] * 30 + [4096] * 3]
)
def test_batches_of_few_lengths_hold_every_row_once_in_at_most_four_shapes(lengths):
    rows = [np.arange(1, length + 1, dtype=np.int32) for length in lengths]
    settings = {"batch_size": 64, "shuffle": True, "seed": 3}
    few = LengthSortedBatches(rows, np.arange(len(rows)), **settings, lengths=3)
    drawn = [batch for _ in range(3) for batch in few]
    assert len({ids.shape for ids, _ in drawn}) <= 4
    assert len(drawn) == 3 * len(few)
    assert sorted(place for _, chosen in drawn for place in chosen) == sorted([*range(len(rows))] * 3)
    for ids, chosen in drawn:
        np.testing.assert_array_equal((ids != 0).sum(1), np.array(lengths)[chosen])
        assert len(chosen) * ids.shape[1] ** 2 <= 2**23 or len(chosen) == 1
    if max(lengths) < 362:  # of one size: the same rows in the same order
        other = LengthSortedBatches(rows, np.arange(len(rows)), **settings)
        assert [c.tolist() for _ in range(3) for _, c in other] == [c.tolist() for _, c in drawn]


def test_without_targets_the_last_batch_is_filled_and_no_row_is_lost():
    rows = [np.full(length, length, np.int32) for length in (3, 1, 2, 5, 4)]
    batches = LengthSortedBatches(rows, batch_size=2, lengths=2)
    found = [ids for (ids,) in batches]
    assert {ids.shape for ids in found} <= {(2, 2), (2, 3), (2, 5)}
    firsts = np.concatenate([ids[:, 0] for ids in found])
    assert firsts.tolist() == [1, 2, 3, 4, 5, 5]
    assert firsts[: len(batches.order)][np.argsort(batches.order)].tolist() == [3, 1, 2, 5, 4]
