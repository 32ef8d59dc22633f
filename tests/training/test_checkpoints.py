"""A training that is killed and goes on ends like one that was never killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from keras_selfattn import models, training
from keras_selfattn.errors import ConfigError, OtherProcessError, RunError, TrainingError
from keras_selfattn.training import TrainConfig, checkpoints
from keras_selfattn.training.checkpoints import digest_of, digest_of_files

WORDS = ["film", "bore", "plot", "cast", "scene", "music", "end", "start", "hero", "villain"]


def texts(count, seed=0):
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for row in range(count):
        label = "+" if row % 2 else "-"
        words = list(random.choice(WORDS, random.integers(3, 40)))
        words.insert(random.integers(0, 3), "fine" if label == "+" else "poor")
        rows.append(" ".join(words))
        labels.append(label)
    return rows, labels


ROWS = texts(160)


def text_model(**changes):
    settings = {"width": 16, "num_heads": 2, "num_layers": 1, "ngram_buckets": 64, "training_span": 16}
    return models.TextClassifier(models.TextConfig(**(settings | {"dropout": 0.2, "members": 2} | changes)))


class KilledError(Exception):
    """Stands for the signal."""


class KilledAt(keras.callbacks.Callback):
    """Ends everything after a number of batches, of all fits together."""

    def __init__(self, batches):
        super().__init__()
        self._left = batches

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if self._left == 0:
            raise KilledError


class Batches(keras.callbacks.Callback):
    """Counts the batches of all fits together."""

    count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1


@pytest.fixture(autouse=True)
def each_epoch(monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN", 0.0)


def trained(output, callbacks=(), *, resume=True, model=text_model, rows=ROWS, report=print, **settings):
    settings = {"epochs": 3, "batch_size": 32, "learning_rate": 3e-3, "refit": True, **settings}
    config = TrainConfig(**settings)
    made = model()
    return training.train(
        rows, output, model=made, config=config, resume=resume, callbacks=callbacks, verbose=0, report=report
    )


def state_of(run):
    """The weights, the figures and the history of a run."""
    history = (run.path / "history.csv").read_text()
    return run.model.get_weights(), json.loads((run.path / "metrics.json").read_text()), history


def assert_equal(first, other):
    for one, two in zip(first[0], other[0], strict=True):
        np.testing.assert_array_equal(one, two)
    assert first[1] == other[1]
    assert first[2] == other[2]


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_as_if_never_killed(tmp_path):
    """In a later epoch of the first training, in the second, and in that of another encoder."""
    counted, said, output = Batches(), [], tmp_path / "killed"
    whole = state_of(trained(tmp_path / "whole", [counted]))
    for batches in (10, counted.count // 2):
        with contextlib.suppress(KilledError):
            trained(output, [KilledAt(batches)])
        assert not output.exists()
    assert_equal(state_of(trained(output, report=said.append)), whole)
    assert sum("Goes on after epoch" in line for line in said) > 1
    assert [path.name for path in tmp_path.iterdir() if "killed" in path.name] == ["killed"]


@pytest.mark.slow
def test_a_model_of_answers_goes_on_with_the_figure_that_chooses_its_epoch(tmp_path):
    words = ["".join(np.random.default_rng(row).choice(list("abcd"), 1 + row % 5)) for row in range(60)]
    settings = {"refit": False, "rows": (words, [word[::-1] for word in words])}
    config = {"width": 8, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "tokens": "characters"}
    make = lambda: models.SequenceToSequence({**config, "max_new_tokens": 8})  # noqa: E731
    whole = state_of(trained(tmp_path / "whole", model=make, **settings))
    with contextlib.suppress(KilledError):
        trained(tmp_path / "killed", [KilledAt(3)], model=make, **settings)
    said = []
    assert_equal(state_of(trained(tmp_path / "killed", model=make, report=said.append, **settings)), whole)
    assert any("Goes on after epoch 1" in line for line in said)
    assert "val_character_error_rate" in whole[2].partition("\n")[0]


@pytest.mark.slow
def test_killed_after_the_stop_nothing_is_trained_again(tmp_path, monkeypatch):
    """The best weights come back, though no epoch follows in which they could be restored."""
    noise = np.random.default_rng(0).permutation(ROWS[1]).tolist()  # the loss on held-out rows soon rises
    settings = {"refit": False, "patience": 1, "epochs": 12, "learning_rate": 0.03, "rows": (ROWS[0], noise)}
    make = lambda: text_model(members=1, wide=False)  # noqa: E731
    whole = state_of(trained(tmp_path / "whole", model=make, **settings))
    assert whole[2].count("\n") < 1 + settings["epochs"], "the training was to stop early"

    def killed(*_args, **_more):
        raise KilledError

    with monkeypatch.context() as patched, contextlib.suppress(KilledError):
        patched.setattr("keras_selfattn.training.training.measured", killed)
        trained(tmp_path / "killed", model=make, **settings)
    counted = Batches()
    run = trained(tmp_path / "killed", [counted], model=make, **settings)
    assert counted.count == 0
    assert_equal(state_of(run), whole)


@pytest.mark.slow
def test_pretraining_hides_the_same_words_after_a_kill(tmp_path):
    def pretrained(name, callbacks=()):
        made = models.MaskedTokenModel(models.TextConfig(width=16, num_heads=2, num_layers=1))
        config = TrainConfig(epochs=3, batch_size=32)
        output = tmp_path / name
        return training.pretrain(
            ROWS[0], output, model=made, config=config, resume=True, callbacks=callbacks, verbose=0
        )

    whole = state_of(pretrained("whole"))
    with contextlib.suppress(KilledError):
        pretrained("killed", [KilledAt(10)])
    assert_equal(state_of(pretrained("killed")), whole)


@pytest.mark.slow
def test_a_checkpoint_without_a_column_of_later_versions_goes_on(tmp_path):
    def resume(callbacks=()):
        return trained(
            tmp_path / "run", callbacks, refit=False, model=lambda: text_model(members=1, wide=False)
        )

    with contextlib.suppress(KilledError):
        resume([KilledAt(10)])
    (file,) = (tmp_path / ".run.checkpoint").iterdir()
    arrays = dict(np.load(file))
    state = json.loads(str(arrays["state"]))
    del state["history"]["learning_rate"]
    with file.open("wb") as written:
        np.savez(written, **{**arrays, "state": json.dumps(state)})
    head, *epochs = (resume().path / "history.csv").read_text().splitlines()
    assert "learning_rate" not in head
    assert len(epochs) == 3


@pytest.mark.slow
def test_a_checkpoint_of_something_else_is_refused_and_kept(tmp_path):
    one_encoder = lambda: text_model(members=1, wide=False)  # noqa: E731

    def resume(**other):
        return trained(tmp_path / "run", refit=False, **({"model": one_encoder} | other))

    with contextlib.suppress(KilledError):
        resume(callbacks=[KilledAt(10)])
    (file,) = (tmp_path / ".run.checkpoint").iterdir()
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="has other rows. Give those, or remove that folder"):
        resume(rows=texts(160, seed=1))
    with pytest.raises(ConfigError, match="has other settings"):
        resume(learning_rate=0.1)
    with pytest.raises(ConfigError, match="has other settings"):
        resume(model=lambda: text_model(members=1, wide=False, width=8))
    assert file.read_bytes() == before
    file.write_bytes(before[: len(before) // 2])
    with pytest.raises(RunError, match=r"fit-1\.npz cannot be read.* Remove .*\.run\.checkpoint to start"):
        resume()
    file.unlink()
    assert resume().path.exists()


def test_resume_is_a_flag_and_not_for_a_search(tmp_path):
    with pytest.raises(ConfigError, match=r"`resume` must be True or False. Received 'yes'"):
        trained(tmp_path / "run", resume="yes")
    with pytest.raises(ConfigError, match=r"`tune` \(--tune\) and `trials` \(--trials\) make many"):
        training.train(ROWS, tmp_path / "run", resume=True, tune=60.0)
    assert not list(tmp_path.iterdir())


def test_a_second_process_is_refused(tmp_path):
    with (
        checkpoints.checkpoint_folder(tmp_path / "run"),
        pytest.raises(RunError, match=r"Another process trains .*run with resume"),
        checkpoints.checkpoint_folder(tmp_path / "run"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_refused_process_leaves_the_folder_of_the_first_one(tmp_path):
    """Otherwise a third one would train beside the first."""
    with checkpoints.checkpoint_folder(tmp_path / "run") as folder:
        for _ in range(2):
            with (
                pytest.raises(RunError, match="Another process"),
                checkpoints.checkpoint_folder(tmp_path / "run"),
            ):
                pass
        assert folder.exists()


def test_the_drafts_of_a_killed_training_are_removed(tmp_path):
    killed, other = tmp_path / ".run.tmp-abcdefgh", tmp_path / ".run2.tmp-abcdefgh"
    file = tmp_path / ".run.checkpoint" / ".fit-1.npz.tmp-abcdefgh"
    for folder in (killed, other, file.parent):
        folder.mkdir()
    file.touch()
    with checkpoints.checkpoint_folder(tmp_path / "run"):
        assert not file.exists()
    assert list(tmp_path.iterdir()) == [other]


def test_a_training_that_failed_leaves_no_checkpoint(tmp_path):
    """The error advises a lower learning rate, with which the checkpoint would be refused."""

    def fails():
        with checkpoints.checkpoint_folder(tmp_path / "run") as folder:
            (folder / "fit-1.npz").touch()
            raise TrainingError("The loss became NaN.")

    with pytest.raises(TrainingError):
        fails()
    assert not list(tmp_path.iterdir())


def test_the_checkpoint_stays_if_another_process_failed(tmp_path):
    """The same command goes on from it when all are started again."""

    def fails():
        with checkpoints.checkpoint_folder(tmp_path / "run") as folder:
            (folder / "fit-1.npz").touch()
            raise OtherProcessError("Process 1 has gone without a word.")

    with pytest.raises(OtherProcessError):
        fails()
    assert (tmp_path / ".run.checkpoint" / "fit-1.npz").exists()


def test_the_files_to_start_from_are_told_apart_by_their_content(tmp_path):
    found = []
    for content in ("one", "other"):
        (tmp_path / "base").mkdir(exist_ok=True)
        (tmp_path / "base" / "model.keras").write_text(content)
        found += [digest_of_files(tmp_path / "base"), digest_of_files(tmp_path / "base" / "model.keras")]
    assert len(set(found)) == 4
    (tmp_path / "base").rename(tmp_path / "moved")
    assert digest_of_files(tmp_path / "moved") == found[2]


def test_an_output_that_exists_leaves_no_folder_of_checkpoints(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError):
        trained(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_digests_tell_apart_what_is_not_the_same():
    lists = [["ab", "c"], ["a", "bc"], ["abc"], [], [None], [1], [1.0], [True], ["1"], ["\ud800"]]
    arrays = [np.array([1]), np.array([1.0]), np.array([[1]]), [np.array([1])]]
    values = [*lists, *arrays, "abc", b"abc", {"a": 1}, {"a": 2}]
    assert len({digest_of(value) for value in values}) == len(values)
    assert digest_of([np.arange(6).reshape(2, 3).T]) == digest_of([np.arange(6).reshape(2, 3).T.copy()])


@pytest.mark.process
@pytest.mark.slow
def test_a_command_that_is_killed_goes_on(tmp_path):
    table = tmp_path / "films.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(*ROWS, strict=True)))
    program = (
        "from keras_selfattn.training import checkpoints\n"
        "checkpoints._SECONDS_BETWEEN = 0.0\n"
        "from keras_selfattn.cli.entry import main\nmain()"
    )
    options = ["--resume", "--members", "1", "--epochs", "12", "--width", "16", "--heads", "2", "--no-refit"]
    command = [
        sys.executable,
        "-c",
        program,
        "train",
        str(table),
        "--output",
        str(tmp_path / "run"),
        *options,
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as first:
        deadline = time.monotonic() + 120
        for line in first.stdout:
            assert time.monotonic() < deadline
            if "epoch 2/" in line:
                break
        first.send_signal(signal.SIGKILL)
    assert not (tmp_path / "run").exists()
    second = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "Goes on after epoch" in second.stdout
    assert "epoch 1/" not in second.stdout
    assert (tmp_path / "run" / "model.keras").exists()
    assert not (tmp_path / ".run.checkpoint").exists()
