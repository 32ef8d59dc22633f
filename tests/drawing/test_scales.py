"""Scales and ticks of axes: round numbers within their span."""

import math

import pytest

from keras_selfattn.drawing.scales import Scale, number, span, ticks


def test_round_ticks_lie_within_their_axis():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(1, 4, whole=True) == [1, 2, 3, 4]
    for low, high in ((0.013, 0.0171), (-3, 1e6), (1e-9, 3e-9)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 12
        assert low <= found[0] < found[-1] <= high


def test_spans_of_one_value_of_none_and_of_gaps_have_a_width():
    assert span([2.0, math.nan, 5.0, math.inf]) == (2, 5)
    assert span([3.0, 3.0]) == (2.7, 3.3)
    assert span([0.0]) == (-1, 1)
    assert span([math.nan]) == (0, 1)
    assert span([4.0], least=0) == (0, 4)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.98765, "0.9877"),
        (1e-7, "1e-7"),
        (12345.6, "12,346"),
        (-1.5e30, "-1.5e30"),
        (math.nan, "none"),
        (-2.0, "-2"),
    ],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


def test_a_scale_maps_its_ends_to_its_ends():
    scale = Scale(2, 4, 100, 0)
    assert (scale(2), scale(3), scale(4)) == (100, 50, 0)
