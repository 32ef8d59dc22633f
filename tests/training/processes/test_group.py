"""A process of a group ends with its reason and status and without a draft; all stop as the first does."""

import sys
import threading
from types import SimpleNamespace

import keras
import pytest

from keras_selfattn.errors import ConfigError, OtherProcessError, Terminated, TrainingError
from keras_selfattn.training import ProcessGroup
from keras_selfattn.training.processes import group as process_group
from keras_selfattn.training.processes.data_parallel import AgreedLogs


class Channel:
    """One that has heard of a failure, or has not."""

    def __init__(self, failure):
        self.failure, self.failed, self.told = failure, threading.Event(), []
        if failure is not None:
            self.failed.set()

    def tell_failure(self, reason):
        self.told.append(reason)

    def from_first(self, value):
        return value

    def close(self, seconds=0.0):
        pass


@pytest.fixture
def left(monkeypatch):
    """The statuses of processes that would have ended."""
    found = []
    later = SimpleNamespace(register=lambda _leave, status: found.append(status))
    monkeypatch.setattr(process_group, "atexit", later)
    monkeypatch.setattr(process_group, "os", SimpleNamespace(_exit=found.append))
    monkeypatch.setattr(process_group, "_NOTICE_SECONDS", 0.01)
    monkeypatch.setattr(process_group, "_REASON_SECONDS", 0.01)
    return found


def group(failure=None, index=1):
    made = ProcessGroup("localhost:1", 2, index)
    made._channel = Channel(failure)
    return made


def ends(made, error):
    """Return the error that the block of a group raises, in which this one was raised."""
    try:
        made.__exit__(type(error), error, None)
    except Exception as other:  # noqa: BLE001  whatever it is
        return other
    return error


GONE = "Process 0 has gone without a word."


@pytest.mark.parametrize("error", [RuntimeError("Gloo: connection closed"), OtherProcessError(GONE)])
def test_the_reason_is_that_of_the_process_that_failed_first(left, error):
    found = ends(group(GONE), error)
    assert isinstance(found, OtherProcessError)
    assert str(found).startswith(f"{GONE} Start all again; with `resume`")


def test_processes_that_do_not_reach_each_other_are_told_in_a_sentence(left):
    found = ends(group(), RuntimeError("Gloo context initialization failed: DEADLINE_EXCEEDED.\nstack"))
    assert isinstance(found, TrainingError)
    assert "cannot exchange their values: Gloo context initialization failed: DEADLINE_EXCEEDED. JAX" in str(
        found
    )
    assert "--resume" in str(found)


def test_a_reason_of_another_one_ends_with_a_full_stop(left):
    found = ends(group("Process 1 failed: OSError: disk full"), OtherProcessError("it"))
    assert "disk full. Start all again" in str(found)


@pytest.mark.parametrize(
    "error", [TrainingError("The loss became NaN."), ConfigError("Process 1 has other rows")]
)
def test_an_error_of_all_keeps_its_own_words(left, error):
    assert ends(group("Process 0 failed: the same"), error) is error


def test_the_others_are_told_of_an_error_of_this_process(left):
    made = group()
    assert isinstance(ends(made, OSError("disk full")), OSError)
    assert made._channel.told == ["OSError: disk full"]


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (Terminated(), 143), (OSError("disk full"), 1)]
)
def test_the_status_is_the_one_without_a_group(left, error, status):
    ends(group(), error)
    assert left == [status]


class Broken:
    """A pipe that nobody reads any more."""

    def write(self, _text):
        raise BrokenPipeError

    flush = write


def test_a_process_that_does_not_notice_a_failure_ends_and_leaves_no_draft(left, monkeypatch, tmp_path):
    draft = tmp_path / ".run.tmp-abcdefgh"
    draft.mkdir()
    made = group(GONE, index=0)
    made.removes(draft)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Broken())
    made._watch()
    assert left == [1]
    assert not draft.exists()


@pytest.mark.parametrize("first_stops", [True, False])
def test_all_stop_when_the_first_one_does(first_stops):
    said = []

    class Group:
        def __init__(self, index):
            self.index = index

        def from_first(self, value):
            said.append(value)
            return said[0]

    logs = [{"val_loss": 0.5}, {"val_loss": 0.6}]
    models = [keras.Model(), keras.Model()]
    for index, model in enumerate(models):
        model.stop_training = first_stops == (index == 0)
        agreed = AgreedLogs(Group(index))
        agreed.set_model(model)
        agreed.on_epoch_end(0, logs[index])
    assert [model.stop_training for model in models] == [first_stops] * 2
    assert logs == [{"val_loss": 0.5}] * 2
