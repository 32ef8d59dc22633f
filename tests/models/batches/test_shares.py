"""The shares of several processes are, put together, the batches of one process."""

import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.shares import Share, current_share, feeding

RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(1, 30, 47)
ROWS = [np.arange(length, dtype=np.int32) + 1 for length in LENGTHS]
KINDS = {
    "labels": {"targets": np.arange(47)},
    "positions": {"targets": [row * 2 for row in ROWS]},
    "weights": {"targets": np.arange(47), "weights": RANDOM.random(47)},
    "weights of positions": {
        "targets": [row * 2 for row in ROWS],
        "weights": [row.astype("float32") for row in ROWS],
        "lengths": 2,
    },
    "beside": {"targets": np.arange(47), "beside": RANDOM.random((47, 3))},
    "spans": {"targets": np.arange(47), "span": 10},
    "few lengths": {"targets": np.arange(47), "lengths": 3},
    "tokens of few lengths": {"targets": [row * 2 for row in ROWS], "lengths": 2},
}


def epochs(kind, share=None, rows=ROWS, size=8, count=2):
    given = {} if share is None else {"share": share}
    batches = LengthSortedBatches(rows, **KINDS[kind], batch_size=size, shuffle=True, seed=5, **given)
    found = [list(batches) for _ in range(count)]
    assert all(len(epoch) == len(batches) for epoch in found)
    return [batch for epoch in found for batch in epoch]


def flat(batch):
    first, *others = batch
    return [*(first if isinstance(first, tuple) else [first]), *others]


@pytest.mark.parametrize("kind", KINDS)
def test_the_shares_of_a_batch_are_the_batch_of_one_process(kind):
    whole = epochs(kind)
    shares = [epochs(kind, Share(index, 4)) for index in range(4)]
    assert len(shares[0]) == len(whole), "47 rows: 5 batches of 8, and one of 7 of which 4 are shared"
    for batch, *parts in zip(whole, *shares, strict=True):
        for array, *of_processes in zip(flat(batch), *map(flat, parts), strict=True):
            joined = np.concatenate(of_processes)
            np.testing.assert_array_equal(joined, array[: len(joined)])
            assert len(joined) == len(array) - len(array) % 4


@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_make_as_many_steps_of_the_same_shapes(kind):
    shapes = [
        [[array.shape for array in flat(batch)] for batch in epochs(kind, Share(index, 3), size=7)]
        for index in range(3)
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert {shape[0] for batch in shapes[0] for shape in batch[:1]} == {1, 2}, "of 6 rows, and of the last 5"


def test_a_last_batch_too_small_to_share_is_left_out():
    rows = ROWS[:17]
    batches = LengthSortedBatches(rows, np.arange(17), batch_size=8, share=Share(1, 2))
    assert [len(targets) for _, targets in batches] == [4, 4]
    assert len(batches) == 2


def test_a_batch_of_long_rows_has_a_row_for_each_process():
    rows = [np.ones(6000, np.int32)] * 4
    (first, _), (second, _) = LengthSortedBatches(rows, np.arange(4), batch_size=8, share=Share(0, 2))
    assert len(first) == len(second) == 1


def test_fewer_rows_than_processes_are_refused():
    with pytest.raises(DataError, match="4 processes cannot share 3 training rows"):
        LengthSortedBatches(ROWS[:3], np.arange(3), batch_size=8, share=Share(0, 4))


def test_a_share_is_fed_within_its_block_alone():
    with feeding(Share(1, 2)):
        assert current_share() == (1, 2)
    assert current_share() == (0, 1)
