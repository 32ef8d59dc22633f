"""The number of rows of a run, computed without a server."""

import pytest

from keras_selfattn.serving.server.batching import batch_queue as module
from keras_selfattn.serving.server.batching.batch_queue import BatchSizer


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def timed(sizer, rows, seconds):
    for _ in range(100):
        sizer.record_run(rows, seconds)
    return sizer


@pytest.mark.usefixtures("clock")
def test_each_thread_has_its_part_of_all_rows():
    sizer = timed(BatchSizer(threads=4), rows=10, seconds=0.01)
    sizer.add_rows(1)
    assert sizer.are_worth_a_run(1)
    sizer.add_rows(29)
    assert sizer.max_rows() == 8
    assert [sizer.are_worth_a_run(waiting) for waiting in (6, 7)] == [False, True]


def test_rows_that_have_left_are_remembered_for_a_while(clock):
    sizer = BatchSizer(threads=2)
    sizer.add_rows(64)
    sizer.remove_rows(60)
    assert sizer.max_rows() == 32
    clock[0] += 0.25
    assert sizer.max_rows() == 16
    clock[0] += 1000
    assert sizer.max_rows() == 2


@pytest.mark.usefixtures("clock")
def test_rows_that_are_soon_done_are_worth_a_run_when_they_are_many():
    sizer = timed(BatchSizer(threads=8), rows=10, seconds=0.0005)
    sizer.add_rows(8)
    sizer.record_run(rows=0, seconds=1.0)  # tells nothing of rows
    assert sizer.max_rows() == 10
    assert [sizer.are_worth_a_run(waiting) for waiting in (9, 11)] == [False, True]


@pytest.mark.usefixtures("clock")
def test_rows_that_take_long_wait_for_no_others():
    sizer = timed(BatchSizer(threads=2), rows=1, seconds=0.02)
    sizer.add_rows(64)
    assert [sizer.are_worth_a_run(waiting) for waiting in (2, 3)] == [False, True]


def test_what_is_not_known_yet_is_worth_a_run():
    sizer = BatchSizer(threads=2)
    sizer.add_rows(64)
    assert sizer.are_worth_a_run(1)
