"""The number of rows of a run, computed without a server."""

import pytest

from keras_selfattn.serving.server.batching import thread_shares as module
from keras_selfattn.serving.server.batching.thread_shares import Shares


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def timed(shares, rows, seconds):
    for _ in range(100):
        shares.took(rows, seconds)
    return shares


@pytest.mark.usefixtures("clock")
def test_each_thread_has_its_part_of_all_rows():
    shares = timed(Shares(threads=4), rows=10, seconds=0.01)
    shares.came(1)
    assert shares.are_worth_a_run(1)
    shares.came(29)
    assert shares.most() == 8
    assert [shares.are_worth_a_run(waiting) for waiting in (6, 7)] == [False, True]


def test_rows_that_have_left_are_remembered_for_a_while(clock):
    shares = Shares(threads=2)
    shares.came(64)
    shares.left(60)
    assert shares.most() == 32
    clock[0] += 0.25
    assert shares.most() == 16
    clock[0] += 1000
    assert shares.most() == 2


@pytest.mark.usefixtures("clock")
def test_rows_that_are_soon_done_are_worth_a_run_when_they_are_many():
    shares = timed(Shares(threads=8), rows=10, seconds=0.0005)
    shares.came(8)
    shares.took(rows=0, seconds=1.0)  # tells nothing of rows
    assert shares.most() == 10
    assert [shares.are_worth_a_run(waiting) for waiting in (9, 11)] == [False, True]


@pytest.mark.usefixtures("clock")
def test_rows_that_take_long_wait_for_no_others():
    shares = timed(Shares(threads=2), rows=1, seconds=0.02)
    shares.came(64)
    assert [shares.are_worth_a_run(waiting) for waiting in (2, 3)] == [False, True]


def test_what_is_not_known_yet_is_worth_a_run():
    shares = Shares(threads=2)
    shares.came(64)
    assert shares.are_worth_a_run(1)
