"""Batches of like lengths: every row once, bounded memory, and one order for each seed."""

import numpy as np
import pytest

from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.training import checkpoints


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


def test_batches_hold_like_lengths_and_every_row_once():
    random = np.random.default_rng(0)
    lengths = random.integers(0, 60, 500)
    labels = np.arange(500)
    batches = LengthSortedBatches(rows(*lengths), labels, batch_size=16, shuffle=True, seed=3)
    first, second = list(batches), list(batches)
    assert len(first) == len(batches) == 32
    assert sorted(np.concatenate([chosen for _, chosen in first]).tolist()) == list(range(500))
    for ids, chosen in first:
        np.testing.assert_array_equal((ids != 0).sum(1), lengths[chosen])
    padding = sum((ids == 0).sum() for ids, _ in first) / sum(ids.size for ids, _ in first)
    assert padding < 0.1
    assert [c.tolist() for _, c in first] != [c.tolist() for _, c in second]
    again = list(LengthSortedBatches(rows(*lengths), labels, batch_size=16, shuffle=True, seed=3))
    assert [c.tolist() for _, c in again] == [c.tolist() for _, c in first]


def test_batches_of_any_length_are_of_similar_size_and_hold_every_row_once():
    lengths = np.random.default_rng(0).integers(1, 60, 640)
    sizes = {}
    for pool in (1, 50):
        batches = LengthSortedBatches(rows(*lengths), np.arange(640), batch_size=32, shuffle=True, pool=pool)
        found = list(batches)
        assert sorted(np.concatenate([chosen for _, chosen in found]).tolist()) == list(range(640))
        assert len(found) == len(batches) == 20
        sizes[pool] = max((ids != 0).sum() for ids, _ in found) / (lengths.sum() / 20)
    assert sizes[1] < 1.25
    assert sizes[50] > 1.8


def test_long_rows_come_in_smaller_batches_so_that_memory_is_bounded():
    lengths = [5] * 300 + [700] * 30 + [1500] * 9 + [4096] * 2
    batches = LengthSortedBatches(rows(*lengths), batch_size=64, shuffle=True)
    shapes = [ids.shape for (ids,) in batches]
    assert len(shapes) == len(batches)
    assert sum(size for size, _ in shapes) == len(lengths)
    assert all(size == 1 or size * longest**2 <= 2**23 for size, longest in shapes)
    assert sorted(size for size, longest in shapes if longest == 5) == [44, 64, 64, 64, 64]
    unshuffled = LengthSortedBatches(rows(*lengths[::-1]), batch_size=64)
    longest = [row for (ids,) in unshuffled for row in (ids != 0).sum(1)]
    assert longest == sorted(lengths)
    assert [lengths[::-1][row] for row in unshuffled.order] == longest


def test_within_a_window_batches_shrink_with_the_length_not_with_its_square():
    lengths = [400] * 128 + [4096] * 20 + [100_000] * 2
    shapes = [ids.shape for (ids,) in LengthSortedBatches(rows(*lengths), batch_size=64, window=128)]
    assert shapes == [(64, 400)] * 2 + [(4, 4096)] * 5 + [(1, 100_000)] * 2
    assert all(size == 1 or size * longest * 257 <= 2**23 for size, longest in shapes)


def test_of_a_longer_row_a_batch_holds_a_run_and_another_one_each_time():
    lengths = [40, 300, 100, 7]
    batches = LengthSortedBatches(rows(*lengths), np.arange(4), batch_size=4, span=100, shuffle=True, seed=3)
    again = LengthSortedBatches(rows(*lengths), np.arange(4), batch_size=4, span=100, shuffle=True, seed=3)
    starts = []
    for _ in range(60):
        (ids, chosen), (same, _) = next(iter(batches)), next(iter(again))
        np.testing.assert_array_equal(ids, same)
        of_row = dict(zip(chosen.tolist(), ids, strict=True))
        starts.append(of_row[1][0])
        np.testing.assert_array_equal(of_row[1], np.arange(100) + starts[-1])
        for place in (0, 2, 3):
            np.testing.assert_array_equal(of_row[place][: lengths[place]], rows(lengths[place])[0])
            assert not of_row[place][lengths[place] :].any()
    assert 1 <= min(starts) < 20
    assert 180 < max(starts) <= 201
    assert len(set(starts)) > 40


def test_unshuffled_batches_tell_where_each_row_went():
    batches = LengthSortedBatches(rows(3, 0, 2), batch_size=2)
    assert [ids.shape for (ids,) in batches] == [(2, 2), (1, 3)]
    assert batches.order.tolist() == [1, 2, 0]


OF_TOKENS = [[0.5, 0.0, 3.0, 1.0, 0.0], [2.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0, 1.0, 4.0, 0.0, 0.25]]


def test_weights_of_padding_are_0_in_a_batch_of_any_length():
    rows = [np.arange(1, 1 + len(each)) for each in OF_TOKENS]
    weights = [np.array(each, "float32") for each in OF_TOKENS]
    for lengths in (None, 1):
        ((_, _, found),) = LengthSortedBatches(rows, rows, weights, batch_size=4, lengths=lengths)
        assert found.tolist() == [[*OF_TOKENS[row], *[0.0] * (7 - len(rows[row]))] for row in (1, 2, 0, 3)]


def test_batches_pad_every_axis_that_differs():
    rows = [np.array([[1, 2, 3]]), np.array([[4], [5]])]
    batches = LengthSortedBatches(rows, [np.array([7]), np.array([8, 9])], batch_size=2)
    ((found, labels),) = batches.dataset()
    assert found.numpy().tolist() == [[[1, 2, 3], [0, 0, 0]], [[4, 0, 0], [5, 0, 0]]]
    assert labels.numpy().tolist() == [[7, 0], [8, 9]]


@pytest.fixture(autouse=True)
def each_epoch(monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN", 0.0)


def test_skipped_iterations_leave_the_next_one_as_it_is():
    def batches():
        rows = [np.arange(length) for length in range(1, 40)]
        return LengthSortedBatches(rows, np.arange(39), batch_size=4, shuffle=True, seed=3, span=8)

    read, skipped = batches(), batches()
    for _ in range(2):
        list(read)
    skipped.skip(2)
    for (rows, targets), (others, numbers) in zip(read, skipped, strict=True):
        np.testing.assert_array_equal(rows, others)
        np.testing.assert_array_equal(targets, numbers)


@pytest.mark.parametrize(("tokens", "size"), [(10, 64), (1024, 8), (4096, 1)])
def test_long_rows_make_batches_small(tokens, size):
    rows = [np.ones(3, "int32"), np.ones(tokens, "int32")]
    assert LengthSortedBatches(rows, batch_size=64).smallest_size == size


@pytest.mark.parametrize("even", [1.5, 2.0, 4.0])
def test_even_batches_have_no_more_positions_than_asked_and_all_rows_once(even):
    lengths = [3] * 40 + [7] * 20 + [40, 41, 97]
    rows = [np.full(length, place + 1) for place, length in enumerate(lengths)]
    batches = LengthSortedBatches(rows, np.arange(len(rows)), batch_size=8, even=even, shuffle=True)
    seen = [(ids.size, targets.tolist()) for ids, targets in batches]
    most = even * 8 * np.mean(lengths)
    assert max(size for size, targets in seen if len(targets) > 1) <= most
    assert sorted(row for _, targets in seen for row in targets) == list(range(len(rows)))
    assert len(seen) == len(batches)


def test_batches_that_need_not_be_even_have_their_whole_size():
    rows = [np.ones(length) for length in [1] * 9 + [90] * 3]
    sizes = [len(ids) for (ids,) in LengthSortedBatches(rows, batch_size=4)]
    assert sizes == [4, 4, 4]
