"""Windows of series with what comes next: all stretches, and held out by time."""

import numpy as np
import pytest

from keras_selfattn.data.windows import cut_windows
from keras_selfattn.errors import ConfigError, DataError

NAN = float("nan")


def test_windows_hold_every_stretch_with_what_comes_next():
    series = [np.stack([np.arange(6.0), np.ones(6)], axis=1), np.arange(3.0)]
    windows = cut_windows(series, context=3, horizon=2)
    assert [row[:, 0].tolist() for row in windows.inputs] == [[0, 1, 2], [1, 2, 3]]
    assert windows.inputs[0].shape == (3, 2)
    assert [target.tolist() for target in windows.targets] == [[3, 4], [4, 5]]
    holes = cut_windows([np.array([0, 1, 2, NAN, 4, 5, 6])], context=2, horizon=1)
    assert [target.tolist() for target in holes.targets] == [[2], [4], [5], [6]]


def test_an_infinite_value_is_no_missing_one():
    series = [np.arange(9.0), np.stack([np.arange(9.0), np.ones(9)], axis=1)]
    series[1][8, 0] = np.inf
    with pytest.raises(
        DataError, match=r"series 1 \(counted from 0\) has an infinite value in frame 8, feature 0"
    ):
        cut_windows(series, 3, 2)


def test_windows_are_held_out_by_time_and_nothing_held_out_was_seen():
    windows = cut_windows([np.arange(50.0), 100 + np.arange(40.0), 200 + np.arange(7.0)], 4, 3)
    kept, held = windows.split(0.2, seed=0)
    for level in (0, 100):
        first = min(target[0] for target in held.targets if level <= target[0] < level + 100)
        seen = [target[-1] for target in kept.targets if level <= target[0] < level + 100]
        assert max(seen) < first
    assert 0.15 < len(held) / len(windows) < 0.25
    assert {row[0, 0] for row in kept.inputs} >= {200.0}, "a series of one window teaches"


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (2.0, 1)])
def test_windows_of_no_size_are_refused(arguments):
    with pytest.raises(ConfigError, match="must be a positive integer"):
        cut_windows([np.arange(9.0)], *arguments)


def test_series_too_short_for_a_window_or_a_split_are_refused():
    with pytest.raises(DataError, match="no series has 5 frames and 2 known values .* longest has 6"):
        cut_windows([np.arange(6.0)], 5, 2)
    with pytest.raises(DataError, match="too few windows to hold 10% of them out in time: 2"):
        cut_windows([np.arange(7.0)], 4, 2).split(0.1, 0)
