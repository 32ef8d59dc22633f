"""How many rows a run should have: with nothing served, as arithmetic."""

import pytest

from keras_selfattn.serving.server import shares as module
from keras_selfattn.serving.server.shares import Shares


class Model:
    """Stands for a servable."""


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_each_thread_has_its_part_of_all_rows():
    shares, model = Shares(threads=4), Model()
    shares.came(1)
    assert shares.is_worth_a_run(model, 1)
    shares.came(29)
    assert shares.most(model) == 8
    assert [shares.is_worth_a_run(model, waiting) for waiting in (6, 7)] == [False, True]


@pytest.mark.usefixtures("clock")
def test_rows_that_have_left_are_remembered_for_a_while(clock):
    shares, model = Shares(threads=2), Model()
    shares.came(64)
    shares.left(60)
    assert shares.most(model) == 32
    clock[0] += 0.25
    assert shares.most(model) == 16
    clock[0] += 1000
    assert shares.most(model) == 2


def test_rows_that_are_soon_done_are_worth_a_run_when_they_are_many():
    shares, quick, slow = Shares(threads=8), Model(), Model()
    shares.came(8)
    for _ in range(100):
        shares.took(quick, rows=10, seconds=0.0005)
        shares.took(slow, rows=10, seconds=0.5)
    shares.took(quick, rows=0, seconds=1.0)  # tells nothing of rows
    assert (shares.most(quick), shares.most(slow), shares.most(Model())) == (10, 1, 1)
    assert [shares.is_worth_a_run(quick, waiting) for waiting in (9, 11)] == [False, True]
    assert shares.is_worth_a_run(slow, 1)


def test_what_a_row_takes_is_forgotten_with_its_model():
    shares, model = Shares(threads=1), Model()
    shares.took(model, rows=1, seconds=0.5)
    assert len(shares._row_seconds) == 1
    del model
    assert not shares._row_seconds
